//! A layer's steps between its matrix products, forward and backward, each in one sweep over memory: the norm, the
//! rotation of queries and keys, the gate.
//!
//! Each row is computed by the same arithmetic whatever rows surround it. A norm's weight gradient, the only sum over
//! rows, adds up blocks of a fixed number of rows in order, so it does not depend on the number of threads either.
//! What autograd needs is [`crate::nn`]'s to keep.

use super::cache::Shared;
use super::simd::{Kernel, LANES, Level, Simd, exp, run_at};
use super::tensors::Rows;

/// Values that are worth a thread of their own.
const GRAIN_VALUES: usize = 16 * 1024;
/// Rows whose contributions to a weight's gradient are added up before others join.
const SUM_ROWS: usize = 32;
/// `exp` takes no larger argument; a gate this far below zero is closed.
const CLOSED: f32 = -88.0;

fn grain(width: usize) -> usize {
    GRAIN_VALUES.div_ceil(width.max(1))
}

#[inline(always)]
unsafe fn load<S: Simd>(from: *const f32, count: usize) -> S::V {
    unsafe { if count >= LANES { S::load(from) } else { S::load_partial(from, count, 0.0) } }
}

#[inline(always)]
unsafe fn store<S: Simd>(to: *mut f32, count: usize, v: S::V) {
    unsafe { if count >= LANES { S::store(to, v) } else { S::store_partial(to, count, v) } }
}

/// `y = x · r · weight` with `r = 1 / sqrt(mean(x²) + eps)`, for every group of `weight.len()` values in a row.
/// `y` is `[N, width]`; `inv_rms` takes the `r` of each group.
///
/// # Panics
/// When a row is not a whole number of groups, or an output has another size.
pub fn rms_norm(x: Rows, weight: &[f32], eps: f32, y: &mut [f32], inv_rms: &mut [f32]) {
    let groups = x.width / weight.len();
    assert_eq!((groups * weight.len(), y.len(), inv_rms.len()), (x.width, x.len * x.width, x.len * groups));
    let (y, inv_rms) = (Shared(y.as_mut_ptr()), Shared(inv_rms.as_mut_ptr()));
    super::for_parts(x.len, grain(x.width), |part| {
        for index in part {
            let (row, width) = (x.row(index), weight.len());
            for group in 0..groups {
                let at = index * groups + group;
                let x = &row[group * width..][..width];
                // SAFETY: `best` is a level this machine has; every group has outputs of its own.
                unsafe {
                    let kernel = RmsNorm { x, weight, eps, y: y.get().add(at * width) };
                    inv_rms.get().add(at).write(run_at(Level::best(), kernel));
                }
            }
        }
    });
}

struct RmsNorm<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    eps: f32,
    y: *mut f32,
}

impl Kernel for RmsNorm<'_> {
    type Output = f32;

    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> f32 {
        let Self { x, weight, eps, y } = self;
        unsafe {
            let mut squares = S::splat(0.0);
            for start in (0..x.len()).step_by(LANES) {
                let v = load::<S>(x.as_ptr().add(start), x.len() - start);
                squares = S::fma(v, v, squares);
            }
            let inv_rms = 1.0 / (S::sum(squares) / x.len() as f32 + eps).sqrt();
            for start in (0..x.len()).step_by(LANES) {
                let count = x.len() - start;
                let normed = S::mul(load::<S>(x.as_ptr().add(start), count), S::splat(inv_rms));
                store::<S>(y.add(start), count, S::mul(normed, load::<S>(weight.as_ptr().add(start), count)));
            }
            inv_rms
        }
    }
}

/// The derivatives of [`rms_norm`] by `x` (`d_x`, `[N, width]`) and by the weight (returned), given that by `y`.
///
/// # Panics
/// As [`rms_norm`].
pub fn rms_norm_backward(x: Rows, weight: &[f32], inv_rms: &[f32], d_y: &[f32], d_x: &mut [f32]) -> Vec<f32> {
    let width = weight.len();
    let groups = x.width / width;
    assert_eq!((groups * width, d_y.len(), d_x.len()), (x.width, x.len * x.width, x.len * x.width));
    assert_eq!(inv_rms.len(), x.len * groups);
    let num_blocks = x.len.div_ceil(SUM_ROWS);
    let mut sums = vec![0.0; num_blocks * width];
    let (d_x, partial) = (Shared(d_x.as_mut_ptr()), Shared(sums.as_mut_ptr()));
    super::for_parts(num_blocks, grain(x.width * SUM_ROWS), |part| {
        for block in part {
            for at in block * SUM_ROWS * groups..(x.len.min((block + 1) * SUM_ROWS)) * groups {
                let x = &x.row(at / groups)[at % groups * width..][..width];
                let d_y = &d_y[at * width..][..width];
                // SAFETY: every group has a `d_x` of its own, every block sums of its own.
                unsafe {
                    let (d_x, d_weight) = (d_x.get().add(at * width), partial.get().add(block * width));
                    run_at(Level::best(), RmsNormBackward { x, weight, inv_rms: inv_rms[at], d_y, d_x, d_weight });
                }
            }
        }
    });
    let (total, rest) = sums.split_at_mut(width.min(num_blocks * width));
    for block in rest.chunks(width) {
        total.iter_mut().zip(block).for_each(|(total, x)| *total += x);
    }
    sums.resize(width, 0.0);
    sums
}

struct RmsNormBackward<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    inv_rms: f32,
    d_y: &'a [f32],
    d_x: *mut f32,
    d_weight: *mut f32,
}

impl Kernel for RmsNormBackward<'_> {
    type Output = ();

    /// `d_x = r (d_y · weight - x · r² mean(d_y · weight · x))`, `d_weight += d_y · x · r`.
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { x, weight, inv_rms, d_y, d_x, d_weight } = self;
        unsafe {
            let r = S::splat(inv_rms);
            let mut products = S::splat(0.0);
            for start in (0..x.len()).step_by(LANES) {
                let count = x.len() - start;
                let x = load::<S>(x.as_ptr().add(start), count);
                let d_y = load::<S>(d_y.as_ptr().add(start), count);
                let d_normed = S::mul(d_y, load::<S>(weight.as_ptr().add(start), count));
                products = S::fma(d_normed, x, products);
                let to = d_weight.add(start);
                store::<S>(to, count, S::fma(S::mul(d_y, x), r, load::<S>(to, count)));
            }
            let shrink = S::splat(-inv_rms * inv_rms * (S::sum(products) / x.len() as f32));
            for start in (0..x.len()).step_by(LANES) {
                let count = x.len() - start;
                let d_y = load::<S>(d_y.as_ptr().add(start), count);
                let d_normed = S::mul(d_y, load::<S>(weight.as_ptr().add(start), count));
                let x = load::<S>(x.as_ptr().add(start), count);
                store::<S>(d_x.add(start), count, S::mul(r, S::fma(x, shrink, d_normed)));
            }
        }
    }
}

/// Which way [`rotate`] turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// By the angle of each position.
    Forward,
    /// Back by it: the derivative of `Forward`.
    Backward,
}

/// Rotary embedding of all heads in a row: `y_e = x_e cos_e + x_(e + E/2 mod E) sin_e`.
///
/// `x` holds rows of whole heads; `cos` and `sin` (the first half negated) are `[N, E]`; row `i` of the result goes to
/// `y[i * y_stride..]`.
///
/// # Panics
/// When shapes disagree.
pub fn rotate(x: Rows, cos: Rows, sin: Rows, turn: Turn, y: &mut [f32], y_stride: usize) {
    let head_dim = cos.width;
    assert!(cos.len == x.len && sin.len == x.len && sin.width == head_dim, "one rotation per row");
    assert!(x.width.is_multiple_of(head_dim) && head_dim.is_multiple_of(2), "rows of whole heads");
    assert!(x.len == 0 || y.len() >= (x.len - 1) * y_stride + x.width && y_stride >= x.width, "the result has no room");
    let y = Shared(y.as_mut_ptr());
    super::for_parts(x.len, grain(x.width), |part| {
        for index in part {
            let (cos, sin, x) = (cos.row(index), sin.row(index), x.row(index));
            for head in (0..x.len()).step_by(head_dim) {
                // SAFETY: rows are disjoint and lie in `y`, as asserted; `best` is a level this machine has.
                unsafe {
                    let y = y.get().add(index * y_stride + head);
                    run_at(Level::best(), Rotate { x: &x[head..head + head_dim], cos, sin, turn, y });
                }
            }
        }
    });
}

struct Rotate<'a> {
    x: &'a [f32],
    cos: &'a [f32],
    sin: &'a [f32],
    turn: Turn,
    y: *mut f32,
}

impl Kernel for Rotate<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { x, cos, sin, turn, y } = self;
        let half = x.len() / 2;
        // The halves' sines are each other's negatives, so turning back takes the other half's.
        let shift = if turn == Turn::Forward { 0 } else { half };
        for first in [0, half] {
            let other = half - first;
            for start in (0..half).step_by(LANES) {
                let count = half - start;
                unsafe {
                    let turned = S::mul(
                        load::<S>(x.as_ptr().add(other + start), count),
                        load::<S>(sin.as_ptr().add((first + shift) % x.len() + start), count),
                    );
                    let kept = load::<S>(x.as_ptr().add(first + start), count);
                    let cos = load::<S>(cos.as_ptr().add(first + start), count);
                    store::<S>(y.add(first + start), count, S::fma(kept, cos, turned));
                }
            }
        }
    }
}

/// `silu(gate) · up` of rows that hold a gate and then as many values: `[N, 2 W]` to `[N, W]`.
///
/// # Panics
/// When `y` has another size.
pub fn silu_and_mul(gate_up: Rows, y: &mut [f32]) {
    let width = gate_up.width / 2;
    assert_eq!((2 * width, y.len()), (gate_up.width, gate_up.len * width));
    let y = Shared(y.as_mut_ptr());
    super::for_parts(gate_up.len, grain(gate_up.width), |part| {
        for index in part {
            let (gate, up) = gate_up.row(index).split_at(width);
            // SAFETY: every row has a result of its own; `best` is a level this machine has.
            unsafe { run_at(Level::best(), SiluAndMul { gate, up, y: y.get().add(index * width) }) };
        }
    });
}

struct SiluAndMul<'a> {
    gate: &'a [f32],
    up: &'a [f32],
    y: *mut f32,
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
unsafe fn sigmoid<S: Simd>(x: S::V) -> S::V {
    unsafe {
        // `max` returns its second operand where either is NaN.
        let negated = S::sub(S::splat(0.0), S::max(S::splat(CLOSED), x));
        S::div(S::splat(1.0), S::add(S::splat(1.0), exp::<S>(negated)))
    }
}

impl Kernel for SiluAndMul<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { gate, up, y } = self;
        for start in (0..gate.len()).step_by(LANES) {
            let count = gate.len() - start;
            unsafe {
                let gate = load::<S>(gate.as_ptr().add(start), count);
                let up = load::<S>(up.as_ptr().add(start), count);
                store::<S>(y.add(start), count, S::mul(S::mul(gate, sigmoid::<S>(gate)), up));
            }
        }
    }
}

/// The derivative of [`silu_and_mul`] by its rows, `[N, 2 W]`, given that by its result.
///
/// # Panics
/// When shapes disagree.
pub fn silu_and_mul_backward(gate_up: Rows, d_y: &[f32], d_gate_up: &mut [f32]) {
    let width = gate_up.width / 2;
    assert_eq!((d_y.len(), d_gate_up.len()), (gate_up.len * width, gate_up.len * gate_up.width));
    let d_gate_up = Shared(d_gate_up.as_mut_ptr());
    super::for_parts(gate_up.len, grain(gate_up.width), |part| {
        for index in part {
            let (gate, up) = gate_up.row(index).split_at(width);
            let d_y = &d_y[index * width..][..width];
            // SAFETY: every row has a result of its own; `best` is a level this machine has.
            unsafe {
                let d_gate = d_gate_up.get().add(index * 2 * width);
                run_at(Level::best(), SiluAndMulBackward { gate, up, d_y, d_gate, d_up: d_gate.add(width) });
            }
        }
    });
}

struct SiluAndMulBackward<'a> {
    gate: &'a [f32],
    up: &'a [f32],
    d_y: &'a [f32],
    d_gate: *mut f32,
    d_up: *mut f32,
}

impl Kernel for SiluAndMulBackward<'_> {
    type Output = ();

    /// With s = sigmoid(gate): `d_up = d_y gate s`, `d_gate = d_y up s (1 + gate (1 - s))`.
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { gate, up, d_y, d_gate, d_up } = self;
        for start in (0..gate.len()).step_by(LANES) {
            let count = gate.len() - start;
            unsafe {
                let gate = load::<S>(gate.as_ptr().add(start), count);
                let d_y = load::<S>(d_y.as_ptr().add(start), count);
                let s = sigmoid::<S>(gate);
                let one = S::splat(1.0);
                let slope = S::mul(s, S::fma(gate, S::sub(one, s), one));
                store::<S>(d_up.add(start), count, S::mul(d_y, S::mul(gate, s)));
                let up = load::<S>(up.as_ptr().add(start), count);
                store::<S>(d_gate.add(start), count, S::mul(S::mul(d_y, up), slope));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of both signs over a few orders of magnitude, and a gate that is closed.
    fn values(len: usize, salt: u32) -> Vec<f32> {
        let value = |i: usize| match (i as u32 + salt).wrapping_mul(2_654_435_761) {
            bits if bits.is_multiple_of(13) => -120.0,
            bits => (bits >> 8) as f32 / 2f32.powi(21) - 4.0,
        };
        (0..len).map(value).collect()
    }

    /// Everything the kernels write for rows of `width` values at `level`, as bits.
    fn outputs(level: Level, width: usize) -> Vec<u32> {
        let [x, weight, d_y, cos, sin] = [1, 2, 3, 4, 5].map(|salt| values(width, salt));
        let mut written = vec![vec![0f32; width]; 8];
        // SAFETY: the level is available, and every output has `width` values.
        let inv_rms = unsafe {
            let [y, d_x, d_weight, turned, back, gated, d_gate, d_up] =
                written.get_disjoint_mut([0, 1, 2, 3, 4, 5, 6, 7]).unwrap();
            let inv_rms = run_at(level, RmsNorm { x: &x, weight: &weight, eps: 1e-5, y: y.as_mut_ptr() });
            let (x, weight, d_y) = (&x[..], &weight[..], &d_y[..]);
            let (d_x, d_weight) = (d_x.as_mut_ptr(), d_weight.as_mut_ptr());
            run_at(level, RmsNormBackward { x, weight, inv_rms, d_y, d_x, d_weight });
            for (turn, y) in [(Turn::Forward, turned), (Turn::Backward, back)] {
                run_at(level, Rotate { x, cos: &cos, sin: &sin, turn, y: y.as_mut_ptr() });
            }
            run_at(level, SiluAndMul { gate: x, up: weight, y: gated.as_mut_ptr() });
            let (d_gate, d_up) = (d_gate.as_mut_ptr(), d_up.as_mut_ptr());
            run_at(level, SiluAndMulBackward { gate: x, up: weight, d_y, d_gate, d_up });
            inv_rms
        };
        written.concat().into_iter().chain([inv_rms]).map(f32::to_bits).collect()
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        for width in [2, 16, 30, 64, 100] {
            let best = outputs(Level::best(), width);
            for level in Level::available() {
                assert!(outputs(level, width) == best, "{level:?}, {width} values");
            }
        }
    }
}
