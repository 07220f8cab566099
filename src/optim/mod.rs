//! AdamW on a model's leaves, gradient-norm clipping and learning-rate schedules.
//!
//! It knows leaves by name and nothing of models, losses or files; its state is named tensors and a step count, for
//! `checkpoint` to save.

mod adamw;
mod schedule;

pub use adamw::{AdamW, AdamWParams, AdamWState, OptimizerError};
pub use schedule::{LrSchedule, Schedule};
