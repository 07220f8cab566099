//! Benchmarks anyone can repeat; each ends with one JSON line.

use anyhow::Result;

mod cost;
mod matrix_products;
mod reward;
mod rollout;
mod step;
mod train;

/// Arguments of `skein bench`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, clap::Subcommand)]
enum Bench {
    /// Generation throughput of a group of samples per prompt, beside the model's bare matrix products.
    Rollout(rollout::Args),
    /// Answers scored a second, mixed and by domain.
    Reward(reward::Args),
    /// One whole RL step: generation, reference log-probabilities, update.
    Step(step::Args),
    /// One update alone, on made completions of exact lengths.
    Train(train::Args),
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<()> {
    match args.bench {
        Bench::Rollout(args) => rollout::run(args),
        Bench::Reward(args) => reward::run(args),
        Bench::Step(args) => step::run(args),
        Bench::Train(args) => train::run(args),
    }
}
