//! Backward passes with given gradients, and libtorch's fused AdamW step.

use std::ffi::c_char;

use tch::Tensor;
use torch_sys::C_tensor;

use super::{TorchError, check, pointers};

/// The constants of one AdamW step.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
pub struct AdamWOptions {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Decoupled weight decay, multiplied by `lr`.
    pub weight_decay: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Which step this is, from 1: it corrects the moments' bias.
    pub step: i64,
}

/// What [`fused_adamw_`] steps on: four lists of the same length and, element by element, the same shape.
#[derive(Debug, Clone, Copy)]
pub struct AdamWTensors<'a> {
    /// Parameters.
    pub parameters: &'a [Tensor],
    /// Their gradients.
    pub gradients: &'a [Tensor],
    /// First moments.
    pub exp_avgs: &'a [Tensor],
    /// Second moments.
    pub exp_avg_sqs: &'a [Tensor],
}

unsafe extern "C" {
    fn torch_ext_backward(outputs: *const *mut C_tensor, gradients: *const *mut C_tensor, len: usize) -> *mut c_char;
    fn torch_ext_set_grad(tensor: *mut C_tensor, gradient: *mut C_tensor) -> *mut c_char;
    fn torch_ext_fused_adamw_(
        parameters: *const *mut C_tensor,
        gradients: *const *mut C_tensor,
        exp_avgs: *const *mut C_tensor,
        exp_avg_sqs: *const *mut C_tensor,
        len: usize,
        options: *const AdamWOptions,
        grad_scale: *mut C_tensor,
    ) -> *mut c_char;
}

/// Backward from `output` with `gradient` (same shape) as the derivative with respect to it; leaves accumulate.
///
/// The graph behind `output` is freed.
///
/// # Errors
/// libtorch's exception: shapes that differ, or no graph behind `output`.
pub fn backward(output: &Tensor, gradient: &Tensor) -> Result<(), TorchError> {
    let (outputs, gradients) = (pointers([output]), pointers([gradient]));
    // SAFETY: both lists hold one live tensor; the callee keeps neither list.
    check(unsafe { torch_ext_backward(outputs.as_ptr(), gradients.as_ptr(), 1) })
}

/// Makes `gradient` the accumulated gradient of the leaf `tensor`, or clears it, freeing its memory.
///
/// # Errors
/// libtorch's exception.
pub fn set_grad(tensor: &Tensor, gradient: Option<&Tensor>) -> Result<(), TorchError> {
    let gradient = gradient.map_or(std::ptr::null_mut(), |gradient| gradient.as_ptr().cast_mut());
    // SAFETY: both tensors are alive; a null gradient means none.
    check(unsafe { torch_ext_set_grad(tensor.as_ptr().cast_mut(), gradient) })
}

/// One AdamW step in place on parameters and moments, one pass over memory.
///
/// Gradients are first divided by `grad_scale` (an f32 scalar), in place, if it is given.
///
/// # Errors
/// libtorch's exception: shapes, types or devices that differ.
///
/// # Panics
/// If the lists differ in length.
pub fn fused_adamw_(
    tensors: AdamWTensors<'_>,
    options: &AdamWOptions,
    grad_scale: Option<&Tensor>,
) -> Result<(), TorchError> {
    let AdamWTensors { parameters, gradients, exp_avgs, exp_avg_sqs } = tensors;
    let len = parameters.len();
    assert!([gradients, exp_avgs, exp_avg_sqs].iter().all(|list| list.len() == len), "lists differ in length");
    let (parameters, gradients) = (pointers(parameters), pointers(gradients));
    let (exp_avgs, exp_avg_sqs) = (pointers(exp_avgs), pointers(exp_avg_sqs));
    let grad_scale = grad_scale.map_or(std::ptr::null_mut(), |scale| scale.as_ptr().cast_mut());
    // SAFETY: every list holds `len` live tensors; the callee keeps no list.
    check(unsafe {
        torch_ext_fused_adamw_(
            parameters.as_ptr(),
            gradients.as_ptr(),
            exp_avgs.as_ptr(),
            exp_avg_sqs.as_ptr(),
            len,
            options,
            grad_scale,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backward_accumulates_the_given_gradient() {
        let leaf = Tensor::from_slice(&[1.0f32, 2.0]).set_requires_grad(true);
        for _ in 0..2 {
            backward(&(&leaf * 3.0), &Tensor::from_slice(&[1.0f32, -1.0])).unwrap();
        }
        assert_eq!(Vec::<f32>::try_from(leaf.grad()).unwrap(), [6.0, -6.0]);
        set_grad(&leaf, None).unwrap();
        assert!(!leaf.grad().defined());
        set_grad(&leaf, Some(&Tensor::from_slice(&[5.0f32, 5.0]))).unwrap();
        backward(&(&leaf * 3.0), &Tensor::from_slice(&[1.0f32, -1.0])).unwrap();
        assert_eq!(Vec::<f32>::try_from(leaf.grad()).unwrap(), [8.0, 2.0]);
    }

    #[test]
    fn libtorch_exceptions_come_back_as_text() {
        let constant = Tensor::from_slice(&[1.0f32]);
        let error = backward(&constant, &constant).unwrap_err();
        assert!(error.to_string().contains("does not require grad"), "{error}");
    }

    #[test]
    fn the_first_step_moves_by_the_learning_rate() {
        let one = |x: f32| vec![Tensor::from_slice(&[x])];
        let (parameters, gradients) = (one(1.0), one(8.0));
        let (exp_avgs, exp_avg_sqs) = (one(0.0), one(0.0));
        let tensors = AdamWTensors {
            parameters: &parameters,
            gradients: &gradients,
            exp_avgs: &exp_avgs,
            exp_avg_sqs: &exp_avg_sqs,
        };
        let options = AdamWOptions { lr: 0.1, beta1: 0.9, beta2: 0.99, weight_decay: 0.5, eps: 0.0, step: 1 };
        fused_adamw_(tensors, &options, Some(&Tensor::from(2f32))).unwrap();
        let value = |list: &[Tensor]| list[0].double_value(&[0]);
        assert!((value(&parameters) - (1.0 - 0.1 * 0.5 - 0.1)).abs() < 1e-6); // decay, then the sign of the gradient
        assert!((value(&exp_avgs) - 0.4).abs() < 1e-6); // 0.1 of the gradient divided by the scale
        assert!((value(&exp_avg_sqs) - 0.16).abs() < 1e-6);
    }
}
