//! The libtorch calls that tch does not bind.
