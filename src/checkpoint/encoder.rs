//! Directories of sentence embedders: an encoder's weights and how its hidden states are pooled.
//!
//! Both layouts are read: transformers' own, and sentence-transformers', which adds `1_Pooling/config.json` and leaves
//! out the prefix of tensor names. Modules after the pooling are refused, but for the normalisation that is done anyway.

use std::path::Path;

use serde_json::{Map, Value};
use tch::{Device, Kind};

use super::config::{Fields, parse_config, read_object};
use super::error::CheckpointError;
use super::fill;
use super::reader::TensorFiles;
use crate::models::{Bert, BertConfig, Pooling, TextEncoder, build_model};

const BERT: &str = "bert";

/// Loads the sentence embedder of the directory `dir` with f32 weights on `device`.
///
/// # Errors
/// A missing or unreadable file, an unsupported config or pooling, a missing, unexpected or mis-shaped tensor: each
/// names the file and the field or tensor.
pub fn load_text_encoder(dir: &Path, device: Device) -> Result<(TextEncoder, Pooling), CheckpointError> {
    let path = dir.join("config.json");
    let mut json = read_object(&path)?;
    let is_bert = json.get("model_type").and_then(Value::as_str) == Some(BERT);
    let encoder = if is_bert {
        TextEncoder::Bert(Bert::new(bert_config(&path, &json)?, Kind::Float, device))
    } else {
        // Embedders name the headless class here; the type says all that matters.
        if json.contains_key("model_type") {
            json.remove("architectures");
        }
        TextEncoder::Decoder(build_model(parse_config(&path, &json)?, Kind::Float, device))
    };
    let files = TensorFiles::open(dir)?;
    let ignored = |name: &str| {
        let parts_unused = ["lm_head.", "pooler.", "cls.", "bert.pooler.", "embeddings.position_ids"];
        parts_unused.iter().any(|part| name.starts_with(part)) || name.ends_with("rotary_emb.inv_freq")
    };
    let rename = |name: &str| match (is_bert, name.strip_prefix("model.")) {
        (true, _) if !files.contains(name) => format!("bert.{name}"),
        (false, Some(bare)) if !files.contains(name) => bare.to_owned(),
        _ => name.to_owned(),
    };
    fill(&files, encoder.weights(), rename, ignored)?;
    Ok((encoder, pooling(dir, if is_bert { Pooling::Mean } else { Pooling::Last })?))
}

fn bert_config(path: &Path, json: &Map<String, Value>) -> Result<BertConfig, CheckpointError> {
    let fields = Fields { path, prefix: "", object: json };
    for (field, supported) in [("hidden_act", "gelu"), ("position_embedding_type", "absolute")] {
        if let Some(found) = fields.string(field)?
            && found != supported
        {
            return Err(fields.error(field, format!("is {found}; only {supported} is supported")));
        }
    }
    let (hidden_size, num_attention_heads) = (fields.positive("hidden_size")?, fields.positive("num_attention_heads")?);
    if hidden_size % num_attention_heads != 0 {
        let problem = format!("is {num_attention_heads}, which does not divide hidden_size ({hidden_size})");
        return Err(fields.error("num_attention_heads", problem));
    }
    Ok(BertConfig {
        vocab_size: fields.positive("vocab_size")?,
        hidden_size,
        num_hidden_layers: fields.positive("num_hidden_layers")? as usize,
        num_attention_heads,
        intermediate_size: fields.positive("intermediate_size")?,
        max_position_embeddings: fields.positive("max_position_embeddings")?,
        type_vocab_size: fields.positive("type_vocab_size")?,
        layer_norm_eps: fields.number("layer_norm_eps")?,
    })
}

/// What sentence-transformers' files say, or `default` where there are none.
fn pooling(dir: &Path, default: Pooling) -> Result<Pooling, CheckpointError> {
    let modules = dir.join("modules.json");
    if modules.exists() {
        let text = std::fs::read_to_string(&modules).map_err(CheckpointError::io("read", &modules))?;
        let list: Vec<Map<String, Value>> =
            serde_json::from_str(&text).map_err(|source| CheckpointError::Json { path: modules.clone(), source })?;
        for module in &list {
            let fields = Fields { path: &modules, prefix: "", object: module };
            let class = fields.string("type")?.unwrap_or_default();
            if !["Transformer", "Pooling", "Normalize"].iter().any(|known| class.ends_with(known)) {
                return Err(fields.error("type", format!("is {class}; known are Transformer, Pooling and Normalize")));
            }
        }
    }
    let path = dir.join("1_Pooling/config.json");
    if !path.exists() {
        return Ok(default);
    }
    let json = read_object(&path)?;
    let fields = Fields { path: &path, prefix: "", object: &json };
    let modes = [
        ("pooling_mode_mean_tokens", Pooling::Mean),
        ("pooling_mode_cls_token", Pooling::First),
        ("pooling_mode_lasttoken", Pooling::Last),
    ];
    let mut chosen = Vec::new();
    for (field, mode) in modes {
        if fields.boolean(field)? == Some(true) {
            chosen.push(mode);
        }
    }
    let others = json.iter().filter(|(key, value)| key.starts_with("pooling_mode_") && **value == Value::Bool(true));
    match (chosen.as_slice(), others.count()) {
        (&[mode], 1) => Ok(mode),
        _ => {
            Err(fields
                .error("pooling_mode_*", "must have exactly one of mean_tokens, cls_token and lasttoken true".into()))
        }
    }
}
