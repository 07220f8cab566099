//! A model with everything needed to talk to it, for commands that do not train.

use std::path::PathBuf;

use anyhow::Result;
use skein_io::chat::{ChatError, ChatTemplate};
use skein_io::hub::Hub;
use skein_io::tokenizer::Tokenizer;
use tch::{Device, Kind};

use super::session::{affordable_cache_tokens, refuse_large_tokenizer};
use crate::checkpoint::load_model;
use crate::cli::UsageError;
use crate::engine::{Engine, EngineConfig};
use crate::models::CausalLm;

/// A model in f32 on the CPU, its tokenizer and its chat template.
pub struct LoadedModel {
    /// The model.
    pub model: Box<dyn CausalLm>,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// Its chat template, where it has one.
    pub template: Option<ChatTemplate>,
    /// Its directory.
    pub dir: PathBuf,
}

impl LoadedModel {
    /// Loads the model of a Hugging Face directory or hub id.
    ///
    /// # Errors
    /// When a file is missing or does not fit, naming it.
    pub fn load(model: &str) -> Result<Self> {
        let dir = Hub::from_env().resolve(model, None).map_err(|error| UsageError(error.to_string()))?;
        let pretrained = load_model(&dir, Kind::Float, Device::Cpu).map_err(|error| UsageError(error.to_string()))?;
        let tokenizer = Tokenizer::load(&dir).map_err(|error| UsageError(error.to_string()))?;
        refuse_large_tokenizer(&tokenizer, pretrained.model.as_ref(), &dir)?;
        Ok(Self { template: chat_template(&dir)?, model: pretrained.model, tokenizer, dir })
    }

    /// A generation engine with a cache of the size that memory allows.
    ///
    /// # Errors
    /// When the model cannot be run.
    pub fn engine(&self) -> Result<Engine<'_>> {
        const MAX_SEQUENCES: usize = 128;
        let config = EngineConfig {
            cache_tokens: affordable_cache_tokens(self.model.as_ref(), MAX_SEQUENCES),
            max_sequences: MAX_SEQUENCES,
            ..EngineConfig::default()
        };
        Ok(Engine::new(self.model.as_ref(), config)?)
    }
}

/// The directory's chat template; many base models have none.
pub(super) fn chat_template(dir: &std::path::Path) -> Result<Option<ChatTemplate>> {
    match ChatTemplate::load(dir) {
        Ok(template) => Ok(Some(template)),
        Err(ChatError::Missing { .. }) => Ok(None),
        Err(error) => Err(UsageError(error.to_string()).into()),
    }
}
