//! The hot loops on CPU in f32: attention over the cache and over packed groups, the sampler, the loss at the head, fused
//! elementwise steps.
//!
//! Each works on slices and is tested against a plain reference, beside it or where autograd learns of it; each row is
//! computed by the same arithmetic whatever rows surround it, so a sequence's numbers do not depend on its batch. Nothing
//! here records gradients, owns memory across calls or starts threads: work runs on libtorch's own pool.
#![expect(unsafe_code, reason = "vector instructions and disjoint writes from several threads")]

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls `$function::<S, ROWS, COLUMNS>` for the counts at hand; both are at most [`Simd::TILE`].
macro_rules! for_tile {
    ($rows:expr, $columns:expr, $function:ident, $arguments:tt) => {
        for_tile!(@ $rows, $columns, $function, $arguments, 1 2 3 4 5 6)
    };
    (@ $rows:expr, $columns:expr, $function:ident, $arguments:tt, $($r:literal)*) => {
        match ($rows, $columns) {
            $(($r, 1) => for_tile!(! $function, $r, 1, $arguments),
            ($r, 2) => for_tile!(! $function, $r, 2, $arguments),
            ($r, 3) => for_tile!(! $function, $r, 3, $arguments),
            ($r, 4) => for_tile!(! $function, $r, 4, $arguments),)*
            _ => unreachable!("no instruction set has larger tiles"),
        }
    };
    (! $function:ident, $r:literal, $c:literal, ($($argument:expr),*)) => {
        $function::<S, $r, $c>($($argument),*)
    };
}

pub mod attention;
pub mod cache;
pub mod elementwise;
pub mod packed_attention;
pub mod sampler;
mod simd;
mod small_product;
pub mod tensors;
pub mod token_loss;

/// Runs `work(item)` once for every item of `0..len`, on libtorch's threads, each taking the next item when it is free.
fn for_each<F: Fn(usize) + Sync>(len: usize, work: F) {
    let next = AtomicUsize::new(0);
    let threads = len.min(tch::get_num_threads().max(1) as usize);
    torch_ext_sys::parallel_for(threads, 1, |_| {
        loop {
            let item = next.fetch_add(1, Ordering::Relaxed);
            if item >= len {
                break;
            }
            work(item);
        }
    })
    .expect("libtorch's pool only fails when its body throws, and this one cannot");
}

/// Runs `work` over contiguous parts of `0..len`, each at least `grain` long, on libtorch's threads.
fn for_parts<F: Fn(Range<usize>) + Sync>(len: usize, grain: usize, work: F) {
    torch_ext_sys::parallel_for(len, grain, work).expect("libtorch's pool only fails when its body throws");
}
