//! Reinforcement learning: GRPO with decoupled clipping and dynamic sampling.

use serde::{Deserialize, Serialize};

use super::{Schedule, TaskSource};
use crate::rl::{AdvantageNorm, FilterMetric};
use crate::types::SamplingParams;

/// The RL stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RlConfig {
    /// Tasks whose prompts are rolled out; no default, needed when the stage is listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<TaskSource>,
    /// Rollout batches trained on; default 400 (paper).
    pub steps: usize,
    /// Prompts per rollout batch; default 256 (paper).
    pub batch_size: usize,
    /// Completions per prompt; default 8 (paper).
    pub group_size: usize,
    /// Prompts per optimizer step, a divisor of `batch_size`; 0 (the default) takes the whole batch.
    pub mini_batch_size: usize,
    /// Tokens per forward and backward pass; default 16384, the paper's 4 sequences of 4096.
    pub micro_batch_tokens: usize,
    /// Learning rate; default 1e-6 (paper).
    pub lr: f64,
    /// Optimizer steps in which the rate climbs from 0; default 0.
    pub warmup_steps: usize,
    /// Shape of the rate after the warm-up; default "constant" (paper).
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
    /// Longest prompt in tokens; longer ones are dropped and counted; default 1024, a quarter of the paper's 4096.
    pub max_prompt_tokens: usize,
    /// The probability ratio is clipped below `1 - clip_ratio_low`; default 0.2 (paper).
    pub clip_ratio_low: f64,
    /// The probability ratio is clipped above `1 + clip_ratio_high`; default 0.2 (paper).
    pub clip_ratio_high: f64,
    /// Dual clip (arXiv:1912.09729): bound on the loss of a negative advantage, in advantages, above 1; 0 (the default) is off.
    pub clip_ratio_c: f64,
    /// Weight of the KL divergence to the reference model in the loss; default 1e-3 (paper).
    pub kl_coef: f64,
    /// Estimator of that divergence per token; default "k3".
    pub kl_estimator: KlEstimator,
    /// How rewards of a group become advantages; default "group_std" (GRPO).
    pub advantage: AdvantageNorm,
    /// How token losses are averaged; default "token-mean" (DAPO).
    pub loss_aggregation: LossAggregation,
    /// Weight of the entropy bonus in the loss; default 0.
    pub entropy_coef: f64,
    /// Which reward the dynamic-sampling filter looks at; default "total" (paper).
    pub filter_metric: FilterMetric,
    /// Whether groups whose rewards are all equal are replaced by new ones; default true (paper).
    pub filter: bool,
    /// Rounds of sampling at most to fill a batch; default 10 (DAPO's recipe).
    pub max_rounds: usize,
    /// What happens when the rounds are used up; default "train".
    pub at_bound: AtBound,
    /// How completions are drawn; default temperature 1 and 3072 new tokens, the rest of the paper's 4096.
    pub sampling: SamplingParams,
    /// Steps between checkpoints; default 50, 0 saves at the end of the stage only.
    pub save_every: usize,
    /// Steps between evaluations on `eval.tasks`; 0 (the default) for none.
    pub eval_every: usize,
    /// Largest absolute difference between a token's rollout and training log-probability at which training may
    /// start, in nats; default 0.01, room for f32's rounding; bf16 needs more.
    pub logprob_gap_bound: f64,
    /// Steps skipped for a loss or gradient that is not finite before the run stops; default 5.
    pub max_skipped_steps: usize,
}

impl Default for RlConfig {
    fn default() -> Self {
        Self {
            tasks: None,
            steps: 400,
            batch_size: 256,
            group_size: 8,
            mini_batch_size: 0,
            micro_batch_tokens: 16384,
            lr: 1e-6,
            warmup_steps: 0,
            schedule: Schedule::Constant,
            weight_decay: 0.01,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            max_grad_norm: 1.0,
            max_prompt_tokens: 1024,
            clip_ratio_low: 0.2,
            clip_ratio_high: 0.2,
            clip_ratio_c: 0.0,
            kl_coef: 1e-3,
            kl_estimator: KlEstimator::K3,
            advantage: AdvantageNorm::GroupStd,
            loss_aggregation: LossAggregation::TokenMean,
            entropy_coef: 0.0,
            filter_metric: FilterMetric::Total,
            filter: true,
            max_rounds: 10,
            at_bound: AtBound::Train,
            sampling: SamplingParams { max_new_tokens: 3072, ..SamplingParams::default() },
            save_every: 50,
            eval_every: 0,
            logprob_gap_bound: 0.01,
            max_skipped_steps: 5,
        }
    }
}

/// Estimators of KL(policy ‖ reference) from one sampled token, with `d = ref_logprob - logprob`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KlEstimator {
    /// `-d`.
    K1,
    /// `d² / 2`.
    K2,
    /// `exp(d) - d - 1`.
    K3,
}

/// How the losses of a batch's tokens become one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossAggregation {
    /// Mean over all tokens of the batch.
    TokenMean,
    /// Mean over sequences of the sum over each one's tokens.
    SeqMeanTokenSum,
    /// Mean over sequences of the mean over each one's tokens.
    SeqMeanTokenMean,
}

/// What happens when a batch is not full after the last round of sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtBound {
    /// Train on the groups there are.
    Train,
    /// End the run with the counts.
    Stop,
}
