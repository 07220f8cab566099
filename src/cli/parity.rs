//! Checks the plain, cached and packed forward paths of a model against reference numbers.

use anyhow::{Result, bail};

/// Arguments of `skein parity`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> Result<()> {
    bail!("not built yet")
}
