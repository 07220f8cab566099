//! Runs the domain scorers over a file of cases.

use anyhow::{Result, bail};

/// Arguments of `skein score`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> Result<()> {
    bail!("not built yet")
}
