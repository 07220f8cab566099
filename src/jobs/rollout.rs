//! Generates completions for a list of tasks and scores them: what RL and evaluation share.
//!
//! Scoring happens on other threads' time but decides nothing here: results come back in prompt and sample order.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use skein_core::reward::{RewardContext, RewardError, score_batch};
use skein_core::rl::{ScoredGroup, ScoredRollout};
use skein_core::task::CrossSkillTask;
use skein_core::types::{FinishReason, SamplingParams};
use skein_io::tokenizer::Tokenizer;

use crate::engine::{DrawOrigin, Engine, Hooks, Request};

/// Completions asked for: `num_samples` for each of some prompts.
pub struct RolloutRequest<'a> {
    /// `(index in the data set, task, prompt ids)`.
    pub prompts: Vec<(usize, &'a CrossSkillTask, &'a [u32])>,
    /// Completions per prompt.
    pub num_samples: usize,
    /// How they are drawn.
    pub sampling: &'a SamplingParams,
    /// Seed and step of the draws; the prompt's index is filled in.
    pub origin: DrawOrigin,
}

/// Scored completions and what they cost.
pub struct Rollouts {
    /// One group per prompt, in the order asked for; only completions whose grader gave a verdict.
    pub groups: Vec<ScoredGroup>,
    /// Decoded text of every rollout, `[group][sample]`.
    pub texts: Vec<Vec<String>>,
    /// Graders that failed.
    pub errors: Vec<RewardError>,
    /// Tokens sampled.
    pub num_tokens: usize,
    /// Completions cut at the length limit.
    pub num_truncated: usize,
    /// Wall time of generation.
    pub generation: Duration,
    /// Wall time of scoring.
    pub scoring: Duration,
}

impl Rollouts {
    /// One JSON object per rollout, in prompt and sample order.
    pub fn records(&self, tasks: &[CrossSkillTask]) -> impl Iterator<Item = Value> {
        self.groups.iter().zip(&self.texts).flat_map(|(group, texts)| {
            let task = &tasks[group.prompt];
            group.rollouts.iter().zip(texts).enumerate().map(move |(sample, (rollout, text))| {
                let reward = &rollout.reward;
                json!({
                    "id": task.id,
                    "sample": sample,
                    "response": text,
                    "gold": task.steps.iter().map(|step| &step.answer).collect::<Vec<_>>(),
                    "score": reward.total,
                    "answer": reward.answer,
                    "entropy": reward.entropy,
                    "steps": reward.steps.iter().map(|step| step.score).collect::<Vec<_>>(),
                    "malformed": reward.malformed.as_ref().map(ToString::to_string),
                    "tokens": rollout.completion.token_ids.len(),
                    "finish_reason": rollout.completion.finish_reason,
                })
            })
        })
    }
}

/// `sampling` that also stops at the model's own end-of-sequence ids.
pub fn with_stops(sampling: &SamplingParams, tokenizer: &Tokenizer) -> SamplingParams {
    let mut params = sampling.clone();
    params.stop_token_ids.extend(&tokenizer.special().stop_ids);
    params
}

/// Generates and scores.
///
/// # Errors
/// When a prompt cannot be generated from (too long for the context or the cache).
pub fn rollouts(
    engine: &mut Engine<'_>,
    tokenizer: &Tokenizer,
    rewards: &RewardContext,
    request: &RolloutRequest<'_>,
) -> Result<Rollouts> {
    let started = Instant::now();
    let requests: Vec<Request> = request
        .prompts
        .iter()
        .map(|(index, _, prompt_ids)| Request {
            prompt_ids: prompt_ids.to_vec(),
            num_samples: request.num_samples,
            params: with_stops(request.sampling, tokenizer),
            origin: DrawOrigin { prompt: *index as u32, ..request.origin },
        })
        .collect();
    let decode = |ids: &[u32]| tokenizer.decode_visible(ids).unwrap_or_default();
    let generated = engine.generate(&requests, &mut Hooks { decode: Some(&decode), on_event: &mut |_| {} });
    let generation = started.elapsed();

    let started = Instant::now();
    let mut completions = Vec::with_capacity(generated.len());
    for ((_, task, _), group) in request.prompts.iter().zip(generated) {
        completions.push(group.with_context(|| format!("task `{}`", task.id))?);
    }
    let texts: Vec<Vec<String>> = completions
        .iter()
        .map(|group| group.iter().map(|one| tokenizer.decode_visible(&one.token_ids)).collect::<Result<_, _>>())
        .collect::<Result<_, _>>()?;
    let pairs: Vec<(&CrossSkillTask, &str)> = request
        .prompts
        .iter()
        .zip(&texts)
        .flat_map(|((_, task, _), group)| group.iter().map(move |text| (*task, text.as_str())))
        .collect();
    let mut verdicts = score_batch(&pairs, rewards).into_iter();

    let mut rollouts = Rollouts {
        groups: Vec::with_capacity(completions.len()),
        texts: Vec::with_capacity(completions.len()),
        errors: Vec::new(),
        num_tokens: completions.iter().flatten().map(|one| one.token_ids.len()).sum(),
        num_truncated: completions.iter().flatten().filter(|one| one.finish_reason == FinishReason::Length).count(),
        generation,
        scoring: Duration::ZERO,
    };
    for ((prompt, _, _), (group, texts)) in request.prompts.iter().zip(completions.into_iter().zip(texts)) {
        let mut scored = ScoredGroup { prompt: *prompt, rollouts: Vec::with_capacity(group.len()) };
        let mut kept_texts = Vec::with_capacity(group.len());
        for (completion, text) in group.into_iter().zip(texts) {
            match verdicts.next().expect("one verdict per response") {
                Ok(reward) => {
                    scored.rollouts.push(ScoredRollout { completion, reward });
                    kept_texts.push(text);
                }
                Err(error) => rollouts.errors.push(error),
            }
        }
        rollouts.groups.push(scored);
        rollouts.texts.push(kept_texts);
    }
    rollouts.scoring = started.elapsed();
    Ok(rollouts)
}
