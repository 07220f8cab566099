//! Rotary position embedding with the frequency scalings of the supported checkpoints: none, llama3 and YaRN.
//!
//! Cosines and sines are computed once, in f32, by the same operations in the same order as Hugging Face, then kept as
//! tables: a position's rotation never depends on which other positions are in the batch. Positions at or past the
//! table's length are the caller's bug; engine and trainer refuse sequences longer than the model's context first.
//!
//! Shapes: `N` tokens, `H` heads, `E` head size, `P` positions.

use std::f64::consts::PI;

use tch::{Device, Kind, Tensor};

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
        let half = x.size()[2] / 2;
        (x * &self.cos).addcmul_(&x.roll([half], [2]), &self.sin)
    }
}
