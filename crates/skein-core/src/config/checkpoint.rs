//! What is kept of what is saved.

use serde::{Deserialize, Serialize};

/// Retention of checkpoints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointConfig {
    /// Newest checkpoints kept; default 2, 0 keeps all.
    pub keep_last: usize,
    /// Whether the checkpoint with the best score of `rl.eval_every`'s evaluations is kept under the name `best`; default
    /// true.
    pub keep_best: bool,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self { keep_last: 2, keep_best: true }
    }
}
