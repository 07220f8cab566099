//! `LlamaForCausalLM`: a norm before attention and before the MLP. SmolLM2 is one of these.

use tch::Tensor;

use super::decoder::{DecoderLayer, Mlp, SelfAttention};
use super::weights::WeightsBuilder;
use super::{Attend, ModelConfig, Rotary};
use crate::nn::{Recomputed, RmsNorm};

#[derive(Debug)]
pub(super) struct LlamaLayer {
    self_attn: SelfAttention,
    mlp: Mlp,
    input_layernorm: RmsNorm,
    post_attention_layernorm: RmsNorm,
}

impl LlamaLayer {
    /// Layer `index`, with norms of these widths on its queries and keys if any.
    pub(super) fn with_qk_norms(
        config: &ModelConfig,
        index: usize,
        qk_norm_widths: Option<[i64; 2]>,
        weights: &mut WeightsBuilder,
    ) -> Self {
        let self_attn = SelfAttention::new(config, index, qk_norm_widths, weights);
        let mlp = Mlp::new(config, index, weights);
        let mut norm = |part: &str| {
            let name = format!("model.layers.{index}.{part}.weight");
            RmsNorm::new(weights.vector(name, config.hidden_size), config.rms_norm_eps)
        };
        let input_layernorm = norm("input_layernorm");
        let post_attention_layernorm = norm("post_attention_layernorm");
        Self { self_attn, mlp, input_layernorm, post_attention_layernorm }
    }
}

impl DecoderLayer for LlamaLayer {
    fn new(config: &ModelConfig, index: usize, weights: &mut WeightsBuilder) -> Self {
        Self::with_qk_norms(config, index, None, weights)
    }

    fn forward(&self, hidden: &Tensor, rotary: &[Rotary], attend: &mut dyn Attend) -> Tensor {
        let hidden = hidden + self.self_attn.forward(Recomputed::normed(&self.input_layernorm, hidden), rotary, attend);
        let mlp = self.mlp.forward(Recomputed::normed(&self.post_attention_layernorm, &hidden));
        hidden + mlp
    }
}
