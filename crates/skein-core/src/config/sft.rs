//! Supervised warm-up: cross-entropy on the response tokens of traces.

use serde::{Deserialize, Serialize};

use super::TaskSource;

/// The SFT stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SftConfig {
    /// Tasks with traces; no default, needed when the stage is listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<TaskSource>,
    /// Optimizer steps; 0 (the default) trains for `epochs`.
    pub max_steps: usize,
    /// Passes over the data; default 4 (paper).
    pub epochs: usize,
    /// Sequences per optimizer step; default 256 (paper).
    pub batch_size: usize,
    /// Tokens per forward and backward pass; default 4096, the paper's 4 sequences of 1024.
    pub micro_batch_tokens: usize,
    /// Whether the backward pass recomputes each layer instead of keeping what it needs: a third more work, memory for
    /// one layer; default false.
    pub checkpoint_layers: bool,
    /// Peak learning rate; default 1e-5 (paper).
    pub lr: f64,
    /// Share of the steps in which the rate climbs from 0; default 0.1 (paper).
    pub warmup_ratio: f64,
    /// Rate at the end of the cosine over `lr`; default 0.
    pub min_lr_ratio: f64,
    /// Shape of the rate after the warm-up; default "cosine" (paper).
    pub schedule: Schedule,
    /// AdamW's decoupled weight decay; default 0.01 (paper).
    pub weight_decay: f64,
    /// AdamW's decay of the first moment; default 0.9 (torch).
    pub beta1: f64,
    /// AdamW's decay of the second moment; default 0.999 (torch).
    pub beta2: f64,
    /// AdamW's term in the denominator; default 1e-8 (torch).
    pub eps: f64,
    /// Gradient norm above which gradients are scaled down; default 1, 0 for no clipping.
    pub max_grad_norm: f64,
    /// Longest sequence in tokens; longer ones are dropped and counted; default 1024 (paper).
    pub max_length: usize,
    /// Steps between checkpoints; 0 (the default) saves at the end of the stage only.
    pub save_every: usize,
    /// Steps between rows of metrics; default 1.
    pub log_every: usize,
    /// Steps skipped for a loss or gradient that is not finite before the run stops; default 5.
    pub max_skipped_steps: usize,
}

impl Default for SftConfig {
    fn default() -> Self {
        Self {
            tasks: None,
            max_steps: 0,
            epochs: 4,
            batch_size: 256,
            micro_batch_tokens: 4096,
            checkpoint_layers: false,
            lr: 1e-5,
            warmup_ratio: 0.1,
            min_lr_ratio: 0.0,
            schedule: Schedule::Cosine,
            weight_decay: 0.01,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            max_grad_norm: 1.0,
            max_length: 1024,
            save_every: 0,
            log_every: 1,
            max_skipped_steps: 5,
        }
    }
}

/// Shape of the learning rate after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Half a cosine from the peak to the end value.
    Cosine,
    /// The peak throughout.
    Constant,
}
