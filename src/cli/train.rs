//! Runs the stages of a training config.

use anyhow::{Result, bail};

/// Arguments of `skein train`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> Result<()> {
    bail!("not built yet")
}
