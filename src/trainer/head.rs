//! Log-probabilities, entropies and the head's backward pass, on the rows that predict trained tokens only.
//!
//! Logits exist for at most `head_rows` rows and [`MAX_LOGITS`] values at a time. Each chunk computes its log-probabilities and entropies, asks the
//! caller for the loss's derivatives by them, turns its logits into their own gradient in place and sends that into the
//! head and the hidden states at once: memory does not grow with `V` times the length.
//!
//! Shapes: `N` packed tokens, `R` targets, `M` rows of a chunk, `D` model, `V` vocabulary.

use std::ops::Range;

use skein_core::batching::packing::MicroBatch;
use tch::{Kind, Tensor};

use super::TrainerParams;
use super::body::backward;
use crate::kernels::tensors::{Rows, slice_mut};
use crate::kernels::token_loss;
pub(super) use crate::kernels::token_loss::{TokenGradient, TokenStats};
use crate::models::CausalLm;

/// Logits held at once: 128 MiB in f32, with still enough rows of the largest vocabularies for full speed.
const MAX_LOGITS: usize = 1 << 25;

/// The loss's derivatives for the index of a target in `0..R` and what the model says of it.
pub(super) type Derivative<'a> = &'a (dyn Fn(usize, TokenStats) -> TokenGradient + Sync);

/// The head of one micro-batch.
pub(super) struct Head<'a> {
    model: &'a dyn CausalLm,
    targets: &'a [i64],
    predictors: Tensor, // [R]
    temperature: f64,
    chunk_rows: usize,
}

impl<'a> Head<'a> {
    pub(super) fn new(model: &'a dyn CausalLm, params: &TrainerParams, batch: &'a MicroBatch) -> Self {
        Self {
            model,
            targets: &batch.targets,
            predictors: Tensor::from_slice(&batch.predictors).to_device(model.head_weight().device()),
            temperature: params.temperature,
            chunk_rows: params.head_rows.min(MAX_LOGITS / model.config().vocab_size as usize).max(1),
        }
    }

    /// What the model says of every target, given the last layer's output `hidden` (`[N, D]`).
    pub(super) fn stats(&self, hidden: &Tensor) -> Vec<TokenStats> {
        tch::no_grad(|| {
            let buffer = self.buffer();
            let chunk_stats = |chunk: Range<usize>| {
                let logits = self.logits(&buffer, &self.model.final_norm(&self.rows(hidden, &chunk)));
                stats(&logits, &self.targets[chunk], self.temperature)
            };
            self.chunks().flat_map(chunk_stats).collect()
        })
    }

    /// The same, and the backward pass through head and final norm: accumulates their weights' gradients and returns
    /// the loss's derivative by `hidden`, `[N, D]`.
    pub(super) fn backward(&self, hidden: &Tensor, derivative: Derivative<'_>) -> (Vec<TokenStats>, Tensor) {
        let (model, weight) = (self.model, self.model.head_weight());
        let mut stats = Vec::with_capacity(self.targets.len());
        let mut d_rows = Vec::new();
        let buffer = tch::no_grad(|| self.buffer());
        for chunk in self.chunks() {
            let rows = self.rows(hidden, &chunk).set_requires_grad(true);
            let normed = model.final_norm(&rows);
            let d_normed = tch::no_grad(|| {
                let mut logits = self.logits(&buffer, &normed);
                let offset = chunk.start;
                let targets = &self.targets[chunk];
                let in_chunk = |row: usize, stats: TokenStats| derivative(offset + row, stats);
                stats.extend(gradients_(&mut logits, targets, self.temperature, &in_chunk));
                accumulate(weight, &logits.tr(), &normed);
                logits.mm(weight)
            });
            backward(&normed, &d_normed);
            d_rows.push(rows.grad());
        }
        let mut d_hidden = hidden.zeros_like();
        let _in_place = d_hidden.index_add_(0, &self.predictors, &Tensor::cat(&d_rows, 0));
        (stats, d_hidden)
    }

    /// Where every chunk's logits go. One tensor for all: new ones of this size would leave holes that the allocator does
    /// not fill again.
    fn buffer(&self) -> Tensor {
        let weight = self.model.head_weight();
        let rows = self.chunk_rows.min(self.targets.len()) as i64;
        Tensor::empty([rows, weight.size()[0]], (weight.kind(), weight.device()))
    }

    /// Logits of normed rows (`[M, D]`) in the first rows of `buffer`: `[M, V]`.
    fn logits(&self, buffer: &Tensor, normed: &Tensor) -> Tensor {
        normed.mm_out(&buffer.narrow(0, 0, normed.size()[0]), &self.model.head_weight().tr())
    }

    fn chunks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (num_targets, chunk_rows) = (self.targets.len(), self.chunk_rows);
        (0..num_targets).step_by(chunk_rows).map(move |start| start..num_targets.min(start + chunk_rows))
    }

    /// The states that predict the targets of `chunk`: `[M, D]`.
    fn rows(&self, hidden: &Tensor, chunk: &Range<usize>) -> Tensor {
        hidden.index_select(0, &self.predictors.narrow(0, chunk.start as i64, chunk.len() as i64))
    }
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

fn stats(logits: &Tensor, targets: &[i64], temperature: f64) -> Vec<TokenStats> {
    match Rows::of(logits) {
        Some(rows) => token_loss::token_stats(rows, targets, temperature),
        _ => Distribution::new(logits, targets, temperature).stats(),
    }
}

/// Turns logits into the loss's derivative by them.
fn gradients_(logits: &mut Tensor, targets: &[i64], temperature: f64, derivative: Derivative<'_>) -> Vec<TokenStats> {
    if Rows::of(logits).is_some() && logits.is_contiguous() {
        return token_loss::token_gradients_(slice_mut(logits), targets, temperature, derivative);
    }
    let distribution = Distribution::new(logits, targets, temperature);
    let stats = distribution.stats();
    let gradients: Vec<TokenGradient> = stats.iter().enumerate().map(|(row, &stats)| derivative(row, stats)).collect();
    logits.copy_(&distribution.gradient(&gradients));
    stats
}

/// softmax(logits / temperature) of some rows in libtorch's own operators: for what the kernel does not take, and its
/// reference.
struct Distribution {
    log_softmax: Tensor, // [M, V] f32
    targets: Tensor,     // [M, 1]
    entropy: Tensor,     // [M, 1]
    temperature: f64,
}

impl Distribution {
    fn new(logits: &Tensor, targets: &[i64], temperature: f64) -> Self {
        let log_softmax = (logits.to_kind(Kind::Float) / temperature).log_softmax(-1, Kind::Float);
        // 0 · -∞ counts as 0.
        let weighted = log_softmax.exp() * log_softmax.clamp_min(f64::from(f32::MIN));
        let entropy = -weighted.sum_dim_intlist([-1i64].as_slice(), true, Kind::Float);
        let targets = Tensor::from_slice(targets).to_device(logits.device()).unsqueeze(1);
        Self { log_softmax, targets, entropy, temperature }
    }

    fn stats(&self) -> Vec<TokenStats> {
        let values = |x: &Tensor| Vec::<f32>::try_from(x.flatten(0, -1)).expect("a flat f32 tensor is a vector");
        let logprobs = values(&self.log_softmax.gather(1, &self.targets, false));
        let pairs = logprobs.into_iter().zip(values(&self.entropy));
        pairs.map(|(logprob, entropy)| TokenStats { logprob, entropy }).collect()
    }

    /// The loss's derivative by the logits: `[M, V]`.
    fn gradient(self, gradients: &[TokenGradient]) -> Tensor {
        let column = |value: fn(&TokenGradient) -> f32| {
            let values: Vec<f32> = gradients.iter().map(value).collect();
            Tensor::from_slice(&values).to_device(self.targets.device()).unsqueeze(1)
        };
        let (d_logprob, d_entropy) = (column(|token| token.d_logprob), column(|token| token.d_entropy));
        let by_probability = d_entropy * (&self.log_softmax + &self.entropy) + &d_logprob;
        let mut gradient = -self.log_softmax.exp() * by_probability;
        let _in_place = gradient.scatter_add_(1, &self.targets, &d_logprob);
        gradient / self.temperature
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;

    /// Times the largest exponent or entropy (ln V < 10): f32 rounds both, and sums of thousands of terms.
    const TOLERANCE: f64 = 4.0 * f32::EPSILON as f64;

    fn largest(x: &Tensor) -> f64 {
        x.abs().max().double_value(&[])
    }

    #[test]
    fn the_kernel_matches_libtorch() {
        tch::manual_seed(3);
        for width in [1i64, 15, 16, 1000, 5003] {
            let targets: Vec<i64> = (0..9).map(|row| row * 7919 % width).collect();
            for (spread, temperature) in [(1.0, 1.0), (30.0, 0.6), (0.01, 1.7)] {
                let logits = Tensor::randn([9, width], (Kind::Float, Device::Cpu)) * spread;
                let tolerance = TOLERANCE * (10.0 + largest(&logits) / temperature);
                let distribution = Distribution::new(&logits, &targets, temperature);
                let expected = distribution.stats();
                let found = token_loss::token_stats(Rows::of(&logits).unwrap(), &targets, temperature);
                for (found, expected) in found.iter().zip(&expected) {
                    assert!(f64::from((found.logprob - expected.logprob).abs()) <= tolerance);
                    assert!(f64::from((found.entropy - expected.entropy).abs()) <= tolerance);
                }
                let derivative = |row: usize, stats: TokenStats| TokenGradient {
                    d_logprob: if row == 2 { 0.0 } else { stats.logprob + row as f32 },
                    d_entropy: if row.is_multiple_of(2) { 0.0 } else { 0.3 * stats.entropy },
                };
                let mut in_place = logits.copy();
                let stats = token_loss::token_gradients_(slice_mut(&mut in_place), &targets, temperature, &derivative);
                assert_eq!(stats, found);
                let gradients: Vec<TokenGradient> =
                    expected.iter().enumerate().map(|(row, &stats)| derivative(row, stats)).collect();
                let expected = distribution.gradient(&gradients);
                let difference = largest(&(&in_place - &expected));
                assert!(difference <= tolerance * (1.0 + largest(&expected)), "{width} {temperature}: {difference}");
            }
        }
    }

    #[test]
    fn unusable_logits_are_not_a_number() {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut row = vec![0.5f32; 40];
            row[21] = bad;
            let logits = Tensor::from_slice(&row).view([1, 40]);
            let stats = token_loss::token_stats(Rows::of(&logits).unwrap(), &[3], 1.0);
            assert!(stats[0].logprob.is_nan(), "{bad}");
        }
        let masked = Tensor::from_slice(&[1.0f32, f32::NEG_INFINITY, 1.0]).view([1, 3]);
        let stats = token_loss::token_stats(Rows::of(&masked).unwrap(), &[0], 1.0)[0];
        assert!((stats.logprob + 2f32.ln()).abs() < 1e-6 && (stats.entropy - 2f32.ln()).abs() < 1e-6, "{stats:?}");
    }
}
