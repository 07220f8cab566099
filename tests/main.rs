//! Integration tests.

mod models;
