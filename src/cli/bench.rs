//! Benchmarks anyone can repeat; each ends with one JSON line.

use anyhow::{Result, bail};

/// Arguments of `skein bench`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> Result<()> {
    bail!("not built yet")
}
