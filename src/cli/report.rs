//! Prints one table over runs and writes it as an HTML page.

use anyhow::{Result, bail};

/// Arguments of `skein report`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> Result<()> {
    bail!("not built yet")
}
