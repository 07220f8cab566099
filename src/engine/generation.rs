//! The completions in the making of one call: what to draw next, when a sequence ends, what to report.

use skein_core::batching::scheduler::{GroupSpec, Scheduler, SequenceId, Source, Span};
use skein_core::random::{DrawKey, uniform};
use skein_core::types::{Completion, FinishReason, SamplingParams};

use crate::kernels::sampler::{Choice, Sampled, Sampling};
use crate::models::ModelConfig;

use super::request::{Decode, Event, Hooks, Request, RequestError};
use super::runner::TokenIds;

/// Tokens decoded beyond a stop string's length in bytes: room for tokens without text of their own.
const STOP_MARGIN: usize = 8;

/// A draw to make: for whom, from which row of the logits, how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draw {
    pub id: SequenceId,
    pub sampling: Sampling,
}

/// State of one call. Groups of the scheduler are the accepted requests, in order.
pub(super) struct Generation<'a, 'h> {
    requests: &'a [Request],
    config: &'a ModelConfig,
    hooks: &'a mut Hooks<'h>,
    outcomes: Vec<Result<Vec<Completion>, RequestError>>,
    /// Request of each group.
    request_of: Vec<usize>,
}

impl<'a, 'h> Generation<'a, 'h> {
    pub(super) fn new(requests: &'a [Request], config: &'a ModelConfig, hooks: &'a mut Hooks<'h>) -> Self {
        Self { requests, config, hooks, outcomes: Vec::new(), request_of: Vec::new() }
    }

    /// Queues every request that can run, and notes why the others cannot.
    pub(super) fn admit(&mut self, scheduler: &mut Scheduler) {
        for (index, request) in self.requests.iter().enumerate() {
            let queued = request.check(self.config, self.hooks.decode.is_some()).and_then(|()| {
                let max_new_tokens = self.max_new_tokens(request);
                let spec = GroupSpec {
                    prompt_len: request.prompt_ids.len(),
                    num_samples: request.num_samples,
                    max_new_tokens,
                };
                Ok(scheduler.add_group(spec)?)
            });
            self.outcomes.push(queued.map(|_| {
                self.request_of.push(index);
                let empty =
                    Completion { token_ids: Vec::new(), logprobs: Vec::new(), finish_reason: FinishReason::Length };
                vec![empty; request.num_samples]
            }));
        }
    }

    fn max_new_tokens(&self, request: &Request) -> usize {
        let room = self.config.max_position_embeddings - request.prompt_ids.len();
        request.params.max_new_tokens.min(room)
    }

    /// The draws that follow `spans`: rows of the logits are the spans that sample, in order.
    pub(super) fn draws(&self, spans: &[Span], scheduler: &Scheduler) -> Vec<Draw> {
        let sampled = spans.iter().filter(|span| span.sample).enumerate();
        sampled
            .flat_map(|(row, span)| {
                let ids = match span.source {
                    Source::Prompt(group) => scheduler.unfinished(group),
                    Source::Sequence(id) => vec![id],
                };
                ids.into_iter().map(move |id| Draw { id, sampling: self.sampling(row, id) })
            })
            .collect()
    }

    fn sampling(&self, row: usize, id: SequenceId) -> Sampling {
        let Request { params, origin, .. } = &self.requests[self.request_of[id.group]];
        let choice = if params.temperature == 0.0 {
            Choice::Greedy
        } else {
            Choice::Draw(uniform(DrawKey {
                seed: origin.seed,
                step: origin.step,
                prompt: origin.prompt,
                sample: id.sample as u32,
                token: self.token_ids(Source::Sequence(id)).len() as u32,
            }))
        };
        let SamplingParams { temperature, top_k, top_p, min_p, .. } = *params;
        Sampling { row, temperature: temperature as f32, top_k, top_p, min_p, choice }
    }

    /// Appends a sampled token to its sequence, ends the sequence where it must, and reports.
    pub(super) fn accept(&mut self, id: SequenceId, sampled: Sampled, scheduler: &mut Scheduler) {
        let index = self.request_of[id.group];
        let request = &self.requests[index];
        let limit = self.max_new_tokens(request);
        // The request may have failed with an earlier draw of the same step.
        let Ok(completions) = &mut self.outcomes[index] else { return };
        let completion = &mut completions[id.sample];
        if sampled.logprob.is_nan() {
            let error = RequestError::BrokenLogits { sample: id.sample, token: completion.token_ids.len() };
            self.outcomes[index] = Err(error);
            scheduler.unfinished(id.group).into_iter().for_each(|id| scheduler.finish(id));
            return;
        }
        completion.token_ids.push(sampled.token);
        completion.logprobs.push(sampled.logprob);
        scheduler.token_sampled(id);
        (self.hooks.on_event)(Event::Token {
            request: index,
            sample: id.sample,
            token_id: sampled.token,
            logprob: sampled.logprob,
        });
        let stopped = stops(&request.params, &completion.token_ids, self.hooks.decode);
        if stopped || completion.token_ids.len() == limit {
            completion.finish_reason = if stopped { FinishReason::Stop } else { FinishReason::Length };
            (self.hooks.on_event)(Event::Finished { request: index, sample: id.sample, completion });
            scheduler.finish(id);
        }
    }

    pub(super) fn finish(self) -> Vec<Result<Vec<Completion>, RequestError>> {
        self.outcomes
    }
}

impl TokenIds for Generation<'_, '_> {
    fn token_ids(&self, source: Source) -> &[u32] {
        match source {
            Source::Prompt(group) => &self.requests[self.request_of[group]].prompt_ids,
            Source::Sequence(id) => match &self.outcomes[self.request_of[id.group]] {
                Ok(completions) => &completions[id.sample].token_ids,
                Err(_) => &[],
            },
        }
    }
}

/// Whether the last token ends the completion.
fn stops(params: &SamplingParams, token_ids: &[u32], decode: Option<&Decode<'_>>) -> bool {
    if token_ids.last().is_some_and(|id| params.stop_token_ids.contains(id)) {
        return true;
    }
    let (Some(decode), Some(longest)) = (decode, params.stop_strings.iter().map(String::len).max()) else {
        return false;
    };
    // Every token but a few holds at least a byte of text, so the tail is enough, and the whole is never decoded again.
    let tail = &token_ids[token_ids.len().saturating_sub(longest + STOP_MARGIN)..];
    let text = decode(tail);
    params.stop_strings.iter().any(|stop| text.contains(stop.as_str()))
}

/// A sequence whose tokens are known beforehand.
pub(super) struct Forced<'a> {
    pub prompt_ids: &'a [u32],
    pub continuation_ids: &'a [u32],
}

impl TokenIds for Forced<'_> {
    fn token_ids(&self, source: Source) -> &[u32] {
        match source {
            Source::Prompt(_) => self.prompt_ids,
            Source::Sequence(_) => self.continuation_ids,
        }
    }
}
