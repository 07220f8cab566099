//! Compares a model with reference numbers made elsewhere, over every path that computes it.
//!
//! The plain path is the dense forward and backward over the model's parts; the others are what training and rollouts
//! run. A difference past its tolerance, or one that is not a number, fails the command.

mod cached;
mod comparison;
mod packed;
mod plain;
mod reference;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use skein_io::hub::Hub;
use tch::{Device, Kind};

use super::UsageError;
use super::stdout::{print, print_line};
use crate::checkpoint::{Pretrained, load_model, read_config};
use comparison::Comparison;
use reference::Reference;

/// Arguments of `skein parity`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Hugging Face model directory, or a hub id such as owner/name.
    #[arg(long, value_name = "MODEL")]
    model: String,
    /// Directory with reference.safetensors and reference.json.
    #[arg(long, value_name = "DIR")]
    reference: PathBuf,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand; fails if any difference is past its tolerance.
///
/// # Errors
/// Unreadable directories, and the number of differences past their tolerance.
pub fn run(args: Args) -> Result<()> {
    let reference = Reference::load(&args.reference)?;
    let model = Hub::from_env().resolve(&args.model, None).map_err(|error| UsageError(error.to_string()))?;
    let (config, _) = read_config(&model).map_err(|error| UsageError(error.to_string()))?;
    reference.check_fits(&config)?;
    let mut comparison = Comparison::default();
    let load = || load(&model);
    plain::compare(&load, &reference, &mut comparison)?;
    cached::compare(&load, &reference, &mut comparison)?;
    packed::compare(&load, &reference, &mut comparison)?;
    if args.json {
        print_line(comparison.to_json())?;
    } else {
        print(&comparison)?;
    }
    match comparison.num_failed() {
        0 => Ok(()),
        failed => bail!("{failed} of {} differences are past their tolerance", comparison.len()),
    }
}

fn load(dir: &Path) -> Result<Pretrained> {
    Ok(load_model(dir, Kind::Float, Device::Cpu).map_err(|error| UsageError(error.to_string()))?)
}
