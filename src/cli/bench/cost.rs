//! What a step costs at least: operations, memory, and how fast this machine multiplies matrices.

use std::time::Instant;

use tch::{Device, Kind, Tensor};

use crate::models::CausalLm;

/// The square product whose speed is called the machine's peak.
const PEAK_SIZE: i64 = 1536;
/// Timed products.
const PEAK_REPEATS: usize = 7;

/// Floating-point operations of one forward pass's products with weights: two a weight and token, the head on `targets`
/// tokens only. Attention's own products are left out. A backward pass takes twice as many.
pub(super) fn forward_flops(model: &dyn CausalLm, tokens: usize, targets: usize) -> f64 {
    let config = model.config();
    let head = (config.vocab_size * config.hidden_size) as f64;
    let tables = if config.tie_word_embeddings { head } else { 2.0 * head };
    let body = model.weights().num_parameters() as f64 - tables;
    2.0 * (body * tokens as f64 + head * targets as f64)
}

/// Memory that no trainer of all weights does without: weights, gradients, two moments, and the reference's weights.
pub(super) fn floor_bytes(model: &dyn CausalLm, has_reference: bool) -> usize {
    let copies = if has_reference { 5 } else { 4 };
    copies * size_of::<f32>() * model.weights().num_parameters()
}

/// Operations per second of a square product that fills the caches: the median of a few.
pub(super) fn peak_flops() -> f64 {
    let options = (Kind::Float, Device::Cpu);
    let (a, b) = (Tensor::randn([PEAK_SIZE, PEAK_SIZE], options), Tensor::randn([PEAK_SIZE, PEAK_SIZE], options));
    let mut times: Vec<f64> = (0..PEAK_REPEATS + 1)
        .map(|_| {
            let started = Instant::now();
            let _product = a.mm(&b);
            started.elapsed().as_secs_f64()
        })
        .skip(1)
        .collect();
    times.sort_by(f64::total_cmp);
    2.0 * (PEAK_SIZE as f64).powi(3) / times[times.len() / 2]
}

/// Largest resident set of this process so far, where the system tells.
pub(super) fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
