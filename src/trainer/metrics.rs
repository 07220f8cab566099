//! What an update reports.

use std::time::Duration;

use super::losses::TokenLoss;

/// One update in numbers. Fractions and means without another word are over the batch's trained tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateMetrics {
    /// The loss before the step, as aggregated over the batch.
    pub loss: f64,
    /// Mean entropy, in nats.
    pub entropy: f64,
    /// L2 norm of the gradient before clipping.
    pub grad_norm: f64,
    /// Learning rate of the step.
    pub lr: f64,
    /// Trained tokens.
    pub num_tokens: usize,
    /// Tokens that went through the layers, forward and backward: a shared prompt's count once.
    pub num_layer_tokens: usize,
    /// Forward and backward passes.
    pub num_micro_batches: usize,
    /// Why the weights are unchanged, if they are.
    pub skipped: Option<SkipReason>,
    /// A policy loss's parts; `None` under SFT.
    pub policy: Option<PolicyMetrics>,
    /// Where the time went.
    pub timings: UpdateTimings,
}

/// Wall time of an update's parts. On a CPU calls return when they are done, so clocks around them tell the truth.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UpdateTimings {
    /// Packing and the layers, forward.
    pub forward: Duration,
    /// The head, forward and backward: it never has its logits twice.
    pub head: Duration,
    /// The layers, backward.
    pub backward: Duration,
    /// Gradient norm and step.
    pub optimizer: Duration,
}

/// A policy loss's parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolicyMetrics {
    /// The clipped surrogate, as aggregated over the batch.
    pub pg_loss: f64,
    /// Mean KL estimate to the reference; 0 when it is not in the loss.
    pub kl: f64,
    /// Share of tokens whose ratio was clipped.
    pub clip_fraction: f64,
    /// Share of tokens at the dual clip.
    pub clip_fraction_lower: f64,
    /// Mean of `old_logprob - logprob`: how far the policy has moved from the one that sampled.
    pub approx_kl: f64,
}

/// Why a step was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// No token of the batch is trained on.
    NothingToTrain,
    /// The loss is NaN or infinite.
    NonFiniteLoss,
    /// The gradient norm is NaN or infinite.
    NonFiniteGradient,
}

impl std::fmt::Display for SkipReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NothingToTrain => "the batch has no trained token",
            Self::NonFiniteLoss => "the loss is not finite",
            Self::NonFiniteGradient => "the gradient norm is not finite",
        })
    }
}

/// Sums over the tokens of a batch.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) num_layer_tokens: usize,
    pub(super) num_micro_batches: usize,
    pub(super) timings: UpdateTimings,
    num_tokens: usize,
    loss: f64,
    entropy: f64,
    policy: Option<PolicyTotals>,
}

#[derive(Debug, Default)]
struct PolicyTotals {
    pg_loss: f64,
    kl: f64,
    clipped: usize,
    clipped_lower: usize,
    approx_kl: f64,
}

impl Totals {
    pub(super) fn add(&mut self, weight: f64, token: &TokenLoss, entropy: f64) {
        self.num_tokens += 1;
        self.loss += weight * token.loss;
        self.entropy += entropy;
        if let Some(terms) = &token.policy {
            let policy = self.policy.get_or_insert_default();
            policy.pg_loss += weight * terms.pg_loss;
            policy.kl += terms.kl;
            policy.clipped += usize::from(terms.clipped);
            policy.clipped_lower += usize::from(terms.clipped_lower);
            policy.approx_kl += terms.approx_kl;
        }
    }

    pub(super) fn loss(&self) -> f64 {
        self.loss
    }

    pub(super) fn metrics(&self, grad_norm: f64, lr: f64) -> UpdateMetrics {
        let mean = |sum: f64| if self.num_tokens == 0 { 0.0 } else { sum / self.num_tokens as f64 };
        UpdateMetrics {
            loss: self.loss,
            entropy: mean(self.entropy),
            grad_norm,
            lr,
            num_tokens: self.num_tokens,
            num_layer_tokens: self.num_layer_tokens,
            num_micro_batches: self.num_micro_batches,
            skipped: None,
            timings: self.timings,
            policy: self.policy.as_ref().map(|policy| PolicyMetrics {
                pg_loss: policy.pg_loss,
                kl: mean(policy.kl),
                clip_fraction: mean(policy.clipped as f64),
                clip_fraction_lower: mean(policy.clipped_lower as f64),
                approx_kl: mean(policy.approx_kl),
            }),
        }
    }
}
