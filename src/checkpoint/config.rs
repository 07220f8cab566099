//! `config.json` of transformers 4 and 5 to [`ModelConfig`].
//!
//! The two styles differ in where the rotary parameters live (`rope_theta` and `rope_scaling` at the top, or
//! `rope_parameters`, possibly one per layer type) and in what the type is called (`torch_dtype`, `dtype`). What would
//! change the numbers and is not implemented is refused by name; the rest is ignored.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tch::Kind;

use super::error::CheckpointError;
use crate::models::{Architecture, LayerConfig, ModelConfig};
use crate::nn::{RopeConfig, RopeScaling};

const SLIDING: &str = "sliding_attention";
const FULL: &str = "full_attention";
/// What every class of transformers defaults `initializer_range` to.
const DEFAULT_INITIALIZER_RANGE: f64 = 0.02;
/// What `LlamaConfig` defaults `rope_theta` to; the other architectures always write theirs.
const LLAMA_ROPE_THETA: f64 = 10_000.0;

/// Reads `config.json` and, where present, the end-of-sequence ids of `generation_config.json`.
///
/// Returns the parsed config and the JSON as it was.
///
/// # Errors
/// Names the file and the field.
pub fn read_config(dir: &Path) -> Result<(ModelConfig, Map<String, Value>), CheckpointError> {
    let path = dir.join("config.json");
    let json = read_object(&path)?;
    let mut config = parse_config(&path, &json)?;
    let path = dir.join("generation_config.json");
    if path.exists() {
        let generation = read_object(&path)?;
        for id in (Fields { path: &path, prefix: "", object: &generation }).token_ids("eos_token_id")? {
            if !config.eos_token_ids.contains(&id) {
                config.eos_token_ids.push(id);
            }
        }
    }
    Ok((config, json))
}

pub(super) fn read_object(path: &Path) -> Result<Map<String, Value>, CheckpointError> {
    let text = std::fs::read_to_string(path).map_err(CheckpointError::io("read", path))?;
    serde_json::from_str(&text).map_err(|source| CheckpointError::Json { path: path.into(), source })
}

/// The model that `json` describes; `path` is named in errors.
///
/// # Errors
/// Names the file and the field.
pub fn parse_config(path: &Path, json: &Map<String, Value>) -> Result<ModelConfig, CheckpointError> {
    let fields = Fields { path, prefix: "", object: json };
    let architecture = architecture(&fields)?;
    refuse_unsupported(&fields)?;
    let num_hidden_layers = fields.positive("num_hidden_layers")? as usize;
    let hidden_size = fields.positive("hidden_size")?;
    let num_attention_heads = fields.positive("num_attention_heads")?;
    let num_key_value_heads = fields.optional_positive("num_key_value_heads")?.unwrap_or(num_attention_heads);
    if num_attention_heads % num_key_value_heads != 0 {
        return Err(fields.error(
            "num_key_value_heads",
            format!("is {num_key_value_heads}, which does not divide num_attention_heads ({num_attention_heads})"),
        ));
    }
    let head_dim = match fields.optional_positive("head_dim")? {
        Some(head_dim) => head_dim,
        // Qwen3Config's default is a number, not the quotient.
        None if architecture == Architecture::Qwen3 => 128,
        None => hidden_size / num_attention_heads,
    };
    if head_dim % 2 != 0 {
        return Err(fields.error("head_dim", format!("is {head_dim}; rotary embedding needs an even size")));
    }
    let windows = layer_windows(&fields, architecture, num_hidden_layers)?;
    let (ropes, layers) = rotary_embeddings(&fields, architecture, &windows)?;
    Ok(ModelConfig {
        architecture,
        vocab_size: fields.positive("vocab_size")?,
        hidden_size,
        intermediate_size: fields.positive("intermediate_size")?,
        num_hidden_layers,
        num_attention_heads,
        num_key_value_heads,
        head_dim,
        max_position_embeddings: fields.positive("max_position_embeddings")? as usize,
        rms_norm_eps: fields.number("rms_norm_eps")?,
        // The default of PretrainedConfig is true, but all three classes override it.
        tie_word_embeddings: fields.boolean("tie_word_embeddings")?.unwrap_or(false),
        layers,
        ropes,
        eos_token_ids: fields.token_ids("eos_token_id")?,
        kind: kind(&fields)?,
        initializer_range: fields.optional_number("initializer_range")?.unwrap_or(DEFAULT_INITIALIZER_RANGE),
    })
}

fn architecture(fields: &Fields) -> Result<Architecture, CheckpointError> {
    let supported = || Architecture::ALL.map(Architecture::class_name).join(", ");
    let class = fields.object.get("architectures").and_then(|list| list.get(0)).and_then(Value::as_str);
    if let Some(class) = class {
        let found = Architecture::ALL.into_iter().find(|architecture| architecture.class_name() == class);
        return found
            .ok_or_else(|| fields.error("architectures", format!("is {class}; supported are {}", supported())));
    }
    let model_type = fields.object.get("model_type").and_then(Value::as_str);
    let found = Architecture::ALL.into_iter().find(|architecture| model_type == Some(architecture.model_type()));
    found.ok_or_else(|| {
        let problem = match model_type {
            Some(model_type) => format!("is {model_type} and `architectures` is absent; supported are {}", supported()),
            None => format!("and `architectures` are absent; supported are {}", supported()),
        };
        fields.error("model_type", problem)
    })
}

/// Settings that would change the numbers and that no code here implements.
fn refuse_unsupported(fields: &Fields) -> Result<(), CheckpointError> {
    for field in ["attention_bias", "mlp_bias"] {
        if fields.boolean(field)? == Some(true) {
            return Err(fields.error(field, "is true; linear layers with a bias are not supported".into()));
        }
    }
    if let Some(activation) = fields.string("hidden_act")?
        && activation != "silu"
    {
        return Err(fields.error("hidden_act", format!("is {activation}; only silu is supported")));
    }
    if fields.object.get("quantization_config").is_some_and(|value| !value.is_null()) {
        return Err(fields.error("quantization_config", "is set; quantised weights are not supported".into()));
    }
    for field in ["partial_rotary_factor", "pretraining_tp"] {
        let factor = fields.optional_number(field)?.unwrap_or(1.0);
        if factor != 1.0 {
            return Err(fields.error(field, format!("is {factor}; only 1 is supported")));
        }
    }
    Ok(())
}

/// The attention window of each layer.
fn layer_windows(
    fields: &Fields,
    architecture: Architecture,
    num_layers: usize,
) -> Result<Vec<Option<i64>>, CheckpointError> {
    if architecture == Architecture::Llama {
        return Ok(vec![None; num_layers]);
    }
    let mut window = fields.optional_positive("sliding_window")?;
    if architecture == Architecture::Qwen3 && fields.boolean("use_sliding_window")? != Some(true) {
        window = None;
    }
    let Some(types) = fields.object.get("layer_types").filter(|types| !types.is_null()) else {
        let max_window_layers = fields.optional_count("max_window_layers")?.unwrap_or(0);
        let slides = |layer: usize| match architecture {
            Architecture::Olmo3 => !(layer + 1).is_multiple_of(4),
            Architecture::Qwen3 | Architecture::Llama => layer >= max_window_layers,
        };
        if architecture == Architecture::Olmo3 && window.is_none() {
            return Err(fields.error("sliding_window", "is missing".into()));
        }
        return Ok((0..num_layers).map(|layer| window.filter(|_| slides(layer))).collect());
    };
    let types: Vec<&str> = types.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if types.len() != num_layers {
        return Err(fields.error("layer_types", format!("must be a list of {num_layers} strings, one per layer")));
    }
    types
        .into_iter()
        .map(|layer_type| match (layer_type, window) {
            (FULL, _) => Ok(None),
            (SLIDING, Some(window)) => Ok(Some(window)),
            (SLIDING, None) => {
                Err(fields.error("sliding_window", format!("is not in force, but `layer_types` has {SLIDING}")))
            }
            (other, _) => Err(fields.error("layer_types", format!("has {other}; only {FULL} and {SLIDING} are known"))),
        })
        .collect()
}

/// The distinct rotary embeddings, and for each layer its window and which embedding it uses.
fn rotary_embeddings(
    fields: &Fields,
    architecture: Architecture,
    windows: &[Option<i64>],
) -> Result<(Vec<RopeConfig>, Vec<LayerConfig>), CheckpointError> {
    let object = |name: &str| fields.object.get(name).and_then(Value::as_object);
    let nested = object("rope_parameters").filter(|types| types.values().any(Value::is_object));
    let (full, sliding) = if let Some(types) = nested {
        let one = |layer_type: &str| match types.get(layer_type).and_then(Value::as_object) {
            Some(params) => {
                let prefix = format!("rope_parameters.{layer_type}.");
                rope(fields, &Fields { path: fields.path, prefix: &prefix, object: params }, architecture).map(Some)
            }
            None => Ok(None),
        };
        (one(FULL)?, one(SLIDING)?)
    } else {
        let empty = Map::new();
        let (prefix, params) = match (object("rope_parameters"), object("rope_scaling")) {
            (Some(params), _) => ("rope_parameters.", params),
            (None, Some(params)) => ("rope_scaling.", params),
            (None, None) => ("", &empty),
        };
        let full = rope(fields, &Fields { path: fields.path, prefix, object: params }, architecture)?;
        // Olmo3 scales its full layers only.
        let sliding = match architecture {
            Architecture::Olmo3 => RopeConfig { theta: full.theta, scaling: RopeScaling::Default },
            Architecture::Llama | Architecture::Qwen3 => full.clone(),
        };
        (Some(full), Some(sliding))
    };
    let mut ropes: Vec<RopeConfig> = Vec::new();
    let mut layers = Vec::with_capacity(windows.len());
    for &window in windows {
        let (layer_type, wanted) = if window.is_some() { (SLIDING, &sliding) } else { (FULL, &full) };
        let Some(wanted) = wanted else {
            return Err(fields.error("rope_parameters", format!("has no entry for {layer_type}")));
        };
        let rope = ropes.iter().position(|rope| rope == wanted).unwrap_or_else(|| {
            ropes.push(wanted.clone());
            ropes.len() - 1
        });
        layers.push(LayerConfig { window, rope });
    }
    Ok((ropes, layers))
}

fn rope(top: &Fields, params: &Fields, architecture: Architecture) -> Result<RopeConfig, CheckpointError> {
    let theta = match (params.optional_number("rope_theta")?, top.optional_number("rope_theta")?) {
        (Some(theta), _) | (None, Some(theta)) => theta,
        (None, None) if architecture == Architecture::Llama => LLAMA_ROPE_THETA,
        (None, None) => return Err(top.error("rope_theta", "is missing, also from `rope_parameters`".into())),
    };
    let original = || match (
        params.optional_number("original_max_position_embeddings")?,
        top.optional_number("original_max_position_embeddings")?,
    ) {
        (Some(original), _) | (None, Some(original)) => Ok(original),
        (None, None) => top.number("max_position_embeddings"),
    };
    let rope_type = match params.string("rope_type")? {
        Some(rope_type) => Some(rope_type),
        None => params.string("type")?,
    };
    let scaling = match rope_type.unwrap_or("default") {
        "default" => RopeScaling::Default,
        "llama3" => RopeScaling::Llama3 {
            factor: params.number("factor")?,
            low_freq_factor: params.number("low_freq_factor")?,
            high_freq_factor: params.number("high_freq_factor")?,
            original_max_position_embeddings: original()?,
        },
        "yarn" => {
            let factor = params.number("factor")?;
            let attention_factor = match params.optional_number("attention_factor")? {
                Some(attention_factor) => attention_factor,
                None => RopeScaling::yarn_attention_factor(
                    factor,
                    params.optional_number("mscale")?,
                    params.optional_number("mscale_all_dim")?,
                ),
            };
            RopeScaling::Yarn {
                factor,
                attention_factor,
                beta_fast: params.optional_number("beta_fast")?.unwrap_or(32.0),
                beta_slow: params.optional_number("beta_slow")?.unwrap_or(1.0),
                original_max_position_embeddings: original()?,
                truncate: params.boolean("truncate")?.unwrap_or(true),
            }
        }
        other => return Err(params.error("rope_type", format!("is {other}; supported are default, llama3, yarn"))),
    };
    Ok(RopeConfig { theta, scaling })
}

fn kind(fields: &Fields) -> Result<Kind, CheckpointError> {
    let name = match fields.string("dtype")? {
        Some(name) => Some(name),
        None => fields.string("torch_dtype")?,
    };
    match name.unwrap_or("float32") {
        "float32" => Ok(Kind::Float),
        "bfloat16" => Ok(Kind::BFloat16),
        "float16" => Ok(Kind::Half),
        other => Err(fields.error("dtype", format!("is {other}; supported are float32, bfloat16, float16"))),
    }
}

/// A JSON object with accessors whose errors name the file and the field. `null` counts as absent.
pub(super) struct Fields<'a> {
    pub(super) path: &'a Path,
    pub(super) prefix: &'a str,
    pub(super) object: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(super) fn error(&self, field: &str, problem: String) -> CheckpointError {
        CheckpointError::Config { path: PathBuf::from(self.path), field: format!("{}{field}", self.prefix), problem }
    }

    /// The field as `read` understands it, `None` if absent; otherwise an error saying `expected`.
    fn optional<T>(
        &self,
        field: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, CheckpointError> {
        match self.object.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match read(value) {
                Some(value) => Ok(Some(value)),
                None => Err(self.error(field, format!("is {value}; expected {expected}"))),
            },
        }
    }

    fn optional_positive(&self, field: &str) -> Result<Option<i64>, CheckpointError> {
        self.optional(field, "a positive integer", |value| value.as_i64().filter(|&value| value > 0))
    }

    fn optional_count(&self, field: &str) -> Result<Option<usize>, CheckpointError> {
        self.optional(field, "a non-negative integer", |value| value.as_u64().map(|value| value as usize))
    }

    fn optional_number(&self, field: &str) -> Result<Option<f64>, CheckpointError> {
        self.optional(field, "a number", Value::as_f64)
    }

    pub(super) fn boolean(&self, field: &str) -> Result<Option<bool>, CheckpointError> {
        self.optional(field, "true or false", Value::as_bool)
    }

    pub(super) fn string(&self, field: &str) -> Result<Option<&'a str>, CheckpointError> {
        self.optional(field, "a string", Value::as_str)
    }

    pub(super) fn positive(&self, field: &str) -> Result<i64, CheckpointError> {
        self.optional_positive(field)?.ok_or_else(|| self.error(field, "is missing".into()))
    }

    pub(super) fn number(&self, field: &str) -> Result<f64, CheckpointError> {
        self.optional_number(field)?.ok_or_else(|| self.error(field, "is missing".into()))
    }

    /// One id or a list of ids; empty if absent.
    fn token_ids(&self, field: &str) -> Result<Vec<u32>, CheckpointError> {
        let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        let ids = self.optional(field, "a token id or a list of token ids", |value| match value {
            Value::Array(ids) => ids.iter().map(id).collect(),
            one => id(one).map(|id| vec![id]),
        })?;
        Ok(ids.unwrap_or_default())
    }
}
