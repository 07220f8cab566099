//! The start-up check that rollout and training compute the same log-probabilities.
//!
//! GRPO takes old log-probabilities from the sampler. If the two paths disagree, every importance ratio is off and
//! training drifts without a visible error, so a run refuses to start past a bound.

use anyhow::{Result, bail};
use skein_core::config::RlConfig;
use skein_core::types::SamplingParams;

use super::rollout::with_stops;
use super::session::Session;
use crate::engine::{DrawOrigin, Engine, Hooks, Request};
use crate::trainer::{PromptCompletions, Trainer};

const NUM_PROMPTS: usize = 2;
const NUM_SAMPLES: usize = 2;
const MAX_NEW_TOKENS: usize = 32;
/// Keeps these draws apart from training's and evaluation's.
const CHECK_DRAWS: u32 = u32::MAX - 1;

/// Samples a few completions and compares both paths' log-probabilities of every token.
///
/// # Errors
/// When any token differs by more than `rl.logprob_gap_bound`.
pub fn run(
    session: &Session,
    engine: &mut Engine<'_>,
    trainer: &Trainer<'_>,
    config: &RlConfig,
    prompt_ids: &[Vec<u32>],
) -> Result<()> {
    let params = SamplingParams {
        stop_strings: Vec::new(),
        max_new_tokens: config.sampling.max_new_tokens.min(MAX_NEW_TOKENS),
        ..with_stops(&config.sampling, &session.tokenizer)
    };
    let prompts = &prompt_ids[..prompt_ids.len().min(NUM_PROMPTS)];
    let requests: Vec<Request> = prompts
        .iter()
        .enumerate()
        .map(|(index, ids)| Request {
            prompt_ids: ids.clone(),
            num_samples: NUM_SAMPLES,
            params: params.clone(),
            origin: DrawOrigin { seed: session.config.seed, step: CHECK_DRAWS, prompt: index as u32 },
        })
        .collect();
    let mut gap = 0f64;
    for (prompt_ids, group) in
        prompts.iter().zip(engine.generate(&requests, &mut Hooks { decode: None, on_event: &mut |_| {} }))
    {
        let group = group?;
        let completions: Vec<&[u32]> = group.iter().map(|completion| completion.token_ids.as_slice()).collect();
        let trained = trainer.logprobs(&[PromptCompletions { prompt_ids, completions: &completions }])?;
        for (completion, trained) in group.iter().zip(&trained[0]) {
            for (sampled, trained) in completion.logprobs.iter().zip(trained) {
                gap = gap.max(f64::from((sampled - trained).abs()));
            }
        }
    }
    tracing::info!("rollout and training log-probabilities differ by at most {gap:.2e}");
    if gap.is_nan() || gap > config.logprob_gap_bound {
        bail!(
            "rollout and training log-probabilities differ by {gap:.3e}, more than rl.logprob_gap_bound = {:.3e}: the \
             policy gradient would be wrong. In bf16 a larger bound can be right; in f32 this is a fault",
            config.logprob_gap_bound
        );
    }
    Ok(())
}
