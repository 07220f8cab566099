//! Which weights a run starts from.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The policy: a Hugging Face model, or a random one of given sizes. Exactly one of `path` and `scratch` is set; when a
/// later file or override sets one, it replaces the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelConfig {
    /// A Hugging Face model directory, or a hub id such as `Qwen/Qwen3-1.7B`; empty (the default) for none.
    pub path: String,
    /// Type of weights and activations; default "f32", the fast type on CPUs.
    pub dtype: Dtype,
    /// A randomly initialised Qwen3 model; default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scratch: Option<ScratchConfig>,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self { path: String::new(), dtype: Dtype::F32, scratch: None }
    }
}

/// The type of weights and activations; optimizer states and losses are f32 with either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dtype {
    /// 32-bit floats.
    F32,
    /// Brain floats, 8 bits of exponent and 7 of mantissa.
    Bf16,
}

/// Sizes of a randomly initialised `Qwen3ForCausalLM`, under the names of its config.json. The vocabulary is the tokenizer's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScratchConfig {
    /// Directory of the tokenizer; no default.
    pub tokenizer: PathBuf,
    /// Width of the residual stream; default 128.
    pub hidden_size: usize,
    /// Width inside the MLP; default 384.
    pub intermediate_size: usize,
    /// Number of layers; default 4.
    pub num_hidden_layers: usize,
    /// Query heads; default 4.
    pub num_attention_heads: usize,
    /// Key and value heads, a divisor of the query heads; default 2.
    pub num_key_value_heads: usize,
    /// Width of one head, even; default 32.
    pub head_dim: usize,
    /// Longest context in tokens; default 1024.
    pub max_position_embeddings: usize,
    /// Base of the rotary frequencies; default 1e6, Qwen3's.
    pub rope_theta: f64,
    /// Whether the head shares the embedding's weights; default true, as in the small Qwen3 models.
    pub tie_word_embeddings: bool,
    /// Standard deviation of the initial weights; default 0.02, Qwen3's `initializer_range`.
    pub init_std: f64,
}

impl Default for ScratchConfig {
    fn default() -> Self {
        Self {
            tokenizer: PathBuf::new(),
            hidden_size: 128,
            intermediate_size: 384,
            num_hidden_layers: 4,
            num_attention_heads: 4,
            num_key_value_heads: 2,
            head_dim: 32,
            max_position_embeddings: 1024,
            rope_theta: 1e6,
            tie_word_embeddings: true,
            init_std: 0.02,
        }
    }
}
