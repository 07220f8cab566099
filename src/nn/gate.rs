//! The gated activation between an MLP's two matrix products.

use tch::Tensor;

use super::recorded::{empty, record};
use crate::kernels::elementwise;
use crate::kernels::tensors::{Rows, slice, slice_mut};

/// `silu(gate) * up` of `gate_up` (`[N, 2 W]`, the gates first): `[N, W]`.
pub fn silu_and_mul(gate_up: &Tensor) -> Tensor {
    let width = gate_up.size()[1] / 2;
    let Some(rows) = Rows::of(gate_up) else {
        // One split, not two narrows: its backward is one concatenation.
        let parts = gate_up.split_with_sizes([width, width], 1);
        return parts[0].silu() * &parts[1];
    };
    let mut y = empty(&[rows.len as i64, width]);
    elementwise::silu_and_mul(rows, slice_mut(&mut y));
    record([&y], [gate_up], |[gate_up]| {
        move |gradients| {
            let rows = Rows::of(&gate_up).expect("the forward pass read these rows");
            let mut d_gate_up = empty(&gate_up.size());
            elementwise::silu_and_mul_backward(rows, slice(&gradients[0]), slice_mut(&mut d_gate_up));
            [d_gate_up]
        }
    });
    y
}

#[cfg(test)]
mod tests {
    use tch::Kind;

    use super::super::recorded::tests::compare;
    use super::*;

    #[test]
    fn the_sweep_is_libtorchs_gate() {
        let plain = |inputs: &[Tensor]| {
            let parts = inputs[0].chunk(2, 1);
            parts[0].silu() * &parts[1]
        };
        for (rows, width) in [(1, 1), (5, 7), (33, 16), (200, 384)] {
            compare(&[&[rows, 2 * width]], &plain, &|inputs| silu_and_mul(&inputs[0]));
        }
    }

    #[test]
    fn closed_and_broken_gates() {
        let gate_up = Tensor::from_slice(&[-200.0f32, f32::NAN, 200.0, 1.0, 1.0, 2.0]).view([1, 6]);
        let y = Vec::<f32>::try_from(silu_and_mul(&gate_up).flatten(0, 1)).unwrap();
        assert!(y[0].abs() < 1e-30 && y[1].is_nan() && y[2] == 400.0, "{y:?}");
    }

    #[test]
    fn other_types_are_libtorchs_to_compute() {
        let gate_up = Tensor::from_slice(&[1.0f32, 2.0]).view([1, 2]).to_kind(Kind::BFloat16);
        assert_eq!(silu_and_mul(&gate_up).kind(), Kind::BFloat16);
    }
}
