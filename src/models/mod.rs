//! Decoder language models as parts: `embed`, `layer(i)`, `final_norm` and `head`.
//!
//! The parts, not one opaque forward, because engine and trainer must both stand between layers
//! (checkpointing, shared prefixes, chunked heads) while running the very same model code. A model
//! never knows how tokens are batched: it sees a flat list of them, and whoever calls it supplies
//! the attention through [`Attend`].
//!
//! A forward pass is: `embed(ids)`; `rotary(positions)` once; every `layer` with that same [`Rotary`] list; `final_norm`;
//! `head` on the rows whose logits are wanted. Models are built with uninitialised weights; `checkpoint` fills them.
//!
//! Shapes: `N` packed tokens, `D` model, `H` query heads, `K` key/value heads, `E` head size, `V` vocabulary.

mod bert;
mod config;
mod decoder;
mod llama;
mod olmo3;
mod qwen3;
mod text_encoder;
mod weights;

use tch::{Device, Kind, Tensor};

pub use bert::{Bert, BertConfig};
pub use config::{Architecture, LayerConfig, ModelConfig};
pub use text_encoder::{Pooling, TextEncoder};
pub use weights::{Entry, Leaf, Weights};

pub use crate::nn::{Attend, AttentionSpec, Rotary};

/// A decoder language model whose weights engine and trainer share.
pub trait CausalLm {
    /// Shapes and constants of the model.
    fn config(&self) -> &ModelConfig;
    /// All weights, by checkpoint name.
    fn weights(&self) -> &Weights;
    /// Embedding rows of `ids` (`[N]` i64): `[N, D]`.
    fn embed(&self, ids: &Tensor) -> Tensor;
    /// The rotations of this pass's tokens, gathered once for all layers: one per distinct rotary embedding of the
    /// model. `positions`: `[N]` i64, each below `max_position_embeddings`.
    fn rotary(&self, positions: &Tensor) -> Vec<Rotary>;
    /// Runs decoder layer `index` on `hidden` (`[N, D]`); `rotary` is what [`CausalLm::rotary`] returned for these tokens.
    fn layer(&self, index: usize, hidden: &Tensor, rotary: &[Rotary], attend: &mut dyn Attend) -> Tensor;
    /// The final norm: `[M, D]` to `[M, D]`.
    fn final_norm(&self, hidden: &Tensor) -> Tensor;
    /// The output projection, `[V, D]`; the embedding itself when tied.
    fn head_weight(&self) -> &Tensor;

    /// Logits of normed hidden states: `[M, D]` to `[M, V]`.
    fn head(&self, normed: &Tensor) -> Tensor {
        normed.linear(self.head_weight(), None::<Tensor>)
    }

    /// Everything before the head: normed hidden states `[N, D]` of `ids` at `positions` (both `[N]` i64).
    fn forward(&self, ids: &Tensor, positions: &Tensor, attend: &mut dyn Attend) -> Tensor {
        let rotary = self.rotary(positions);
        let mut hidden = self.embed(ids);
        for index in 0..self.config().num_hidden_layers {
            hidden = self.layer(index, &hidden, &rotary, attend);
        }
        self.final_norm(&hidden)
    }
}

/// A model of `config` with weights of `kind` on `device`, allocated but not initialised.
pub fn build_model(config: ModelConfig, kind: Kind, device: Device) -> Box<dyn CausalLm> {
    match config.architecture {
        Architecture::Llama => Box::new(decoder::Decoder::<llama::LlamaLayer>::new(config, kind, device)),
        Architecture::Olmo3 => Box::new(decoder::Decoder::<olmo3::Olmo3Layer>::new(config, kind, device)),
        Architecture::Qwen3 => Box::new(decoder::Decoder::<qwen3::Qwen3Layer>::new(config, kind, device)),
    }
}
