//! Integration tests.

mod checkpoint;
mod engine;
mod models;
mod trainer;
mod transformers;
