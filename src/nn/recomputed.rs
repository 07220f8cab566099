//! What the backward pass computes again instead of keeping it: values that are cheaper than the memory they take.

use tch::Tensor;

use super::{RmsNorm, silu_and_mul};

/// A value, and how to get it once more when autograd goes back through what was made of it.
pub struct Recomputed {
    pub(super) value: Tensor,
    pub(super) again: Box<dyn FnOnce() -> Tensor + Send>,
}

impl Recomputed {
    /// `x` itself, kept.
    pub fn kept(x: &Tensor) -> Self {
        let kept = x.detach();
        Self { value: x.shallow_clone(), again: Box::new(move || kept) }
    }

    /// `norm` of `x`, which is kept.
    pub fn normed(norm: &RmsNorm, x: &Tensor) -> Self {
        let (value, norm, kept) = (norm.forward(x), norm.shallow_clone(), x.detach());
        Self { value, again: Box::new(move || norm.forward(&kept)) }
    }

    /// [`silu_and_mul`] of `gate_up`, which is kept.
    pub fn gated(gate_up: &Tensor) -> Self {
        let kept = gate_up.detach();
        Self { value: silu_and_mul(gate_up), again: Box::new(move || silu_and_mul(&kept)) }
    }
}
