//! The libtorch calls that tch does not bind, each behind a safe function.
//!
//! C++ lives in `csrc/`, behind `extern "C"`; every C++ exception comes back as a [`TorchError`]. Only what the
//! project uses is here, and nothing that tch already offers.
#![expect(unsafe_code, reason = "this crate is the boundary to C++")]

mod record;
mod training;

use std::any::Any;
use std::ffi::{CStr, c_char, c_void};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;

pub use record::{needs_record, record};
pub use training::{AdamWOptions, AdamWTensors, backward, fused_adamw_, set_grad};

use tch::Tensor;
use torch_sys::C_tensor;

// Links libtorch's own libraries and hands this crate's build script their paths.
use torch_sys as _;

/// What libtorch threw, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TorchError(String);

impl std::fmt::Display for TorchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "libtorch: {}", self.0)
    }
}

impl std::error::Error for TorchError {}

unsafe extern "C" {
    fn torch_ext_parallel_for(
        len: i64,
        grain: i64,
        body: unsafe extern "C" fn(*mut c_void, i64, i64),
        context: *mut c_void,
    ) -> *mut c_char;
    fn torch_ext_free(message: *mut c_char);
    fn torch_ext_grad_enabled() -> bool;
}

fn pointers<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Vec<*mut C_tensor> {
    tensors.into_iter().map(|tensor| tensor.as_ptr().cast_mut()).collect()
}

/// Takes a C function's answer: null, or the text of an exception that is ours to free.
fn check(message: *mut c_char) -> Result<(), TorchError> {
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: a non-null answer is a NUL-terminated string that we own.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    unsafe { torch_ext_free(message) };
    Err(TorchError(text))
}

struct Call<'a, F> {
    body: &'a F,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

unsafe extern "C" fn trampoline<F: Fn(Range<usize>) + Sync>(context: *mut c_void, begin: i64, end: i64) {
    // SAFETY: `context` is the `Call` that `parallel_for` keeps alive until every part has returned.
    let call = unsafe { &*context.cast::<Call<F>>() };
    let part = begin as usize..end as usize;
    // A panic must not unwind through C++: it is carried to the calling thread.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (call.body)(part))) {
        *call.panic.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(payload);
    }
}

/// Runs `body` over disjoint parts of `0..len` on libtorch's intra-op threads, and returns when all are done.
///
/// The parts are contiguous, at most one per thread and at least `grain` long. Inside another parallel region, or
/// when `len <= grain`, the whole range runs on the calling thread. A second pool beside libtorch's would make both
/// wait for each other's descheduled threads, so every kernel of the project runs here.
///
/// # Errors
/// libtorch's exception, if its pool cannot start.
///
/// # Panics
/// With the payload of `body`'s panic, on the calling thread.
pub fn parallel_for<F: Fn(Range<usize>) + Sync>(len: usize, grain: usize, body: F) -> Result<(), TorchError> {
    let call = Call { body: &body, panic: Mutex::new(None) };
    // SAFETY: the callee runs `trampoline` with this context before it returns, and never keeps it.
    let message = unsafe {
        torch_ext_parallel_for(len as i64, grain as i64, trampoline::<F>, (&raw const call).cast_mut().cast())
    };
    check(message)?;
    match call.panic.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        Some(payload) => resume_unwind(payload),
        None => Ok(()),
    }
}

/// Whether autograd records on this thread (false inside `tch::no_grad`).
pub fn grad_enabled() -> bool {
    // SAFETY: reads a thread-local flag.
    unsafe { torch_ext_grad_enabled() }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_index_runs_once() {
        let counts: Vec<AtomicUsize> = (0..1000).map(|_| AtomicUsize::new(0)).collect();
        parallel_for(counts.len(), 1, |part| {
            for index in part {
                counts[index].fetch_add(1, Ordering::Relaxed);
            }
        })
        .unwrap();
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_survives() {
        let outcome = catch_unwind(|| parallel_for(100, 1, |part| assert!(!part.contains(&40), "forty")));
        let payload = outcome.unwrap_err();
        assert!(payload.downcast_ref::<&str>().is_some_and(|text| text.contains("forty")));
        parallel_for(10, 1, |_| ()).unwrap();
    }

    #[test]
    fn nothing_to_do_calls_nothing() {
        parallel_for(0, 1, |_| panic!("called")).unwrap();
    }

    #[test]
    fn grad_mode_is_on_by_default() {
        assert!(grad_enabled());
    }
}
