//! A linear map without bias; the supported architectures have none.

use tch::Tensor;

use super::recomputed::Recomputed;
use super::recorded::record;

/// `y = x Wᵀ`.
#[derive(Debug)]
pub struct Linear {
    weight: Tensor, // [out, in]
}

impl Linear {
    /// A map with `weight` of shape `[out, in]`.
    pub fn new(weight: Tensor) -> Self {
        Self { weight }
    }

    /// `[N, in]` to `[N, out]`.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.linear(&self.weight, None::<Tensor>)
    }

    /// [`Linear::forward`] of a value that the backward pass computes again instead of keeping it until then. No weight may
    /// change between the two.
    pub fn forward_of(&self, x: Recomputed) -> Tensor {
        let Recomputed { value, again } = x;
        let y = tch::no_grad(|| self.forward(&value));
        record([&y], [&value, &self.weight], |[_, weight]| {
            move |gradients| {
                let d_y = &gradients[0];
                [d_y.mm(&weight), d_y.tr().mm(&again())]
            }
        });
        y
    }

    /// The weight, `[out, in]`.
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tch::{Device, Kind};

    use super::super::recorded::tests::compare;
    use super::super::{RmsNorm, silu_and_mul};
    use super::*;

    #[test]
    fn a_value_computed_again_gives_the_same_gradients() {
        let [gate_up, norm, weight] = [&[20, 14][..], &[7], &[5, 7]];
        let linear = |weight: &Tensor| Linear::new(weight.shallow_clone());
        let kept = |inputs: &[Tensor]| linear(&inputs[1]).forward(&silu_and_mul(&inputs[0]));
        let again = |inputs: &[Tensor]| linear(&inputs[1]).forward_of(Recomputed::gated(&inputs[0]));
        compare(&[gate_up, weight], &kept, &again);
        let normed = |inputs: &[Tensor]| (inputs[0].narrow(1, 0, 7), RmsNorm::new(inputs[1].shallow_clone(), 1e-5));
        let kept = |inputs: &[Tensor]| {
            let (x, norm) = normed(inputs);
            linear(&inputs[2]).forward(&norm.forward(&x))
        };
        let again = |inputs: &[Tensor]| {
            let (x, norm) = normed(inputs);
            linear(&inputs[2]).forward_of(Recomputed::normed(&norm, &x))
        };
        compare(&[gate_up, norm, weight], &kept, &again);
        let kept = |inputs: &[Tensor]| linear(&inputs[1]).forward(&inputs[0]);
        let again = |inputs: &[Tensor]| linear(&inputs[1]).forward_of(Recomputed::kept(&inputs[0]));
        compare(&[&[20, 7], weight], &kept, &again);
    }

    #[test]
    fn a_value_is_computed_again_in_the_backward_pass_alone() {
        let calls = Arc::new(AtomicUsize::new(0));
        let weight = Tensor::ones([2, 3], (Kind::Float, Device::Cpu)).set_requires_grad(true);
        let map = || {
            let calls = calls.clone();
            let value = || Tensor::ones([1, 3], (Kind::Float, Device::Cpu));
            let again = move || {
                calls.fetch_add(1, Ordering::Relaxed);
                value()
            };
            Linear::new(weight.shallow_clone()).forward_of(Recomputed { value: value(), again: Box::new(again) })
        };
        drop(tch::no_grad(map));
        let y = map();
        assert_eq!(calls.load(Ordering::Relaxed), 0);
        y.sum(Kind::Float).backward();
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }
}
