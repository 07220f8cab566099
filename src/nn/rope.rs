//! Rotary position embedding with the frequency scalings of the supported checkpoints: none, llama3 and YaRN.
//!
//! Cosines and sines are computed once, in f32, by the same operations in the same order as Hugging Face, then kept as
//! tables: a position's rotation never depends on which other positions are in the batch. Positions at or past the
//! table's length are the caller's bug; engine and trainer refuse sequences longer than the model's context first.
//!
//! Shapes: `N` tokens, `H` heads, `E` head size, `P` positions.

use std::f64::consts::PI;

use tch::{Device, Kind, Tensor};

use super::recorded::{empty, record};
use crate::kernels::elementwise::{self, Turn};
use crate::kernels::tensors::{Rows, slice_mut};

/// Base and scaling of one rotary embedding.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeConfig {
    /// Base of the geometric series of wavelengths.
    pub theta: f64,
    /// How frequencies are changed for contexts longer than the original.
    pub scaling: RopeScaling,
}

/// How frequencies are changed for contexts longer than the original.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    Default,
    /// Llama 3.1: long wavelengths are divided by `factor`, short ones kept, those between interpolated.
    Llama3 {
        /// Divisor of the lowest frequencies.
        factor: f64,
        /// `original_max_position_embeddings / low_freq_factor` is the shortest wavelength divided in full.
        low_freq_factor: f64,
        /// `original_max_position_embeddings / high_freq_factor` is the longest wavelength kept.
        high_freq_factor: f64,
        /// Context length before scaling.
        original_max_position_embeddings: f64,
    },
    /// YaRN, arXiv:2309.00071: a linear ramp over dimensions, and a factor on cosines and sines.
    Yarn {
        /// Divisor of the lowest frequencies.
        factor: f64,
        /// Factor on cosines and sines, so on `q · k` squared.
        attention_factor: f64,
        /// Rotations within the original context above which a dimension is kept.
        beta_fast: f64,
        /// Rotations within the original context below which a dimension is divided in full.
        beta_slow: f64,
        /// Context length before scaling.
        original_max_position_embeddings: f64,
        /// Round the ramp's ends outwards to whole dimensions.
        truncate: bool,
    },
}

impl RopeScaling {
    /// The attention factor YaRN uses when a checkpoint names none.
    ///
    /// `mscale` and `mscale_all_dim`, where both are set, take the ratio of their two terms.
    pub fn yarn_attention_factor(factor: f64, mscale: Option<f64>, mscale_all_dim: Option<f64>) -> f64 {
        let term = |mscale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * mscale * factor.ln() + 1.0 };
        match (mscale, mscale_all_dim) {
            (Some(mscale), Some(all)) if mscale != 0.0 && all != 0.0 => term(mscale) / term(all),
            _ => term(1.0),
        }
    }

    fn attention_factor(&self) -> f64 {
        match self {
            Self::Yarn { attention_factor, .. } => *attention_factor,
            Self::Default | Self::Llama3 { .. } => 1.0,
        }
    }
}

impl RopeConfig {
    /// Angular frequency per pair of dimensions: `[E / 2]` f32 on CPU.
    pub fn inv_freq(&self, head_dim: i64) -> Tensor {
        let exponent = Tensor::arange_start_step(0, head_dim, 2, (Kind::Float, Device::Cpu)) / head_dim as f64;
        let pos_freqs = Tensor::pow_scalar(self.theta, &exponent);
        match self.scaling {
            RopeScaling::Default => pos_freqs.reciprocal(),
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => {
                let inv_freq = pos_freqs.reciprocal();
                let wavelength = inv_freq.reciprocal() * (2.0 * PI);
                let longest_kept = original_max_position_embeddings / high_freq_factor;
                let shortest_divided = original_max_position_embeddings / low_freq_factor;
                let divided = &inv_freq / factor;
                let smooth = (wavelength.reciprocal() * original_max_position_embeddings - low_freq_factor)
                    / (high_freq_factor - low_freq_factor);
                let between = (1.0 - &smooth) * &divided + &smooth * &inv_freq;
                let long = divided.where_self(&wavelength.gt(shortest_divided), &between);
                inv_freq.where_self(&wavelength.lt(longest_kept), &long)
            }
            RopeScaling::Yarn { factor, beta_fast, beta_slow, original_max_position_embeddings, truncate, .. } => {
                // The dimension that turns `rotations` times within the original context.
                let dimension = |rotations: f64| {
                    head_dim as f64 * (original_max_position_embeddings / (rotations * 2.0 * PI)).ln()
                        / (2.0 * self.theta.ln())
                };
                let (low, high) = (dimension(beta_fast), dimension(beta_slow));
                let (low, high) = if truncate { (low.floor(), high.ceil()) } else { (low, high) };
                let (low, high) = (low.max(0.0), high.min(head_dim as f64 - 1.0));
                let width = if low == high { 0.001 } else { high - low };
                let ramp = ((Tensor::arange(head_dim / 2, (Kind::Float, Device::Cpu)) - low) / width).clamp(0.0, 1.0);
                let extrapolated = pos_freqs.reciprocal();
                let interpolated = (pos_freqs * factor).reciprocal();
                let kept = 1.0 - ramp;
                interpolated * (1.0 - &kept) + extrapolated * kept
            }
        }
    }
}

/// The cosine and sine tables of one rotary embedding.
#[derive(Debug)]
pub struct Rope {
    cos: Tensor, // [P, E]
    sin: Tensor, // [P, E], the first half negated
}

impl Rope {
    /// Tables for positions below `num_positions`, rounded to `kind` as Hugging Face rounds them.
    pub fn new(config: &RopeConfig, head_dim: i64, num_positions: i64, options: (Kind, Device)) -> Self {
        let (kind, device) = options;
        let positions = Tensor::arange(num_positions, (Kind::Float, Device::Cpu));
        let angles = positions.outer(&config.inv_freq(head_dim)); // [P, E / 2]
        let factor = config.scaling.attention_factor();
        let cos = angles.cos() * factor;
        let sin = angles.sin() * factor;
        let table = |halves: &[&Tensor]| Tensor::cat(halves, 1).to_device(device).to_kind(kind);
        Self { cos: table(&[&cos, &cos]), sin: table(&[&sin.neg(), &sin]) }
    }

    /// Rows of the tables for `positions` (`[N]` i64, each below the table's length).
    pub fn at(&self, positions: &Tensor) -> Rotary {
        let rows = |table: &Tensor| table.index_select(0, positions).unsqueeze(1); // [N, 1, E]
        Rotary { cos: rows(&self.cos), sin: rows(&self.sin) }
    }
}

/// The rotations of one forward pass's tokens.
#[derive(Debug)]
pub struct Rotary {
    cos: Tensor, // [N, 1, E]
    sin: Tensor, // [N, 1, E], the first half negated
}

impl Rotary {
    /// Rotates `x`: `[N, H, E]` to `[N, H, E]`.
    pub fn apply(&self, x: &Tensor) -> Tensor {
        let (Some(rows), Some([cos, sin])) = (Rows::of(x), self.tables()) else {
            let half = x.size()[2] / 2;
            return (x * &self.cos).addcmul_(&x.roll([half], [2]), &self.sin);
        };
        let mut y = empty(&x.size());
        elementwise::rotate(rows, cos, sin, Turn::Forward, slice_mut(&mut y), rows.width);
        let rotary = self.shallow_clone();
        record([&y], [x], |[x]| {
            let shape = x.size();
            move |gradients| {
                let mut d_x = empty(&shape);
                rotary.turn_back(&gradients[0], slice_mut(&mut d_x), None);
                [d_x]
            }
        });
        y
    }

    /// Cuts `qkv` (`[N, (H + 2 K) E]`) into queries, keys and values and rotates the first two: `[N, H, E]` and twice
    /// `[N, K, E]`.
    pub fn split_qkv(&self, qkv: &Tensor, num_heads: i64, num_kv_heads: i64) -> [Tensor; 3] {
        let head_dim = self.cos.size()[2];
        let heads = [num_heads, num_kv_heads, num_kv_heads];
        let (Some(rows), Some([cos, sin])) = (Rows::of(qkv), self.tables()) else {
            // One rotation for queries and keys together.
            let qkv = qkv.unflatten(-1, [-1, head_dim]);
            let parts = qkv.split_with_sizes([num_heads + num_kv_heads, num_kv_heads], 1);
            let rotated = self.apply(&parts[0]).split_with_sizes([num_heads, num_kv_heads], 1);
            return [rotated[0].shallow_clone(), rotated[1].shallow_clone(), parts[1].shallow_clone()];
        };
        let mut parts = heads.map(|heads| empty(&[rows.len as i64, heads, head_dim]));
        let widths = heads.map(|heads| (heads * head_dim) as usize);
        let starts = [0, widths[0], widths[0] + widths[1]];
        for part in 0..2 {
            let own = rows.columns(starts[part], widths[part]);
            elementwise::rotate(own, cos, sin, Turn::Forward, slice_mut(&mut parts[part]), widths[part]);
        }
        let values = tch::no_grad(|| qkv.narrow(1, starts[2] as i64, widths[2] as i64).unflatten(1, [-1, head_dim]));
        tch::no_grad(|| parts[2].copy_(&values));
        let rotary = self.shallow_clone();
        let [q, k, v] = &parts;
        record([q, k, v], [qkv], |[qkv]| {
            let shape = qkv.size();
            move |gradients| {
                let mut d_qkv = empty(&shape);
                for part in 0..2 {
                    let to = slice_mut(&mut d_qkv).get_mut(starts[part]..).unwrap_or_default();
                    rotary.turn_back(&gradients[part], to, Some(shape[1] as usize));
                }
                d_qkv.narrow(1, starts[2] as i64, widths[2] as i64).copy_(&gradients[2].flatten(1, 2));
                [d_qkv]
            }
        });
        parts
    }

    fn tables(&self) -> Option<[Rows<'_>; 2]> {
        Some([Rows::of(&self.cos)?, Rows::of(&self.sin)?])
    }

    /// Writes the derivative by the rotation's argument, given that by its result (`[N, H, E]`), at `stride` values a row.
    fn turn_back(&self, gradient: &Tensor, to: &mut [f32], stride: Option<usize>) {
        let (rows, [cos, sin]) = (Rows::of(gradient).expect(F32), self.tables().expect(F32));
        elementwise::rotate(rows, cos, sin, Turn::Backward, to, stride.unwrap_or(rows.width));
    }

    fn shallow_clone(&self) -> Self {
        Self { cos: self.cos.shallow_clone(), sin: self.sin.shallow_clone() }
    }
}

/// Derivatives are in the type of the values, which the forward pass has looked at.
const F32: &str = "the forward pass was in f32 on CPU";

#[cfg(test)]
mod tests {
    use super::super::recorded::tests::compare;
    use super::*;

    fn rotary(head_dim: i64, num_tokens: i64) -> Rotary {
        let config = RopeConfig { theta: 100.0, scaling: RopeScaling::Default };
        let rope = Rope::new(&config, head_dim, num_tokens + 5, (Kind::Float, Device::Cpu));
        rope.at(&(Tensor::arange(num_tokens, (Kind::Int64, Device::Cpu)) + 5))
    }

    fn plain(rotary: &Rotary, x: &Tensor) -> Tensor {
        let half = x.size()[2] / 2;
        x * &rotary.cos + x.roll([half], [2]) * &rotary.sin
    }

    #[test]
    fn the_sweep_is_the_formula() {
        for (tokens, heads, head_dim) in [(1, 1, 2), (3, 2, 10), (40, 3, 32), (50, 9, 64), (0, 2, 16)] {
            let rotary = rotary(head_dim, tokens);
            let shape: &[i64] = &[tokens, heads, head_dim];
            compare(&[shape], &|inputs| plain(&rotary, &inputs[0]), &|inputs| rotary.apply(&inputs[0]));
        }
    }

    #[test]
    fn projections_are_cut_and_rotated() {
        for (tokens, heads, kv_heads, head_dim) in [(0, 2, 1, 4), (1, 1, 1, 2), (7, 4, 2, 10), (90, 9, 3, 64)] {
            let rotary = rotary(head_dim, tokens);
            let expected = |inputs: &[Tensor]| {
                let parts = inputs[0].unflatten(1, [-1, head_dim]).split_with_sizes([heads, kv_heads, kv_heads], 1);
                Tensor::cat(&[plain(&rotary, &parts[0]), plain(&rotary, &parts[1]), &parts[2] * 2.0], 1)
            };
            let found = |inputs: &[Tensor]| {
                let [q, k, v] = rotary.split_qkv(&inputs[0], heads, kv_heads);
                Tensor::cat(&[q, k, v * 2.0], 1)
            };
            compare(&[&[tokens, (heads + 2 * kv_heads) * head_dim]], &expected, &found);
        }
    }
}
