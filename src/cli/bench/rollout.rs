//! `skein bench rollout`: tokens per second of grouped sampling, against the same run's bare matrix products.
//!
//! Stop tokens are ignored, so every run does the same work. The matrix products are timed before, between and after
//! the runs, and each run is compared with its two neighbours: on a shared machine only such ratios mean something.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::json;
use skein_core::types::SamplingParams;

use super::cost::peak_rss_bytes;
use super::matrix_products::time_step;
use crate::cli::prompts::Prompts;
use crate::cli::stdout::print_line;
use crate::engine::{DrawOrigin, Engine, EngineConfig, Event, Hooks, Request, Timings};
use crate::jobs::LoadedModel;

/// Arguments of `skein bench rollout`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Hugging Face model directory, or a hub id such as owner/name.
    #[arg(long)]
    model: String,
    /// JSONL file of prompts: {"prompt": "…"} or {"messages": […]} a line.
    #[arg(long)]
    prompts: PathBuf,
    /// Samples per prompt.
    #[arg(long, default_value_t = 8)]
    group: usize,
    /// Tokens per sample.
    #[arg(long, default_value_t = 64)]
    max_new: usize,
    /// Wrap plain prompts with the model's chat template.
    #[arg(long)]
    chat: bool,
    /// Timed runs; the one with the median ratio to the matrix products is reported.
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// Sequences decoded at once; all of them by default.
    #[arg(long)]
    max_sequences: Option<usize>,
    /// End with one JSON line on stdout (it always does; the flag is for scripts that say so).
    #[arg(long)]
    json: bool,
}

/// Matrix products of this many steps are timed between runs.
const PRODUCT_REPEATS: usize = 9;

struct Run {
    wall: Duration,
    first_token: Duration,
    tokens: usize,
    timings: Timings,
    /// Mean of the matrix products' times before and after.
    products: Duration,
}

impl Run {
    fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / self.wall.as_secs_f64()
    }

    fn bound(&self, batch: usize) -> f64 {
        batch as f64 / self.products.as_secs_f64()
    }
}

/// Runs the benchmark.
pub fn run(args: Args) -> Result<()> {
    let repeats = args.repeats.max(1);
    let LoadedModel { model, tokenizer, dir, .. } = LoadedModel::load(&args.model)?;
    let prompts = Prompts::new(&dir, &tokenizer, args.chat).file(&args.prompts)?;
    let params = SamplingParams { max_new_tokens: args.max_new, ..SamplingParams::default() };
    let requests: Vec<Request> = prompts
        .iter()
        .enumerate()
        .map(|(index, prompt)| Request {
            prompt_ids: prompt.ids.clone(),
            num_samples: args.group,
            params: params.clone(),
            origin: DrawOrigin { seed: 0, step: 0, prompt: index as u32 },
        })
        .collect();
    let num_sequences = requests.len() * args.group;
    let batch = args.max_sequences.unwrap_or(num_sequences).min(num_sequences).max(1);
    let prompt_tokens: usize = requests.iter().map(|request| request.prompt_ids.len() + 32).sum();
    let config = EngineConfig {
        cache_tokens: prompt_tokens + batch * (args.max_new + 32),
        max_sequences: batch,
        max_step_tokens: EngineConfig::default().max_step_tokens.max(batch),
    };
    let mut engine = Engine::new(&*model, config)?;
    generate(&mut engine, &requests)?; // pages of the cache, threads, the allocator
    let mut runs = Vec::new();
    let mut before = time_step(&*model, batch as i64, PRODUCT_REPEATS);
    for index in 0..repeats {
        let mut run = generate(&mut engine, &requests)?;
        let after = time_step(&*model, batch as i64, PRODUCT_REPEATS);
        run.products = (before + after) / 2;
        before = after;
        tracing::info!(
            run = index + 1,
            tokens_per_second = format!("{:.1}", run.tokens_per_second()),
            of_bound = format!("{:.3}", run.tokens_per_second() / run.bound(batch)),
        );
        runs.push(run);
    }
    let ratio = |run: &Run| run.tokens_per_second() / run.bound(batch);
    runs.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let ratios: Vec<f64> = runs.iter().map(ratio).collect();
    let run = &runs[runs.len() / 2];
    let report = json!({
        "bench": "rollout",
        "model": args.model,
        "device": "cpu",
        "dtype": "f32",
        "threads": tch::get_num_threads(),
        "prompts": requests.len(),
        "prompt_tokens": run.timings.prompt_tokens,
        "group": args.group,
        "max_new_tokens": args.max_new,
        "batch": batch,
        "tokens": run.tokens,
        "tokens_per_second": run.tokens_per_second(),
        "gemm_bound_tokens_per_second": run.bound(batch),
        "of_gemm_bound": ratio(run),
        "of_gemm_bound_runs": ratios,
        "time_to_first_token_s": run.first_token.as_secs_f64(),
        "step_seconds": run.timings.decode.as_secs_f64() / run.timings.decode_steps.max(1) as f64,
        "peak_rss_bytes": peak_rss_bytes(),
        "breakdown_s": breakdown(run),
    });
    Ok(print_line(report)?)
}

/// One timed generation of all requests.
fn generate(engine: &mut Engine, requests: &[Request]) -> Result<Run> {
    let before = engine.timings();
    let start = Instant::now();
    let mut first_token = None;
    let mut tokens = 0;
    let mut on_event = |event: Event<'_>| {
        if matches!(event, Event::Token { .. }) {
            first_token.get_or_insert_with(|| start.elapsed());
            tokens += 1;
        }
    };
    let outcomes = engine.generate(requests, &mut Hooks { decode: None, on_event: &mut on_event });
    let wall = start.elapsed();
    for (index, outcome) in outcomes.into_iter().enumerate() {
        outcome.with_context(|| format!("prompt {}", index + 1))?;
    }
    let timings = engine.timings().since(&before);
    Ok(Run { wall, first_token: first_token.unwrap_or(wall), tokens, timings, products: Duration::ZERO })
}

/// Seconds by part. The matrix products are not timed inside a step: their part is the bound's time for as many steps,
/// and `other` what is left.
fn breakdown(run: &Run) -> serde_json::Value {
    let Timings { prefill, decode, attention, sampler, decode_steps, .. } = run.timings;
    let gemms = run.products.as_secs_f64() * decode_steps as f64;
    let [wall, prefill, decode, attention, sampler] =
        [run.wall, prefill, decode, attention, sampler].map(|time| time.as_secs_f64());
    json!({
        "prefill": prefill,
        "gemms": gemms,
        "attention": attention,
        "sampler": sampler,
        "other": decode - gemms - attention - sampler,
        "outside_steps": wall - prefill - decode,
    })
}
