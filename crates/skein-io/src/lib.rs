//! What Skein exchanges with the outside: tokenizers, chat templates, the model hub, chat models on servers, users' own
//! scorers, metrics, JSON Lines files.
//!
//! Nothing here holds a tensor or knows an algorithm; only `jobs` and `cli` of the root package use it.

pub mod api;
pub mod atomic;
pub mod chat;
pub mod command_scorer;
pub mod hub;
pub mod jsonl;
pub mod metrics;
pub mod tokenizer;
