//! `e^x` of sixteen lanes.

use super::Simd;

/// Below this, `e^x` is under the smallest normal f32 and [`exp`] returns 0.
pub const UNDERFLOW: f32 = -87.336_54;

/// `e^x` for `x` up to 88; exactly 0 below -87.34 (so that a masked score of -∞ weighs nothing), exactly 1 at 0.
///
/// Off by at most two units in the last place (a relative error under 2.4e-7): the argument is reduced by multiples of ln 2 (held in two parts), then a
/// polynomial of degree 7 in the Taylor form serves |r| ≤ ln 2 / 2.
#[inline(always)]
pub unsafe fn exp<S: Simd>(x: S::V) -> S::V {
    // ln 2 in two parts; the first has so few bits that its product with n is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // 1/7!, 1/6!, … 1/2!: on this interval the truncated series is off by less than half an ulp.
    const COEFFICIENTS: [f32; 6] = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5];
    unsafe {
        let limit = S::splat(UNDERFLOW);
        // Written so that NaN stays NaN: `max` returns its second operand then.
        let clamped = S::max(limit, x);
        let n = S::round(S::mul(clamped, S::splat(std::f32::consts::LOG2_E)));
        let r = S::fma(n, S::splat(-LN2_HIGH), clamped);
        let r = S::fma(n, S::splat(-LN2_LOW), r);
        let mut p = S::splat(COEFFICIENTS[0]);
        for c in &COEFFICIENTS[1..] {
            p = S::fma(p, r, S::splat(*c));
        }
        let p = S::fma(S::mul(p, r), r, S::add(r, S::splat(1.0)));
        S::zero_below(x, limit, S::mul(p, S::exp2_integral(n)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kernel, LANES, Level, run_at};
    use super::*;

    /// What the documentation of [`exp`] states.
    const RELATIVE_ERROR: f64 = 2.4e-7;

    struct Map<'a>(&'a mut [f32]);

    impl Kernel for Map<'_> {
        type Output = ();

        #[inline(always)]
        unsafe fn run<S: Simd>(self) {
            for lanes in self.0.chunks_exact_mut(LANES) {
                unsafe { S::store(lanes.as_mut_ptr(), exp::<S>(S::load(lanes.as_ptr()))) };
            }
        }
    }

    #[test]
    fn error_is_within_the_stated_bound() {
        // Every 61st float of [-87.33, -1e-9], and the same above zero up to 88.
        let mut arguments: Vec<f32> = Vec::new();
        for (from, to, sign) in [(1e-9f32, 87.33f32, -1.0f32), (1e-9, 88.0, 1.0)] {
            arguments.extend((from.to_bits()..to.to_bits()).step_by(61).map(|bits| sign * f32::from_bits(bits)));
        }
        arguments.resize(arguments.len().next_multiple_of(LANES), -1.0);
        let mut values = arguments.clone();
        unsafe { run_at(Level::available()[0], Map(&mut values)) };
        let mut worst = 0f64;
        for (x, y) in arguments.iter().zip(&values) {
            let exact = f64::from(*x).exp();
            worst = worst.max(((f64::from(*y) - exact) / exact).abs());
        }
        assert!(worst < RELATIVE_ERROR, "{worst}");
        assert!(worst > RELATIVE_ERROR / 10.0, "the bound is so wide that it says nothing: {worst}");
    }

    #[test]
    fn ends_are_exact() {
        let mut lanes = [0.0f32; LANES];
        lanes[..4].copy_from_slice(&[0.0, f32::NEG_INFINITY, -88.0, f32::NAN]);
        for level in Level::available() {
            let mut values = lanes;
            unsafe { run_at(level, Map(&mut values)) };
            assert_eq!(values[..3], [1.0, 0.0, 0.0], "{level:?}");
            assert!(values[3].is_nan(), "{level:?}");
        }
    }
}
