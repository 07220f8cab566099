//! Integration tests.

mod checkpoint;
mod models;
