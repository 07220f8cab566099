//! Which ids end a sequence, start it or fill it, from the three files that may say so.

use std::path::Path;

use serde_json::Value;

use super::TokenizerError;

/// The ids with a meaning beyond their text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpecialTokens {
    /// The token that ends a turn or text: tokenizer_config.json's `eos_token`, else the first of `stop_ids`.
    pub eos_id: Option<u32>,
    /// Every id generation stops at: generation_config.json's `eos_token_id` (config.json's where it has none), and `eos_id`.
    pub stop_ids: Vec<u32>,
    /// The token before a text, where the model has one.
    pub bos_id: Option<u32>,
    /// The filler of batches; `eos_id` where no file names one.
    pub pad_id: Option<u32>,
}

impl SpecialTokens {
    /// The special ids of the model in `directory`; `token_to_id` looks tokens up in its vocabulary.
    pub(super) fn read(directory: &Path, token_to_id: impl Fn(&str) -> Option<u32>) -> Result<Self, TokenizerError> {
        let tokenizer_config = read_json(&directory.join("tokenizer_config.json"))?;
        let generation_config = read_json(&directory.join("generation_config.json"))?;
        let config = read_json(&directory.join("config.json"))?;
        let named = |role: &'static str| {
            let Some(token) = token_text(&tokenizer_config[format!("{role}_token")]) else { return Ok(None) };
            token_to_id(&token).map(Some).ok_or_else(|| TokenizerError::UnknownToken {
                path: directory.join("tokenizer_config.json"),
                role,
                token,
            })
        };
        let ids = |role: &str| {
            let key = format!("{role}_token_id");
            [&generation_config[&key], &config[&key]].into_iter().map(id_list).find(|ids| !ids.is_empty())
        };
        let mut stop_ids = ids("eos").unwrap_or_default();
        let eos_id = named("eos")?.or_else(|| stop_ids.first().copied());
        if let Some(eos_id) = eos_id
            && !stop_ids.contains(&eos_id)
        {
            stop_ids.push(eos_id);
        }
        let first = |role: &str| ids(role).and_then(|ids| ids.first().copied());
        // A tokenizer_config.json that sets bos to null overrules config.json: Qwen has an id there and never uses it.
        let bos_id = match tokenizer_config.get("bos_token") {
            Some(_) => named("bos")?,
            None => first("bos"),
        };
        let pad_id = named("pad")?.or_else(|| first("pad")).or(eos_id);
        Ok(Self { eos_id, stop_ids, bos_id, pad_id })
    }
}

/// The file's JSON, or null when it is not there.
pub(crate) fn read_json(path: &Path) -> Result<Value, TokenizerError> {
    let broken = |message: String| TokenizerError::File { path: path.to_owned(), message };
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| broken(format!("not valid JSON: {error}"))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Value::Null),
        Err(error) => Err(broken(format!("cannot read the file: {error}"))),
    }
}

/// The text of a token, which tokenizer_config.json writes as a string or as an object with its `content`.
pub(crate) fn token_text(value: &Value) -> Option<String> {
    value.as_str().or_else(|| value["content"].as_str()).map(str::to_owned)
}

/// An id or a list of ids.
fn id_list(value: &Value) -> Vec<u32> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match value {
        Value::Array(values) => values.iter().filter_map(id).collect(),
        value => id(value).into_iter().collect(),
    }
}
