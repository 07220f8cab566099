//! Kernels as functions that autograd knows.

use tch::{Device, Kind, Tensor};

/// What a kernel writes to: f32 on CPU, `shape`, not yet filled, unknown to autograd.
pub(super) fn empty(shape: &[i64]) -> Tensor {
    Tensor::empty(shape, (Kind::Float, Device::Cpu))
}

/// Records `outputs` as a function of `inputs` where autograd asks for it. `backward` is given the inputs' values to
/// keep, and returns what turns the derivatives by the outputs into those by the inputs.
pub(super) fn record<const OUTPUTS: usize, const INPUTS: usize, F>(
    outputs: [&Tensor; OUTPUTS],
    inputs: [&Tensor; INPUTS],
    backward: impl FnOnce([Tensor; INPUTS]) -> F,
) where
    F: FnOnce(&[Tensor]) -> [Tensor; INPUTS] + Send + 'static,
{
    if torch_ext_sys::needs_record(&inputs) {
        let backward = backward(inputs.map(Tensor::detach));
        torch_ext_sys::record(&outputs, inputs, backward).expect("a new tensor takes a history");
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two orders of f32 operations, relative to the largest value.
    const TOLERANCE: f64 = 2e-6;

    type Function<'a> = &'a dyn Fn(&[Tensor]) -> Tensor;

    /// Demands that `found` has the values and, by every input of these shapes, the derivatives of `expected`.
    pub fn compare(shapes: &[&[i64]], expected: Function<'_>, found: Function<'_>) {
        tch::manual_seed(11);
        let values: Vec<Tensor> =
            shapes.iter().map(|&shape| Tensor::randn(shape, (Kind::Float, Device::Cpu)) * 3.0).collect();
        let run = |function: Function<'_>| {
            let inputs: Vec<Tensor> = values.iter().map(|value| value.copy().set_requires_grad(true)).collect();
            let output = function(&inputs);
            // Every place counts differently.
            let weights = Tensor::linspace(-1.0, 2.0, output.numel() as i64, (Kind::Float, Device::Cpu));
            (output.flatten(0, -1) * weights).sum(Kind::Float).backward();
            let gradients = inputs.iter().map(Tensor::grad);
            [output.detach()].into_iter().chain(gradients).collect::<Vec<_>>()
        };
        for (index, (expected, found)) in run(expected).iter().zip(run(found)).enumerate() {
            assert_eq!(expected.size(), found.size());
            let largest = |x: &Tensor| if x.numel() == 0 { 0.0 } else { x.abs().max().double_value(&[]) };
            let (scale, difference) = (largest(expected).max(1.0), largest(&(expected - found)));
            assert!(difference <= TOLERANCE * scale, "{shapes:?}, {index}: {difference} of {scale}");
        }
    }
}
