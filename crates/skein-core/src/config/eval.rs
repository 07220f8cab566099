//! Evaluation on held-out tasks.

use serde::{Deserialize, Serialize};

use super::TaskSource;
use crate::types::SamplingParams;

/// The evaluation stage, and the evaluations inside the RL stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvalConfig {
    /// Held-out tasks; no default, needed when the stage is listed or `rl.eval_every` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<TaskSource>,
    /// Completions per task; default 4 (paper).
    pub samples: usize,
    /// How completions are drawn; default temperature 0.7, top-p 0.9, at most 16384 new tokens (paper).
    pub sampling: SamplingParams,
    /// Tasks handed to the engine at once; default 64.
    pub batch_size: usize,
}

impl Default for EvalConfig {
    fn default() -> Self {
        Self {
            tasks: None,
            samples: 4,
            sampling: SamplingParams {
                temperature: 0.7,
                top_p: 0.9,
                max_new_tokens: 16384,
                ..SamplingParams::default()
            },
            batch_size: 64,
        }
    }
}
