//! Prints per-step scores and both rewards of responses, as JSONL.

use anyhow::{Result, bail};

/// Arguments of `skein reward`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> Result<()> {
    bail!("not built yet")
}
