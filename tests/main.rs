//! Integration tests.

mod checkpoint;
mod cli;
mod embedders;
mod engine;
mod local_chat;
mod models;
mod parity;
mod trainer;
mod transformers;
