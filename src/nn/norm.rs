//! Root-mean-square normalisation over the last dimension, computed in f32 whatever the input's type.

use tch::Tensor;

/// `x / sqrt(mean(x²) + eps) * weight`.
#[derive(Debug)]
pub struct RmsNorm {
    weight: Tensor, // [D]
    eps: f64,
}

impl RmsNorm {
    /// A norm over the `D` elements of `weight`.
    pub fn new(weight: Tensor, eps: f64) -> Self {
        Self { weight, eps }
    }

    /// `D`.
    pub fn width(&self) -> i64 {
        self.weight.size()[0]
    }

    /// `[.., D]` to `[.., D]`, in `x`'s type; libtorch raises half types to f32 inside.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.rms_norm(self.weight.size(), Some(&self.weight), self.eps)
    }
}
