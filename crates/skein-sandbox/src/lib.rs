//! Runs untrusted code.
