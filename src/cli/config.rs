//! Shows a config with its includes, overrides and defaults resolved, or checks it.

use anyhow::{Result, bail};

/// Arguments of `skein config`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> Result<()> {
    bail!("not built yet")
}
