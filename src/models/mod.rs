//! Decoder language models as three parts: `embed`, `layer(i)` and `head`.
//!
//! The parts, not one opaque forward, because engine and trainer must both stand between layers
//! (checkpointing, shared prefixes, chunked heads) while running the very same model code. A model
//! never knows how tokens are batched: it sees a flat list of them, and whoever calls it supplies
//! the attention through [`Attend`].
//!
//! Shapes: `N` packed tokens, `D` model, `H` query heads, `K` key/value heads, `E` head size, `V` vocabulary.

use tch::Tensor;

/// What one layer's attention needs besides the projected tensors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionSpec {
    /// Which layer is asking; caches are kept per layer.
    pub layer: usize,
    /// Factor on `q · k`.
    pub scale: f64,
    /// Each query sees at most this many latest positions, itself included; `None` is all of them.
    pub window: Option<i64>,
}

/// Causal attention over whatever layout the caller has packed its tokens in.
///
/// `q`: `[N, H, E]`, `k` and `v`: `[N, K, E]`, rotary embedding already applied. Returns `[N, H, E]`.
pub trait Attend {
    /// Attends once for one layer.
    fn attend(&mut self, spec: AttentionSpec, q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor;
}

/// A decoder language model whose weights engine and trainer share.
pub trait CausalLm {
    /// Shapes and constants of the model.
    fn config(&self) -> &ModelConfig;
    /// All weights, by checkpoint name.
    fn weights(&self) -> &Weights;
    /// Embedding rows of `ids` (`[N]` i64): `[N, D]`.
    fn embed(&self, ids: &Tensor) -> Tensor;
    /// Runs decoder layer `index` on `hidden` (`[N, D]`); `positions` is `[N]` i64.
    fn layer(&self, index: usize, hidden: &Tensor, positions: &Tensor, attend: &mut dyn Attend) -> Tensor;
    /// The final norm: `[M, D]` to `[M, D]`.
    fn final_norm(&self, hidden: &Tensor) -> Tensor;
    /// Logits of normed hidden states: `[M, D]` to `[M, V]`.
    fn head(&self, normed: &Tensor) -> Tensor;
}

/// Shapes and constants read from a checkpoint's `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Rows of the embedding.
    pub vocab_size: i64,
    /// `D`.
    pub hidden_size: i64,
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
}

/// Every weight once. Projections that share an input are stored fused (`qkv_proj`, `gate_up_proj`): one leaf,
/// one product; their checkpoint names are row ranges of the leaf.
#[derive(Debug)]
pub struct Weights {
    /// What the optimizer steps on; each requires a gradient while training.
    pub leaves: Vec<Leaf>,
    /// Checkpoint names, in checkpoint order.
    pub entries: Vec<Entry>,
}

/// One stored tensor.
#[derive(Debug)]
pub struct Leaf {
    /// The checkpoint name, or the fused name.
    pub name: String,
    /// The tensor.
    pub tensor: Tensor,
}

/// One checkpoint tensor: rows `start..start + len` of a leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name Hugging Face uses.
    pub name: String,
    /// Index into `leaves`.
    pub leaf: usize,
    /// First row.
    pub start: i64,
    /// Number of rows.
    pub len: i64,
}
