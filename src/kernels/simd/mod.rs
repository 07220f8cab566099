//! Sixteen f32 lanes, the one vector type every kernel is written in.
//!
//! A kernel is one generic body ([`Kernel`]) that [`run_at`] instantiates for AVX-512, for AVX2 with FMA and for
//! plain Rust; [`Level::best`] picks at run time. Every implementation has sixteen lanes, fused multiply-add and the same order of
//! reductions, so the three give the same bits: a result does not depend on the machine's vector width, and the tests
//! compare them exactly.

use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod exp;
mod portable;

pub use exp::{UNDERFLOW, exp};
pub use portable::Portable;

/// Lanes of a vector.
pub const LANES: usize = 16;

/// Operations on sixteen f32 lanes.
///
/// # Safety
/// Every function may only run where the implementation's instructions exist (see [`Level::available`]); pointers must be
/// valid for the lanes they name, with no alignment demanded.
pub unsafe trait Simd: Copy + Send + Sync + 'static {
    /// Sixteen lanes.
    type V: Copy;
    /// Rows and column vectors of a register tile: as many accumulators as the registers hold.
    const TILE: (usize, usize);

    /// All lanes equal `x`.
    unsafe fn splat(x: f32) -> Self::V;
    /// Sixteen values from `from`.
    unsafe fn load(from: *const f32) -> Self::V;
    /// The first `count` (at most 16) values from `from`, the other lanes `fill`.
    unsafe fn load_partial(from: *const f32, count: usize, fill: f32) -> Self::V;
    /// Writes sixteen values.
    unsafe fn store(to: *mut f32, v: Self::V);
    /// Writes the first `count` (at most 16) lanes.
    unsafe fn store_partial(to: *mut f32, count: usize, v: Self::V);
    /// `a + b`.
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`.
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`.
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// `a / b`.
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The larger of each pair; `b` where either is NaN.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// Rounded to the nearest integer, ties to even.
    unsafe fn round(v: Self::V) -> Self::V;
    /// `2^v` for integral lanes in -126..=127.
    unsafe fn exp2_integral(v: Self::V) -> Self::V;
    /// `v` where `x >= limit` or `x` is NaN, 0 elsewhere.
    unsafe fn zero_below(x: Self::V, limit: Self::V, v: Self::V) -> Self::V;
    /// The sum of all lanes, by halves: lane `i` with `i + 8`, then `i + 4`, `i + 2`, `i + 1`.
    unsafe fn sum(v: Self::V) -> f32;
    /// The largest lane.
    unsafe fn largest(v: Self::V) -> f32;
}

/// A computation written once for every vector width.
pub trait Kernel {
    /// What it returns.
    type Output;
    /// The computation. Mark it, and everything it calls, `#[inline(always)]`: only what is inlined into [`run_at`]'s
    /// entry points is compiled with their instructions.
    ///
    /// # Safety
    /// `S`'s instructions must exist here.
    unsafe fn run<S: Simd>(self) -> Self::Output;
}

/// Instruction sets a kernel can run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// AVX-512 F.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// No intrinsics.
    Portable,
}

impl Level {
    /// What this machine has, best first.
    pub fn available() -> Vec<Self> {
        let mut levels = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
                levels.push(Self::Avx512);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                levels.push(Self::Avx2);
            }
        }
        levels.push(Self::Portable);
        levels
    }

    /// The first of [`Level::available`].
    pub fn best() -> Self {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| Self::available()[0])
    }
}

/// Runs `kernel` at `level`.
///
/// # Safety
/// `level` must be one of [`Level::available`].
pub unsafe fn run_at<K: Kernel>(level: Level, kernel: K) -> K::Output {
    unsafe {
        match level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => run_avx512(kernel),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => run_avx2(kernel),
            Level::Portable => kernel.run::<Portable>(),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
unsafe fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    unsafe { kernel.run::<avx512::Avx512>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    unsafe { kernel.run::<avx2::Avx2>() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation once, on values that tell lanes apart; returned as bits so that NaN compares too.
    struct Everything<'a>(&'a [f32; LANES], &'a [f32; LANES]);

    impl Kernel for Everything<'_> {
        type Output = Vec<u32>;

        #[inline(always)]
        unsafe fn run<S: Simd>(self) -> Vec<u32> {
            unsafe {
                let (a, b) = (S::load(self.0.as_ptr()), S::load(self.1.as_ptr()));
                let vectors = [
                    S::splat(1.25),
                    S::load_partial(self.0.as_ptr(), 5, -1.0),
                    S::load_partial(self.0.as_ptr(), 16, -1.0),
                    S::add(a, b),
                    S::sub(a, b),
                    S::mul(a, b),
                    S::div(a, b),
                    S::fma(a, b, a),
                    S::max(a, b),
                    S::round(a),
                    S::exp2_integral(S::round(b)),
                    S::zero_below(a, b, a),
                    exp::<S>(a),
                ];
                let mut out = vec![S::sum(a).to_bits(), S::largest(a).to_bits()];
                for v in vectors {
                    let mut lanes = [0.0; LANES];
                    S::store(lanes.as_mut_ptr(), v);
                    out.extend(lanes.map(f32::to_bits));
                    let mut lanes = [7.0; LANES];
                    S::store_partial(lanes.as_mut_ptr(), 3, v);
                    out.extend(lanes.map(f32::to_bits));
                }
                out
            }
        }
    }

    #[test]
    fn every_level_gives_the_same_bits() {
        let a = std::array::from_fn(|i| [0.1f32, -2.5, 3.7e-3, 88.0, -0.5, -91.0, 1.5, 1e20][i % 8] * (1.0 + i as f32));
        let b = std::array::from_fn(|i| 40.3 - 9.7 * i as f32);
        let portable = unsafe { run_at(Level::Portable, Everything(&a, &b)) };
        for level in Level::available() {
            assert_eq!(unsafe { run_at(level, Everything(&a, &b)) }, portable, "{level:?}");
        }
    }
}
