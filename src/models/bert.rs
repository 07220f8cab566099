//! `BertModel`, the encoder under most small sentence embedders.
//!
//! Hidden states only: no pooler, no masked-word head, no training. Sequences are padded to the longest of a batch, since
//! labels are short and nearly equally long.
//!
//! Shapes: `B` texts, `T` tokens of the longest, `D` model, `H` heads, `E` head size.

use tch::{Device, Kind, Tensor};

use super::Weights;
use super::weights::WeightsBuilder;

/// Shapes and constants read from a checkpoint's `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct BertConfig {
    /// Rows of the word embedding.
    pub vocab_size: i64,
    /// `D`.
    pub hidden_size: i64,
    /// Encoder layers.
    pub num_hidden_layers: usize,
    /// `H`.
    pub num_attention_heads: i64,
    /// Width of the MLP.
    pub intermediate_size: i64,
    /// Rows of the position embedding.
    pub max_position_embeddings: i64,
    /// Rows of the segment embedding; every token is of segment 0 here.
    pub type_vocab_size: i64,
    /// Added to the variance in every norm.
    pub layer_norm_eps: f64,
}

/// The encoder.
#[derive(Debug)]
pub struct Bert {
    config: BertConfig,
    weights: Weights,
    word_embeddings: Tensor,       // [V, D]
    position_embeddings: Tensor,   // [P, D]
    token_type_embeddings: Tensor, // [S, D]
    norm: LayerNorm,
    layers: Vec<Layer>,
}

impl Bert {
    /// An encoder with weights of `kind` on `device`, allocated but not initialised.
    pub fn new(config: BertConfig, kind: Kind, device: Device) -> Self {
        let mut weights = WeightsBuilder::new(kind, device);
        let width = config.hidden_size;
        let mut table = |part: &str, rows| weights.matrix(format!("embeddings.{part}_embeddings.weight"), rows, width);
        let word_embeddings = table("word", config.vocab_size);
        let position_embeddings = table("position", config.max_position_embeddings);
        let token_type_embeddings = table("token_type", config.type_vocab_size);
        let norm = LayerNorm::new("embeddings.LayerNorm", &config, &mut weights);
        let layers = (0..config.num_hidden_layers).map(|index| Layer::new(index, &config, &mut weights)).collect();
        let weights = weights.finish();
        Self { config, weights, word_embeddings, position_embeddings, token_type_embeddings, norm, layers }
    }

    /// Shapes and constants of the model.
    pub fn config(&self) -> &BertConfig {
        &self.config
    }

    /// All weights, by checkpoint name.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The last hidden states of `ids` (`[B, T]` i64), of which `mask` (`[B, T]` bool) tells tokens from padding at the
    /// right: `[B, T, D]`; rows of padding mean nothing.
    pub fn forward(&self, ids: &Tensor, mask: &Tensor) -> Tensor {
        let len = ids.size()[1];
        let words = Tensor::embedding(&self.word_embeddings, ids, -1, false, false); // [B, T, D]
        let positions = self.position_embeddings.narrow(0, 0, len);
        let mut hidden = self.norm.forward(&(words + self.token_type_embeddings.get(0) + positions));
        let visible = mask.unsqueeze(1).unsqueeze(1); // [B, 1, 1, T]
        for layer in &self.layers {
            hidden = layer.forward(&hidden, &visible, self.config.num_attention_heads);
        }
        hidden
    }
}

/// Attention and MLP, each followed by a norm over its residual sum.
#[derive(Debug)]
struct Layer {
    query: Dense,
    key: Dense,
    value: Dense,
    attention_output: Dense,
    attention_norm: LayerNorm,
    intermediate: Dense,
    output: Dense,
    output_norm: LayerNorm,
}

impl Layer {
    fn new(index: usize, config: &BertConfig, weights: &mut WeightsBuilder) -> Self {
        let name = |part: &str| format!("encoder.layer.{index}.{part}");
        let (width, inner) = (config.hidden_size, config.intermediate_size);
        Self {
            query: Dense::new(&name("attention.self.query"), width, width, weights),
            key: Dense::new(&name("attention.self.key"), width, width, weights),
            value: Dense::new(&name("attention.self.value"), width, width, weights),
            attention_output: Dense::new(&name("attention.output.dense"), width, width, weights),
            attention_norm: LayerNorm::new(&name("attention.output.LayerNorm"), config, weights),
            intermediate: Dense::new(&name("intermediate.dense"), inner, width, weights),
            output: Dense::new(&name("output.dense"), width, inner, weights),
            output_norm: LayerNorm::new(&name("output.LayerNorm"), config, weights),
        }
    }

    /// `hidden`: `[B, T, D]`; `visible`: `[B, 1, 1, T]`, which keys every query sees.
    fn forward(&self, hidden: &Tensor, visible: &Tensor, num_heads: i64) -> Tensor {
        let heads = |x: Tensor| x.unflatten(-1, [num_heads, -1]).transpose(1, 2); // [B, H, T, E]
        let attended = Tensor::scaled_dot_product_attention(
            &heads(self.query.forward(hidden)),
            &heads(self.key.forward(hidden)),
            &heads(self.value.forward(hidden)),
            Some(visible),
            0.0,
            false,
            None,
            false,
        );
        let attended = attended.transpose(1, 2).flatten(2, 3); // [B, T, D]
        let hidden = self.attention_norm.forward(&(self.attention_output.forward(&attended) + hidden));
        let inner = self.intermediate.forward(&hidden).gelu("none");
        self.output_norm.forward(&(self.output.forward(&inner) + &hidden))
    }
}

/// `y = x Wᵀ + b`.
#[derive(Debug)]
struct Dense {
    weight: Tensor, // [out, in]
    bias: Tensor,   // [out]
}

impl Dense {
    fn new(name: &str, rows: i64, columns: i64, weights: &mut WeightsBuilder) -> Self {
        let weight = weights.matrix(format!("{name}.weight"), rows, columns);
        Self { weight, bias: weights.vector(format!("{name}.bias"), rows) }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        x.linear(&self.weight, Some(&self.bias))
    }
}

/// `(x - mean(x)) / sqrt(var(x) + eps) * weight + bias` over the last dimension.
#[derive(Debug)]
struct LayerNorm {
    weight: Tensor, // [D]
    bias: Tensor,   // [D]
    eps: f64,
}

impl LayerNorm {
    fn new(name: &str, config: &BertConfig, weights: &mut WeightsBuilder) -> Self {
        let weight = weights.vector(format!("{name}.weight"), config.hidden_size);
        let bias = weights.vector(format!("{name}.bias"), config.hidden_size);
        Self { weight, bias, eps: config.layer_norm_eps }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        x.layer_norm(self.weight.size(), Some(&self.weight), Some(&self.bias), self.eps, false)
    }
}
