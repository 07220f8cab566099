//! Sixteen lanes as an array: the reference for the other two, and what runs where they cannot.

use super::{LANES, Simd};

/// Plain Rust.
#[derive(Debug, Clone, Copy)]
pub struct Portable;

#[inline(always)]
fn zip(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

#[inline(always)]
fn by_halves(mut v: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> f32 {
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            v[i] = f(v[i], v[i + half]);
        }
    }
    v[0]
}

#[inline(always)]
fn maxps(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

// SAFETY: needs no instructions beyond the target's own.
unsafe impl Simd for Portable {
    type V = [f32; LANES];
    const TILE: (usize, usize) = (2, 2);

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        [x; LANES]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::V {
        unsafe { from.cast::<Self::V>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_partial(from: *const f32, count: usize, fill: f32) -> Self::V {
        std::array::from_fn(|i| if i < count { unsafe { *from.add(i) } } else { fill })
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, v: Self::V) {
        unsafe { to.cast::<Self::V>().write_unaligned(v) };
    }
    #[inline(always)]
    unsafe fn store_partial(to: *mut f32, count: usize, v: Self::V) {
        for (i, x) in v.iter().enumerate().take(count) {
            unsafe { *to.add(i) = *x };
        }
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, maxps)
    }
    #[inline(always)]
    unsafe fn round(v: Self::V) -> Self::V {
        v.map(f32::round_ties_even)
    }
    #[inline(always)]
    unsafe fn exp2_integral(v: Self::V) -> Self::V {
        // Through i32 and wrapping, as the vector instructions do, so that NaN does not trap an overflow check.
        v.map(|x| f32::from_bits(((x as i32).wrapping_add(127) as u32) << 23))
    }
    #[inline(always)]
    unsafe fn zero_below(x: Self::V, limit: Self::V, v: Self::V) -> Self::V {
        std::array::from_fn(|i| if x[i] < limit[i] { 0.0 } else { v[i] })
    }
    #[inline(always)]
    unsafe fn sum(v: Self::V) -> f32 {
        by_halves(v, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn largest(v: Self::V) -> f32 {
        by_halves(v, maxps)
    }
}
