//! Sixteen lanes in two AVX2 registers.

use std::arch::x86_64::*;

use super::Simd;

/// AVX2 and FMA.
#[derive(Debug, Clone, Copy)]
pub struct Avx2;

/// Sums eight lanes by halves.
#[inline(always)]
pub unsafe fn sum8(v: __m256) -> f32 {
    unsafe {
        let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
        let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
        _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)))
    }
}

/// The largest of eight lanes.
#[inline(always)]
pub unsafe fn largest8(v: __m256) -> f32 {
    unsafe {
        let v = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
        let v = _mm_max_ps(v, _mm_movehl_ps(v, v));
        _mm_cvtss_f32(_mm_max_ss(v, _mm_movehdup_ps(v)))
    }
}

/// All bits set in the first `count` of eight lanes.
#[inline(always)]
unsafe fn first(count: usize) -> __m256i {
    unsafe {
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lanes)
    }
}

// SAFETY: the caller has checked for AVX2 and FMA.
unsafe impl Simd for Avx2 {
    type V = (__m256, __m256);
    const TILE: (usize, usize) = (3, 2);

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        unsafe { (_mm256_set1_ps(x), _mm256_set1_ps(x)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::V {
        unsafe { (_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))) }
    }
    #[inline(always)]
    unsafe fn load_partial(from: *const f32, count: usize, fill: f32) -> Self::V {
        unsafe {
            let (low, high) = (first(count), first(count.saturating_sub(8)));
            let fill = _mm256_set1_ps(fill);
            (
                _mm256_blendv_ps(fill, _mm256_maskload_ps(from, low), _mm256_castsi256_ps(low)),
                _mm256_blendv_ps(fill, _mm256_maskload_ps(from.wrapping_add(8), high), _mm256_castsi256_ps(high)),
            )
        }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, v: Self::V) {
        unsafe {
            _mm256_storeu_ps(to, v.0);
            _mm256_storeu_ps(to.add(8), v.1);
        }
    }
    #[inline(always)]
    unsafe fn store_partial(to: *mut f32, count: usize, v: Self::V) {
        unsafe {
            _mm256_maskstore_ps(to, first(count), v.0);
            _mm256_maskstore_ps(to.wrapping_add(8), first(count.saturating_sub(8)), v.1);
        }
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        unsafe { (_mm256_add_ps(a.0, b.0), _mm256_add_ps(a.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        unsafe { (_mm256_sub_ps(a.0, b.0), _mm256_sub_ps(a.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        unsafe { (_mm256_mul_ps(a.0, b.0), _mm256_mul_ps(a.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        unsafe { (_mm256_div_ps(a.0, b.0), _mm256_div_ps(a.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        unsafe { (_mm256_fmadd_ps(a.0, b.0, c.0), _mm256_fmadd_ps(a.1, b.1, c.1)) }
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        unsafe { (_mm256_max_ps(a.0, b.0), _mm256_max_ps(a.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn round(v: Self::V) -> Self::V {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        unsafe { (_mm256_round_ps::<NEAREST>(v.0), _mm256_round_ps::<NEAREST>(v.1)) }
    }
    #[inline(always)]
    unsafe fn exp2_integral(v: Self::V) -> Self::V {
        #[inline(always)]
        unsafe fn half(v: __m256) -> __m256 {
            unsafe {
                let biased = _mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(127));
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
            }
        }
        unsafe { (half(v.0), half(v.1)) }
    }
    #[inline(always)]
    unsafe fn zero_below(x: Self::V, limit: Self::V, v: Self::V) -> Self::V {
        unsafe {
            (
                _mm256_and_ps(_mm256_cmp_ps::<_CMP_NLT_UQ>(x.0, limit.0), v.0),
                _mm256_and_ps(_mm256_cmp_ps::<_CMP_NLT_UQ>(x.1, limit.1), v.1),
            )
        }
    }
    #[inline(always)]
    unsafe fn sum(v: Self::V) -> f32 {
        unsafe { sum8(_mm256_add_ps(v.0, v.1)) }
    }
    #[inline(always)]
    unsafe fn largest(v: Self::V) -> f32 {
        unsafe { largest8(_mm256_max_ps(v.0, v.1)) }
    }
}
