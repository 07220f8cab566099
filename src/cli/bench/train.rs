//! `skein bench train`: one update and nothing else, on prompts with made completions.
//!
//! The completions' ids are drawn, so nothing is generated and no prompts file is needed; lengths are exact, so that a
//! curve over one of them has no other cause. `other` is the wall time that no part claims.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;
use skein_core::random::Stream;

use super::cost::{floor_bytes, forward_flops, peak_flops, peak_rss_bytes};
use super::step::{policy_loss, seconds};
use crate::cli::stdout::print_line;
use crate::jobs::LoadedModel;
use crate::optim::AdamWParams;
use crate::trainer::{Trainer, TrainerParams, TrainingCompletion, TrainingGroup, UpdateMetrics, UpdateTimings};

/// Arguments of `skein bench train`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Hugging Face model directory, or a hub id such as owner/name.
    #[arg(long)]
    model: String,
    /// Prompts.
    #[arg(long, default_value_t = 8)]
    batch: usize,
    /// Tokens of a prompt.
    #[arg(long, default_value_t = 40)]
    prompt_tokens: usize,
    /// Completions per prompt.
    #[arg(long, default_value_t = 8)]
    group: usize,
    /// Tokens of a completion.
    #[arg(long, default_value_t = 64)]
    completion_tokens: usize,
    /// Tokens per forward and backward pass.
    #[arg(long, default_value_t = 1024)]
    micro_batch_tokens: usize,
    /// Recompute layers in the backward pass.
    #[arg(long)]
    checkpoint_layers: bool,
    /// Compute a group's prompt once for each completion instead of once for all.
    #[arg(long)]
    no_shared_prefix: bool,
    /// Timed updates; the median is reported.
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// End with one JSON line on stdout (it always does; the flag is for scripts that say so).
    #[arg(long)]
    json: bool,
}

/// Runs the benchmark.
pub fn run(args: Args) -> Result<()> {
    let loaded = LoadedModel::load(&args.model)?;
    let model = loaded.model.as_ref();
    let params = TrainerParams {
        max_tokens: args.micro_batch_tokens,
        checkpoint_layers: args.checkpoint_layers,
        shared_prefix: !args.no_shared_prefix,
        ..TrainerParams::default()
    };
    let mut trainer = Trainer::new(model, AdamWParams::default(), params);
    let groups = made_groups(&args, model.config().vocab_size as u64);
    let mut updates: Vec<(Duration, UpdateMetrics)> = Vec::new();
    for _ in 0..args.repeats.max(1) {
        let started = Instant::now();
        let update = trainer.policy_update(&groups, &policy_loss(0.0), 1e-6)?;
        updates.push((started.elapsed(), update));
    }
    updates.sort_by_key(|(wall, _)| *wall);
    let walls: Vec<f64> = updates.iter().map(|&(wall, _)| seconds(wall)).collect();
    let (wall, update) = &updates[updates.len() / 2];
    let (wall, UpdateTimings { forward, head, backward, optimizer }) = (*wall, update.timings);
    let (tokens, trained) = (update.num_layer_tokens, update.num_tokens);
    let recomputed = if args.checkpoint_layers { forward_flops(model, tokens, 0) } else { 0.0 };
    let flops = 3.0 * forward_flops(model, tokens, trained) + recomputed;
    let peak = peak_flops();
    Ok(print_line(json!({
        "bench": "train",
        "model": args.model,
        "device": "cpu",
        "dtype": "f32",
        "threads": tch::get_num_threads(),
        "prompts": args.batch,
        "prompt_tokens": args.prompt_tokens,
        "group": args.group,
        "completion_tokens": args.completion_tokens,
        "micro_batch_tokens": args.micro_batch_tokens,
        "checkpoint_layers": args.checkpoint_layers,
        "shared_prefix": !args.no_shared_prefix,
        "tokens_per_second": tokens as f64 / seconds(wall),
        "update_seconds": seconds(wall),
        "update_seconds_runs": walls,
        "peak_rss_bytes": peak_rss_bytes(),
        "floor_bytes": floor_bytes(model, false),
        "flops": flops,
        "gemm_peak_flops_per_second": peak,
        "of_gemm_peak": flops / seconds(wall) / peak,
        "breakdown_s": {
            "forward": seconds(forward),
            "head": seconds(head),
            "backward": seconds(backward),
            "optimizer": seconds(optimizer),
            "other": seconds(wall) - [forward, head, backward, optimizer].into_iter().map(seconds).sum::<f64>(),
        },
    }))?)
}

fn made_groups(args: &Args, vocab_size: u64) -> Vec<TrainingGroup> {
    let mut draws = Stream::new(0, "bench train", 0);
    let mut ids = |len: usize| -> Vec<u32> { (0..len).map(|_| (draws.uniform() * vocab_size as f64) as u32).collect() };
    let groups = (0..args.batch).map(|_| {
        let prompt_ids = ids(args.prompt_tokens);
        let completions = (0..args.group).map(|sample| TrainingCompletion {
            token_ids: ids(args.completion_tokens),
            loss_mask: None,
            // A drawn text is as unlikely as any other.
            old_logprobs: vec![-(vocab_size as f32).ln(); args.completion_tokens],
            ref_logprobs: None,
            advantage: if sample % 2 == 0 { 1.0 } else { -1.0 },
        });
        TrainingGroup { completions: completions.collect(), prompt_ids }
    });
    groups.collect()
}
