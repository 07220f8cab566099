//! `skein bench step`: one RL step as training runs it, in parts that add up.
//!
//! Stop tokens are ignored and advantages are drawn, so that every run does the same work on any model; scoring is left
//! out, since what a response says does not matter here. `other` is the wall time that no part claims.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::json;
use skein_core::config::{Importance, KlEstimator, LossAggregation};
use skein_core::random::Stream;
use skein_core::types::SamplingParams;

use super::cost::{floor_bytes, forward_flops, peak_flops, peak_rss_bytes};
use crate::cli::prompts::Prompts;
use crate::cli::stdout::print_line;
use crate::engine::{DrawOrigin, Engine, EngineConfig, Event, Hooks, Request};
use crate::jobs::LoadedModel;
use crate::optim::AdamWParams;
use crate::trainer::{
    PolicyLossParams, ReferenceModel, Trainer, TrainerParams, TrainingCompletion, TrainingGroup, UpdateMetrics,
    UpdateTimings,
};

/// Arguments of `skein bench step`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Hugging Face model directory, or a hub id such as owner/name.
    #[arg(long)]
    model: String,
    /// JSONL file of prompts: {"prompt": "…"} or {"messages": […]} a line.
    #[arg(long)]
    prompts: PathBuf,
    /// Cut or repeat every prompt to this many tokens; 0 leaves them as they are.
    #[arg(long, default_value_t = 0)]
    prompt_tokens: usize,
    /// Samples per prompt.
    #[arg(long, default_value_t = 8)]
    group: usize,
    /// Tokens per sample.
    #[arg(long, default_value_t = 64)]
    max_new: usize,
    /// Tokens per forward and backward pass.
    #[arg(long, default_value_t = 1024)]
    micro_batch_tokens: usize,
    /// Weight of the KL term; 0 leaves out the reference model.
    #[arg(long, default_value_t = 1e-3)]
    kl_coef: f64,
    /// Recompute layers in the backward pass.
    #[arg(long)]
    checkpoint_layers: bool,
    /// Timed steps; the median is reported.
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// End with one JSON line on stdout (it always does; the flag is for scripts that say so).
    #[arg(long)]
    json: bool,
}

/// One timed step.
struct Step {
    wall: Duration,
    first_token: Duration,
    prefill: Duration,
    decode: Duration,
    reference: Duration,
    update: UpdateMetrics,
}

/// Runs the benchmark.
pub fn run(args: Args) -> Result<()> {
    let started = Instant::now();
    let loaded = LoadedModel::load(&args.model)?;
    let model = loaded.model.as_ref();
    let mut prompts: Vec<Vec<u32>> = Prompts::new(&loaded.dir, &loaded.tokenizer, false)
        .file(&args.prompts)?
        .into_iter()
        .map(|prompt| prompt.ids)
        .collect();
    if args.prompt_tokens > 0 {
        for ids in &mut prompts {
            *ids = ids.iter().copied().cycle().take(args.prompt_tokens).collect();
        }
    }
    let num_sequences = prompts.len() * args.group;
    let prompt_tokens: usize = prompts.iter().map(Vec::len).sum();
    let mut engine = Engine::new(
        model,
        EngineConfig {
            cache_tokens: prompt_tokens + 32 * prompts.len() + num_sequences * (args.max_new + 32),
            max_sequences: num_sequences,
            max_step_tokens: EngineConfig::default().max_step_tokens.max(num_sequences),
        },
    )?;
    let params = TrainerParams {
        max_tokens: args.micro_batch_tokens,
        checkpoint_layers: args.checkpoint_layers,
        ..TrainerParams::default()
    };
    let reference = (args.kl_coef > 0.0).then(|| ReferenceModel::copy_of(model, params));
    let mut trainer = Trainer::new(model, AdamWParams::default(), params);
    let startup = started.elapsed();
    let mut steps = Vec::new();
    let mut first_token_from_start = None;
    for index in 0..args.repeats.max(1) {
        let step = one_step(&args, index as u32, &prompts, &mut engine, reference.as_ref(), &mut trainer)?;
        first_token_from_start.get_or_insert(startup + step.first_token);
        tracing::info!(step = index + 1, seconds = format!("{:.2}", step.wall.as_secs_f64()));
        steps.push(step);
    }
    steps.sort_by_key(|step| step.wall);
    let walls: Vec<f64> = steps.iter().map(|step| step.wall.as_secs_f64()).collect();
    let step = &steps[steps.len() / 2];
    let new_tokens = num_sequences * args.max_new;
    // An update's forward and backward passes and the reference's read a prompt once for each micro-batch that has a part
    // of its group; generation reads it once.
    let passes = if reference.is_some() { 4.0 } else { 3.0 };
    let flops = forward_flops(model, prompt_tokens + new_tokens, new_tokens)
        + passes * forward_flops(model, step.update.num_layer_tokens, new_tokens);
    let peak = peak_flops();
    let UpdateTimings { forward, head, backward, optimizer } = step.update.timings;
    let parts = [step.prefill, step.decode, step.reference, forward, head, backward, optimizer];
    Ok(print_line(json!({
        "bench": "step",
        "model": args.model,
        "device": "cpu",
        "dtype": "f32",
        "threads": tch::get_num_threads(),
        "prompts": prompts.len(),
        "prompt_tokens": prompt_tokens,
        "group": args.group,
        "max_new_tokens": args.max_new,
        "step_seconds": seconds(step.wall),
        "step_seconds_runs": walls,
        "time_to_first_token_s": first_token_from_start.map(seconds),
        "peak_rss_bytes": peak_rss_bytes(),
        "floor_bytes": floor_bytes(model, reference.is_some()),
        "flops": flops,
        "gemm_peak_flops_per_second": peak,
        "of_gemm_peak": flops / seconds(step.wall) / peak,
        "breakdown_s": {
            "prefill": seconds(step.prefill),
            "decode": seconds(step.decode),
            "reference": seconds(step.reference),
            "forward": seconds(forward),
            "head": seconds(head),
            "backward": seconds(backward),
            "optimizer": seconds(optimizer),
            "other": seconds(step.wall) - parts.into_iter().map(seconds).sum::<f64>(),
        },
    }))?)
}

fn one_step(
    args: &Args,
    index: u32,
    prompts: &[Vec<u32>],
    engine: &mut Engine<'_>,
    reference: Option<&ReferenceModel>,
    trainer: &mut Trainer<'_>,
) -> Result<Step> {
    let started = Instant::now();
    let before = engine.timings();
    let params = SamplingParams { max_new_tokens: args.max_new, ..SamplingParams::default() };
    let requests: Vec<Request> = prompts
        .iter()
        .enumerate()
        .map(|(prompt, ids)| Request {
            prompt_ids: ids.clone(),
            num_samples: args.group,
            params: params.clone(),
            origin: DrawOrigin { seed: 0, step: index, prompt: prompt as u32 },
        })
        .collect();
    let mut first_token = None;
    let mut on_event = |event: Event<'_>| {
        if matches!(event, Event::Token { .. }) {
            first_token.get_or_insert_with(|| started.elapsed());
        }
    };
    let outcomes = engine.generate(&requests, &mut Hooks { decode: None, on_event: &mut on_event });
    let generated = engine.timings().since(&before);
    let mut advantages = Stream::new(0, "bench advantages", u64::from(index));
    let mut groups = Vec::with_capacity(prompts.len());
    for (number, (ids, completions)) in prompts.iter().zip(outcomes).enumerate() {
        let completions = completions.with_context(|| format!("prompt {}", number + 1))?;
        let completions = completions.into_iter().map(|completion| TrainingCompletion {
            token_ids: completion.token_ids,
            loss_mask: None,
            old_logprobs: completion.logprobs,
            ref_logprobs: None,
            advantage: (2.0 * advantages.uniform() - 1.0) as f32,
        });
        groups.push(TrainingGroup { prompt_ids: ids.clone(), completions: completions.collect() });
    }
    let scoring = Instant::now();
    if let Some(reference) = reference {
        reference.score(&mut groups)?;
    }
    let reference_time = scoring.elapsed();
    let update = trainer.policy_update(&groups, &policy_loss(args.kl_coef), 1e-6)?;
    Ok(Step {
        wall: started.elapsed(),
        first_token: first_token.unwrap_or_default(),
        prefill: generated.prefill,
        decode: generated.decode,
        reference: reference_time,
        update,
    })
}

/// GRPO's loss with its usual clip.
pub(super) fn policy_loss(kl_coef: f64) -> PolicyLossParams {
    PolicyLossParams {
        clip_ratio_low: 0.2,
        clip_ratio_high: 0.2,
        clip_ratio_c: None,
        importance: Importance::Token,
        importance_cap: None,
        kl_coef,
        kl_estimator: KlEstimator::K3,
        entropy_coef: 0.0,
        aggregation: LossAggregation::TokenMean,
        scale_tokens: 1,
    }
}

pub(super) fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}
