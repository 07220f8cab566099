//! `Qwen3ForCausalLM`: Llama's layer with a norm over each query and key head.

use tch::Tensor;

use super::decoder::DecoderLayer;
use super::llama::LlamaLayer;
use super::weights::WeightsBuilder;
use super::{Attend, ModelConfig, Rotary};

#[derive(Debug)]
pub(super) struct Qwen3Layer(LlamaLayer);

impl DecoderLayer for Qwen3Layer {
    fn new(config: &ModelConfig, index: usize, weights: &mut WeightsBuilder) -> Self {
        Self(LlamaLayer::with_qk_norms(config, index, Some([config.head_dim; 2]), weights))
    }

    fn forward(&self, hidden: &Tensor, rotary: &[Rotary], attend: &mut dyn Attend) -> Tensor {
        self.0.forward(hidden, rotary, attend)
    }
}
