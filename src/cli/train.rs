//! Runs the stages of a training config.

use std::path::PathBuf;

use anyhow::Result;
use skein_core::config::Config;

use super::{Interrupted, UsageError};
use crate::jobs::{self, Resume, StageEnd};

/// Arguments of `skein train`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  skein train --config configs/tiny/1-skill-entropy.toml --out checkpoints/first
  skein train --config my.toml --out checkpoints/sweep-5 --set reward.lambda_ent=0.5 --set reward.lambda_ans=0.5
  skein train --config my.toml --out checkpoints/first --resume auto

Ctrl-C saves a checkpoint and stops; --resume auto goes on from it. A finished run goes on where --resume auto comes with
a larger --set rl.steps=N: its rl stage is made longer, and what follows it is done again.")]
pub struct Args {
    /// The run's TOML config
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Directory of the run: config, metrics, rollouts, evaluations and step_NNNNNN checkpoints
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Override one config value; may be given many times, later ones win
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// `off` starts anew and refuses a directory that holds a run; `auto` goes on from its newest whole checkpoint;
    /// a path goes on from that checkpoint
    #[arg(long, value_name = "auto|off|PATH", default_value = "off")]
    resume: Resume,
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<()> {
    let config = Config::load(&args.config, &args.overrides).map_err(|error| UsageError(error.to_string()))?;
    match jobs::train(config, &args.out, &args.resume)? {
        StageEnd::Finished => Ok(()),
        StageEnd::Interrupted => Err(Interrupted(args.out).into()),
    }
}
