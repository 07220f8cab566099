//! Continuous batching: which tokens run in the next step, and which cache blocks they own. Lengths only, no tensors.
//!
//! A *group* is one prompt with several samples; its prompt's blocks are held once and shared. Every step runs what
//! every running sequence has not computed yet, admits waiting ones while budgets allow, and when blocks run out sends
//! the youngest running sequence back to wait: it keeps its sampled tokens and computes their keys and values again.
//! Order is by (group, sample) alone, so a schedule depends on nothing but the requests and when sequences end.
//!
//! It never skips ahead: a request too large to admit yet holds back all later ones.

use std::collections::VecDeque;

use super::blocks::BlockPool;

/// What the cache and a step can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Tokens in a cache block.
    pub block_tokens: usize,
    /// Blocks in the cache.
    pub num_blocks: usize,
    /// Sequences that run at once.
    pub max_sequences: usize,
    /// Tokens computed in a step.
    pub max_step_tokens: usize,
}

/// One prompt and how many samples of it are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupSpec {
    /// Tokens of the prompt; at least one.
    pub prompt_len: usize,
    /// Samples; at least one.
    pub num_samples: usize,
    /// Tokens each sample may grow to; at least one.
    pub max_new_tokens: usize,
}

/// A sample of a group. The order of ids is the order of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId {
    /// Index of the group, in order of addition.
    pub group: usize,
    /// Index of the sample in its group.
    pub sample: usize,
}

/// Whose tokens a span computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The prompt of this group.
    Prompt(usize),
    /// The sampled tokens of this sequence.
    Sequence(SequenceId),
}

/// Consecutive tokens to compute: `start..start + len` of their source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Prompt or sequence.
    pub source: Source,
    /// First token.
    pub start: usize,
    /// Number of tokens; at least one.
    pub len: usize,
    /// Whether to sample after the last token: once for a sequence, once for each sample after a prompt.
    pub sample: bool,
}

/// A group that can never run, however empty the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("one sequence needs up to {needed_tokens} tokens of the cache, which holds {cache_tokens}")]
pub struct GroupTooLarge {
    /// Cache tokens, in whole blocks, for the prompt and the longest sample.
    pub needed_tokens: usize,
    /// Cache tokens there are.
    pub cache_tokens: usize,
}

#[derive(Debug)]
struct Group {
    prompt_len: usize,
    /// Prompt tokens whose keys and values are cached.
    computed: usize,
    blocks: Vec<u32>,
    running: usize,
    first_tokens_sampled: bool,
    sequences: Vec<Sequence>,
}

#[derive(Debug, Default)]
struct Sequence {
    generated: usize,
    /// Generated tokens whose keys and values are cached.
    computed: usize,
    blocks: Vec<u32>,
    finished: bool,
}

impl Group {
    fn unfinished(&self) -> bool {
        self.sequences.iter().any(|sequence| !sequence.finished)
    }
}

/// The state of all groups of one generation call.
#[derive(Debug)]
pub struct Scheduler {
    config: SchedulerConfig,
    pool: BlockPool,
    groups: Vec<Group>,
    /// In order of service; every running id is below every waiting one.
    running: Vec<SequenceId>,
    waiting: VecDeque<SequenceId>,
    num_preemptions: usize,
}

impl Scheduler {
    /// An empty schedule.
    ///
    /// # Panics
    /// When a limit of `config` is 0.
    pub fn new(config: SchedulerConfig) -> Self {
        assert!(config.block_tokens > 0 && config.num_blocks > 0 && config.max_sequences > 0);
        assert!(config.max_step_tokens > 0);
        Self {
            config,
            pool: BlockPool::new(config.num_blocks),
            groups: Vec::new(),
            running: Vec::new(),
            waiting: VecDeque::new(),
            num_preemptions: 0,
        }
    }

    /// Queues a group behind all others; returns its index.
    ///
    /// # Errors
    /// When a single sequence of it could outgrow the whole cache. Nothing is queued then.
    ///
    /// # Panics
    /// When a count of `spec` is 0.
    pub fn add_group(&mut self, spec: GroupSpec) -> Result<usize, GroupTooLarge> {
        assert!(spec.prompt_len > 0 && spec.num_samples > 0 && spec.max_new_tokens > 0);
        // The last token is sampled, never computed.
        let needed = self.blocks_for(spec.prompt_len) + self.blocks_for(spec.max_new_tokens - 1);
        if needed > self.config.num_blocks {
            return Err(GroupTooLarge {
                needed_tokens: needed * self.config.block_tokens,
                cache_tokens: self.config.num_blocks * self.config.block_tokens,
            });
        }
        let group = self.groups.len();
        self.waiting.extend((0..spec.num_samples).map(|sample| SequenceId { group, sample }));
        self.groups.push(Group {
            prompt_len: spec.prompt_len,
            computed: 0,
            blocks: Vec::new(),
            running: 0,
            first_tokens_sampled: false,
            sequences: (0..spec.num_samples).map(|_| Sequence::default()).collect(),
        });
        Ok(group)
    }

    /// The next step's work, at most `max_step_tokens` of it; empty only when every sequence has finished.
    ///
    /// Within a step all keys and values are stored before any query attends, so a span may follow another of its own
    /// group. The caller runs all of it, then reports each sampled token and each end.
    pub fn schedule(&mut self) -> Vec<Span> {
        let mut spans = Vec::new();
        let mut budget = self.config.max_step_tokens;
        let mut preempted = false;
        let mut index = 0;
        while index < self.running.len() {
            let id = self.running[index];
            if self.grow(id, &mut preempted) {
                self.plan(id, &mut budget, &mut spans);
                index += 1;
            }
        }
        // A step that had to send one back has no room for another.
        while !preempted && budget > 0 && self.admit_next() {
            let id = self.running[self.running.len() - 1];
            self.plan(id, &mut budget, &mut spans);
        }
        spans
    }

    /// A token of this sequence was sampled.
    pub fn token_sampled(&mut self, id: SequenceId) {
        self.groups[id.group].sequences[id.sample].generated += 1;
    }

    /// The sequence has ended; its blocks are free, and its group's prompt with the last of the group.
    pub fn finish(&mut self, id: SequenceId) {
        let sequence = &mut self.groups[id.group].sequences[id.sample];
        sequence.finished = true;
        self.pool.free(&mut sequence.blocks);
        if let Ok(index) = self.running.binary_search(&id) {
            self.running.remove(index);
            self.groups[id.group].running -= 1;
        } else {
            self.waiting.retain(|waiting| *waiting != id);
        }
        if !self.groups[id.group].unfinished() {
            self.drop_prompt(id.group);
        }
    }

    /// Samples of `group` that have not finished.
    pub fn unfinished(&self, group: usize) -> Vec<SequenceId> {
        let samples = self.groups[group].sequences.iter().enumerate();
        samples.filter(|(_, sequence)| !sequence.finished).map(|(sample, _)| SequenceId { group, sample }).collect()
    }

    /// Tokens of a group's prompt.
    pub fn prompt_len(&self, group: usize) -> usize {
        self.groups[group].prompt_len
    }

    /// Blocks that hold a group's prompt, in order; empty while it is not cached.
    pub fn prompt_blocks(&self, group: usize) -> &[u32] {
        &self.groups[group].blocks
    }

    /// Blocks that hold a sequence's own tokens, in order.
    pub fn sequence_blocks(&self, id: SequenceId) -> &[u32] {
        &self.groups[id.group].sequences[id.sample].blocks
    }

    /// Times a running sequence was sent back to wait.
    pub fn num_preemptions(&self) -> usize {
        self.num_preemptions
    }

    fn blocks_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.config.block_tokens)
    }

    /// Gives a running sequence the blocks its tokens need, sending back the youngest until they are there. False if
    /// that was the sequence itself.
    fn grow(&mut self, id: SequenceId, preempted: &mut bool) -> bool {
        loop {
            let sequence = &self.groups[id.group].sequences[id.sample];
            let missing = self.blocks_for(sequence.generated).saturating_sub(sequence.blocks.len());
            if self.reclaim(missing) {
                let sequence = &mut self.groups[id.group].sequences[id.sample];
                self.pool.take(missing, &mut sequence.blocks);
                return true;
            }
            let youngest = self.preempt_youngest();
            *preempted = true;
            if youngest == id {
                return false;
            }
        }
    }

    fn preempt_youngest(&mut self) -> SequenceId {
        let id = self.running.pop().expect("whoever lacks a block is running");
        let group = &mut self.groups[id.group];
        group.running -= 1;
        let sequence = &mut group.sequences[id.sample];
        sequence.computed = 0;
        self.pool.free(&mut sequence.blocks);
        self.waiting.push_front(id);
        self.num_preemptions += 1;
        id
    }

    /// Whether `count` blocks are free, after giving up as many idle prompts as that takes, the youngest first.
    fn reclaim(&mut self, count: usize) -> bool {
        let idle = |group: &Group| group.running == 0 && !group.blocks.is_empty();
        while self.pool.num_free() < count {
            let Some(group) = self.groups.iter().rposition(idle) else { return false };
            self.drop_prompt(group);
        }
        true
    }

    fn drop_prompt(&mut self, group: usize) {
        self.groups[group].computed = 0;
        self.pool.free(&mut self.groups[group].blocks);
    }

    /// Moves the first waiting sequence among the running, with all blocks it needs now, if there is room for it and
    /// for one more block of every running sequence: otherwise it would soon be sent back.
    fn admit_next(&mut self) -> bool {
        let Some(&id) = self.waiting.front() else { return false };
        if self.running.len() == self.config.max_sequences {
            return false;
        }
        let reserve = if self.running.is_empty() { 0 } else { self.running.len() + 1 };
        let own = self.blocks_for(self.groups[id.group].sequences[id.sample].generated);
        // Counted as running first, so that making room never gives up the prompt it needs.
        self.groups[id.group].running += 1;
        let group = &self.groups[id.group];
        let prompt = if group.blocks.is_empty() { self.blocks_for(group.prompt_len) } else { 0 };
        if !self.reclaim(prompt + own + reserve) {
            self.groups[id.group].running -= 1;
            return false;
        }
        let group = &mut self.groups[id.group];
        self.pool.take(prompt, &mut group.blocks);
        self.pool.take(own, &mut group.sequences[id.sample].blocks);
        self.waiting.pop_front();
        self.running.push(id);
        true
    }

    /// Plans what of this sequence, and of its prompt before it, is not computed, as far as the budget goes.
    fn plan(&mut self, id: SequenceId, budget: &mut usize, spans: &mut Vec<Span>) {
        let group = &mut self.groups[id.group];
        let len = (group.prompt_len - group.computed).min(*budget);
        if len > 0 {
            let start = group.computed;
            group.computed += len;
            let sample = group.computed == group.prompt_len && !group.first_tokens_sampled;
            group.first_tokens_sampled |= sample;
            spans.push(Span { source: Source::Prompt(id.group), start, len, sample });
            *budget -= len;
        }
        if group.computed < group.prompt_len {
            return;
        }
        let sequence = &mut group.sequences[id.sample];
        let len = (sequence.generated - sequence.computed).min(*budget);
        if len > 0 {
            let start = sequence.computed;
            sequence.computed += len;
            let sample = sequence.computed == sequence.generated;
            spans.push(Span { source: Source::Sequence(id), start, len, sample });
            *budget -= len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn config(num_blocks: usize, max_sequences: usize, max_step_tokens: usize) -> SchedulerConfig {
        SchedulerConfig { block_tokens: 4, num_blocks, max_sequences, max_step_tokens }
    }

    fn spec(prompt_len: usize, num_samples: usize, max_new_tokens: usize) -> GroupSpec {
        GroupSpec { prompt_len, num_samples, max_new_tokens }
    }

    fn prompt(group: usize, len: usize) -> Span {
        Span { source: Source::Prompt(group), start: 0, len, sample: true }
    }

    fn own(group: usize, sample: usize, start: usize, len: usize) -> Span {
        Span { source: Source::Sequence(SequenceId { group, sample }), start, len, sample: true }
    }

    /// Every block is free or has one owner, and running ids come before waiting ones.
    fn check_ownership(scheduler: &Scheduler) {
        let mut owners = vec![0; scheduler.config.num_blocks];
        for group in &scheduler.groups {
            let of_sequences = group.sequences.iter().flat_map(|sequence| &sequence.blocks);
            group.blocks.iter().chain(of_sequences).for_each(|block| owners[*block as usize] += 1);
            assert!(group.unfinished() || group.blocks.is_empty(), "a finished group holds blocks");
            assert_eq!(
                group.running > 0,
                scheduler.running.iter().any(|id| std::ptr::eq(&scheduler.groups[id.group], group))
            );
        }
        assert!(owners.iter().all(|count| *count <= 1), "a block has two owners");
        assert_eq!(owners.iter().sum::<usize>() + scheduler.pool.num_free(), scheduler.config.num_blocks);
        assert!(scheduler.running.is_sorted() && scheduler.waiting.iter().is_sorted());
        assert!(scheduler.running.last() < scheduler.waiting.front() || scheduler.waiting.is_empty());
    }

    /// A cache that remembers whose token each slot holds.
    struct Cache(Vec<Option<(Source, usize)>>);

    impl Cache {
        fn slot(&mut self, blocks: &[u32], token: usize) -> &mut Option<(Source, usize)> {
            &mut self.0[blocks[token / 4] as usize * 4 + token % 4]
        }

        fn store(&mut self, scheduler: &Scheduler, span: &Span) {
            for token in span.start..span.start + span.len {
                *self.slot(blocks(scheduler, span.source), token) = Some((span.source, token));
            }
        }

        fn check(&mut self, scheduler: &Scheduler, source: Source, len: usize) {
            for token in 0..len {
                assert_eq!(*self.slot(blocks(scheduler, source), token), Some((source, token)), "{source:?}");
            }
        }
    }

    fn blocks(scheduler: &Scheduler, source: Source) -> &[u32] {
        match source {
            Source::Prompt(group) => scheduler.prompt_blocks(group),
            Source::Sequence(id) => scheduler.sequence_blocks(id),
        }
    }

    /// Runs everything; sequence `(g, s)` ends after `lengths[g][s]` tokens. Returns the steps.
    fn run(scheduler: &mut Scheduler, lengths: &[Vec<usize>]) -> Vec<Vec<Span>> {
        let mut cache = Cache(vec![None; scheduler.config.num_blocks * scheduler.config.block_tokens]);
        let mut generated: Vec<Vec<usize>> = lengths.iter().map(|group| vec![0; group.len()]).collect();
        let mut left: usize = lengths.iter().map(Vec::len).sum();
        let mut steps = Vec::new();
        while left > 0 {
            let spans = scheduler.schedule();
            check_ownership(scheduler);
            assert!(!spans.is_empty(), "{left} sequences are left and nothing runs");
            assert!(spans.iter().map(|span| span.len).sum::<usize>() <= scheduler.config.max_step_tokens);
            assert!(scheduler.running.len() <= scheduler.config.max_sequences);
            spans.iter().for_each(|span| cache.store(scheduler, span));
            let mut ended = Vec::new();
            for span in &spans {
                assert!(span.len > 0);
                cache.check(scheduler, span.source, span.start + span.len);
                let samples = match span.source {
                    Source::Prompt(group) => scheduler.unfinished(group),
                    Source::Sequence(id) => {
                        cache.check(scheduler, Source::Prompt(id.group), scheduler.groups[id.group].prompt_len);
                        assert!(span.start + span.len <= generated[id.group][id.sample]);
                        assert_eq!(span.sample, span.start + span.len == generated[id.group][id.sample]);
                        vec![id]
                    }
                };
                for id in samples.into_iter().filter(|_| span.sample) {
                    generated[id.group][id.sample] += 1;
                    scheduler.token_sampled(id);
                    if generated[id.group][id.sample] == lengths[id.group][id.sample] {
                        ended.push(id);
                    }
                }
            }
            left -= ended.len();
            ended.into_iter().for_each(|id| scheduler.finish(id));
            check_ownership(scheduler);
            steps.push(spans);
        }
        assert_eq!(generated, lengths);
        assert_eq!(scheduler.pool.num_free(), scheduler.config.num_blocks);
        assert!(scheduler.schedule().is_empty());
        steps
    }

    #[test]
    fn a_group_prefills_once_and_decodes_together() {
        let mut scheduler = Scheduler::new(config(20, 8, 100));
        scheduler.add_group(spec(6, 2, 10)).unwrap();
        scheduler.add_group(spec(3, 1, 10)).unwrap();
        let steps = run(&mut scheduler, &[vec![3, 2], vec![1]]);
        assert_eq!(steps[0], [prompt(0, 6), prompt(1, 3)]);
        assert_eq!(steps[1], [own(0, 0, 0, 1), own(0, 1, 0, 1)]);
        assert_eq!(steps[2], [own(0, 0, 1, 1)]);
        assert_eq!(steps.len(), 3);
    }

    #[test]
    fn a_long_prompt_is_prefilled_in_chunks_beside_running_sequences() {
        let mut scheduler = Scheduler::new(config(20, 8, 5));
        scheduler.add_group(spec(3, 1, 10)).unwrap();
        scheduler.add_group(spec(9, 1, 10)).unwrap();
        let steps = run(&mut scheduler, &[vec![3], vec![2]]);
        let chunk = |start, len, sample| Span { source: Source::Prompt(1), start, len, sample };
        assert_eq!(steps[0], [prompt(0, 3), chunk(0, 2, false)]);
        assert_eq!(steps[1], [own(0, 0, 0, 1), chunk(2, 4, false)]);
        assert_eq!(steps[2], [own(0, 0, 1, 1), chunk(6, 3, true)]);
        assert_eq!(steps[3], [own(1, 0, 0, 1)]);
    }

    #[test]
    fn the_youngest_goes_back_and_computes_its_tokens_again() {
        let mut scheduler = Scheduler::new(config(5, 8, 100));
        scheduler.add_group(spec(4, 2, 12)).unwrap();
        let steps = run(&mut scheduler, &[vec![12, 12]]);
        assert_eq!(scheduler.num_preemptions(), 1);
        // Blocks: 1 for the prompt, then 2 for each sequence; the ninth token finds none left.
        assert_eq!(steps[8], [own(0, 0, 7, 1), own(0, 1, 7, 1)]);
        assert_eq!(steps[9], [own(0, 0, 8, 1)]);
        assert_eq!(steps[12], [own(0, 1, 0, 9)]);
    }

    #[test]
    fn a_group_that_cannot_fit_is_refused_and_others_run() {
        let mut scheduler = Scheduler::new(config(3, 8, 100));
        let refused = scheduler.add_group(spec(8, 1, 6)).unwrap_err();
        assert_eq!(refused, GroupTooLarge { needed_tokens: 16, cache_tokens: 12 });
        scheduler.add_group(spec(8, 1, 5)).unwrap();
        run(&mut scheduler, &[vec![5]]);
    }

    fn groups() -> impl Strategy<Value = Vec<(usize, Vec<usize>)>> {
        prop::collection::vec((1..30usize, prop::collection::vec(1..40usize, 1..6)), 1..8)
    }

    proptest! {
        #[test]
        fn everything_finishes_within_every_budget(
            groups in groups(),
            spare_blocks in 0..12usize,
            max_sequences in 1..12usize,
            step_tokens in 0..40usize,
        ) {
            let specs: Vec<GroupSpec> = groups.iter()
                .map(|(prompt_len, lengths)| spec(*prompt_len, lengths.len(), *lengths.iter().max().unwrap()))
                .collect();
            let largest = specs.iter().map(|s| s.prompt_len.div_ceil(4) + (s.max_new_tokens - 1).div_ceil(4)).max();
            let mut scheduler = Scheduler::new(config(largest.unwrap() + spare_blocks, max_sequences, max_sequences + step_tokens));
            for spec in &specs {
                scheduler.add_group(*spec).unwrap();
            }
            let lengths: Vec<Vec<usize>> = groups.into_iter().map(|(_, lengths)| lengths).collect();
            run(&mut scheduler, &lengths);
        }
    }
}
