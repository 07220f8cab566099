//! Hugging Face model directories in and out, and the checkpoints of a run.
//!
//! The only place that writes weights. It refuses what it does not know (architectures, tensors, shapes, scalings)
//! with the file and the name, and never guesses a weight.

mod background;
mod config;
mod encoder;
mod error;
mod init;
mod inventory;
mod manager;
mod reader;
mod writer;

use std::path::Path;

use serde_json::{Map, Value};
use tch::{Device, Kind};

pub use background::BackgroundSave;
pub use config::{parse_config, read_config};
pub use encoder::load_text_encoder;
pub use error::CheckpointError;
pub use init::{TokenIds, init_model};
pub use inventory::{FoundCheckpoint, export_checkpoint, is_checkpoint, list_checkpoints, prune_checkpoints};
pub use manager::{CheckpointManager, Loaded, TrainState, load_checkpoint, verify_checkpoint};
pub use reader::read_tensors;
pub use writer::{ModelFiles, SaveOptions, save_model};

use crate::models::{CausalLm, Weights, build_model};
use reader::TensorFiles;

/// A model read from a directory, and its `config.json` as it was.
pub struct Pretrained {
    /// The model, weights loaded, gradients off.
    pub model: Box<dyn CausalLm>,
    /// `config.json`, every key kept.
    pub config_json: Map<String, Value>,
}

/// Loads the Hugging Face model directory `dir` with weights converted to `kind` on `device`.
///
/// # Errors
/// A missing or unreadable file, an unsupported config, a missing, unexpected or mis-shaped tensor: each names the
/// file and the field or tensor.
pub fn load_model(dir: &Path, kind: Kind, device: Device) -> Result<Pretrained, CheckpointError> {
    let (config, config_json) = read_config(dir)?;
    let files = TensorFiles::open(dir)?;
    let ignored = |name: &str| {
        // Tied checkpoints may hold the head a second time; old Llama ones hold the frequencies.
        (config.tie_word_embeddings && name == "lm_head.weight") || name.ends_with("rotary_emb.inv_freq")
    };
    let model = build_model(config.clone(), kind, device);
    fill(&files, model.weights(), str::to_owned, ignored)?;
    Ok(Pretrained { model, config_json })
}

/// Copies every weight from the files, where entry `name` is called `rename(name)`; further tensors must be `ignored`.
fn fill(
    files: &TensorFiles,
    weights: &Weights,
    rename: impl Fn(&str) -> String,
    ignored: impl Fn(&str) -> bool,
) -> Result<(), CheckpointError> {
    let names: Vec<String> = weights.entries.iter().map(|entry| rename(&entry.name)).collect();
    files.check_names(names.iter().map(String::as_str), ignored)?;
    for (entry, name) in weights.entries.iter().zip(&names) {
        files.read_into(name, &mut weights.rows(entry))?;
    }
    Ok(())
}
