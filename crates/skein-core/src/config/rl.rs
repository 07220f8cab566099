//! Reinforcement learning: GRPO with decoupled clipping and dynamic sampling.

use serde::{Deserialize, Serialize};

use super::{Schedule, TaskSource};
use crate::rl::{AdvantageNorm, FilterMetric};
use crate::skill::Level;
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
    /// Weights of tasks by their skill-entropy level: heavier ones come earlier in an epoch, those of weight 0 never;
    /// default all alike. Tasks without a level, those of one step or of skills the table lacks, weigh 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level_weights: Option<LevelWeights>,
    /// Prompts rolled out at once; 0 (the default) rolls out as many as the batch still lacks. A larger number keeps the
    /// engine busy where many groups are filtered; groups accepted beyond the batch wait for the next one.
    pub rollout_batch_size: usize,
    /// Steps that an accepted group may wait before it is dropped as too old; default 2.
    pub max_staleness: usize,
    /// Completions per prompt; default 8 (paper).
    pub group_size: usize,
    /// Prompts per optimizer step, a divisor of `batch_size`; 0 (the default) takes the whole batch.
    pub mini_batch_size: usize,
    /// Tokens per forward and backward pass; default 16384, the paper's 4 sequences of 4096.
    pub micro_batch_tokens: usize,
    /// Whether the backward pass recomputes each layer instead of keeping what it needs: a third more work, memory for
    /// one layer; default false.
    pub checkpoint_layers: bool,
    /// Whether a group's prompt goes through the model once for all its completions, in training and in the reference;
    /// default true, which was faster at every length measured. The loss and its gradient are the same.
    #[serde(skip_serializing_if = "is_true")]
    pub shared_prefix: bool,
    /// Learning rate; default 1e-6 (paper).
    pub lr: f64,
    /// Steps in which the rate climbs from 0; default 0.
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
    /// Where the divergence is charged: "loss" (the default), token by token, or "reward", summed over a completion.
    pub kl_in: KlPlacement,
    /// How rewards of a group become advantages; default "group_std" (GRPO).
    pub advantage: AdvantageNorm,
    /// How token losses are averaged; default "token-mean" (DAPO).
    pub loss_aggregation: LossAggregation,
    /// The tokens by which "seq-mean-token-sum-norm" divides; 0 (the default) takes `sampling.max_new_tokens`.
    pub loss_scale_tokens: usize,
    /// What the probability ratio is taken of: "token" (the default) or "sequence" (GSPO, arXiv:2507.18071).
    pub importance: Importance,
    /// A ratio above this weighs as this, and is held constant in the gradient, for completions of an older policy;
    /// 0 (the default) is off.
    pub importance_cap: f64,
    /// Weight of the entropy bonus in the loss; default 0.
    pub entropy_coef: f64,
    /// Tokens before `sampling.max_new_tokens` over which a completion loses reward linearly; 0 (the default) for none.
    pub overlong_buffer_tokens: usize,
    /// What a completion of `sampling.max_new_tokens` tokens loses then; default 1 (DAPO's recipe).
    pub overlong_penalty: f64,
    /// Whether completions cut at `sampling.max_new_tokens` are left out of the loss; they still count in their group's
    /// mean; default false.
    pub mask_truncated: bool,
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
    /// Steps between evaluations on `eval.tasks`, with one before the first step and one after the last; 0 (the default)
    /// for none.
    pub eval_every: usize,
    /// Evaluations without a better score after which the stage ends; 0 (the default) never ends it early.
    pub patience: usize,
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
            level_weights: None,
            rollout_batch_size: 0,
            max_staleness: 2,
            group_size: 8,
            mini_batch_size: 0,
            micro_batch_tokens: 16384,
            checkpoint_layers: false,
            shared_prefix: true,
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
            kl_in: KlPlacement::Loss,
            advantage: AdvantageNorm::GroupStd,
            loss_aggregation: LossAggregation::TokenMean,
            loss_scale_tokens: 0,
            importance: Importance::Token,
            importance_cap: 0.0,
            entropy_coef: 0.0,
            overlong_buffer_tokens: 0,
            overlong_penalty: 1.0,
            mask_truncated: false,
            filter_metric: FilterMetric::Total,
            filter: true,
            max_rounds: 10,
            at_bound: AtBound::Train,
            sampling: SamplingParams { max_new_tokens: 3072, ..SamplingParams::default() },
            save_every: 50,
            eval_every: 0,
            patience: 0,
            logprob_gap_bound: 0.01,
            max_skipped_steps: 5,
        }
    }
}

/// A weight for each level of skill entropy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LevelWeights {
    /// Of tasks in the lowest tercile.
    pub low: f64,
    /// Of tasks in the middle one.
    pub medium: f64,
    /// Of tasks in the highest one.
    pub high: f64,
}

impl Default for LevelWeights {
    fn default() -> Self {
        Self { low: 1.0, medium: 1.0, high: 1.0 }
    }
}

impl LevelWeights {
    /// The weight of a task of `level`; 1 without one.
    pub fn of(&self, level: Option<Level>) -> f64 {
        match level {
            Some(Level::Low) => self.low,
            Some(Level::Medium) => self.medium,
            Some(Level::High) => self.high,
            None => 1.0,
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
    /// The value of `k1` with the gradient of `k2`, whose expectation is the divergence's gradient.
    #[serde(rename = "k1+")]
    K1Plus,
    /// The value of `k3` with the gradient of `k2`.
    #[serde(rename = "k3+")]
    K3Plus,
}

/// Where the divergence from the reference model is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KlPlacement {
    /// Added to every token's loss.
    Loss,
    /// Taken off a completion's reward, summed over its tokens, before advantages are computed.
    Reward,
}

/// Left out where it is the default, so that runs made without the field go on.
fn is_true(value: &bool) -> bool {
    *value
}

/// What a probability ratio is taken of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Importance {
    /// Each token.
    Token,
    /// The whole completion: the geometric mean of its tokens' ratios, clipped as one.
    Sequence,
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
    /// Mean over sequences of the sum over each one's tokens, divided by a constant (Dr. GRPO, arXiv:2503.20783).
    SeqMeanTokenSumNorm,
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
