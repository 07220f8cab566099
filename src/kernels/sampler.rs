//! Draws tokens from logits: temperature, top-k, top-p, min-p and the token's log-probability, a row at a time.
//!
//! Two sweeps over a row give its maximum and its sum of exponentials, by chunks; the draw is then found by walking
//! the chunks' sums, so nothing of the row's length is written, sorted or normalised. The uniform number is the
//! caller's, and the inverse of the cumulative distribution runs in vocabulary order, so equal logits and equal
//! numbers give equal tokens. Rows are spread over libtorch's threads.

use super::simd::{Kernel, LANES, Level, Simd, exp, run_at};
use super::tensors::Rows;

/// Values whose maximum and sum are kept: the granularity at which a draw, or a large logit, is first located.
const CHUNK: usize = 8 * LANES;

/// Which token to take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Choice {
    /// The likeliest; the lowest id among equals.
    Greedy,
    /// The token whose share of the kept probability holds this number from [0, 1).
    Draw(f64),
    /// This one, for its log-probability.
    Given(u32),
}

/// How to choose from one row of logits. Filters apply in the order top-k, top-p, min-p, each to what the former left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Row of the logits.
    pub row: usize,
    /// Divides the logits; positive. Ignored when greedy.
    pub temperature: f32,
    /// Keep the `top_k` likeliest tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep the smallest set of likeliest tokens whose share reaches `top_p`; 1 keeps all.
    pub top_p: f64,
    /// Drop tokens less likely than `min_p` times the likeliest; 0 keeps all.
    pub min_p: f64,
    /// Which token.
    pub choice: Choice,
}

/// The chosen token and its log-probability under softmax(logits / temperature) before any filter; `NaN` where the
/// row held no usable distribution (NaN or infinite logits).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampled {
    /// The token.
    pub token: u32,
    /// Its log-probability.
    pub logprob: f32,
}

/// Samples once for each entry of `samplings` from `logits` (`[M, V]`).
///
/// # Panics
/// When a row or a given token is not there.
pub fn sample(logits: Rows, samplings: &[Sampling]) -> Vec<Sampled> {
    sample_at(Level::best(), logits, samplings)
}

fn sample_at(level: Level, logits: Rows, samplings: &[Sampling]) -> Vec<Sampled> {
    let slots: Vec<std::sync::OnceLock<Sampled>> = samplings.iter().map(|_| std::sync::OnceLock::new()).collect();
    super::for_each(samplings.len(), |index| {
        let sampling = samplings[index];
        let kernel = RowKernel { logits: logits.row(sampling.row), sampling };
        // SAFETY: the callers pass a level this machine has.
        let sampled = unsafe { run_at(level, kernel) };
        slots[index].set(sampled).expect("each index is visited once");
    });
    slots.into_iter().map(|slot| slot.into_inner().expect("each index is visited")).collect()
}

struct RowKernel<'a> {
    logits: &'a [f32],
    sampling: Sampling,
}

/// A row's softmax before normalisation: weight of a token = exp((logit - max) / temperature).
struct Row<'a> {
    logits: &'a [f32],
    max: f32,
    inverse_temperature: f32,
    /// Largest logit of each chunk.
    maxima: Vec<f32>,
    /// Sum of weights of each chunk.
    sums: Vec<f32>,
    total: f64,
}

impl Kernel for RowKernel<'_> {
    type Output = Sampled;

    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> Sampled {
        let Self { logits, sampling } = self;
        let temperature = if sampling.choice == Choice::Greedy { 1.0 } else { sampling.temperature };
        let row = unsafe { Row::measure::<S>(logits, 1.0 / temperature) };
        if !row.max.is_finite() || !row.total.is_finite() {
            return Sampled { token: 0, logprob: f32::NAN };
        }
        let token = match sampling.choice {
            Choice::Greedy => row.argmax(),
            Choice::Given(token) => token as usize,
            Choice::Draw(uniform) if sampling.keeps_all(logits.len()) => unsafe { row.draw::<S>(uniform) },
            Choice::Draw(uniform) => unsafe { row.draw_filtered::<S>(uniform, &sampling) },
        };
        let scaled = f64::from(logits[token] - row.max) * f64::from(row.inverse_temperature);
        Sampled { token: token as u32, logprob: (scaled - row.total.ln()) as f32 }
    }
}

impl Sampling {
    fn keeps_all(&self, vocab_size: usize) -> bool {
        (self.top_k == 0 || self.top_k >= vocab_size) && self.top_p >= 1.0 && self.min_p <= 0.0
    }
}

/// A token that filters may keep.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    logit: f32,
    token: usize,
    weight: f64,
}

/// Likeliest first, lower ids first among equals.
fn by_likelihood(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    b.logit.total_cmp(&a.logit).then(a.token.cmp(&b.token))
}

impl<'a> Row<'a> {
    #[inline(always)]
    unsafe fn measure<S: Simd>(logits: &'a [f32], inverse_temperature: f32) -> Self {
        let chunks = logits.len().div_ceil(CHUNK);
        let (mut maxima, mut sums) = (Vec::with_capacity(chunks), Vec::with_capacity(chunks));
        let (whole, rest) = logits.as_chunks::<CHUNK>();
        unsafe {
            for chunk in whole {
                let mut max = S::load(chunk.as_ptr());
                for first in (LANES..CHUNK).step_by(LANES) {
                    max = S::max(max, S::load(chunk.as_ptr().add(first)));
                }
                maxima.push(S::largest(max));
            }
            if !rest.is_empty() {
                maxima.push(rest.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            }
            let max = maxima.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let (offset, factor) = (S::splat(max), S::splat(inverse_temperature));
            for chunk in whole {
                let mut sum = S::splat(0.0);
                for first in (0..CHUNK).step_by(LANES) {
                    let shifted = S::sub(S::load(chunk.as_ptr().add(first)), offset);
                    sum = S::add(sum, exp::<S>(S::mul(shifted, factor)));
                }
                sums.push(S::sum(sum));
            }
            let mut row = Self { logits, max, inverse_temperature, maxima, sums, total: 0.0 };
            if !rest.is_empty() {
                let weights = row.chunk_weights::<S>(whole.len());
                row.sums.push(weights[..rest.len()].iter().sum());
            }
            row.total = row.sums.iter().map(|sum| f64::from(*sum)).sum();
            row
        }
    }

    /// Weights of one chunk's tokens; 0 past the end of the row.
    #[inline(always)]
    unsafe fn chunk_weights<S: Simd>(&self, chunk: usize) -> [f32; CHUNK] {
        let mut weights = [0.0; CHUNK];
        let logits = &self.logits[chunk * CHUNK..];
        for first in (0..CHUNK.min(logits.len())).step_by(LANES) {
            let count = LANES.min(logits.len() - first);
            unsafe {
                let logit = S::load_partial(logits.as_ptr().add(first), count, f32::NEG_INFINITY);
                let shifted = S::mul(S::sub(logit, S::splat(self.max)), S::splat(self.inverse_temperature));
                S::store(weights.as_mut_ptr().add(first), exp::<S>(shifted));
            }
        }
        weights
    }

    fn argmax(&self) -> usize {
        let chunk = self.maxima.iter().position(|max| *max == self.max).unwrap_or(0);
        let first = chunk * CHUNK;
        first + self.logits[first..].iter().position(|logit| *logit == self.max).unwrap_or(0)
    }

    #[inline(always)]
    unsafe fn draw<S: Simd>(&self, uniform: f64) -> usize {
        let mut left = uniform * self.total;
        let mut chunk = 0;
        // Chunks of no weight are never entered; the last chunk of any weight is where rounding can only end.
        for (index, sum) in self.sums.iter().enumerate() {
            if *sum > 0.0 {
                chunk = index;
                if left < f64::from(*sum) {
                    break;
                }
                left -= f64::from(*sum);
            }
        }
        let weights = unsafe { self.chunk_weights::<S>(chunk) };
        chunk * CHUNK + invert(weights.iter().map(|weight| f64::from(*weight)), left)
    }

    #[inline(always)]
    unsafe fn draw_filtered<S: Simd>(&self, uniform: f64, sampling: &Sampling) -> usize {
        let mut kept = unsafe { self.kept::<S>(sampling) };
        kept.sort_unstable_by_key(|candidate| candidate.token);
        let total: f64 = kept.iter().map(|candidate| candidate.weight).sum();
        kept[invert(kept.iter().map(|candidate| candidate.weight), uniform * total)].token
    }

    /// What the filters leave: always the likeliest token, whose weight is 1.
    #[inline(always)]
    unsafe fn kept<S: Simd>(&self, sampling: &Sampling) -> Vec<Candidate> {
        let Sampling { top_k, top_p, min_p, .. } = *sampling;
        let mut kept;
        let mut total = self.total;
        if top_k > 0 && top_k < self.logits.len() {
            kept = unsafe { self.at_least::<S>(self.bound_of(top_k)) };
            if kept.len() > top_k {
                kept.select_nth_unstable_by(top_k, by_likelihood);
                kept.truncate(top_k);
            }
            total = kept.iter().map(|candidate| candidate.weight).sum();
        } else if top_p < 1.0 {
            kept = unsafe { self.holding::<S>(top_p) };
        } else {
            // A little further down than min-p reaches, so that rounding here decides nothing.
            let reach = (1e-3 - min_p.ln() as f32) / self.inverse_temperature;
            kept = unsafe { self.at_least::<S>(self.max - reach) };
        }
        if top_p < 1.0 {
            keep_share(&mut kept, top_p, total);
        }
        kept.retain(|candidate| candidate.weight >= min_p);
        kept
    }

    /// The likeliest tokens down to some logit, together at least `share` of the total where rounding allows.
    #[inline(always)]
    unsafe fn holding<S: Simd>(&self, share: f64) -> Vec<Candidate> {
        for distance in [4.0, 8.0, 12.0] {
            let found = unsafe { self.at_least::<S>(self.max - distance / self.inverse_temperature) };
            if found.iter().map(|candidate| candidate.weight).sum::<f64>() >= share * self.total {
                return found;
            }
        }
        unsafe { self.at_least::<S>(f32::NEG_INFINITY) }
    }

    /// A logit that at least `count` tokens reach: the `count`-th largest chunk maximum, where there are so many.
    fn bound_of(&self, count: usize) -> f32 {
        if count > self.maxima.len() {
            return f32::NEG_INFINITY;
        }
        let mut maxima = self.maxima.clone();
        *maxima.select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a)).1
    }

    /// Tokens whose logit reaches `bound`.
    #[inline(always)]
    unsafe fn at_least<S: Simd>(&self, bound: f32) -> Vec<Candidate> {
        let mut found = Vec::new();
        for (chunk, _) in self.maxima.iter().enumerate().filter(|(_, max)| **max >= bound) {
            let weights = unsafe { self.chunk_weights::<S>(chunk) };
            let first = chunk * CHUNK;
            let logits = &self.logits[first..self.logits.len().min(first + CHUNK)];
            for (index, logit) in logits.iter().enumerate().filter(|(_, logit)| **logit >= bound) {
                found.push(Candidate { logit: *logit, token: first + index, weight: f64::from(weights[index]) });
            }
        }
        found
    }
}

/// Keeps the likeliest candidates up to and with the one at which their share of `total` reaches `share`.
fn keep_share(candidates: &mut Vec<Candidate>, share: f64, total: f64) {
    candidates.sort_unstable_by(by_likelihood);
    let mut sum = 0.0;
    let reached = candidates.iter().position(|candidate| {
        sum += candidate.weight;
        sum >= share * total
    });
    candidates.truncate(reached.map_or(candidates.len(), |index| index + 1));
}

/// Index of the weight whose interval of the cumulative sum holds `target`; never one of weight 0.
#[inline(always)]
fn invert(weights: impl Iterator<Item = f64>, target: f64) -> usize {
    let (mut sum, mut last) = (0.0, 0);
    for (index, weight) in weights.enumerate() {
        if weight > 0.0 {
            sum += weight;
            last = index;
            if target < sum {
                break;
            }
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use skein_core::random::Stream;

    /// f32 exponentials summed in f32 within chunks of 128: a relative error of some 1e-6 in the sum.
    const LOGPROB_TOLERANCE: f64 = 5e-6;
    /// A draw this close to a boundary of the cumulative distribution may fall to either side.
    const BOUNDARY: f64 = 1e-5;

    fn sampling(choice: Choice) -> Sampling {
        Sampling { row: 0, temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, choice }
    }

    fn rows(logits: &[f32]) -> Rows<'_> {
        Rows { data: logits, len: 1, width: logits.len(), stride: logits.len() }
    }

    fn logits(stream: &mut Stream, len: usize, spread: f32) -> Vec<f32> {
        (0..len).map(|_| ((0..12).map(|_| stream.uniform() as f32).sum::<f32>() - 6.0) * spread).collect()
    }

    /// The definition, in f64 and with a full sort: probabilities before filters, and the cumulative kept distribution.
    fn reference(logits: &[f32], sampling: &Sampling) -> (Vec<f64>, Vec<(usize, f64)>) {
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weight = |logit: &f32| (f64::from(logit - max) / f64::from(sampling.temperature)).exp();
        let total: f64 = logits.iter().map(weight).sum();
        let probabilities: Vec<f64> = logits.iter().map(|logit| weight(logit) / total).collect();
        let mut order: Vec<usize> = (0..logits.len()).collect();
        order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b)));
        if sampling.top_k > 0 {
            order.truncate(sampling.top_k);
        }
        let mass: f64 = order.iter().map(|token| probabilities[*token]).sum();
        let mut sum = 0.0;
        let cut = order.iter().position(|token| {
            sum += probabilities[*token];
            sum >= sampling.top_p * mass
        });
        order.truncate(cut.map_or(order.len(), |index| index + 1));
        let likeliest = probabilities[order[0]];
        order.retain(|token| probabilities[*token] >= sampling.min_p * likeliest);
        order.sort_unstable();
        let mass: f64 = order.iter().map(|token| probabilities[*token]).sum();
        let mut sum = 0.0;
        let cumulative = order.into_iter().map(|token| {
            sum += probabilities[token] / mass;
            (token, sum)
        });
        (probabilities.clone(), cumulative.collect())
    }

    #[test]
    fn draws_and_logprobs_match_the_definition() {
        let mut stream = Stream::new(5, "sampler", 0);
        let (mut checked, mut at_boundary) = (0, 0);
        for len in [1, 7, 128, 300, 5003] {
            for spread in [0.3, 2.0, 9.0] {
                let values = logits(&mut stream, len, spread);
                for (temperature, top_k, top_p, min_p) in [
                    (1.0, 0, 1.0, 0.0),
                    (0.7, 0, 1.0, 0.0),
                    (1.3, 5, 1.0, 0.0),
                    (1.0, 200, 1.0, 0.0),
                    (1.0, 0, 0.9, 0.0),
                    (1.5, 0, 0.999, 0.0),
                    (1.0, 0, 1.0, 0.05),
                    (0.8, 20, 0.8, 0.1),
                ] {
                    for _ in 0..20 {
                        let uniform = stream.uniform();
                        let choice = Choice::Draw(uniform);
                        let asked = Sampling { row: 0, temperature, top_k, top_p, min_p, choice };
                        let (probabilities, cumulative) = reference(&values, &asked);
                        let drawn = sample(rows(&values), &[asked])[0];
                        let exact = probabilities[drawn.token as usize].ln();
                        assert!((f64::from(drawn.logprob) - exact).abs() < LOGPROB_TOLERANCE, "{asked:?} {exact}");
                        let expected = cumulative.iter().find(|(_, sum)| uniform < *sum).map(|(token, _)| *token);
                        checked += 1;
                        if expected != Some(drawn.token as usize) {
                            let near = cumulative.iter().any(|(_, sum)| (uniform - sum).abs() < BOUNDARY);
                            assert!(near, "{asked:?}: {expected:?}, drawn {}", drawn.token);
                            at_boundary += 1;
                        }
                    }
                }
            }
        }
        assert!(at_boundary * 200 < checked, "{at_boundary} of {checked} draws fell to the other side");
    }

    #[test]
    fn filters_keep_what_they_say_at_the_ends_of_the_unit_interval() {
        let values = [1.0, 3.0, 2.0, 3.0, -50.0, 0.0].map(|x: f32| x);
        let ends = |filter: Sampling| {
            [0.0, 1.0 - f64::EPSILON / 2.0]
                .map(|uniform| sample(rows(&values), &[Sampling { choice: Choice::Draw(uniform), ..filter }])[0].token)
        };
        let all = sampling(Choice::Greedy);
        assert_eq!(ends(all), [0, 5]);
        assert_eq!(ends(Sampling { top_k: 1, ..all }), [1, 1], "the lower id among equals");
        assert_eq!(ends(Sampling { top_k: 3, ..all }), [1, 3]);
        assert_eq!(ends(Sampling { top_p: 0.01, ..all }), [1, 1]);
        assert_eq!(ends(Sampling { top_p: 0.5, ..all }), [1, 3]);
        assert_eq!(ends(Sampling { min_p: 1.0, ..all }), [1, 3]);
        assert_eq!(ends(Sampling { min_p: 0.3, ..all }), [1, 3]);
        assert_eq!(sample(rows(&values), &[all])[0].token, 1);
    }

    #[test]
    fn given_and_greedy_tokens_have_their_logprob() {
        let values: Vec<f32> = (0..1000).map(|i| ((i * 37) % 101) as f32 / 10.0).collect();
        let max = 10.0f64;
        let total: f64 = values.iter().map(|x| (f64::from(*x) - max).exp()).sum();
        let greedy = sample(rows(&values), &[sampling(Choice::Greedy)])[0];
        assert_eq!(f64::from(values[greedy.token as usize]), max);
        assert!((f64::from(greedy.logprob) + total.ln()).abs() < LOGPROB_TOLERANCE);
        let given = sample(rows(&values), &[sampling(Choice::Given(3))])[0];
        let exact = f64::from(values[3]) - max - total.ln();
        assert!(given.token == 3 && (f64::from(given.logprob) - exact).abs() < LOGPROB_TOLERANCE);
    }

    #[test]
    fn every_level_draws_the_same() {
        let mut stream = Stream::new(6, "levels", 0);
        let values = logits(&mut stream, 3 * 4999, 2.0);
        let logits = Rows { data: &values, len: 3, width: 4999, stride: 4999 };
        let asked: Vec<Sampling> = (0..60)
            .map(|i| Sampling {
                row: i % 3,
                temperature: 0.9,
                top_k: if i % 2 == 0 { 0 } else { 40 },
                top_p: if i % 5 == 0 { 0.95 } else { 1.0 },
                min_p: 0.0,
                choice: Choice::Draw(stream.uniform()),
            })
            .collect();
        let best = sample(logits, &asked);
        for level in Level::available() {
            assert_eq!(sample_at(level, logits, &asked), best, "{level:?}");
        }
    }

    #[test]
    fn broken_logits_are_reported_not_drawn_from() {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut values = vec![0.5; 300];
            values[200] = bad;
            let drawn = sample(rows(&values), &[sampling(Choice::Draw(0.5)), sampling(Choice::Greedy)]);
            assert!(drawn.iter().all(|sampled| sampled.logprob.is_nan()), "{bad}");
        }
        let masked = [f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY];
        let drawn = sample(rows(&masked), &[sampling(Choice::Draw(0.999))])[0];
        assert_eq!((drawn.token, drawn.logprob), (1, 0.0));
    }
}
