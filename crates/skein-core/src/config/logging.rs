//! What a run writes down besides its checkpoints and `metrics.jsonl`.

use serde::{Deserialize, Serialize};

/// Records of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoggingConfig {
    /// RL steps between files of sampled rollouts; default 10, 0 for none.
    pub rollouts_every: usize,
    /// Rollouts in each of those files; default 16.
    pub rollouts_per_step: usize,
    /// Whether a TensorBoard event file is written; default true.
    pub tensorboard: bool,
    /// Whether `metrics.csv` is written; default true.
    pub csv: bool,
}

impl Default for LoggingConfig {
    fn default() -> Self {
        Self { rollouts_every: 10, rollouts_per_step: 16, tensorboard: true, csv: true }
    }
}
