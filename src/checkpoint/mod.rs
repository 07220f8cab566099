//! Hugging Face model directories in and out, and the checkpoints of a run.
//!
//! The only place that writes weights. It refuses what it does not know (architectures, tensors, shapes, scalings)
//! with the file and the name, and never guesses a weight.

mod config;
mod error;
mod init;
mod manager;
mod reader;
mod writer;

use std::path::Path;

use serde_json::{Map, Value};
use tch::{Device, Kind};

pub use config::{parse_config, read_config};
pub use error::CheckpointError;
pub use init::{TokenIds, init_model};
pub use manager::{CheckpointManager, Loaded, TrainState, load_checkpoint};
pub use reader::read_tensors;
pub use writer::{SaveOptions, save_model};

use crate::models::{CausalLm, build_model};
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
    let weights = model.weights();
    files.check_names(weights.entries.iter().map(|entry| entry.name.as_str()), ignored)?;
    for entry in &weights.entries {
        files.read_into(&entry.name, &mut weights.rows(entry))?;
    }
    Ok(Pretrained { model, config_json })
}
