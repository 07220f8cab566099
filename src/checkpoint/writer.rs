//! Weights into Hugging Face model directories that transformers loads as they are.
//!
//! Tensors are converted and written one at a time, so saving costs the memory of one tensor. Nothing is made durable
//! here: [`super::CheckpointManager`] syncs what it keeps, and whoever exports by hand decides for himself.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use serde_json::{Map, Value, json};
use tch::{Device, Kind, Tensor};

use super::error::CheckpointError;
use super::reader::{INDEX_FILE, SINGLE_FILE};
use crate::models::CausalLm;

/// Files copied along unchanged where the source directory has them.
const ASSETS: [&str; 9] = [
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
];
const WRITE_BUFFER_BYTES: usize = 1 << 20;

/// How weights are written.
#[derive(Debug, Clone, Copy)]
pub struct SaveOptions<'a> {
    /// Type of the written weights: f32 to continue training exactly, bf16 to publish.
    pub kind: Kind,
    /// A second file is begun before one exceeds this many bytes of tensors.
    pub max_shard_bytes: u64,
    /// Directory whose tokenizer files and `generation_config.json` are copied along.
    pub assets_from: Option<&'a Path>,
}

impl SaveOptions<'_> {
    /// transformers' own default, 5 GB.
    pub const MAX_SHARD_BYTES: u64 = 5_000_000_000;
}

impl Default for SaveOptions<'_> {
    fn default() -> Self {
        Self { kind: Kind::Float, max_shard_bytes: Self::MAX_SHARD_BYTES, assets_from: None }
    }
}

/// What a model directory is written from. It holds the model's own tensors, not copies of them.
#[derive(Debug)]
pub struct ModelFiles {
    config_json: Map<String, Value>,
    tensors: Vec<(String, Tensor)>,
}

impl ModelFiles {
    /// The files of `model`, whose `config.json` was `config_json`.
    pub fn of(model: &dyn CausalLm, config_json: &Map<String, Value>) -> Self {
        let weights = model.weights();
        let tensors = weights.entries.iter().map(|entry| (entry.name.clone(), weights.rows(entry).detach())).collect();
        Self { config_json: config_json.clone(), tensors }
    }

    /// Writes them into the existing directory `dir`: weights, `config.json`, copied tokenizer files.
    ///
    /// `config.json` is written as it was, but for its type field, which states the type actually written:
    /// transformers converts weights to what it reads there. A tied head is not written.
    ///
    /// # Errors
    /// Names the file that could not be read or written.
    pub fn write(&self, dir: &Path, options: SaveOptions) -> Result<(), CheckpointError> {
        write_json(&dir.join("config.json"), &with_dtype(&self.config_json, options.kind).into())?;
        if let Some(source) = options.assets_from {
            copy_assets(source, dir)?;
        }
        write_shards(dir, &self.tensors, options)
    }
}

/// Writes `model` into the existing directory `dir`, see [`ModelFiles::write`].
///
/// # Errors
/// Names the file that could not be read or written.
pub fn save_model(
    dir: &Path,
    model: &dyn CausalLm,
    config_json: &Map<String, Value>,
    options: SaveOptions,
) -> Result<(), CheckpointError> {
    ModelFiles::of(model, config_json).write(dir, options)
}

fn with_dtype(config_json: &Map<String, Value>, kind: Kind) -> Map<String, Value> {
    let mut config = config_json.clone();
    let field = if config.contains_key("torch_dtype") { "torch_dtype" } else { "dtype" };
    let name = match kind {
        Kind::BFloat16 => "bfloat16",
        Kind::Half => "float16",
        _ => "float32",
    };
    config.insert(field.into(), name.into());
    config
}

fn copy_assets(source: &Path, dir: &Path) -> Result<(), CheckpointError> {
    if !source.is_dir() {
        // The weights matter more: a run does not die for a directory that was moved meanwhile.
        tracing::warn!(
            "{} is gone: the checkpoint has no tokenizer; copy one into {}",
            source.display(),
            dir.display()
        );
    }
    for name in ASSETS {
        let (from, to) = (source.join(name), dir.join(name));
        if !from.exists() {
            continue;
        }
        let mut reader = File::open(&from).map_err(CheckpointError::io("read", &from))?;
        let mut writer = File::create(&to).map_err(CheckpointError::io("create", &to))?;
        io::copy(&mut reader, &mut writer).map_err(CheckpointError::io("write", &to))?;
    }
    Ok(())
}

/// One file, or several and an index, in the order given.
fn write_shards(dir: &Path, tensors: &[(String, Tensor)], options: SaveOptions) -> Result<(), CheckpointError> {
    let bytes = |tensor: &Tensor| (tensor.numel() * options.kind.elt_size_in_bytes()) as u64;
    let mut shards: Vec<&[(String, Tensor)]> = Vec::new();
    let (mut start, mut shard_bytes, mut total_bytes) = (0, 0, 0);
    for (index, (_, tensor)) in tensors.iter().enumerate() {
        if index > start && shard_bytes + bytes(tensor) > options.max_shard_bytes {
            shards.push(&tensors[start..index]);
            (start, shard_bytes) = (index, 0);
        }
        shard_bytes += bytes(tensor);
        total_bytes += bytes(tensor);
    }
    shards.push(&tensors[start..]);
    if let [tensors] = shards[..] {
        return write_safetensors(&dir.join(SINGLE_FILE), tensors, Some(options.kind));
    }
    let mut weight_map = BTreeMap::new();
    for (index, shard) in shards.iter().enumerate() {
        let file = format!("model-{:05}-of-{:05}.safetensors", index + 1, shards.len());
        write_safetensors(&dir.join(&file), shard, Some(options.kind))?;
        weight_map.extend(shard.iter().map(|(name, _)| (name, file.clone())));
    }
    let index = json!({ "metadata": { "total_size": total_bytes }, "weight_map": weight_map });
    write_json(&dir.join(INDEX_FILE), &index)
}

/// Writes `tensors` to a safetensors file at `path`, converted to `kind` where one is given.
///
/// Written here and not by the safetensors crate, which keeps its file private to the user whatever the umask and wants
/// a temporary file beside each.
pub(super) fn write_safetensors<S: AsRef<str>>(
    path: &Path,
    tensors: &[(S, Tensor)],
    kind: Option<Kind>,
) -> Result<(), CheckpointError> {
    let header = header(path, tensors, kind)?;
    let file = File::create(path).map_err(CheckpointError::io("create", path))?;
    let mut writer = BufWriter::with_capacity(WRITE_BUFFER_BYTES, file);
    let mut write = || {
        writer.write_all(&(header.len() as u64).to_le_bytes())?;
        writer.write_all(&header)?;
        for (_, tensor) in tensors {
            writer.write_all(&host_bytes(tensor, kind))?;
        }
        writer.flush()
    };
    write().map_err(CheckpointError::io("write", path))
}

/// The JSON header, padded with spaces so that tensors begin at a multiple of eight bytes.
fn header<S: AsRef<str>>(path: &Path, tensors: &[(S, Tensor)], kind: Option<Kind>) -> Result<Vec<u8>, CheckpointError> {
    let problem = |problem: String| CheckpointError::Safetensors { path: path.into(), problem };
    let mut offset = 0;
    let mut infos = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let dtype = match kind.unwrap_or(tensor.kind()) {
            Kind::Float => Dtype::F32,
            Kind::Half => Dtype::F16,
            Kind::BFloat16 => Dtype::BF16,
            other => return Err(problem(format!("`{}` is {other:?}, which is never written", name.as_ref()))),
        };
        let shape: Vec<usize> = tensor.size().iter().map(|&size| size as usize).collect();
        let end = offset + tensor.numel() * dtype.bitsize() / 8;
        infos.push((name.as_ref().to_string(), TensorInfo { dtype, shape, data_offsets: (offset, end) }));
        offset = end;
    }
    // transformers refuses files that do not say which framework's layout they have.
    let metadata = HashMap::from([("format".to_string(), "pt".to_string())]);
    let metadata = Metadata::new(Some(metadata), infos).map_err(|error| problem(error.to_string()))?;
    let mut header =
        serde_json::to_vec(&metadata).map_err(|source| CheckpointError::Json { path: path.into(), source })?;
    header.resize(header.len().next_multiple_of(size_of::<u64>()), b' ');
    Ok(header)
}

fn host_bytes(tensor: &Tensor, kind: Option<Kind>) -> Vec<u8> {
    let tensor = tensor.detach().to_device(Device::Cpu).to_kind(kind.unwrap_or(tensor.kind())).contiguous();
    let mut bytes = vec![0; tensor.numel() * tensor.kind().elt_size_in_bytes()];
    tensor.copy_data_u8(&mut bytes, tensor.numel());
    bytes
}

pub(super) fn write_json(path: &Path, value: &Value) -> Result<(), CheckpointError> {
    let mut text =
        serde_json::to_vec_pretty(value).map_err(|source| CheckpointError::Json { path: path.into(), source })?;
    text.push(b'\n');
    std::fs::write(path, text).map_err(CheckpointError::io("write", path))
}
