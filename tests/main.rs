//! Integration tests.

mod checkpoint;
mod engine;
mod models;
mod parity;
mod trainer;
mod transformers;
