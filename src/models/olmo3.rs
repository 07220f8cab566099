//! `Olmo3ForCausalLM`: norms after attention and after the MLP, and over the full width of queries and keys.
//!
//! Sliding and full layers alternate; each kind has its own rotary embedding (`ModelConfig::layers`).

use tch::Tensor;

use super::decoder::{DecoderLayer, Mlp, SelfAttention};
use super::weights::WeightsBuilder;
use super::{Attend, ModelConfig, Rotary};
use crate::nn::{Recomputed, RmsNorm};

#[derive(Debug)]
pub(super) struct Olmo3Layer {
    self_attn: SelfAttention,
    mlp: Mlp,
    post_attention_layernorm: RmsNorm,
    post_feedforward_layernorm: RmsNorm,
}

impl DecoderLayer for Olmo3Layer {
    fn new(config: &ModelConfig, index: usize, weights: &mut WeightsBuilder) -> Self {
        let qk_norm_widths = [config.q_width(), config.kv_width()];
        let self_attn = SelfAttention::new(config, index, Some(qk_norm_widths), weights);
        let mlp = Mlp::new(config, index, weights);
        let mut norm = |part: &str| {
            let name = format!("model.layers.{index}.{part}.weight");
            RmsNorm::new(weights.vector(name, config.hidden_size), config.rms_norm_eps)
        };
        let post_attention_layernorm = norm("post_attention_layernorm");
        let post_feedforward_layernorm = norm("post_feedforward_layernorm");
        Self { self_attn, mlp, post_attention_layernorm, post_feedforward_layernorm }
    }

    fn forward(&self, hidden: &Tensor, rotary: &[Rotary], attend: &mut dyn Attend) -> Tensor {
        let attended = self.self_attn.forward(Recomputed::kept(hidden), rotary, attend);
        let hidden = hidden + self.post_attention_layernorm.forward(&attended);
        let mlp = self.mlp.forward(Recomputed::kept(&hidden));
        hidden + self.post_feedforward_layernorm.forward(&mlp)
    }
}
