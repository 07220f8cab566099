//! What a trainer must be told; jobs fill these from the configuration.

pub use skein_core::config::{Importance, KlEstimator, LossAggregation};

/// How an update is computed, whatever its loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainerParams {
    /// Tokens of a micro-batch at most; a prompt with one completion must fit.
    pub max_tokens: usize,
    /// Rows of logits held at once at most; fewer where they would be more than 2²⁵ values.
    pub head_rows: usize,
    /// Temperature of the softmax whose log-probabilities are trained: the sampling temperature, 1 for SFT.
    pub temperature: f64,
    /// Keep only each layer's input and recompute the layer in the backward pass: a third more work, memory for one
    /// layer instead of all.
    pub checkpoint_layers: bool,
    /// Whether a group's prompt is computed once for all its completions.
    pub shared_prefix: bool,
    /// Gradient norm above which gradients are scaled down to it; `None` never does.
    pub max_grad_norm: Option<f64>,
}

impl Default for TrainerParams {
    fn default() -> Self {
        Self {
            max_tokens: 4096,
            head_rows: 1024,
            temperature: 1.0,
            checkpoint_layers: false,
            shared_prefix: true,
            max_grad_norm: Some(1.0),
        }
    }
}

/// The loss of a policy update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolicyLossParams {
    /// The ratio is clipped below `1 - clip_ratio_low`.
    pub clip_ratio_low: f64,
    /// The ratio is clipped above `1 + clip_ratio_high`.
    pub clip_ratio_high: f64,
    /// Dual clip: bound on the loss of a negative advantage, in advantages; `None` is off.
    pub clip_ratio_c: Option<f64>,
    /// What a ratio is taken of.
    pub importance: Importance,
    /// A ratio above this weighs as this and is held constant in the gradient; `None` is off.
    pub importance_cap: Option<f64>,
    /// Weight of the KL estimate; at 0 reference log-probabilities are neither needed nor looked at.
    pub kl_coef: f64,
    /// Which estimate.
    pub kl_estimator: KlEstimator,
    /// Weight of the entropy bonus.
    pub entropy_coef: f64,
    /// How token losses become one number.
    pub aggregation: LossAggregation,
    /// The constant that [`LossAggregation::SeqMeanTokenSumNorm`] divides by.
    pub scale_tokens: usize,
}
