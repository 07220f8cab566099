//! Generates completions for a list of tasks and scores them: what RL and evaluation share.
//!
//! Scoring overlaps with generation but decides nothing: results come back in prompt and sample order.
//!
//! Where the policy is its own judge, responses that it judges wait until the round is generated; then the same engine
//! answers for all of them at once. Judging needs the engine that generated, mutably and on the thread that updates the
//! weights, and is over before the round is returned: so it is always the weights that wrote a response that judge it,
//! and no update can come in between.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use serde_json::{Value, json};
use skein_core::reward::scorers::DeferredJudge;
use skein_core::reward::{Reward, RewardContext, RewardError, score_guarded};
use skein_core::rl::{ScoredGroup, ScoredRollout};
use skein_core::task::CrossSkillTask;
use skein_core::types::{FinishReason, SamplingParams};
use skein_io::chat::ChatTemplate;
use skein_io::tokenizer::Tokenizer;

use super::engine_chat::EngineChat;
use crate::engine::{DrawOrigin, Engine, Event, Hooks, Request};
use crate::priority::give_way;

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

/// What decodes and scores completions.
pub struct Scoring<'a> {
    /// The policy's tokenizer.
    pub tokenizer: &'a Tokenizer,
    /// Scores responses.
    pub rewards: &'a RewardContext,
    /// The judge among the graders of `rewards`, where it is the policy, and the policy's chat template.
    pub policy_judge: Option<(&'a DeferredJudge, &'a ChatTemplate)>,
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
    /// Completions sampled, those without a verdict among them.
    pub num_responses: usize,
    /// Completions cut at the length limit.
    pub num_truncated: usize,
    /// Wall time of generation.
    pub generation: Duration,
    /// Wall time of the policy's judging, which other judges do beside generation.
    pub judging: Duration,
    /// Wall time of scoring that neither generation nor judging covered.
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

/// Generates and scores; a completion is scored as soon as it is whole, on threads that give way to generation.
///
/// # Errors
/// When a prompt cannot be generated from (too long for the context or the cache).
pub fn rollouts(engine: &mut Engine<'_>, scoring: &Scoring<'_>, request: &RolloutRequest<'_>) -> Result<Rollouts> {
    let Scoring { tokenizer, rewards, policy_judge } = *scoring;
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
    let verdicts = Verdicts::new(requests.len(), request.num_samples);
    let (generated, generation, judging) = grading_threads()?.in_place_scope(|scope| {
        let task = |prompt: usize| request.prompts[prompt].1;
        let score = |prompt, sample, text: String| {
            let (task, verdicts) = (task(prompt), &verdicts);
            scope.spawn(move |_| verdicts.put(prompt, sample, score_guarded(task, &text, rewards), text));
        };
        let mut waiting = Vec::new();
        let mut on_event = |event: Event<'_>| {
            if let Event::Finished { request: prompt, sample, completion } = event {
                let text = decode(&completion.token_ids);
                match policy_judge {
                    Some(_) if !rewards.judged(task(prompt), &text).is_empty() => waiting.push((prompt, sample, text)),
                    _ => score(prompt, sample, text),
                }
            }
        };
        let generated = engine.generate(&requests, &mut Hooks { decode: Some(&decode), on_event: &mut on_event });
        let generation = started.elapsed();
        if let Some((judge, template)) = policy_judge {
            waiting.sort_unstable();
            let judged: Vec<_> =
                waiting.iter().flat_map(|(prompt, _, text)| rewards.judged(task(*prompt), text)).collect();
            judge.hear(&judged, &EngineChat::new(engine, tokenizer, template));
        }
        let judging = started.elapsed() - generation;
        waiting.into_iter().for_each(|(prompt, sample, text)| score(prompt, sample, text));
        (generated, generation, judging)
    });
    let scoring = started.elapsed() - generation - judging;

    let mut rollouts = Rollouts {
        groups: Vec::with_capacity(generated.len()),
        texts: Vec::with_capacity(generated.len()),
        errors: Vec::new(),
        num_tokens: 0,
        num_responses: 0,
        num_truncated: 0,
        generation,
        judging,
        scoring,
    };
    for (((prompt, task, _), completions), verdicts) in request.prompts.iter().zip(generated).zip(verdicts.take()) {
        let completions = completions.with_context(|| format!("task `{}`", task.id))?;
        let mut group = ScoredGroup { prompt: *prompt, rollouts: Vec::with_capacity(completions.len()) };
        let mut texts = Vec::with_capacity(completions.len());
        for (completion, verdict) in completions.into_iter().zip(verdicts) {
            rollouts.num_tokens += completion.token_ids.len();
            rollouts.num_responses += 1;
            rollouts.num_truncated += usize::from(completion.finish_reason == FinishReason::Length);
            let (reward, text) = verdict.expect("every finished completion was scored before the scope ended");
            match reward {
                Ok(reward) => {
                    group.rollouts.push(ScoredRollout { completion, reward });
                    texts.push(text);
                }
                Err(error) => rollouts.errors.push(error),
            }
        }
        rollouts.groups.push(group);
        rollouts.texts.push(texts);
    }
    Ok(rollouts)
}

type Verdict = (Result<Reward, RewardError>, String);

/// Verdicts by place, so that the order in which graders finish decides nothing.
struct Verdicts {
    by_place: Mutex<Vec<Vec<Option<Verdict>>>>,
}

impl Verdicts {
    fn new(num_prompts: usize, num_samples: usize) -> Self {
        let empty = (0..num_prompts).map(|_| (0..num_samples).map(|_| None).collect()).collect();
        Self { by_place: Mutex::new(empty) }
    }

    fn put(&self, prompt: usize, sample: usize, reward: Result<Reward, RewardError>, text: String) {
        // A poisoned lock only means that another thread panicked between two writes; what is there is whole.
        let mut by_place = self.by_place.lock().unwrap_or_else(PoisonError::into_inner);
        by_place[prompt][sample] = Some((reward, text));
    }

    fn take(self) -> Vec<Vec<Option<Verdict>>> {
        self.by_place.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Threads for graders, one a core, at the lowest priority: a busy thread beside a matrix product at equal priority
/// would double its time, since its halves wait for each other.
///
/// # Errors
/// When the system has no thread left.
fn grading_threads() -> Result<&'static ThreadPool> {
    static THREADS: LazyLock<Result<ThreadPool, ThreadPoolBuildError>> = LazyLock::new(|| {
        ThreadPoolBuilder::new()
            .thread_name(|index| format!("grader {index}"))
            .start_handler(|_| give_way("a grader"))
            .build()
    });
    THREADS.as_ref().context("starting the threads of the graders")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use skein_core::config::{ProceduralTasks, ScratchConfig, TaskSource};
    use skein_core::reward::format::StepCount;
    use tch::{Device, Kind};

    use super::*;
    use crate::checkpoint::{TokenIds, init_model};
    use crate::engine::EngineConfig;
    use crate::jobs::data::TaskSet;

    const SAMPLES: usize = 3;

    /// An untrained model: it draws ids that no encoder would put together.
    fn untrained(tokenizer: &Tokenizer, pad: u32) -> Box<dyn crate::models::CausalLm> {
        let config = ScratchConfig { hidden_size: 32, num_hidden_layers: 1, ..ScratchConfig::default() };
        let ids = TokenIds { vocab_size: tokenizer.vocab_size(), eos: vec![pad], pad: Some(pad) };
        init_model(&config, &ids, 5, (Kind::Float, Device::Cpu)).unwrap().model
    }

    #[test]
    fn groups_hold_the_ids_as_they_were_sampled() {
        let tokenizer = Tokenizer::load(Path::new("data/tiny-tokenizer")).unwrap();
        // One id ends a response, pads it, and stands in the middle of prompts.
        let end = tokenizer.special().eos_id.unwrap();
        let model = untrained(&tokenizer, end);
        let config = EngineConfig { cache_tokens: 4096, max_sequences: 8, max_step_tokens: 256 };
        let mut engine = Engine::new(model.as_ref(), config).unwrap();
        let source = TaskSource::Procedural(ProceduralTasks { num_tasks: 6, ..ProceduralTasks::default() });
        let tasks = TaskSet::load(&source).unwrap().tasks;
        let prompt_ids: Vec<Vec<u32>> = (0..tasks.len() as u32).map(|prompt| vec![end, 7 + prompt, end, 9]).collect();
        // Some responses end by an id, some are cut.
        let stop_token_ids = (0..tokenizer.vocab_size() as u32).filter(|id| id % 16 == 0).collect();
        let sampling = SamplingParams { max_new_tokens: 12, stop_token_ids, ..SamplingParams::default() };
        let origin = DrawOrigin { seed: 3, step: 1, prompt: 0 };
        let request = RolloutRequest {
            prompts: tasks.iter().zip(&prompt_ids).enumerate().map(|(i, (task, ids))| (i, task, &ids[..])).collect(),
            num_samples: SAMPLES,
            sampling: &sampling,
            origin,
        };

        let mut sampled = vec![vec![(Vec::new(), Vec::new()); SAMPLES]; tasks.len()];
        let mut on_event = |event: Event<'_>| {
            if let Event::Token { request, sample, token_id, logprob } = event {
                let (ids, logprobs): &mut (Vec<u32>, Vec<f32>) = &mut sampled[request][sample];
                ids.push(token_id);
                logprobs.push(logprob);
            }
        };
        let requests: Vec<Request> = prompt_ids
            .iter()
            .enumerate()
            .map(|(prompt, ids)| Request {
                prompt_ids: ids.clone(),
                num_samples: SAMPLES,
                params: with_stops(&sampling, &tokenizer),
                origin: DrawOrigin { prompt: prompt as u32, ..origin },
            })
            .collect();
        engine.generate(&requests, &mut Hooks { decode: None, on_event: &mut on_event });

        let rewards = RewardContext::answer_only(StepCount::Strict);
        let scoring = Scoring { tokenizer: &tokenizer, rewards: &rewards, policy_judge: None };
        let round = rollouts(&mut engine, &scoring, &request).unwrap();
        let completions = || round.groups.iter().flat_map(|group| group.rollouts.iter().map(|r| &r.completion));
        let held: Vec<_> = completions().map(|c| (c.token_ids.clone(), c.logprobs.clone())).collect();
        assert_eq!(held, sampled.concat());
        assert_eq!(
            round.groups.iter().map(|group| group.prompt).collect::<Vec<_>>(),
            (0..tasks.len()).collect::<Vec<_>>()
        );

        // The cases that a detour over text or a mask made of ids would get wrong are among them.
        let is_respelled = |ids: &[u32]| tokenizer.encode(&tokenizer.decode(ids).unwrap()).unwrap() != ids;
        assert!(completions().any(|completion| is_respelled(&completion.token_ids)));
        for reason in [FinishReason::Stop, FinishReason::Length] {
            assert!(completions().any(|completion| completion.finish_reason == reason), "{reason:?}");
        }
        assert!(completions().any(|c| c.token_ids.last().is_some_and(|last| sampling.stop_token_ids.contains(last))));
    }
}
