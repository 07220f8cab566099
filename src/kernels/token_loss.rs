//! One token per row of logits: its log-probability, the row's entropy, and the row's gradient written over the logits.
//!
//! A row is swept while it is in cache: maximum, sums, then (after the caller has named the loss's derivatives by the
//! two numbers) the gradient. A loss that needs the logits themselves has no place here. A row with NaN or infinite
//! logits gives NaN, never an error: the caller sees a loss that is not finite.

use super::cache::Shared;
use super::simd::{Kernel, LANES, Level, Simd, UNDERFLOW, exp, run_at};
use super::tensors::Rows;

/// Values whose sums are kept in f32 before they are added up in f64.
const CHUNK: usize = 64 * LANES;

/// What softmax(logits / temperature) of a row says of its target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenStats {
    /// Log-probability of the target.
    pub logprob: f32,
    /// Entropy of the distribution, in nats.
    pub entropy: f32,
}

/// A loss's derivatives by a row's [`TokenStats`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenGradient {
    /// By the log-probability.
    pub d_logprob: f32,
    /// By the entropy.
    pub d_entropy: f32,
}

/// The stats of `targets`, one for each row of `logits` (`[M, V]`), at a positive `temperature`.
///
/// # Panics
/// When a target is not in its row, or there are not as many as rows.
pub fn token_stats(logits: Rows, targets: &[i64], temperature: f64) -> Vec<TokenStats> {
    assert_eq!(logits.len, targets.len(), "one target per row");
    let mut stats = vec![TokenStats { logprob: 0.0, entropy: 0.0 }; targets.len()];
    let slots = SharedStats(stats.as_mut_ptr());
    super::for_each(targets.len(), |index| {
        let kernel = Measure { logits: logits.row(index), target: targets[index] as usize, temperature };
        // SAFETY: `best` is a level this machine has; each index is visited once.
        unsafe { slots.get().add(index).write(run_at(Level::best(), kernel).stats) };
    });
    stats
}

/// The same; then every row becomes the loss's derivative by that row's logits, given what `derivative` answers for
/// the row's index and stats. `derivative` runs on several threads.
///
/// # Panics
/// As [`token_stats`].
pub fn token_gradients_(
    logits: &mut [f32],
    targets: &[i64],
    temperature: f64,
    derivative: &(dyn Fn(usize, TokenStats) -> TokenGradient + Sync),
) -> Vec<TokenStats> {
    if targets.is_empty() {
        return Vec::new();
    }
    let width = logits.len() / targets.len();
    assert_eq!(logits.len(), width * targets.len(), "one target per row");
    let mut stats = vec![TokenStats { logprob: 0.0, entropy: 0.0 }; targets.len()];
    let (slots, values) = (SharedStats(stats.as_mut_ptr()), Shared(logits.as_mut_ptr()));
    super::for_each(targets.len(), |index| {
        // SAFETY: rows are disjoint and each index is visited once; `best` is a level this machine has.
        unsafe {
            let row = std::slice::from_raw_parts_mut(values.get().add(index * width), width);
            let target = targets[index] as usize;
            let measured = run_at(Level::best(), Measure { logits: row, target, temperature });
            slots.get().add(index).write(measured.stats);
            let gradient = derivative(index, measured.stats);
            run_at(Level::best(), Differentiate { row, target, temperature, measured, gradient });
        }
    });
    stats
}

#[derive(Clone, Copy)]
struct SharedStats(*mut TokenStats);

// SAFETY: shared by loops that write each element from one thread.
unsafe impl Send for SharedStats {}
unsafe impl Sync for SharedStats {}

impl SharedStats {
    fn get(&self) -> *mut TokenStats {
        self.0
    }
}

struct Measure<'a> {
    logits: &'a [f32],
    target: usize,
    temperature: f64,
}

#[derive(Clone, Copy)]
struct Measured {
    stats: TokenStats,
    max: f32,
    log_total: f64, // of the weights exp((logit - max) / temperature)
}

/// `(logit - max) / temperature` of sixteen logits, held above -∞ so that a weight of 0 times it stays 0.
#[inline(always)]
unsafe fn shifted<S: Simd>(logits: S::V, max: f32, factor: f32) -> S::V {
    unsafe { S::max(S::splat(2.0 * UNDERFLOW), S::mul(S::sub(logits, S::splat(max)), S::splat(factor))) }
}

impl Kernel for Measure<'_> {
    type Output = Measured;

    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> Measured {
        let Self { logits, target, temperature } = self;
        let factor = (1.0 / temperature) as f32;
        let (whole, rest) = logits.as_chunks::<LANES>();
        unsafe {
            let rest = S::load_partial(rest.as_ptr(), rest.len(), f32::NEG_INFINITY);
            let mut max = rest;
            for lanes in whole {
                max = S::max(max, S::load(lanes.as_ptr()));
            }
            let max = S::largest(max);
            let x = shifted::<S>(rest, max, factor);
            let weight = exp::<S>(x);
            let (mut total, mut weighted) = (f64::from(S::sum(weight)), f64::from(S::sum(S::mul(weight, x))));
            for chunk in whole.chunks(CHUNK / LANES) {
                let (mut sum, mut product) = (S::splat(0.0), S::splat(0.0));
                for lanes in chunk {
                    let x = shifted::<S>(S::load(lanes.as_ptr()), max, factor);
                    let weight = exp::<S>(x);
                    sum = S::add(sum, weight);
                    product = S::fma(weight, x, product);
                }
                total += f64::from(S::sum(sum));
                weighted += f64::from(S::sum(product));
            }
            let log_total = f64::ln(total);
            let logprob = f64::from(logits[target] - max) / temperature - log_total;
            let stats = TokenStats { logprob: logprob as f32, entropy: (log_total - weighted / total) as f32 };
            Measured { stats, max, log_total }
        }
    }
}

struct Differentiate<'a> {
    row: &'a mut [f32],
    target: usize,
    temperature: f64,
    measured: Measured,
    gradient: TokenGradient,
}

/// `d_logprob + d_entropy (ln p + entropy)` as `constant + slope · x`, with `x = factor · (logit - max)`, and the weight
/// `scale · e^x` it is multiplied by.
struct Line {
    max: f32,
    factor: f32,
    scale: f32,
    slope: f32,
    constant: f32,
}

impl Line {
    #[inline(always)]
    unsafe fn gradient<S: Simd>(&self, logits: S::V) -> S::V {
        unsafe {
            let x = shifted::<S>(logits, self.max, self.factor);
            let weight = S::mul(exp::<S>(x), S::splat(self.scale));
            S::mul(weight, S::fma(x, S::splat(self.slope), S::splat(self.constant)))
        }
    }
}

impl Kernel for Differentiate<'_> {
    type Output = ();

    /// With p = softmax: `d logit_j = (d_logprob (1[j = target] - p_j) - d_entropy p_j (ln p_j + entropy)) / temperature`.
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { row, target, temperature, measured, gradient: TokenGradient { d_logprob, d_entropy } } = self;
        if d_logprob == 0.0 && d_entropy == 0.0 {
            row.fill(0.0);
            return;
        }
        let factor = (1.0 / temperature) as f32;
        let scale = (-(-measured.log_total).exp() / temperature) as f32;
        let constant = d_logprob + d_entropy * (f64::from(measured.stats.entropy) - measured.log_total) as f32;
        let (tail_start, len) = (row.len() / LANES * LANES, row.len());
        unsafe {
            let line = Line { max: measured.max, factor, scale, slope: d_entropy, constant };
            for lanes in row[..tail_start].as_chunks_mut::<LANES>().0 {
                S::store(lanes.as_mut_ptr(), line.gradient::<S>(S::load(lanes.as_ptr())));
            }
            let tail = row[tail_start..].as_mut_ptr();
            let count = len - tail_start;
            S::store_partial(tail, count, line.gradient::<S>(S::load_partial(tail, count, f32::NEG_INFINITY)));
        }
        row[target] += d_logprob * factor;
    }
}
