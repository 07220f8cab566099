//! Skein's pure logic: what a task, a skill, a reward and a batch are.
//!
//! Nothing here knows a tensor, the network or an untrusted program, so every rule of the
//! method can be read and tested in milliseconds. What touches the outside lives in `skein-io`,
//! what holds tensors in the root package.

pub mod batching;
pub mod chat;
pub mod config;
pub mod eval;
pub mod excerpt;
pub mod jsonl;
pub mod named_fields;
pub mod random;
pub mod reward;
pub mod rl;
pub mod skill;
pub mod synth;
pub mod task;
pub mod types;
