//! Functions of our own in autograd's graph: the values are computed elsewhere, the backward pass is a closure.

use std::any::Any;
use std::ffi::{CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tch::Tensor;
use torch_sys::C_tensor;

use super::{TorchError, check, pointers};

type Backward = unsafe extern "C" fn(*mut c_void, *const *mut C_tensor, usize, *mut *mut C_tensor) -> *mut c_char;

unsafe extern "C" {
    fn torch_ext_needs_record(inputs: *const *mut C_tensor, len: usize) -> bool;
    fn torch_ext_record(
        outputs: *const *mut C_tensor,
        num_outputs: usize,
        inputs: *const *mut C_tensor,
        num_inputs: usize,
        context: *mut c_void,
        backward: Backward,
        drop: unsafe extern "C" fn(*mut c_void),
        free_text: unsafe extern "C" fn(*mut c_char),
    ) -> *mut c_char;
}

/// Whether autograd is recording and one of `inputs` takes part: without that there is nothing to [`record`].
pub fn needs_record(inputs: &[&Tensor]) -> bool {
    let inputs = pointers(inputs.iter().copied());
    // SAFETY: the list holds live tensors and is not kept.
    unsafe { torch_ext_needs_record(inputs.as_ptr(), inputs.len()) }
}

/// Makes `outputs`, new tensors that autograd has not seen being computed, a function of `inputs`.
///
/// In the backward pass `backward` gets the derivative by each output (contiguous, of its shape) and returns the
/// derivative by each input, in order. It runs once, with autograd off, and is dropped with the graph; it must not
/// hold an output itself, or the graph never ends.
///
/// # Errors
/// An output that has a history already, or is of a type that has no gradient.
pub fn record<const INPUTS: usize, F>(
    outputs: &[&Tensor],
    inputs: [&Tensor; INPUTS],
    backward: F,
) -> Result<(), TorchError>
where
    F: FnOnce(&[Tensor]) -> [Tensor; INPUTS] + Send + 'static,
{
    let (outputs, inputs) = (pointers(outputs.iter().copied()), pointers(inputs));
    let context = Box::into_raw(Box::new(backward)).cast();
    // SAFETY: both lists hold live tensors and are not kept; the node owns the box and gives it back once.
    check(unsafe {
        torch_ext_record(
            outputs.as_ptr(),
            outputs.len(),
            inputs.as_ptr(),
            inputs.len(),
            context,
            call::<INPUTS, F>,
            discard::<F>,
            free_text,
        )
    })
}

unsafe extern "C" fn discard<F>(context: *mut c_void) {
    // SAFETY: `record` made this box, and the node calls either this or `call`, once.
    drop(unsafe { Box::from_raw(context.cast::<F>()) });
}

unsafe extern "C" fn call<const INPUTS: usize, F>(
    context: *mut c_void,
    gradients: *const *mut C_tensor,
    len: usize,
    results: *mut *mut C_tensor,
) -> *mut c_char
where
    F: FnOnce(&[Tensor]) -> [Tensor; INPUTS],
{
    // SAFETY: `record` made this box; the gradients are `len` tensors that are ours from now on.
    let (backward, gradients) = unsafe {
        let gradients: Vec<Tensor> = (0..len).map(|i| Tensor::from_ptr((*gradients.add(i)).cast())).collect();
        (Box::from_raw(context.cast::<F>()), gradients)
    };
    // A panic must not unwind through C++.
    match catch_unwind(AssertUnwindSafe(|| backward(&gradients))) {
        Ok(derivatives) => {
            for (i, derivative) in derivatives.into_iter().enumerate() {
                // SAFETY: there is a place for each input, and the callee frees what it finds there.
                unsafe { results.add(i).write(derivative.as_ptr().cast_mut().cast()) };
                std::mem::forget(derivative);
            }
            std::ptr::null_mut()
        }
        Err(payload) => error_text(payload.as_ref()).into_raw(),
    }
}

unsafe extern "C" fn free_text(text: *mut c_char) {
    // SAFETY: `call` made this text, and the node gives it back once.
    drop(unsafe { CString::from_raw(text) });
}

fn error_text(payload: &(dyn Any + Send)) -> CString {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a backward pass panicked");
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::backward;

    fn leaf(values: &[f32]) -> Tensor {
        Tensor::from_slice(values).set_requires_grad(true)
    }

    fn grad(leaf: &Tensor) -> Vec<f32> {
        Vec::try_from(leaf.grad()).unwrap()
    }

    /// `[3 x, x y]`, whose backward pass holds `alive` as long as it could run.
    fn products(x: &Tensor, y: &Tensor, alive: &Arc<()>) -> [Tensor; 2] {
        let outputs = tch::no_grad(|| [x * 3.0, x * y]);
        let (held, x_value, y_value) = (alive.clone(), x.detach(), y.detach());
        record(&[&outputs[0], &outputs[1]], [x, y], move |gradients| {
            let _held = held;
            [&gradients[0] * 3.0 + &gradients[1] * &y_value, &gradients[1] * &x_value]
        })
        .unwrap();
        outputs
    }

    #[test]
    fn derivatives_reach_every_input_and_missing_ones_are_zero() {
        let (x, y, alive) = (leaf(&[1.0, 2.0]), leaf(&[5.0, 7.0]), Arc::new(()));
        assert!(needs_record(&[&x]) && !needs_record(&[&x.detach()]));
        let [triple, product] = products(&x, &y, &alive);
        let sum: Tensor = &triple + &product;
        drop((triple, product));
        backward(&sum, &Tensor::from_slice(&[1.0f32, 10.0])).unwrap();
        assert_eq!(grad(&x), [8.0, 100.0]);
        assert_eq!(grad(&y), [1.0, 20.0]);
        let [triple, _] = products(&x, &y, &alive);
        backward(&triple, &Tensor::from_slice(&[1.0f32, 1.0])).unwrap();
        assert_eq!(grad(&x), [11.0, 103.0]);
        assert_eq!(grad(&y), [1.0, 20.0]);
    }

    #[test]
    fn what_the_closure_holds_goes_with_the_graph() {
        let (x, y, alive) = (leaf(&[1.0]), leaf(&[2.0]), Arc::new(()));
        let unused = products(&x, &y, &alive);
        assert_eq!(Arc::strong_count(&alive), 2);
        drop(unused);
        assert_eq!(Arc::strong_count(&alive), 1);
        let [_, product] = products(&x, &y, &alive);
        backward(&product, &product.ones_like()).unwrap();
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn an_output_has_one_history() {
        let x = leaf(&[1.0]);
        let error = record(&[&(&x * 2.0)], [&x], |_| -> [Tensor; 1] { unreachable!() }).unwrap_err();
        assert!(error.to_string().contains("has a history already"), "{error}");
    }

    #[test]
    fn a_panic_in_a_backward_pass_is_an_error() {
        let x = leaf(&[1.0]);
        let y = tch::no_grad(|| &x * 2.0);
        record(&[&y], [&x], |_| -> [Tensor; 1] { panic!("no derivative") }).unwrap();
        let error = backward(&y, &y.ones_like()).unwrap_err();
        assert!(error.to_string().contains("no derivative"), "{error}");
    }
}
