//! Counts the bytes that are allocated, so that an input that makes a parser hoard memory is found.
//!
//! A global allocator is the only place that sees every allocation, and implementing one is the only reason for unsafe
//! code here. It refuses nothing: who exceeds a limit is decided by those who read the counters.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator with two counters.
pub struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes allocated now.
pub fn live() -> usize {
    LIVE.load(Relaxed)
}

/// The most bytes allocated at once since [`restart_peak`].
pub fn peak() -> usize {
    PEAK.load(Relaxed)
}

/// Forgets the peak so far; the bytes allocated now.
pub fn restart_peak() -> usize {
    let live = live();
    PEAK.store(live, Relaxed);
    live
}

fn grow(bytes: usize) {
    PEAK.fetch_max(LIVE.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

fn shrink(bytes: usize) {
    LIVE.fetch_sub(bytes, Relaxed);
}

// SAFETY: every call is handed to the system's allocator unchanged; the counters are only read for reports.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller keeps `alloc`'s contract, which is the system allocator's own.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: `pointer` came from `System` with this layout, since `alloc` and `realloc` ask nobody else.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grow(size);
        shrink(layout.size());
        // SAFETY: as for `dealloc`, and the caller vouches for `size`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
