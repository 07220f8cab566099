//! Writes cross-skill task files.

use anyhow::{Result, bail};

/// Arguments of `skein synth`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> Result<()> {
    bail!("not built yet")
}
