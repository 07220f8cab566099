//! Token losses and their derivatives, as plain functions of numbers.
//!
//! A token's loss depends on its own log-probability and entropy only, so the derivatives are written out beside the
//! values and no tensor is needed; what the batch adds is each token's weight, taken from the *global* batch
//! ([`LossNormalizer`]), so a loss does not depend on how the batch is cut into micro-batches. Clamps follow verl's,
//! which the numbers are tested against. Nothing here looks at rewards: advantages come in finished.

use super::params::{KlEstimator, LossAggregation, PolicyLossParams};

/// Beyond this difference of log-probabilities the ratio is held constant (and its gradient is 0).
const MAX_LOG_RATIO: f64 = 20.0;
/// The same for the value of the k3 estimator.
const MAX_K3: f64 = 10.0;

/// One token's loss before weighting, and its derivatives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenLoss {
    /// What is minimised.
    pub loss: f64,
    /// Derivative of `loss` by the token's log-probability.
    pub d_logprob: f64,
    /// Derivative of `loss` by the entropy of the distribution the token was drawn from.
    pub d_entropy: f64,
    /// The terms of a policy loss; `None` under SFT.
    pub policy: Option<PolicyTerms>,
}

/// What a policy loss is made of, for metrics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolicyTerms {
    /// The clipped surrogate.
    pub pg_loss: f64,
    /// The KL estimate to the reference; 0 when it is not in the loss.
    pub kl: f64,
    /// Whether the ratio's clip decided the surrogate.
    pub clipped: bool,
    /// Whether the dual clip decided it.
    pub clipped_lower: bool,
    /// `old_logprob - logprob`, the k1 estimate of the KL from the old policy.
    pub approx_kl: f64,
}

/// The next-token cross-entropy.
pub fn sft_loss(logprob: f64) -> TokenLoss {
    TokenLoss { loss: -logprob, d_logprob: -1.0, d_entropy: 0.0, policy: None }
}

/// The numbers a sampled token brings along.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolicyToken {
    /// Log-probability under the policy that sampled it.
    pub old_logprob: f64,
    /// Log-probability under the reference; not looked at when `kl_coef` is 0.
    pub ref_logprob: f64,
    /// Advantage of its completion.
    pub advantage: f64,
    /// Mean of `logprob - old_logprob` over its completion, which then stands for its own difference; `None` where each
    /// token has its own ratio.
    pub sequence_log_ratio: Option<f64>,
}

/// Clipped surrogate, plus `kl_coef` times the KL estimate, minus `entropy_coef` times the entropy.
///
/// With a sequence's ratio (GSPO, arXiv:2507.18071) every token of the sequence has the same surrogate, and its derivative
/// by the token's log-probability is the sequence's by the mean log-probability: weights of 1 / length make it exact.
pub fn policy_loss(params: &PolicyLossParams, token: &PolicyToken, logprob: f64, entropy: f64) -> TokenLoss {
    let log_ratio = token.sequence_log_ratio.unwrap_or(logprob - token.old_logprob);
    let surrogate = clipped_surrogate(params, log_ratio, token.advantage);
    let (kl, d_kl) = match params.kl_coef {
        0.0 => (0.0, 0.0),
        _ => kl_penalty(params.kl_estimator, logprob, token.ref_logprob),
    };
    TokenLoss {
        loss: surrogate.value + params.kl_coef * kl - params.entropy_coef * entropy,
        d_logprob: surrogate.d_logprob + params.kl_coef * d_kl,
        d_entropy: -params.entropy_coef,
        policy: Some(PolicyTerms {
            pg_loss: surrogate.value,
            kl,
            clipped: surrogate.clipped,
            clipped_lower: surrogate.clipped_lower,
            approx_kl: -surrogate.log_ratio,
        }),
    }
}

struct Surrogate {
    value: f64,
    d_logprob: f64,
    log_ratio: f64,
    clipped: bool,
    clipped_lower: bool,
}

/// PPO's clipped objective, negated, with DAPO's separate clips (arXiv:2503.14476) and the dual clip
/// (arXiv:1912.09729) where the advantage is negative.
fn clipped_surrogate(params: &PolicyLossParams, log_ratio: f64, advantage: f64) -> Surrogate {
    let held = log_ratio.abs() > MAX_LOG_RATIO;
    let log_ratio = log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO);
    let ratio = log_ratio.exp();
    let unclipped = -advantage * ratio;
    let clipped = -advantage * ratio.clamp(1.0 - params.clip_ratio_low, 1.0 + params.clip_ratio_high);
    let is_clipped = clipped > unclipped;
    // The derivative of exp is exp, so the unclipped term is its own derivative.
    let mut value = unclipped.max(clipped);
    let mut d_logprob = if is_clipped || held { 0.0 } else { unclipped };
    if let Some(cap) = params.importance_cap.filter(|&cap| ratio > cap && !is_clipped) {
        // A truncated importance weight: a constant before the token's log-probability.
        (value, d_logprob) = (-advantage * cap, -advantage * cap);
    }
    let mut is_clipped_lower = false;
    if let Some(bound) = params.clip_ratio_c.map(|c| -advantage * c).filter(|_| advantage < 0.0) {
        is_clipped_lower = value > bound;
        if is_clipped_lower {
            (value, d_logprob) = (bound, 0.0);
        }
    }
    Surrogate { value, d_logprob, log_ratio, clipped: is_clipped, clipped_lower: is_clipped_lower }
}

/// The estimate of KL(policy ‖ reference) from one sampled token, and its derivative by `logprob`.
///
/// k1, k2 and k3 of <http://joschu.net/blog/kl-approx.html>. The k3 value is unbiased, its gradient is not.
pub fn kl_penalty(estimator: KlEstimator, logprob: f64, ref_logprob: f64) -> (f64, f64) {
    let difference = logprob - ref_logprob;
    match estimator {
        KlEstimator::K1 => (difference, 1.0),
        KlEstimator::K2 => (difference * difference / 2.0, difference),
        KlEstimator::K3 => {
            let log_ratio = (-difference).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO);
            let value = log_ratio.exp() - log_ratio - 1.0;
            let held = difference.abs() > MAX_LOG_RATIO || value > MAX_K3;
            (value.min(MAX_K3), if held { 0.0 } else { 1.0 - log_ratio.exp() })
        }
        KlEstimator::K1Plus => (difference, difference),
        KlEstimator::K3Plus => (kl_penalty(KlEstimator::K3, logprob, ref_logprob).0, difference),
    }
}

/// Turns token losses into one number for the whole batch: the sum of `weight * loss`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossNormalizer {
    aggregation: LossAggregation,
    scale_tokens: usize,
    num_tokens: usize,
    num_sequences: usize,
}

impl LossNormalizer {
    /// Over sequences with these numbers of trained tokens: all of the optimizer step's, over all micro-batches.
    /// Sequences without one do not count. `scale_tokens` is the constant of `SeqMeanTokenSumNorm`.
    pub fn new(
        aggregation: LossAggregation,
        scale_tokens: usize,
        trained_tokens: impl IntoIterator<Item = usize>,
    ) -> Self {
        let mut normalizer = Self { aggregation, scale_tokens: scale_tokens.max(1), num_tokens: 0, num_sequences: 0 };
        for num_tokens in trained_tokens {
            normalizer.num_tokens += num_tokens;
            normalizer.num_sequences += usize::from(num_tokens > 0);
        }
        normalizer
    }

    /// Weight of each token of a sequence with `num_tokens` (at least one) trained tokens.
    pub fn weight(&self, num_tokens: usize) -> f64 {
        match self.aggregation {
            LossAggregation::TokenMean => 1.0 / self.num_tokens as f64,
            LossAggregation::SeqMeanTokenSum => 1.0 / self.num_sequences as f64,
            LossAggregation::SeqMeanTokenMean => 1.0 / (self.num_sequences as f64 * num_tokens as f64),
            LossAggregation::SeqMeanTokenSumNorm => 1.0 / (self.num_sequences as f64 * self.scale_tokens as f64),
        }
    }

    /// Trained tokens of the batch.
    pub fn num_tokens(&self) -> usize {
        self.num_tokens
    }
}
