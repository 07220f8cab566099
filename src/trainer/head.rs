//! Log-probabilities, entropies and the head's backward pass, on the rows that predict trained tokens only.
//!
//! Logits exist for `head_rows` rows at a time. Each chunk computes its log-probabilities and entropies, asks the
//! caller for the loss's derivatives by them, turns its logits into their own gradient in place and sends that into the
//! head and the hidden states at once: memory does not grow with `V` times the length, and no pass over logits is made
//! twice.
//!
//! Shapes: `N` packed tokens, `R` targets, `M` rows of a chunk, `D` model, `V` vocabulary.

use skein_core::batching::packing::MicroBatch;
use tch::{Kind, Tensor};

use super::TrainerParams;
use super::body::backward;
use crate::models::CausalLm;

/// What the model says about each target, in the micro-batch's order.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct TokenStats {
    /// `[R]`, log softmax(logits / temperature) of the target.
    pub(super) logprobs: Vec<f32>,
    /// `[R]`, entropy of that distribution, in nats.
    pub(super) entropies: Vec<f32>,
}

/// The loss's derivatives by one target's log-probability and entropy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TokenGradient {
    pub(super) d_logprob: f32,
    pub(super) d_entropy: f32,
}

/// Log-probabilities and entropies of the targets, given the last layer's output `hidden` (`[N, D]`).
pub(super) fn token_stats(
    model: &dyn CausalLm,
    params: &TrainerParams,
    batch: &MicroBatch,
    hidden: &Tensor,
) -> TokenStats {
    tch::no_grad(|| {
        let head = Head::new(model, params, batch, hidden);
        let mut stats = TokenStats::default();
        for chunk in head.chunks() {
            let logits = model.head(&model.final_norm(&head.rows(chunk)));
            let distribution = Distribution::new(&logits, &head.targets(chunk), params.temperature);
            distribution.append_to(&mut stats);
        }
        stats
    })
}

/// The same, and the backward pass through head and final norm: accumulates their weights' gradients and returns the
/// loss's derivative by `hidden`, `[N, D]`.
///
/// `derivative` gives the loss's derivatives for a target's index in `0..R`, log-probability and entropy.
pub(super) fn backward_through_head(
    model: &dyn CausalLm,
    params: &TrainerParams,
    batch: &MicroBatch,
    hidden: &Tensor,
    derivative: &dyn Fn(usize, f32, f32) -> TokenGradient,
) -> (TokenStats, Tensor) {
    let head = Head::new(model, params, batch, hidden);
    let mut stats = TokenStats::default();
    let mut gradients = Vec::new();
    for chunk in head.chunks() {
        let rows = head.rows(chunk).set_requires_grad(true);
        let normed = model.final_norm(&rows);
        let d_normed = tch::no_grad(|| {
            let logits = model.head(&normed);
            let distribution = Distribution::new(&logits, &head.targets(chunk), params.temperature);
            let start = stats.logprobs.len();
            distribution.append_to(&mut stats);
            let token_gradients: Vec<TokenGradient> = (start..stats.logprobs.len())
                .map(|target| derivative(target, stats.logprobs[target], stats.entropies[target]))
                .collect();
            let d_logits = distribution.gradient(&token_gradients); // [M, V]
            accumulate(model.head_weight(), &d_logits.tr(), &normed);
            d_logits.mm(model.head_weight())
        });
        backward(&normed, &d_normed);
        gradients.push(rows.grad());
    }
    let mut d_hidden = hidden.zeros_like();
    let _in_place = d_hidden.index_add_(0, &head.predictors, &Tensor::cat(&gradients, 0));
    (stats, d_hidden)
}

/// Adds `left right` to the gradient of `weight`.
fn accumulate(weight: &Tensor, left: &Tensor, right: &Tensor) {
    let mut gradient = weight.grad();
    if gradient.defined() {
        let _in_place = gradient.addmm_(left, right);
    } else {
        torch_ext_sys::set_grad(weight, Some(&left.mm(right))).expect("the product has the weight's shape");
    }
}

struct Head {
    hidden: Tensor,     // [N, D]
    predictors: Tensor, // [R]
    targets: Tensor,    // [R]
    chunk_rows: i64,
}

#[derive(Clone, Copy)]
struct Chunk {
    start: i64,
    len: i64,
}

impl Head {
    fn new(model: &dyn CausalLm, params: &TrainerParams, batch: &MicroBatch, hidden: &Tensor) -> Self {
        let device = model.head_weight().device();
        Self {
            hidden: hidden.detach(),
            predictors: Tensor::from_slice(&batch.predictors).to_device(device),
            targets: Tensor::from_slice(&batch.targets).to_device(device),
            chunk_rows: params.head_rows.max(1) as i64,
        }
    }

    fn chunks(&self) -> impl Iterator<Item = Chunk> + use<> {
        let (total, chunk_rows) = (self.targets.size()[0], self.chunk_rows);
        (0..total).step_by(chunk_rows as usize).map(move |start| Chunk { start, len: chunk_rows.min(total - start) })
    }

    fn rows(&self, chunk: Chunk) -> Tensor {
        self.hidden.index_select(0, &self.predictors.narrow(0, chunk.start, chunk.len)) // [M, D]
    }

    fn targets(&self, chunk: Chunk) -> Tensor {
        self.targets.narrow(0, chunk.start, chunk.len) // [M]
    }
}

/// softmax(logits / temperature) of some rows, with libtorch's own operators.
struct Distribution {
    log_softmax: Tensor, // [M, V] f32
    targets: Tensor,     // [M, 1]
    entropy: Tensor,     // [M, 1]
    temperature: f64,
}

impl Distribution {
    fn new(logits: &Tensor, targets: &Tensor, temperature: f64) -> Self {
        let log_softmax = (logits.to_kind(Kind::Float) / temperature).log_softmax(-1, Kind::Float);
        // 0 · -∞ counts as 0.
        let entropy = -(log_softmax.exp() * log_softmax.clamp_min(f64::from(f32::MIN))).sum_dim_intlist(
            [-1i64].as_slice(),
            true,
            Kind::Float,
        );
        Self { log_softmax, targets: targets.unsqueeze(1), entropy, temperature }
    }

    fn append_to(&self, stats: &mut TokenStats) {
        stats.logprobs.extend(to_vec(&self.log_softmax.gather(1, &self.targets, false)));
        stats.entropies.extend(to_vec(&self.entropy));
    }

    /// The loss's derivative by the logits: `[M, V]`.
    fn gradient(self, token_gradients: &[TokenGradient]) -> Tensor {
        let column = |values: Vec<f32>| Tensor::from_slice(&values).to_device(self.targets.device()).unsqueeze(1);
        let d_logprob = column(token_gradients.iter().map(|token| token.d_logprob).collect());
        let d_entropy = column(token_gradients.iter().map(|token| token.d_entropy).collect());
        let probabilities = self.log_softmax.exp();
        let entropy_part = &d_entropy * (&self.log_softmax + &self.entropy);
        let mut gradient = -probabilities * (entropy_part + &d_logprob);
        let _in_place = gradient.scatter_add_(1, &self.targets, &d_logprob);
        gradient / self.temperature
    }
}

fn to_vec(x: &Tensor) -> Vec<f32> {
    Vec::try_from(x.flatten(0, -1).to_kind(Kind::Float)).expect("a flat f32 tensor is a vector")
}
