//! Integration tests.

mod models;
mod trainer;
