//! What a model needs to know of its checkpoint's `config.json`, already defaulted and checked.

use tch::Kind;

use crate::nn::RopeConfig;

/// The supported decoder architectures, by the class name Hugging Face writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// `LlamaForCausalLM`.
    Llama,
    /// `Olmo3ForCausalLM`.
    Olmo3,
    /// `Qwen3ForCausalLM`.
    Qwen3,
}

impl Architecture {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Llama, Self::Olmo3, Self::Qwen3];

    /// The class name in `architectures`.
    pub fn class_name(self) -> &'static str {
        match self {
            Self::Llama => "LlamaForCausalLM",
            Self::Olmo3 => "Olmo3ForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
        }
    }

    /// The `model_type`.
    pub fn model_type(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Olmo3 => "olmo3",
            Self::Qwen3 => "qwen3",
        }
    }
}

/// Shapes and constants read from a checkpoint's `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Which decoder.
    pub architecture: Architecture,
    /// Rows of the embedding.
    pub vocab_size: i64,
    /// `D`.
    pub hidden_size: i64,
    /// Width of the MLP.
    pub intermediate_size: i64,
    /// Decoder layers.
    pub num_hidden_layers: usize,
    /// `H`.
    pub num_attention_heads: i64,
    /// `K`.
    pub num_key_value_heads: i64,
    /// `E`.
    pub head_dim: i64,
    /// Positions the model was made for.
    pub max_position_embeddings: usize,
    /// Added to the mean square in every norm.
    pub rms_norm_eps: f64,
    /// The head is the embedding.
    pub tie_word_embeddings: bool,
    /// One per decoder layer.
    pub layers: Vec<LayerConfig>,
    /// The distinct rotary embeddings that layers refer to.
    pub ropes: Vec<RopeConfig>,
    /// Ids that end a completion, of `config.json` and `generation_config.json` together.
    pub eos_token_ids: Vec<u32>,
    /// The type the checkpoint says its weights have.
    pub kind: Kind,
    /// Standard deviation of freshly initialised matrices.
    pub initializer_range: f64,
}

impl ModelConfig {
    /// Elements of one token's queries, `H E`.
    pub fn q_width(&self) -> i64 {
        self.num_attention_heads * self.head_dim
    }

    /// Elements of one token's keys, and of its values: `K E`.
    pub fn kv_width(&self) -> i64 {
        self.num_key_value_heads * self.head_dim
    }
}

/// What differs from layer to layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerConfig {
    /// Each query sees at most this many latest positions, itself included; `None` is all of them.
    pub window: Option<i64>,
    /// Index into [`ModelConfig::ropes`].
    pub rope: usize,
}
