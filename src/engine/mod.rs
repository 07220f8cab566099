//! Prompts in, completions with log-probs out: continuous batching over one cache, on the weights that train.
//!
//! [`Engine`] asks the scheduler for a step, runs it through the same [`CausalLm`] the trainer uses, samples, and
//! reports. It keeps nothing between calls but the cache's memory: weights may change in place from one call to the
//! next. It records no gradients, knows no tokenizer (whoever wants stop strings brings the decoding) and never lets
//! one request's failure touch another's completions. f32 on CPU only.
//!
//! Legend: `N` packed tokens of a step, `M` rows whose logits are wanted, `V` vocabulary.

mod cache;
mod generation;
mod request;
mod runner;

use std::time::Duration;

use skein_core::batching::scheduler::{GroupSpec, Scheduler, SchedulerConfig, SequenceId, Source};
use skein_core::types::Completion;
use tch::{Device, Kind, Tensor};

pub use request::{Decode, DrawOrigin, Event, Hooks, Request, RequestError};

use crate::kernels::cache::{BLOCK_TOKENS, Heads};
use crate::kernels::sampler::{Choice, Sampling, sample};
use crate::kernels::tensors::Rows;
use crate::models::CausalLm;
use cache::KvCache;
use generation::Generation;
use runner::{Batch, ModelRunner};

/// How much an engine holds and computes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineConfig {
    /// Tokens whose keys and values fit in the cache, over all sequences; a shared prompt counts once.
    pub cache_tokens: usize,
    /// Sequences decoded at once.
    pub max_sequences: usize,
    /// Tokens computed in one step, prompts included; at least `max_sequences`.
    pub max_step_tokens: usize,
}

impl Default for EngineConfig {
    /// Enough for 64 sequences of 512 tokens. Half a second of prefill at most stands between two decode steps of a
    /// model of 10⁸ parameters on two cores.
    fn default() -> Self {
        Self { cache_tokens: 32 * 1024, max_sequences: 64, max_step_tokens: 512 }
    }
}

/// Why an engine cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The cache is larger than what can be had.
    #[error(
        "a cache of {cache_tokens} tokens: there is not that much memory for keys and values; set rollout.cache_tokens lower"
    )]
    CacheMemory {
        /// Tokens asked for.
        cache_tokens: usize,
    },
    /// The weights are of another type or elsewhere.
    #[error("generation runs in f32 on CPU; this model's weights are {kind} on {device}. Load it as f32 on CPU")]
    Unsupported {
        /// Type of the weights.
        kind: String,
        /// Where they are.
        device: String,
    },
    /// A limit is zero.
    #[error("`{0}` must be at least 1")]
    ZeroLimit(&'static str),
    /// A step could not take one token of each sequence.
    #[error("`max_step_tokens` is {max_step_tokens} but must be at least `max_sequences`, {max_sequences}")]
    StepTooSmall {
        /// Tokens in a step.
        max_step_tokens: usize,
        /// Sequences decoded at once.
        max_sequences: usize,
    },
}

/// Where the time of an engine went since it was made, and what it bought.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Timings {
    /// Steps that computed prompt tokens, whole.
    pub prefill: Duration,
    /// Steps that only decoded, whole.
    pub decode: Duration,
    /// Of `decode`: storing keys and values, and attention.
    pub attention: Duration,
    /// Of `decode`: the output projection.
    pub head: Duration,
    /// Of `decode`: drawing tokens.
    pub sampler: Duration,
    /// Steps that only decoded.
    pub decode_steps: usize,
    /// Prompt tokens computed.
    pub prompt_tokens: usize,
    /// Tokens sampled.
    pub sampled_tokens: usize,
    /// Times a sequence was sent back to wait and computed again.
    pub preemptions: usize,
}

/// Log-probs and logits of given tokens, computed the way generation computes them.
#[derive(Debug)]
pub struct Scored {
    /// Log-probability of each continuation token under softmax(logits).
    pub logprobs: Vec<f32>,
    /// The logits that predict each continuation token: `[C, V]` f32.
    pub logits: Tensor,
}

/// Generates with one model.
pub struct Engine<'m> {
    model: &'m dyn CausalLm,
    config: EngineConfig,
    runner: ModelRunner,
    timings: Timings,
}

impl std::fmt::Debug for Engine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("config", &self.config).field("timings", &self.timings).finish_non_exhaustive()
    }
}

impl<'m> Engine<'m> {
    /// An engine over `model`; reserves the cache's address space, whose pages are taken when first used.
    ///
    /// # Errors
    /// Weights that are not f32 on CPU, or impossible limits.
    pub fn new(model: &'m dyn CausalLm, config: EngineConfig) -> Result<Self, EngineError> {
        let weight = model.head_weight();
        if weight.kind() != Kind::Float || weight.device() != Device::Cpu {
            return Err(EngineError::Unsupported {
                kind: format!("{:?}", weight.kind()),
                device: format!("{:?}", weight.device()),
            });
        }
        let EngineConfig { cache_tokens, max_sequences, max_step_tokens } = config;
        for (name, limit) in [("cache_tokens", cache_tokens), ("max_sequences", max_sequences)] {
            if limit == 0 {
                return Err(EngineError::ZeroLimit(name));
            }
        }
        if max_step_tokens < max_sequences {
            return Err(EngineError::StepTooSmall { max_step_tokens, max_sequences });
        }
        let shapes = model.config();
        let heads = Heads {
            num_heads: shapes.num_attention_heads as usize,
            num_kv_heads: shapes.num_key_value_heads as usize,
            head_dim: shapes.head_dim as usize,
        };
        let cache = KvCache::new(heads, shapes.num_hidden_layers, cache_tokens.div_ceil(BLOCK_TOKENS))
            .ok_or(EngineError::CacheMemory { cache_tokens })?;
        Ok(Self { model, config, runner: ModelRunner::new(cache), timings: Timings::default() })
    }

    /// Tokens a sequence may have, prompt and completion together.
    pub fn context(&self) -> usize {
        self.model.config().max_position_embeddings
    }

    /// Where this engine's time went so far.
    pub fn timings(&self) -> Timings {
        self.timings
    }

    /// Completes every request; answers in request order, `num_samples` completions each.
    ///
    /// Tokens and ends are reported to `hooks` as they happen. A failing request (empty or too long a prompt, nothing
    /// to generate, a sequence larger than the cache, broken logits) gets its error, the others their completions.
    pub fn generate(
        &mut self,
        requests: &[Request],
        hooks: &mut Hooks<'_>,
    ) -> Vec<Result<Vec<Completion>, RequestError>> {
        let _guard = tch::no_grad_guard();
        let mut scheduler = self.scheduler();
        let mut generation = Generation::new(requests, self.model.config(), hooks);
        generation.admit(&mut scheduler);
        loop {
            let spans = scheduler.schedule();
            if spans.is_empty() {
                break;
            }
            let batch = Batch::new(&spans, &scheduler, &generation, self.runner.heads());
            let (logits, mut times) = self.runner.run(self.model, &batch);
            let draws = generation.draws(&spans, &scheduler);
            let start = std::time::Instant::now();
            let samplings: Vec<Sampling> = draws.iter().map(|draw| draw.sampling).collect();
            let sampled = Rows::of(&logits).map_or_else(Vec::new, |rows| sample(rows, &samplings));
            times.sampler = start.elapsed();
            for (draw, sampled) in draws.iter().zip(sampled) {
                generation.accept(draw.id, sampled, &mut scheduler);
            }
            let prompt_tokens = spans.iter().filter(|span| matches!(span.source, Source::Prompt(_)));
            self.timings.add(times, prompt_tokens.map(|span| span.len).sum(), draws.len());
        }
        self.timings.preemptions += scheduler.num_preemptions();
        generation.finish()
    }

    /// Log-probs and logits of `continuation_ids` after `prompt_ids`, teacher-forced through the cached path: the
    /// prompt is prefilled, then each token is decoded as generation would decode it.
    ///
    /// # Errors
    /// The same as a request's.
    pub fn score(&mut self, prompt_ids: &[u32], continuation_ids: &[u32]) -> Result<Scored, RequestError> {
        let _guard = tch::no_grad_guard();
        let config = self.model.config();
        request::check_ids(prompt_ids, config)?;
        request::check_ids(continuation_ids, config)?;
        let tokens = prompt_ids.len() + continuation_ids.len();
        if tokens > self.context() {
            return Err(RequestError::PromptTooLong { tokens, context: self.context() });
        }
        let mut scheduler = self.scheduler();
        let spec = GroupSpec { prompt_len: prompt_ids.len(), num_samples: 1, max_new_tokens: continuation_ids.len() };
        let group = scheduler.add_group(spec)?;
        let id = SequenceId { group, sample: 0 };
        let forced = generation::Forced { prompt_ids, continuation_ids };
        let (mut logprobs, mut rows) = (Vec::new(), Vec::new());
        while logprobs.len() < continuation_ids.len() {
            let spans = scheduler.schedule();
            let batch = Batch::new(&spans, &scheduler, &forced, self.runner.heads());
            let (logits, _) = self.runner.run(self.model, &batch);
            if spans.iter().any(|span| span.sample) {
                let choice = Choice::Given(continuation_ids[logprobs.len()]);
                let sampling = Sampling { row: 0, temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, choice };
                let sampled = Rows::of(&logits).map_or_else(Vec::new, |rows| sample(rows, &[sampling]));
                logprobs.extend(sampled.iter().map(|sampled| sampled.logprob));
                rows.push(logits);
                scheduler.token_sampled(id);
            }
        }
        Ok(Scored { logprobs, logits: Tensor::cat(&rows, 0) })
    }

    fn scheduler(&self) -> Scheduler {
        Scheduler::new(SchedulerConfig {
            block_tokens: BLOCK_TOKENS,
            num_blocks: self.config.cache_tokens.div_ceil(BLOCK_TOKENS),
            max_sequences: self.config.max_sequences,
            max_step_tokens: self.config.max_step_tokens,
        })
    }
}

impl Timings {
    /// What was added after `earlier` was taken from the same engine.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            prefill: self.prefill - earlier.prefill,
            decode: self.decode - earlier.decode,
            attention: self.attention - earlier.attention,
            head: self.head - earlier.head,
            sampler: self.sampler - earlier.sampler,
            decode_steps: self.decode_steps - earlier.decode_steps,
            prompt_tokens: self.prompt_tokens - earlier.prompt_tokens,
            sampled_tokens: self.sampled_tokens - earlier.sampled_tokens,
            preemptions: self.preemptions - earlier.preemptions,
        }
    }

    fn add(&mut self, times: runner::StepTimes, prompt_tokens: usize, sampled_tokens: usize) {
        let whole = times.model + times.head + times.sampler;
        if prompt_tokens > 0 {
            self.prefill += whole;
        } else {
            self.decode += whole;
            self.decode_steps += 1;
            self.attention += times.attention;
            self.head += times.head;
            self.sampler += times.sampler;
        }
        self.prompt_tokens += prompt_tokens;
        self.sampled_tokens += sampled_tokens;
    }
}
