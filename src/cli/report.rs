//! Prints one table over runs and writes it as an HTML page.

use std::path::PathBuf;

use anyhow::{Context, Result};
use skein_io::atomic::write_atomically;

use super::stdout::{print, print_line};
use crate::report::{collect_arms, render, render_page};

/// Arguments of `skein report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  skein report checkpoints/demo/skill-entropy checkpoints/demo/grpo --out checkpoints/demo/report.html")]
pub struct Args {
    /// Run directories that hold evaluations
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Where the page goes [default: report.html in the first run]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<()> {
    let arms = collect_arms(&args.runs)?;
    let page = render_page(&args.runs, &arms)?;
    let out = args.out.unwrap_or_else(|| args.runs[0].join("report.html"));
    write_atomically(&out, page.as_bytes()).with_context(|| format!("writing {}", out.display()))?;
    print(render(&arms))?;
    Ok(print_line(format_args!("report: {}", out.display()))?)
}
