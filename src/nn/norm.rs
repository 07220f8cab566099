//! Root-mean-square normalisation over the last dimension, computed in f32 whatever the input's type.

use tch::Tensor;

use super::recorded::{empty, record};
use crate::kernels::elementwise;
use crate::kernels::tensors::{Rows, slice, slice_mut};

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

    /// The same norm over the same weight.
    pub fn shallow_clone(&self) -> Self {
        Self { weight: self.weight.shallow_clone(), eps: self.eps }
    }

    /// `D`.
    pub fn width(&self) -> i64 {
        self.weight.size()[0]
    }

    /// `[N, .., D]` to the same, in `x`'s type.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        match (Rows::of(x), Rows::of(&self.weight)) {
            (Some(rows), Some(_)) => self.swept(x, rows),
            _ => x.rms_norm(self.weight.size(), Some(&self.weight), self.eps),
        }
    }

    fn swept(&self, x: &Tensor, rows: Rows<'_>) -> Tensor {
        let mut y = empty(&x.size());
        let mut inv_rms = vec![0.0; x.numel() / self.width() as usize];
        elementwise::rms_norm(rows, slice(&self.weight), self.eps as f32, slice_mut(&mut y), &mut inv_rms);
        record([&y], [x, &self.weight], |[x, weight]| {
            move |gradients| {
                let rows = Rows::of(&x).expect("the forward pass read these rows");
                let mut d_x = empty(&x.size());
                let d_weight = elementwise::rms_norm_backward(
                    rows,
                    slice(&weight),
                    &inv_rms,
                    slice(&gradients[0]),
                    slice_mut(&mut d_x),
                );
                [d_x, Tensor::from_slice(&d_weight)]
            }
        });
        y
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorded::tests::compare;
    use super::*;

    #[test]
    fn the_sweep_is_libtorchs_norm() {
        for (rows, groups, width) in [(1, 1, 1), (3, 1, 7), (70, 3, 16), (65, 2, 50), (40, 1, 576)] {
            // Wider than the rows read, so that they are strided.
            let plain = |inputs: &[Tensor]| {
                let x = inputs[0].narrow(1, 0, groups * width).unflatten(1, [groups, width]);
                x.rms_norm(&[width][..], Some(&inputs[1]), 1e-5)
            };
            let swept = |inputs: &[Tensor]| {
                let x = inputs[0].narrow(1, 0, groups * width).unflatten(1, [groups, width]);
                RmsNorm::new(inputs[1].shallow_clone(), 1e-5).forward(&x)
            };
            compare(&[&[rows, groups * width + 3], &[width]], &plain, &swept);
        }
    }
}
