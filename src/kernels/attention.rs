//! Causal grouped-query attention straight from the cache, for any mix of prompts and decoding sequences.
//!
//! A query token sees a list of *segments* (its group's shared prompt, its own continuation); scores over all of them
//! are merged by running maxima and sums, so a segment is read once and nothing is gathered. Tokens that see the same
//! segment are computed together: all samples of a group pass over the shared prompt as one block of rows. Which rows
//! share a tile never changes a row's bits: chunks start at fixed offsets of a segment and masked keys weigh exactly 0.
//!
//! Legend: `N` packed query tokens, `H` query heads, `K` kv heads, `E` head size.
#![allow(clippy::needless_range_loop, reason = "loops of constant length over register tiles read best by index")]

use std::ops::Range;

use super::cache::{BLOCK_TOKENS, Heads, Shared};
use super::simd::{Kernel, LANES, Level, Simd, exp, run_at};
use super::tensors::Rows;

/// Blocks whose scores are computed before their values are added.
const CHUNK_BLOCKS: usize = 4;
const CHUNK_TOKENS: usize = CHUNK_BLOCKS * BLOCK_TOKENS;
/// Rows (query token × head) of a tile: scores and outputs of this many stay in the first-level cache.
const TILE_ROWS: usize = 48;

/// Consecutive tokens of one sequence in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    blocks: Range<usize>,
    /// Position of the first token.
    start: usize,
    len: usize,
}

#[derive(Debug, Clone)]
struct Row {
    token: usize,
    position: usize,
}

/// Rows of a tile that see a segment.
#[derive(Debug, Clone)]
struct Pass {
    segment: usize,
    rows: Range<usize>,
}

/// Rows computed together by one thread.
#[derive(Debug, Clone)]
struct Tile {
    rows: Range<usize>,
    passes: Range<usize>,
}

/// A segment of an [`AttentionPlan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentId(usize);

/// Which query tokens see which cached tokens, for one packed batch; the same for all layers.
#[derive(Debug, Default)]
pub struct AttentionPlan {
    blocks: Vec<u32>,
    segments: Vec<Segment>,
    rows: Vec<Row>,
    passes: Vec<Pass>,
    tiles: Vec<Tile>,
}

/// One sequence's query tokens: `positions` are consecutive, and so are their places in the batch.
#[derive(Debug, Clone)]
pub struct QuerySpan {
    /// Index of the first token in the batch.
    pub first_token: usize,
    /// The tokens' positions.
    pub positions: Range<usize>,
    /// The segment that holds their own keys.
    pub own: SegmentId,
}

impl AttentionPlan {
    /// Adds `len` cached tokens that start at position `start` and lie in `blocks`, in order.
    ///
    /// The queries' own keys count as cached: they are appended before attention runs.
    ///
    /// # Panics
    /// When the blocks hold fewer than `len` tokens.
    pub fn add_segment(&mut self, blocks: &[u32], start: usize, len: usize) -> SegmentId {
        assert!(blocks.len() * BLOCK_TOKENS >= len, "{} blocks cannot hold {len} tokens", blocks.len());
        let first = self.blocks.len();
        self.blocks.extend_from_slice(&blocks[..len.div_ceil(BLOCK_TOKENS)]);
        self.segments.push(Segment { blocks: first..self.blocks.len(), start, len });
        SegmentId(self.segments.len() - 1)
    }

    /// Adds spans that see `prefix` (all of it, if any) and then their own segment up to themselves.
    pub fn add_queries(&mut self, prefix: Option<SegmentId>, spans: &[QuerySpan], heads: Heads) {
        let tile_tokens = (TILE_ROWS / heads.queries_per_kv()).max(1);
        let mut own: Vec<SegmentId> = Vec::new();
        let mut first_row = self.rows.len();
        for span in spans {
            for (index, position) in span.positions.clone().enumerate() {
                if self.rows.len() - first_row == tile_tokens {
                    self.close_tile(prefix, first_row, &own);
                    (first_row, own) = (self.rows.len(), Vec::new());
                }
                self.rows.push(Row { token: span.first_token + index, position });
                own.push(span.own);
            }
        }
        if self.rows.len() > first_row {
            self.close_tile(prefix, first_row, &own);
        }
    }

    fn close_tile(&mut self, prefix: Option<SegmentId>, first_row: usize, own: &[SegmentId]) {
        let rows = first_row..self.rows.len();
        let first_pass = self.passes.len();
        if let Some(SegmentId(segment)) = prefix {
            self.passes.push(Pass { segment, rows: rows.clone() });
        }
        let mut row = first_row;
        for same in own.chunk_by(|a, b| a == b) {
            self.passes.push(Pass { segment: same[0].0, rows: row..row + same.len() });
            row += same.len();
        }
        self.tiles.push(Tile { rows, passes: first_pass..self.passes.len() });
    }
}

/// One layer's attention over a plan.
#[derive(Debug)]
pub struct Attention<'a> {
    /// Who sees what.
    pub plan: &'a AttentionPlan,
    /// Heads and head size.
    pub heads: Heads,
    /// Factor on `q · k`.
    pub scale: f32,
    /// Each query sees at most this many latest positions, itself included.
    pub window: Option<usize>,
    /// Queries, `[N, H * E]`.
    pub q: Rows<'a>,
    /// The layer's keys (layout: [`super::cache`]).
    pub keys: &'a [f32],
    /// The layer's values.
    pub values: &'a [f32],
}

impl Attention<'_> {
    /// Writes the attention of every planned query token to its row of `out`, `[N, H * E]`.
    ///
    /// # Panics
    /// When the plan names a block or token that is not there, or shapes disagree.
    pub fn run(&self, out: &mut [f32]) {
        self.run_at(Level::best(), out);
    }

    fn run_at(&self, level: Level, out: &mut [f32]) {
        let heads = self.heads;
        let width = heads.num_heads * heads.head_dim;
        assert!(self.q.width == width && out.len() == self.q.len * width, "queries and output disagree");
        assert!(self.scale > 0.0, "a masked score of -∞ stays one only under a positive scale");
        let blocks = (self.keys.len() / heads.key_block()).min(self.values.len() / heads.value_block());
        assert!(self.plan.blocks.iter().all(|block| (*block as usize) < blocks), "a block lies outside the cache");
        assert!(self.plan.rows.iter().all(|row| row.token < self.q.len), "a query lies outside the batch");
        let out = Shared(out.as_mut_ptr());
        super::for_each(self.plan.tiles.len() * heads.num_kv_heads, |item| {
            // Later tiles of a prompt see more keys: taking them first leaves the small ones to even out the end.
            let tile = &self.plan.tiles[self.plan.tiles.len() - 1 - item / heads.num_kv_heads];
            let kernel = TileKernel { attention: self, tile, kv_head: item % heads.num_kv_heads, out };
            // SAFETY: the callers pass a level this machine has.
            unsafe { run_at(level, kernel) };
        });
    }

    /// Keys of `segment` that a query at `position` sees, as offsets into it.
    fn visible(&self, segment: &Segment, position: usize) -> Range<usize> {
        let end = (position + 1).saturating_sub(segment.start).min(segment.len);
        let first = self.window.map_or(0, |window| (position + 1).saturating_sub(window));
        first.saturating_sub(segment.start).min(end)..end
    }
}

struct TileKernel<'a> {
    attention: &'a Attention<'a>,
    tile: &'a Tile,
    kv_head: usize,
    out: Shared,
}

/// Running softmax of a tile: per row the maximum so far, the sum of weights and the weighted values.
struct State {
    max: Vec<f32>,
    sum: Vec<f32>,
    rescale: Vec<f32>,
    scores: Vec<f32>,
    out: Vec<f32>,
}

impl Kernel for TileKernel<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { attention, tile, kv_head, out } = self;
        let Attention { plan, heads, .. } = attention;
        let (ratio, head_dim, padded) = (heads.queries_per_kv(), heads.head_dim, heads.padded_dim());
        let num_rows = tile.rows.len() * ratio;
        let mut state = State {
            max: vec![f32::NEG_INFINITY; num_rows],
            sum: vec![0.0; num_rows],
            rescale: vec![1.0; num_rows],
            scores: vec![0.0; num_rows * CHUNK_TOKENS],
            out: vec![0.0; num_rows * padded],
        };
        let tokens = &plan.rows[tile.rows.clone()];
        let queries: Vec<*const f32> = tokens
            .iter()
            .flat_map(|row| {
                let q = &attention.q.row(row.token)[kv_head * ratio * head_dim..][..ratio * head_dim];
                (0..ratio).map(move |head| q[head * head_dim..].as_ptr())
            })
            .collect();
        for pass in &plan.passes[tile.passes.clone()] {
            let first = pass.rows.start - tile.rows.start;
            let rows = first * ratio..(pass.rows.end - tile.rows.start) * ratio;
            let segment = &plan.segments[pass.segment];
            let visible: Vec<Range<usize>> =
                plan.rows[pass.rows.clone()].iter().map(|row| attention.visible(segment, row.position)).collect();
            let start = visible.iter().map(|seen| seen.start).min().unwrap_or(0);
            let end = visible.iter().map(|seen| seen.end).max().unwrap_or(0);
            for chunk in start / CHUNK_TOKENS..end.div_ceil(CHUNK_TOKENS) {
                let tokens = chunk * CHUNK_TOKENS..end.min((chunk + 1) * CHUNK_TOKENS);
                let blocks = &plan.blocks[segment.blocks.clone()][chunk * CHUNK_BLOCKS..];
                let blocks = &blocks[..tokens.len().div_ceil(BLOCK_TOKENS)];
                unsafe {
                    scores::<S>(attention, kv_head, blocks, &queries[rows.clone()], &mut state, rows.clone());
                    for row in rows.clone() {
                        let seen = &visible[row / ratio - first];
                        let seen = seen.start.max(tokens.start)..seen.end.min(tokens.end);
                        let seen = seen.start - tokens.start..seen.end.max(seen.start) - tokens.start;
                        weights::<S>(&mut state, row, seen, blocks.len(), attention.scale);
                    }
                    add_values::<S>(attention, kv_head, blocks, tokens.len(), &mut state, rows.clone());
                }
            }
        }
        for (row, _) in queries.iter().enumerate() {
            let token = tokens[row / ratio].token;
            let head = kv_head * ratio + row % ratio;
            unsafe {
                let to = out.get().add((token * heads.num_heads + head) * head_dim);
                let sum = S::splat(state.sum[row]);
                for e in (0..head_dim).step_by(LANES) {
                    let value = S::div(S::load(state.out.as_ptr().add(row * padded + e)), sum);
                    S::store_partial(to.add(e), LANES.min(head_dim - e), value);
                }
            }
        }
    }
}

/// `scores[row][token] = q[row] · k[token]` for one chunk.
#[inline(always)]
unsafe fn scores<S: Simd>(
    attention: &Attention,
    kv_head: usize,
    blocks: &[u32],
    queries: &[*const f32],
    state: &mut State,
    rows: Range<usize>,
) {
    let heads = attention.heads;
    let (tile_rows, tile_columns) = S::TILE;
    let mut keys = [std::ptr::null(); CHUNK_BLOCKS];
    for (key, block) in keys.iter_mut().zip(blocks) {
        let offset = *block as usize * heads.key_block() + kv_head * heads.head_dim * BLOCK_TOKENS;
        *key = unsafe { attention.keys.as_ptr().add(offset) };
    }
    for column in (0..blocks.len()).step_by(tile_columns) {
        let columns = tile_columns.min(blocks.len() - column);
        for row in (0..queries.len()).step_by(tile_rows) {
            let num_rows = tile_rows.min(queries.len() - row);
            unsafe {
                let to = state.scores.as_mut_ptr().add((rows.start + row) * CHUNK_TOKENS + column * BLOCK_TOKENS);
                let (q, k) = (queries.as_ptr().add(row), keys.as_ptr().add(column));
                for_tile!(num_rows, columns, scores_tile, (q, k, heads.head_dim, to));
            }
        }
    }
}

#[inline(always)]
unsafe fn scores_tile<S: Simd, const ROWS: usize, const COLUMNS: usize>(
    queries: *const *const f32,
    keys: *const *const f32,
    head_dim: usize,
    to: *mut f32,
) {
    unsafe {
        let q: [*const f32; ROWS] = std::array::from_fn(|row| *queries.add(row));
        let k: [*const f32; COLUMNS] = std::array::from_fn(|column| *keys.add(column));
        let mut sums = [[S::splat(0.0); COLUMNS]; ROWS];
        for e in 0..head_dim {
            let mut key = [S::splat(0.0); COLUMNS];
            for column in 0..COLUMNS {
                key[column] = S::load(k[column].add(e * BLOCK_TOKENS));
            }
            for row in 0..ROWS {
                let query = S::splat(*q[row].add(e));
                for column in 0..COLUMNS {
                    sums[row][column] = S::fma(query, key[column], sums[row][column]);
                }
            }
        }
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                S::store(to.add(row * CHUNK_TOKENS + column * BLOCK_TOKENS), sums[row][column]);
            }
        }
    }
}

/// Turns a row's scores of one chunk into weights relative to the row's new maximum; unseen tokens weigh 0.
#[inline(always)]
unsafe fn weights<S: Simd>(state: &mut State, row: usize, seen: Range<usize>, num_blocks: usize, scale: f32) {
    let scores = &mut state.scores[row * CHUNK_TOKENS..][..num_blocks * BLOCK_TOKENS];
    if seen.is_empty() {
        scores.fill(0.0);
        state.rescale[row] = 1.0;
        return;
    }
    scores[..seen.start].fill(f32::NEG_INFINITY);
    let scores = scores.as_mut_ptr();
    unsafe {
        let scale = S::splat(scale);
        let mut scaled = [S::splat(f32::NEG_INFINITY); CHUNK_BLOCKS];
        let mut max = S::splat(f32::NEG_INFINITY);
        for block in 0..num_blocks {
            let first = block * BLOCK_TOKENS;
            let count = seen.end.saturating_sub(first).min(BLOCK_TOKENS);
            scaled[block] = S::mul(S::load_partial(scores.add(first), count, f32::NEG_INFINITY), scale);
            max = S::max(scaled[block], max);
        }
        let old = state.max[row];
        let new = S::largest(max).max(old);
        let mut sum = S::splat(0.0);
        for block in 0..num_blocks {
            let weight = exp::<S>(S::sub(scaled[block], S::splat(new)));
            S::store(scores.add(block * BLOCK_TOKENS), weight);
            sum = S::add(sum, weight);
        }
        let rescale = (old - new).exp();
        state.max[row] = new;
        state.rescale[row] = rescale;
        state.sum[row] = state.sum[row] * rescale + S::sum(sum);
    }
}

/// `out[row] = out[row] * rescale[row] + Σ weight[row][token] * v[token]` for one chunk.
#[inline(always)]
unsafe fn add_values<S: Simd>(
    attention: &Attention,
    kv_head: usize,
    blocks: &[u32],
    num_tokens: usize,
    state: &mut State,
    rows: Range<usize>,
) {
    let heads = attention.heads;
    let padded = heads.padded_dim();
    let (tile_rows, tile_columns) = S::TILE;
    let mut values = [std::ptr::null(); CHUNK_BLOCKS];
    for (value, block) in values.iter_mut().zip(blocks) {
        let offset = *block as usize * heads.value_block() + kv_head * BLOCK_TOKENS * padded;
        *value = unsafe { attention.values.as_ptr().add(offset) };
    }
    let vectors = padded / LANES;
    for column in (0..vectors).step_by(tile_columns) {
        let columns = tile_columns.min(vectors - column);
        for row in rows.clone().step_by(tile_rows) {
            let num_rows = tile_rows.min(rows.end - row);
            unsafe {
                let tile = ValuesTile {
                    values: &values,
                    num_tokens,
                    padded,
                    column: column * LANES,
                    weights: state.scores.as_ptr().add(row * CHUNK_TOKENS),
                    rescale: state.rescale.as_ptr().add(row),
                    out: state.out.as_mut_ptr().add(row * padded + column * LANES),
                };
                for_tile!(num_rows, columns, values_tile, (tile));
            }
        }
    }
}

struct ValuesTile<'a> {
    values: &'a [*const f32; CHUNK_BLOCKS],
    num_tokens: usize,
    padded: usize,
    column: usize,
    weights: *const f32,
    rescale: *const f32,
    out: *mut f32,
}

#[inline(always)]
unsafe fn values_tile<S: Simd, const ROWS: usize, const COLUMNS: usize>(tile: ValuesTile) {
    unsafe {
        let mut sums = [[S::splat(0.0); COLUMNS]; ROWS];
        for row in 0..ROWS {
            let rescale = S::splat(*tile.rescale.add(row));
            for column in 0..COLUMNS {
                sums[row][column] = S::mul(S::load(tile.out.add(row * tile.padded + column * LANES)), rescale);
            }
        }
        for (block, values) in tile.values.iter().enumerate() {
            let first = block * BLOCK_TOKENS;
            if first >= tile.num_tokens {
                break;
            }
            let values = values.add(tile.column);
            for offset in 0..BLOCK_TOKENS.min(tile.num_tokens - first) {
                let mut value = [S::splat(0.0); COLUMNS];
                for column in 0..COLUMNS {
                    value[column] = S::load(values.add(offset * tile.padded + column * LANES));
                }
                for row in 0..ROWS {
                    let weight = S::splat(*tile.weights.add(row * CHUNK_TOKENS + first + offset));
                    for column in 0..COLUMNS {
                        sums[row][column] = S::fma(weight, value[column], sums[row][column]);
                    }
                }
            }
        }
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                S::store(tile.out.add(row * tile.padded + column * LANES), sums[row][column]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::cache::{Slot, append};
    use skein_core::random::Stream;

    /// Values are of order one; a sum of a few hundred f32 products differs from f64 by about this much.
    const TOLERANCE: f64 = 2e-6;

    struct Case {
        heads: Heads,
        window: Option<usize>,
        prompt: usize,
        /// Tokens of each sample, and how many of the last of them are queries.
        samples: Vec<(usize, usize)>,
        prompt_queries: usize,
    }

    fn normal(stream: &mut Stream, len: usize) -> Vec<f32> {
        (0..len).map(|_| (0..12).map(|_| stream.uniform() as f32).sum::<f32>() - 6.0).collect()
    }

    fn rows(data: &[f32], width: usize) -> Rows<'_> {
        Rows { data, len: data.len() / width, width, stride: width }
    }

    /// Softmax attention of one query over the listed keys, in f64.
    fn reference(q: &[f32], keys: &[&[f32]], values: &[&[f32]], scale: f64) -> Vec<f64> {
        let dot = |k: &[f32]| q.iter().zip(k).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() * scale;
        let scores: Vec<f64> = keys.iter().map(|k| dot(k)).collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
        let sum: f64 = weights.iter().sum();
        (0..q.len()).map(|e| weights.iter().zip(values).map(|(w, v)| w * f64::from(v[e])).sum::<f64>() / sum).collect()
    }

    /// Fills a cache whose blocks lie in scattered order and whose unused places hold NaN, attends, and compares.
    fn check(case: &Case) -> Vec<f32> {
        let Heads { num_heads, num_kv_heads, head_dim } = case.heads;
        let width = num_kv_heads * head_dim;
        let mut stream = Stream::new(11, "attention", 0);
        let mut free: Vec<u32> = (0..200).collect();
        stream.shuffle(&mut free);
        let mut keys = vec![f32::NAN; 200 * case.heads.key_block()];
        let mut values = vec![f32::NAN; 200 * case.heads.value_block()];
        let mut plan = AttentionPlan::default();
        let mut q = Vec::new();
        let mut expected: Vec<Vec<f64>> = Vec::new();
        let mut store = |len: usize, stream: &mut Stream, plan: &mut AttentionPlan, start: usize| {
            let blocks: Vec<u32> = free.split_off(free.len() - len.div_ceil(BLOCK_TOKENS));
            let (k, v) = (normal(stream, len * width), normal(stream, len * width));
            let slots: Vec<Slot> =
                (0..len).map(|i| Slot { block: blocks[i / BLOCK_TOKENS], offset: (i % BLOCK_TOKENS) as u32 }).collect();
            append(case.heads, &slots, rows(&k, width), rows(&v, width), &mut keys, &mut values);
            (plan.add_segment(&blocks, start, len), k, v)
        };
        let mut expect = |position: usize, k: &[f32], v: &[f32], stream: &mut Stream, expected: &mut Vec<Vec<f64>>| {
            let query = normal(stream, num_heads * head_dim);
            let first = case.window.map_or(0, |window| (position + 1).saturating_sub(window));
            for head in 0..num_heads {
                let kv = head / case.heads.queries_per_kv();
                let at = |data: &'_ [f32], p: usize| data[p * width + kv * head_dim..][..head_dim].to_vec();
                let seen_k: Vec<Vec<f32>> = (first..=position).map(|p| at(k, p)).collect();
                let seen_v: Vec<Vec<f32>> = (first..=position).map(|p| at(v, p)).collect();
                let (k, v): (Vec<&[f32]>, Vec<&[f32]>) =
                    (seen_k.iter().map(Vec::as_slice).collect(), seen_v.iter().map(Vec::as_slice).collect());
                let scale = 1.0 / (head_dim as f64).sqrt();
                expected.push(reference(&query[head * head_dim..][..head_dim], &k, &v, scale));
            }
            q.extend(query);
        };
        let (prompt, prompt_k, prompt_v) = store(case.prompt, &mut stream, &mut plan, 0);
        let mut token = 0;
        if case.prompt_queries > 0 {
            let positions = case.prompt - case.prompt_queries..case.prompt;
            for position in positions.clone() {
                expect(position, &prompt_k, &prompt_v, &mut stream, &mut expected);
            }
            plan.add_queries(None, &[QuerySpan { first_token: 0, positions, own: prompt }], case.heads);
            token = case.prompt_queries;
        }
        let mut spans = Vec::new();
        for (len, queries) in &case.samples {
            let (own, k, v) = store(*len, &mut stream, &mut plan, case.prompt);
            let (k, v) = ([&prompt_k[..], &k].concat(), [&prompt_v[..], &v].concat());
            let positions = case.prompt + len - queries..case.prompt + len;
            for position in positions.clone() {
                expect(position, &k, &v, &mut stream, &mut expected);
            }
            spans.push(QuerySpan { first_token: token, positions, own });
            token += queries;
        }
        plan.add_queries(Some(prompt), &spans, case.heads);
        let mut out = vec![f32::NAN; q.len()];
        let attention = Attention {
            plan: &plan,
            heads: case.heads,
            scale: 1.0 / (head_dim as f32).sqrt(),
            window: case.window,
            q: rows(&q, num_heads * head_dim),
            keys: &keys,
            values: &values,
        };
        attention.run(&mut out);
        for level in Level::available() {
            let mut again = vec![f32::NAN; q.len()];
            attention.run_at(level, &mut again);
            assert_eq!(out, again, "{level:?}");
        }
        for (row, (ours, exact)) in out.chunks(head_dim).zip(&expected).enumerate() {
            for (a, b) in ours.iter().zip(exact) {
                assert!((f64::from(*a) - b).abs() < TOLERANCE, "row {row}: {a} and {b}");
            }
        }
        out
    }

    fn heads(num_heads: usize, num_kv_heads: usize, head_dim: usize) -> Heads {
        Heads { num_heads, num_kv_heads, head_dim }
    }

    #[test]
    fn a_group_decodes_over_a_shared_prompt() {
        for (prompt, own) in [(1, 1), (16, 16), (17, 1), (64, 5), (65, 70), (130, 31)] {
            let samples = (0..8).map(|i| (own + i, 1)).collect();
            check(&Case { heads: heads(9, 3, 64), window: None, prompt, samples, prompt_queries: 0 });
        }
    }

    #[test]
    fn prompts_prefill_causally_with_odd_head_sizes() {
        for (num_heads, num_kv_heads, head_dim) in [(4, 2, 32), (3, 3, 8), (8, 1, 24), (2, 2, 128), (5, 1, 80)] {
            let heads = heads(num_heads, num_kv_heads, head_dim);
            check(&Case { heads, window: None, prompt: 100, samples: vec![(1, 1)], prompt_queries: 100 });
            check(&Case { heads, window: None, prompt: 70, samples: vec![(40, 40), (3, 2)], prompt_queries: 11 });
        }
    }

    #[test]
    fn a_window_hides_old_positions_in_every_segment() {
        for window in [1, 5, 16, 33, 100, 1000] {
            let samples = vec![(40, 40), (1, 1), (70, 1), (120, 3)];
            check(&Case { heads: heads(4, 2, 32), window: Some(window), prompt: 90, samples, prompt_queries: 90 });
        }
    }

    #[test]
    fn a_row_has_the_same_bits_alone_and_among_others() {
        for window in [None, Some(20)] {
            let case = |samples| Case { heads: heads(6, 2, 32), window, prompt: 75, samples, prompt_queries: 0 };
            let alone = check(&case(vec![(50, 1)]));
            let among = check(&case(vec![(50, 1), (9, 1), (130, 1), (64, 1)]));
            assert_eq!(alone, among[..alone.len()]);
        }
    }
}
