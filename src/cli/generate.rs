//! Streams completions of one prompt to the terminal or of a file of prompts to JSONL.

use anyhow::{Result, bail};

/// Arguments of `skein generate`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> Result<()> {
    bail!("not built yet")
}
