//! Estimates skill-entropy tables with a reference model and shows them.

use anyhow::{Result, bail};

/// Arguments of `skein entropy`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> Result<()> {
    bail!("not built yet")
}
