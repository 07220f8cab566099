//! Integration tests.

mod checkpoint;
mod cli;
mod embedders;
mod engine;
mod models;
mod parity;
mod trainer;
mod transformers;
