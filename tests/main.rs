//! Integration tests.

mod checkpoint;
mod models;
mod trainer;
mod transformers;
