//! Sixteen lanes in one AVX-512 register.

use std::arch::x86_64::*;

use super::Simd;

/// AVX-512 F and DQ.
#[derive(Debug, Clone, Copy)]
pub struct Avx512;

#[inline(always)]
fn first(count: usize) -> __mmask16 {
    ((1u32 << count) - 1) as __mmask16
}

#[inline(always)]
unsafe fn halves(v: __m512) -> (__m256, __m256) {
    unsafe { (_mm512_castps512_ps256(v), _mm512_extractf32x8_ps::<1>(v)) }
}

// SAFETY: the caller has checked for AVX-512 F and DQ.
unsafe impl Simd for Avx512 {
    type V = __m512;
    const TILE: (usize, usize) = (6, 4);

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::V {
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn load_partial(from: *const f32, count: usize, fill: f32) -> Self::V {
        unsafe { _mm512_mask_loadu_ps(_mm512_set1_ps(fill), first(count), from) }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, v: Self::V) {
        unsafe { _mm512_storeu_ps(to, v) }
    }
    #[inline(always)]
    unsafe fn store_partial(to: *mut f32, count: usize, v: Self::V) {
        unsafe { _mm512_mask_storeu_ps(to, first(count), v) }
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn round(v: Self::V) -> Self::V {
        unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(v) }
    }
    #[inline(always)]
    unsafe fn exp2_integral(v: Self::V) -> Self::V {
        unsafe {
            let biased = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased))
        }
    }
    #[inline(always)]
    unsafe fn zero_below(x: Self::V, limit: Self::V, v: Self::V) -> Self::V {
        unsafe { _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, limit), v) }
    }
    #[inline(always)]
    unsafe fn sum(v: Self::V) -> f32 {
        unsafe {
            let (low, high) = halves(v);
            super::avx2::sum8(_mm256_add_ps(low, high))
        }
    }
    #[inline(always)]
    unsafe fn largest(v: Self::V) -> f32 {
        unsafe {
            let (low, high) = halves(v);
            super::avx2::largest8(_mm256_max_ps(low, high))
        }
    }
}
