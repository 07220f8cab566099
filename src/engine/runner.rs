//! One step through the model: packed tokens in, logits of the rows that are sampled out.

use std::time::{Duration, Instant};

use skein_core::batching::scheduler::{Scheduler, Source, Span};
use tch::Tensor;

use crate::kernels::attention::{AttentionPlan, QuerySpan};
use crate::kernels::cache::{BLOCK_TOKENS, Heads, Slot};
use crate::models::{Attend, AttentionSpec, CausalLm};

use super::cache::KvCache;

/// Whoever knows the ids that spans count.
pub(super) trait TokenIds {
    /// All ids of `source`: a prompt, or what a sequence has generated.
    fn token_ids(&self, source: Source) -> &[u32];
}

/// A step's tokens, where their keys and values go, and what they see.
#[derive(Debug)]
pub(super) struct Batch {
    ids: Vec<i64>,
    positions: Vec<i64>,
    pub(super) slots: Vec<Slot>,
    pub(super) plan: AttentionPlan,
    /// Tokens whose logits are wanted, in span order.
    logit_rows: Vec<i64>,
}

impl Batch {
    pub(super) fn new(spans: &[Span], scheduler: &Scheduler, tokens: &dyn TokenIds, heads: Heads) -> Self {
        let mut batch = Self {
            ids: Vec::new(),
            positions: Vec::new(),
            slots: Vec::new(),
            plan: AttentionPlan::default(),
            logit_rows: Vec::new(),
        };
        let group = |span: &Span| match span.source {
            Source::Prompt(group) => (group, None),
            Source::Sequence(id) => (id.group, Some(())),
        };
        for same in spans.chunk_by(|a, b| group(a) == group(b)) {
            let (group, own) = group(&same[0]);
            let prompt_len = scheduler.prompt_len(group);
            let prefix = own.map(|()| batch.plan.add_segment(scheduler.prompt_blocks(group), 0, prompt_len));
            let offset = own.map_or(0, |()| prompt_len);
            let queries: Vec<QuerySpan> = same.iter().map(|span| batch.push(span, offset, scheduler, tokens)).collect();
            batch.plan.add_queries(prefix, &queries, heads);
        }
        batch
    }

    /// Adds a span whose first token of all stands at position `offset`.
    fn push(&mut self, span: &Span, offset: usize, scheduler: &Scheduler, tokens: &dyn TokenIds) -> QuerySpan {
        let blocks = match span.source {
            Source::Prompt(group) => scheduler.prompt_blocks(group),
            Source::Sequence(id) => scheduler.sequence_blocks(id),
        };
        let first_token = self.ids.len();
        let range = span.start..span.start + span.len;
        self.ids.extend(tokens.token_ids(span.source)[range.clone()].iter().map(|id| i64::from(*id)));
        self.positions.extend(range.clone().map(|token| (offset + token) as i64));
        self.slots.extend(
            range
                .clone()
                .map(|token| Slot { block: blocks[token / BLOCK_TOKENS], offset: (token % BLOCK_TOKENS) as u32 }),
        );
        if span.sample {
            self.logit_rows.push(self.ids.len() as i64 - 1);
        }
        let own = self.plan.add_segment(blocks, offset, range.end);
        QuerySpan { first_token, positions: offset + range.start..offset + range.end, own }
    }
}

/// Where one step's time went.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StepTimes {
    /// Everything before the head, attention included.
    pub model: Duration,
    pub attention: Duration,
    pub head: Duration,
    pub sampler: Duration,
}

/// Runs batches over its cache.
#[derive(Debug)]
pub(super) struct ModelRunner {
    cache: KvCache,
}

impl ModelRunner {
    pub(super) fn new(cache: KvCache) -> Self {
        Self { cache }
    }

    pub(super) fn heads(&self) -> Heads {
        self.cache.heads()
    }

    /// Logits `[M, V]` of the batch's sampled rows.
    pub(super) fn run(&mut self, model: &dyn CausalLm, batch: &Batch) -> (Tensor, StepTimes) {
        let start = Instant::now();
        let mut attend = CachedAttention { cache: &mut self.cache, batch, time: Duration::ZERO };
        let ids = Tensor::from_slice(&batch.ids);
        let positions = Tensor::from_slice(&batch.positions);
        let rotary = model.rotary(&positions);
        let mut hidden = model.embed(&ids);
        for index in 0..model.config().num_hidden_layers {
            hidden = model.layer(index, &hidden, &rotary, &mut attend);
        }
        let attention = attend.time;
        if batch.logit_rows.len() < batch.ids.len() {
            hidden = hidden.index_select(0, &Tensor::from_slice(&batch.logit_rows));
        }
        let hidden = model.final_norm(&hidden);
        let before_head = Instant::now();
        let logits = model.head(&hidden);
        let times =
            StepTimes { model: before_head - start, attention, head: before_head.elapsed(), sampler: Duration::ZERO };
        (logits, times)
    }
}

/// The engine's side of the contract with the model: keys and values into the cache, attention from it.
struct CachedAttention<'a> {
    cache: &'a mut KvCache,
    batch: &'a Batch,
    time: Duration,
}

impl Attend for CachedAttention<'_> {
    fn attend(&mut self, spec: AttentionSpec, q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
        let start = Instant::now();
        let out = self.cache.attend(self.batch, spec, q, k, v);
        self.time += start.elapsed();
        out
    }
}
