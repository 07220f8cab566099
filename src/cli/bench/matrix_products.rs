//! The bound no decoding can pass here: a model's own matrix products at one batch size, and nothing else.

use std::time::{Duration, Instant};

use tch::{Kind, Tensor};

use crate::models::CausalLm;

/// Seconds of one decode step's matrix products at `batch` sequences: every projection of every layer and the head, with
/// the weights themselves, in the order of a step. The median of `repeats`.
pub fn time_step(model: &dyn CausalLm, batch: i64, repeats: usize) -> Duration {
    let _guard = tch::no_grad_guard();
    let head = model.head_weight();
    let layers = model.weights().leaves.iter().map(|leaf| &leaf.tensor);
    // Embedding and head come on their own: the first is looked up, and both are one tensor when tied.
    let layers = layers.filter(|weight| weight.dim() == 2 && weight.size()[0] != model.config().vocab_size);
    let weights: Vec<&Tensor> = layers.chain(std::iter::once(head)).collect();
    let inputs: Vec<Tensor> =
        weights.iter().map(|weight| Tensor::randn([batch, weight.size()[1]], (Kind::Float, weight.device()))).collect();
    let mut times: Vec<Duration> = (0..repeats + 1)
        .map(|_| {
            let start = Instant::now();
            for (weight, input) in weights.iter().zip(&inputs) {
                let _ = input.linear(weight, None::<Tensor>);
            }
            start.elapsed()
        })
        .skip(1)
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}
