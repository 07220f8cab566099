//! Lists, verifies, exports and prunes the checkpoints of runs.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;
use skein_core::eval::render_table;

use super::UsageError;
use super::stdout::{print, print_line};
use crate::checkpoint::{
    CheckpointError, export_checkpoint, is_checkpoint, list_checkpoints, prune_checkpoints, verify_checkpoint,
};

/// Arguments of `skein ckpt`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the checkpoints of a run: step, size, and the links that name each
    Ls {
        /// The run's directory
        run: PathBuf,
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Check every file of checkpoints against its hash; exit 1 if one is damaged
    Verify {
        /// Run directories or single checkpoints
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
    /// Copy a checkpoint's model, without the trainer's state, as a Hugging Face directory
    Export {
        /// The checkpoint, for example RUN/latest
        checkpoint: PathBuf,
        /// The new directory
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Remove old checkpoints of a run that no link names
    Prune {
        /// The run's directory
        run: PathBuf,
        /// Newest checkpoints kept, besides those that a link names
        #[arg(long, value_name = "COUNT")]
        keep_last: usize,
    },
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Ls { run, json } => list(&run, json),
        Command::Verify { paths } => verify(&paths),
        Command::Export { checkpoint, out } => {
            check_is_there(&checkpoint)?;
            if out.exists() {
                return Err(UsageError(format!("{} is there already: choose another --out", out.display())).into());
            }
            export_checkpoint(&checkpoint, &out)?;
            Ok(print_line(out.display())?)
        }
        Command::Prune { run, keep_last } => {
            check_is_there(&run)?;
            for dir in prune_checkpoints(&run, keep_last)? {
                print_line(format_args!("removed {}", dir.display()))?;
            }
            Ok(())
        }
    }
}

fn check_is_there(path: &Path) -> Result<(), UsageError> {
    if path.is_dir() { Ok(()) } else { Err(UsageError(format!("{} is no directory", path.display()))) }
}

fn list(run: &Path, json: bool) -> Result<()> {
    check_is_there(run)?;
    let found = list_checkpoints(run)?;
    if json {
        for checkpoint in &found {
            let (dir, links) = (checkpoint.dir.display().to_string(), &checkpoint.links);
            print_line(json!({"step": checkpoint.step, "dir": dir, "bytes": checkpoint.size, "links": links}))?;
        }
        return Ok(());
    }
    if found.is_empty() {
        return Ok(print_line(NoCheckpoint(run.to_owned()))?);
    }
    let row = |checkpoint: &crate::checkpoint::FoundCheckpoint| {
        let megabytes = checkpoint.size as f64 / 1e6;
        vec![checkpoint.step.to_string(), format!("{megabytes:.1}"), checkpoint.links.join(", ")]
    };
    Ok(print(render_table(&["step", "MB", "named"], &found.iter().map(row).collect::<Vec<_>>()))?)
}

/// A directory that neither is a checkpoint nor holds one.
#[derive(Debug, thiserror::Error)]
#[error("{} has no checkpoint: a run writes its first after sft.save_every or rl.save_every updates", .0.display())]
struct NoCheckpoint(PathBuf);

/// Some checkpoints are not what was written.
#[derive(Debug, thiserror::Error)]
#[error("{damaged} of {checked} checkpoints are damaged")]
struct Damaged {
    damaged: usize,
    checked: usize,
}

fn verify(paths: &[PathBuf]) -> Result<()> {
    let mut dirs = Vec::new();
    for path in paths {
        check_is_there(path)?;
        let inside = list_checkpoints(path)?;
        if inside.is_empty() {
            if !is_checkpoint(path) {
                return Err(NoCheckpoint(path.clone()).into());
            }
            dirs.push(path.clone());
        }
        dirs.extend(inside.into_iter().map(|checkpoint| checkpoint.dir));
    }
    let mut damaged = 0;
    for dir in &dirs {
        let outcome: Result<(), CheckpointError> = verify_checkpoint(dir);
        match outcome {
            Ok(()) => print_line(format_args!("{}: whole", dir.display()))?,
            Err(error) => {
                damaged += 1;
                print_line(format_args!("{}: damaged: {error}", dir.display()))?;
            }
        }
    }
    if damaged > 0 { Err(Damaged { damaged, checked: dirs.len() }.into()) } else { Ok(()) }
}
