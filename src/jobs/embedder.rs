//! Sentence embedders of Hugging Face directories, behind the trait by which skills are matched.
//!
//! It can be asked from any thread.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;
use skein_core::reward::matcher::{Embed, TextRole};
use skein_io::hub::Hub;
use skein_io::tokenizer::Tokenizer;
use tch::{Device, Tensor};

use super::model_thread::ModelThread;
use crate::checkpoint::load_text_encoder;
use crate::cli::UsageError;
use crate::models::{Pooling, TextEncoder};

/// Texts that go through the model at once.
const BATCH: usize = 64;

/// A sentence embedder on a thread of its own, which ends with it.
pub struct Embedder {
    thread: ModelThread<(Vec<String>, TextRole), Vectors>,
}

type Vectors = Result<Vec<Vec<f32>>, String>;

impl Embedder {
    /// Loads the embedder of a Hugging Face directory or hub id: Qwen3-Embedding (or any supported decoder) or a BERT.
    ///
    /// # Errors
    /// When a file is missing, damaged or unsupported, naming it.
    pub fn load(model: &str) -> Result<Self> {
        let dir = Hub::from_env().resolve(model, None).map_err(|error| UsageError(error.to_string()))?;
        let thread = ModelThread::start("embedder", move |server| {
            let model = Model::load(&dir)?;
            server.serve(|(texts, role): (Vec<String>, _)| model.embed(&texts, role));
            Ok(())
        })?;
        Ok(Self { thread })
    }
}

impl Embed for Embedder {
    fn embed(&self, texts: &[String], role: TextRole) -> Vectors {
        self.thread.ask((texts.to_vec(), role), None).map_err(|reason| reason.to_string())?
    }
}

struct Model {
    encoder: TextEncoder,
    pooling: Pooling,
    tokenizer: Tokenizer,
    query_prefix: String,
    max_length: usize,
}

impl Model {
    fn load(dir: &Path) -> Result<Self> {
        let usage = |error: &dyn std::fmt::Display| UsageError(error.to_string());
        let (encoder, pooling) = load_text_encoder(dir, Device::Cpu).map_err(|error| usage(&error))?;
        let tokenizer = Tokenizer::load(dir).map_err(|error| usage(&error))?;
        if tokenizer.vocab_size() as i64 > encoder.vocab_size() {
            let (ids, rows) = (tokenizer.vocab_size(), encoder.vocab_size());
            return Err(UsageError(format!("{}: the tokenizer has {ids} ids, the model {rows}", dir.display())).into());
        }
        let limit = setting(dir, "sentence_bert_config.json", &["max_seq_length"])?.as_ref().and_then(Value::as_u64);
        let max_length = limit.map_or(encoder.max_length(), |limit| encoder.max_length().min(limit as usize).max(1));
        let query_prefix = setting(dir, "config_sentence_transformers.json", &["prompts", "query"])?
            .and_then(|prompt| prompt.as_str().map(str::to_owned))
            .unwrap_or_default();
        Ok(Self { encoder, pooling, tokenizer, query_prefix, max_length })
    }

    fn embed(&self, texts: &[String], role: TextRole) -> Vectors {
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in texts.chunks(BATCH) {
            let ids = batch.iter().map(|text| self.ids(text, role)).collect::<Result<Vec<_>, _>>()?;
            let embedded: Tensor = self.encoder.embed(&ids, self.pooling);
            vectors.extend(Vec::<Vec<f32>>::try_from(embedded).map_err(|error| error.to_string())?);
        }
        Ok(vectors)
    }

    /// The ids of a text with the marks its tokenizer sets around it; a long text loses its end, not its last mark.
    fn ids(&self, text: &str, role: TextRole) -> Result<Vec<u32>, String> {
        let text = match role {
            TextRole::Query => format!("{}{text}", self.query_prefix),
            TextRole::Key => text.to_owned(),
        };
        let mut ids = self.tokenizer.encode_with_special_tokens(&text).map_err(|error| error.to_string())?;
        let last = *ids.last().ok_or_else(|| format!("`{text}` has no token"))?;
        if ids.len() > self.max_length {
            ids.truncate(self.max_length);
            ids[self.max_length - 1] = last;
        }
        Ok(ids)
    }
}

/// The value at `path` in a JSON file of `dir`; none where the file or the value is not there.
fn setting(dir: &Path, file: &str, path: &[&str]) -> Result<Option<Value>> {
    let file = dir.join(file);
    if !file.exists() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let json: Value =
        serde_json::from_str(&text).map_err(|error| UsageError(format!("{}: {error}", file.display())))?;
    Ok(path.iter().try_fold(&json, |value, key| value.get(key)).cloned())
}
