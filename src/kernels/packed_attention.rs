//! Causal grouped-query attention over packed prompt groups, forward and backward: what the trainer needs.
//!
//! Each completion of a group reads its prompt's keys and values where they lie, so nothing is copied, padded or masked, and
//! nothing of size queries × keys outlives a block of queries. The forward pass keeps one number a query and head, the
//! logarithm of its sum of weights; the backward pass computes the weights from it again.
//!
//! Legend: `N` packed tokens, `H` query heads, `K` kv heads, `E` head size.

use std::ops::Range;

use super::cache::{Heads, Shared};
use super::simd::{Kernel, LANES, Level, Simd, exp, run_at};
use super::small_product::SmallProduct;
use super::tensors::Rows;

/// Scores of a block: they stay in a core's second-level cache.
const BLOCK_SCORES: usize = 48 * 1024;
/// Rows (query token × head) of a block at most: more gain nothing.
const BLOCK_ROWS: usize = 96;

/// Consecutive tokens of one sequence, and the tokens before them that all of them see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// A prompt's tokens; empty where `own` starts the sequence.
    pub prefix: Range<usize>,
    /// The tokens themselves: each sees those up to itself.
    pub own: Range<usize>,
}

/// One layer's attention over groups of runs. The runs' own tokens are all there are, in order; a prefix lies within its
/// group, before the run.
#[derive(Debug, Clone, Copy)]
pub struct PackedAttention<'a> {
    /// The runs, by group.
    pub groups: &'a [Vec<Run>],
    /// Heads and head size.
    pub heads: Heads,
    /// Factor on `q · k`.
    pub scale: f32,
    /// Each query sees at most this many latest positions, itself included.
    pub window: Option<usize>,
    /// Queries, `[N, H E]`.
    pub q: Rows<'a>,
    /// Keys, `[N, K E]`.
    pub k: Rows<'a>,
    /// Values, `[N, K E]`.
    pub v: Rows<'a>,
    /// Keys again, `[K, E, N]`.
    pub k_transposed: &'a [f32],
}

/// Derivatives by queries, keys and values, shaped like them and contiguous.
#[derive(Debug)]
pub struct Gradients<'a> {
    /// `[N, H E]`.
    pub q: &'a mut [f32],
    /// `[N, K E]`; zeros before.
    pub k: &'a mut [f32],
    /// `[N, K E]`; zeros before.
    pub v: &'a mut [f32],
}

/// Queries that are computed together.
#[derive(Debug, Clone)]
struct Block<'a> {
    run: &'a Run,
    /// Offsets of the queries into the run's own tokens.
    queries: Range<usize>,
    /// Positions of the first key that any of them sees to the last.
    keys: Range<usize>,
}

impl PackedAttention<'_> {
    /// Writes every run's attention to `out` (`[N, H E]`) and the logarithms of the sums of weights to `log_sums` (`[N, H]`).
    ///
    /// # Panics
    /// When shapes disagree or the runs are not those of the tokens.
    pub fn forward(&self, out: &mut [f32], log_sums: &mut [f32]) {
        self.check(out.len(), log_sums.len());
        let (out, log_sums) = (Shared(out.as_mut_ptr()), Shared(log_sums.as_mut_ptr()));
        let blocks: Vec<Block<'_>> = self.groups.iter().flatten().flat_map(|run| self.blocks(run)).collect();
        let kv_heads = self.heads.num_kv_heads;
        super::for_each(blocks.len() * kv_heads, |item| {
            // SAFETY: shapes are checked, and each item writes the outputs of its own queries and heads.
            unsafe { self.forward_block(&blocks[item / kv_heads], item % kv_heads, out, log_sums) };
        });
    }

    /// The derivatives, given those by the output (`[N, H E]`) and what [`PackedAttention::forward`] wrote.
    /// `v_transposed` is the values as `[K, E, N]`.
    ///
    /// # Panics
    /// As `forward`.
    pub fn backward(&self, v_transposed: &[f32], log_sums: &[f32], d_out: &[f32], gradients: Gradients<'_>) {
        self.check(d_out.len(), log_sums.len());
        let width = self.k.width * self.k.len;
        assert!(v_transposed.len() == width && gradients.q.len() == d_out.len(), "gradients of another shape");
        assert!(gradients.k.len() == width && gradients.v.len() == width, "gradients of another shape");
        let given = Given { v_transposed, log_sums, d_out };
        let (mut k_rest, mut v_rest) = (vec![0.0; width], vec![0.0; width]);
        let d_q = Shared(gradients.q.as_mut_ptr());
        let d_kv = [[&mut *gradients.k, &mut *gradients.v], [&mut k_rest[..], &mut v_rest[..]]];
        let d_kv = d_kv.map(|half| half.map(|gradient| Shared(gradient.as_mut_ptr())));
        let halves: Vec<[&[Run]; 2]> = self.groups.iter().map(|group| halves(group)).collect();
        let kv_heads = self.heads.num_kv_heads;
        super::for_each(2 * halves.len() * kv_heads, |item| {
            let (half, kv_head) = (item / kv_heads % 2, item % kv_heads);
            for run in halves[item / (2 * kv_heads)][half] {
                for block in self.blocks(run) {
                    let [d_k, d_v] = d_kv[half];
                    // SAFETY: shapes are checked, and each item writes to its own half's queries, group and heads.
                    unsafe { self.backward_block(&block, kv_head, &given, [d_q, d_k, d_v]) };
                }
            }
        });
        for (sum, rest) in [(gradients.k, k_rest), (gradients.v, v_rest)] {
            sum.iter_mut().zip(rest).for_each(|(sum, rest)| *sum += rest);
        }
    }

    fn check(&self, outputs: usize, log_sums: usize) {
        let (heads, tokens) = (self.heads, self.q.len);
        let kv_width = heads.num_kv_heads * heads.head_dim;
        assert!(
            self.q.width == heads.num_heads * heads.head_dim && outputs == tokens * self.q.width,
            "queries disagree"
        );
        assert!(self.k.width == kv_width && self.v.width == kv_width, "keys or values of another width");
        assert!(self.k.len == tokens && self.v.len == tokens && self.k_transposed.len() == tokens * kv_width);
        assert!(log_sums == tokens * heads.num_heads, "one sum for each query and head");
        assert!(heads.num_heads.is_multiple_of(heads.num_kv_heads), "a kv head serves whole query heads");
        let mut next = 0;
        for group in self.groups {
            let start = next;
            for Run { prefix, own } in group {
                assert!(own.start == next && own.end >= next, "runs follow each other without a gap");
                assert!(
                    prefix.is_empty() || (start <= prefix.start && prefix.end <= own.start),
                    "a prefix of another group"
                );
                next = own.end;
            }
        }
        assert_eq!(next, tokens, "every token belongs to a run");
    }

    fn blocks<'r>(&self, run: &'r Run) -> Vec<Block<'r>> {
        let (prefix, len, ratio) = (run.prefix.len(), run.own.len(), self.heads.queries_per_kv());
        let rows = (BLOCK_SCORES / (prefix + len).max(1)).min(BLOCK_ROWS);
        let tokens = (rows / ratio).max(1);
        (0..len)
            .step_by(tokens)
            .map(|start| {
                let queries = start..len.min(start + tokens);
                let keys = self.seen(prefix + start).start..prefix + queries.end;
                Block { run, queries, keys }
            })
            .collect()
    }

    /// Positions that a query at `position` sees.
    fn seen(&self, position: usize) -> Range<usize> {
        self.window.map_or(0, |window| (position + 1).saturating_sub(window))..position + 1
    }

    fn rows(&self, block: &Block<'_>) -> usize {
        block.queries.len() * self.heads.queries_per_kv()
    }

    /// The block's rows of one kv head, `[rows, E]`, times `scale`; `from` gives a token's `[H E]`.
    fn gather<'r>(&self, block: &Block<'_>, kv_head: usize, from: impl Fn(usize) -> &'r [f32], scale: f32) -> Vec<f32> {
        let width = self.heads.queries_per_kv() * self.heads.head_dim;
        let mut rows = Vec::with_capacity(block.queries.len() * width);
        for query in block.queries.clone() {
            let row = &from(block.run.own.start + query)[kv_head * width..][..width];
            rows.extend(row.iter().map(|x| x * scale));
        }
        rows
    }

    /// `[rows, keys]` of `rows · columns`, `columns` being a `[K, E, N]` array.
    unsafe fn scores(&self, block: &Block<'_>, kv_head: usize, rows: &[f32], columns: &[f32]) -> Vec<f32> {
        let (head_dim, tokens) = (self.heads.head_dim, self.q.len);
        let mut scores = vec![0.0; self.rows(block) * block.keys.len()];
        for (first, keys) in block.pieces() {
            // SAFETY: the piece's keys are tokens, and its columns lie within `scores`.
            unsafe {
                let product = SmallProduct {
                    m: self.rows(block),
                    n: keys.len(),
                    k: head_dim,
                    a: (rows.as_ptr(), head_dim, 1),
                    b: (columns.as_ptr().add(kv_head * head_dim * tokens + keys.start), tokens),
                    c: (scores.as_mut_ptr().add(first), block.keys.len()),
                    add: false,
                };
                run_at(Level::best(), product);
            }
        }
        scores
    }

    /// `[rows, E]`: the sums of `columns`' rows (`[N, K E]`) under `weights` (`[rows, keys]`).
    unsafe fn weighted(&self, block: &Block<'_>, kv_head: usize, weights: &[f32], columns: Rows<'_>) -> Vec<f32> {
        let head_dim = self.heads.head_dim;
        let mut sums = vec![0.0; self.rows(block) * head_dim];
        for (first, keys) in block.pieces() {
            // SAFETY: the piece's keys are tokens, and its weights lie within `weights`.
            unsafe {
                let product = SmallProduct {
                    m: self.rows(block),
                    n: head_dim,
                    k: keys.len(),
                    a: (weights.as_ptr().add(first), block.keys.len(), 1),
                    b: (columns.data.as_ptr().add(keys.start * columns.stride + kv_head * head_dim), columns.stride),
                    c: (sums.as_mut_ptr(), head_dim),
                    add: true,
                };
                run_at(Level::best(), product);
            }
        }
        sums
    }

    /// Adds to every key's row of `to` (`[N, K E]`) the sum of `rows` (`[rows, E]`) under its `weights`.
    unsafe fn spread(&self, block: &Block<'_>, kv_head: usize, weights: &[f32], rows: &[f32], to: Shared) {
        let (head_dim, width) = (self.heads.head_dim, self.k.width);
        for (first, keys) in block.pieces() {
            // SAFETY: as in `weighted`.
            unsafe {
                let product = SmallProduct {
                    m: keys.len(),
                    n: head_dim,
                    k: self.rows(block),
                    a: (weights.as_ptr().add(first), 1, block.keys.len()),
                    b: (rows.as_ptr(), head_dim),
                    c: (to.get().add(keys.start * width + kv_head * head_dim), width),
                    add: true,
                };
                run_at(Level::best(), product);
            }
        }
    }

    /// For each row of a block: its query's token, its head, and the columns of its scores that it sees.
    fn targets(&self, block: &Block<'_>, kv_head: usize) -> impl Iterator<Item = (usize, usize, Range<usize>)> {
        let (ratio, prefix) = (self.heads.queries_per_kv(), block.run.prefix.len());
        let (own, first) = (block.run.own.start, block.keys.start);
        block.queries.clone().flat_map(move |query| {
            let seen = self.seen(prefix + query);
            let columns = seen.start - first..seen.end - first;
            (0..ratio).map(move |head| (own + query, kv_head * ratio + head, columns.clone()))
        })
    }

    unsafe fn forward_block(&self, block: &Block<'_>, kv_head: usize, out: Shared, log_sums: Shared) {
        let (heads, num_keys) = (self.heads, block.keys.len());
        let q = self.gather(block, kv_head, |token| self.q.row(token), self.scale);
        // SAFETY: the caller's; every row has outputs of its own.
        unsafe {
            let mut weights = self.scores(block, kv_head, &q, self.k_transposed);
            let sums: Vec<f32> = self
                .targets(block, kv_head)
                .zip(weights.chunks_mut(num_keys))
                .map(|((token, head, seen), scores)| {
                    let (max, sum) = run_at(Level::best(), Exponentials { scores, seen });
                    log_sums.get().add(token * heads.num_heads + head).write(max + sum.ln());
                    sum
                })
                .collect();
            let values = self.weighted(block, kv_head, &weights, self.v);
            for (((token, head, _), values), sum) in
                self.targets(block, kv_head).zip(values.chunks(heads.head_dim)).zip(sums)
            {
                let to = out.get().add((token * heads.num_heads + head) * heads.head_dim);
                for (e, value) in values.iter().enumerate() {
                    to.add(e).write(value / sum);
                }
            }
        }
    }

    /// With weights `p = exp(s - log_sum)`: `d_v += pᵀ d_out`, `d_s = p (d_p - Σ p d_p)` where `d_p = d_out vᵀ`,
    /// `d_q = scale d_s k`, `d_k += scale d_sᵀ q`.
    unsafe fn backward_block(&self, block: &Block<'_>, kv_head: usize, given: &Given<'_>, to: [Shared; 3]) {
        let (heads, num_keys) = (self.heads, block.keys.len());
        let q = self.gather(block, kv_head, |token| self.q.row(token), self.scale);
        let d_out = self.gather(block, kv_head, |token| &given.d_out[token * self.q.width..], 1.0);
        let [to_q, to_k, to_v] = to;
        // SAFETY: the caller's; every query and head has a `d_q` of its own.
        unsafe {
            let mut weights = self.scores(block, kv_head, &q, self.k_transposed);
            let mut d_weights = self.scores(block, kv_head, &d_out, given.v_transposed);
            let rows = weights.chunks_mut(num_keys).zip(d_weights.chunks_mut(num_keys));
            for ((token, head, seen), (scores, d_scores)) in self.targets(block, kv_head).zip(rows) {
                let log_sum = given.log_sums[token * heads.num_heads + head];
                run_at(Level::best(), ScoreGradients { scores, d_scores, seen, log_sum });
            }
            self.spread(block, kv_head, &weights, &d_out, to_v);
            self.spread(block, kv_head, &d_weights, &q, to_k);
            let d_q = self.weighted(block, kv_head, &d_weights, self.k);
            for ((token, head, _), d_q) in self.targets(block, kv_head).zip(d_q.chunks(heads.head_dim)) {
                let to = to_q.get().add((token * heads.num_heads + head) * heads.head_dim);
                for (e, value) in d_q.iter().enumerate() {
                    to.add(e).write(value * self.scale);
                }
            }
        }
    }
}

/// A group's runs in two parts of about as much work, so that there is some for every thread where groups are few. Only
/// prompts get gradients from both; how they are added does not depend on the number of threads.
fn halves(group: &[Run]) -> [&[Run]; 2] {
    let work = |run: &Run| run.own.len() * (run.prefix.len() + run.own.len() / 2);
    let half = group.iter().map(work).sum::<usize>() / 2;
    let mut before = 0;
    let begins_in_first = |run: &&Run| {
        before += work(run);
        before - work(run) < half
    };
    let first = group.iter().take_while(begins_in_first).count();
    let (first, second) = group.split_at(first);
    [first, second]
}

/// What a backward pass reads besides the forward pass's inputs.
struct Given<'a> {
    v_transposed: &'a [f32],
    log_sums: &'a [f32],
    d_out: &'a [f32],
}

impl Block<'_> {
    /// The block's keys as runs of tokens, each with the column of its first.
    fn pieces(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        let Range { start, end } = self.keys;
        let (prefix, own) = (&self.run.prefix, &self.run.own);
        let len = prefix.len();
        let shared = prefix.start + start.min(len)..prefix.start + end.min(len);
        let first_own = start.max(len);
        let others = own.start + first_own - len..own.start + end.max(first_own) - len;
        [(0, shared), (first_own - start, others)].into_iter().filter(|(_, keys)| !keys.is_empty())
    }
}

/// Turns a row's scores into `exp(score - max)`, 0 for unseen keys; returns the maximum and the sum.
struct Exponentials<'a> {
    scores: &'a mut [f32],
    seen: Range<usize>,
}

impl Kernel for Exponentials<'_> {
    type Output = (f32, f32);

    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> (f32, f32) {
        let Self { scores, seen } = self;
        scores[..seen.start].fill(0.0);
        scores[seen.end..].fill(0.0);
        let scores = &mut scores[seen];
        unsafe {
            let mut max = S::splat(f32::NEG_INFINITY);
            for start in (0..scores.len()).step_by(LANES) {
                let count = (scores.len() - start).min(LANES);
                max = S::max(S::load_partial(scores.as_ptr().add(start), count, f32::NEG_INFINITY), max);
            }
            let max = S::largest(max);
            let mut sum = S::splat(0.0);
            for start in (0..scores.len()).step_by(LANES) {
                let count = (scores.len() - start).min(LANES);
                let at = scores.as_mut_ptr().add(start);
                let weight = exp::<S>(S::sub(S::load_partial(at, count, f32::NEG_INFINITY), S::splat(max)));
                S::store_partial(at, count, weight);
                sum = S::add(sum, weight);
            }
            (max, S::sum(sum))
        }
    }
}

/// Turns a row's scores into weights, and the derivatives by the weights into those by the scores; 0 for unseen keys.
struct ScoreGradients<'a> {
    scores: &'a mut [f32],
    d_scores: &'a mut [f32],
    seen: Range<usize>,
    log_sum: f32,
}

impl Kernel for ScoreGradients<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { scores, d_scores, seen, log_sum } = self;
        for row in [&mut *scores, &mut *d_scores] {
            row[..seen.start].fill(0.0);
            row[seen.end..].fill(0.0);
        }
        let (scores, d_scores) = (&mut scores[seen.clone()], &mut d_scores[seen]);
        unsafe {
            let mut mean = S::splat(0.0);
            for start in (0..scores.len()).step_by(LANES) {
                let count = (scores.len() - start).min(LANES);
                let at = scores.as_mut_ptr().add(start);
                let weight = exp::<S>(S::sub(S::load_partial(at, count, f32::NEG_INFINITY), S::splat(log_sum)));
                S::store_partial(at, count, weight);
                mean = S::fma(weight, S::load_partial(d_scores.as_ptr().add(start), count, 0.0), mean);
            }
            let mean = S::splat(S::sum(mean));
            for start in (0..scores.len()).step_by(LANES) {
                let count = (scores.len() - start).min(LANES);
                let at = d_scores.as_mut_ptr().add(start);
                let weight = S::load_partial(scores.as_ptr().add(start), count, 0.0);
                S::store_partial(at, count, S::mul(weight, S::sub(S::load_partial(at, count, 0.0), mean)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_same_bits_at_every_level() {
        let row: Vec<f32> = (0..75).map(|i| (i * 31 % 19) as f32 / 3.0 - 2.0).collect();
        let run = |level| {
            let (mut weights, mut scores, mut d_scores) = (row.clone(), row.clone(), row.clone());
            d_scores.reverse();
            let seen = 3..70;
            // SAFETY: only levels that this machine has are asked for.
            unsafe {
                let (max, sum) = run_at(level, Exponentials { scores: &mut weights, seen: seen.clone() });
                let log_sum = max + sum.ln();
                run_at(level, ScoreGradients { scores: &mut scores, d_scores: &mut d_scores, seen, log_sum });
                let total: f32 = scores.iter().sum();
                assert!((total - 1.0).abs() < 1e-6 && scores[2] == 0.0 && scores[70] == 0.0, "{level:?}: {total}");
                [vec![max, sum], weights, scores, d_scores].concat()
            }
        };
        for level in Level::available() {
            assert_eq!(run(level), run(Level::Portable), "{level:?}");
        }
    }
}
