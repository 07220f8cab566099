//! What the supported decoders share: the frame around the layers, attention with its projections, the gated MLP.
//!
//! An architecture is a [`DecoderLayer`]: which norms it has and where. `llama.rs`, `qwen3.rs` and `olmo3.rs` each hold one.

use tch::{Device, Kind, Tensor};

use super::weights::WeightsBuilder;
use super::{Attend, AttentionSpec, CausalLm, ModelConfig, Rotary, Weights};
use crate::nn::{Linear, Recomputed, RmsNorm, Rope};

/// One layer of an architecture.
pub(super) trait DecoderLayer {
    /// Allocates the weights of layer `index`.
    fn new(config: &ModelConfig, index: usize, weights: &mut WeightsBuilder) -> Self;
    /// `[N, D]` to `[N, D]`.
    fn forward(&self, hidden: &Tensor, rotary: &[Rotary], attend: &mut dyn Attend) -> Tensor;
}

/// Embedding, layers of one architecture, final norm and head.
#[derive(Debug)]
pub(super) struct Decoder<L> {
    config: ModelConfig,
    weights: Weights,
    embed_tokens: Tensor, // [V, D]
    layers: Vec<L>,
    norm: RmsNorm,
    lm_head: Tensor, // [V, D]
    ropes: Vec<Rope>,
}

impl<L: DecoderLayer> Decoder<L> {
    pub(super) fn new(config: ModelConfig, kind: Kind, device: Device) -> Self {
        let mut weights = WeightsBuilder::new(kind, device);
        let embed_tokens = weights.matrix("model.embed_tokens.weight".into(), config.vocab_size, config.hidden_size);
        let layers = (0..config.num_hidden_layers).map(|index| L::new(&config, index, &mut weights)).collect();
        let norm = RmsNorm::new(weights.vector("model.norm.weight".into(), config.hidden_size), config.rms_norm_eps);
        let lm_head = if config.tie_word_embeddings {
            embed_tokens.shallow_clone()
        } else {
            weights.matrix("lm_head.weight".into(), config.vocab_size, config.hidden_size)
        };
        let num_positions = config.max_position_embeddings as i64;
        let ropes =
            config.ropes.iter().map(|rope| Rope::new(rope, config.head_dim, num_positions, (kind, device))).collect();
        Self { weights: weights.finish(), config, embed_tokens, layers, norm, lm_head, ropes }
    }
}

impl<L: DecoderLayer> CausalLm for Decoder<L> {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn weights(&self) -> &Weights {
        &self.weights
    }

    fn embed(&self, ids: &Tensor) -> Tensor {
        // No padding index: Hugging Face drops the embedding gradient of the padding id, which is the end-of-turn id in
        // some checkpoints; there is no padding here to protect from.
        Tensor::embedding(&self.embed_tokens, ids, -1, false, false)
    }

    fn rotary(&self, positions: &Tensor) -> Vec<Rotary> {
        self.ropes.iter().map(|rope| rope.at(positions)).collect()
    }

    fn layer(&self, index: usize, hidden: &Tensor, rotary: &[Rotary], attend: &mut dyn Attend) -> Tensor {
        self.layers[index].forward(hidden, rotary, attend)
    }

    fn final_norm(&self, hidden: &Tensor) -> Tensor {
        self.norm.forward(hidden)
    }

    fn head_weight(&self) -> &Tensor {
        &self.lm_head
    }
}

/// Fused query, key and value projections, norms on queries and keys where the architecture has them, rotation, the
/// caller's attention, output projection.
#[derive(Debug)]
pub(super) struct SelfAttention {
    qkv_proj: Linear,
    o_proj: Linear,
    qk_norms: Option<[RmsNorm; 2]>,
    spec: AttentionSpec,
    rope: usize,
    num_heads: i64,
    num_kv_heads: i64,
    head_dim: i64,
}

impl SelfAttention {
    /// `qk_norm_widths` is how many elements of queries and of keys are normalised together, if any are.
    pub(super) fn new(
        config: &ModelConfig,
        index: usize,
        qk_norm_widths: Option<[i64; 2]>,
        weights: &mut WeightsBuilder,
    ) -> Self {
        let name = |part: &str| format!("model.layers.{index}.self_attn.{part}.weight");
        let [q_width, kv_width] = [config.q_width(), config.kv_width()];
        let parts = [(name("q_proj"), q_width), (name("k_proj"), kv_width), (name("v_proj"), kv_width)];
        let qkv_proj = Linear::new(weights.fused(name("qkv_proj"), &parts, config.hidden_size));
        let o_proj = Linear::new(weights.matrix(name("o_proj"), config.hidden_size, q_width));
        let qk_norms = qk_norm_widths.map(|[q_norm, k_norm]| {
            let mut norm = |part, width| RmsNorm::new(weights.vector(name(part), width), config.rms_norm_eps);
            [norm("q_norm", q_norm), norm("k_norm", k_norm)]
        });
        let layer = config.layers[index];
        Self {
            qkv_proj,
            o_proj,
            qk_norms,
            spec: AttentionSpec { layer: index, scale: (config.head_dim as f64).powf(-0.5), window: layer.window },
            rope: layer.rope,
            num_heads: config.num_attention_heads,
            num_kv_heads: config.num_key_value_heads,
            head_dim: config.head_dim,
        }
    }

    /// `[N, D]` to `[N, D]`.
    pub(super) fn forward(&self, x: Recomputed, rotary: &[Rotary], attend: &mut dyn Attend) -> Tensor {
        let rotary = &rotary[self.rope];
        let (num_heads, num_kv_heads) = (self.num_heads, self.num_kv_heads);
        let heads = |x: &Tensor| x.unflatten(-1, [-1, self.head_dim]);
        let qkv = self.qkv_proj.forward_of(x); // [N, (H + 2K) E]
        let (q, k, v) = match &self.qk_norms {
            None => {
                let [q, k, v] = rotary.split_qkv(&qkv, num_heads, num_kv_heads);
                (q, k, v)
            }
            Some([q_norm, k_norm]) => {
                let widths = [num_heads, num_kv_heads, num_kv_heads].map(|heads| heads * self.head_dim);
                let [q, k, v] = split(&qkv, widths, 1);
                let normed = |x: &Tensor, norm: &RmsNorm| {
                    heads(&norm.forward(&x.unflatten(-1, [-1, norm.width()])).flatten(1, 2))
                };
                (rotary.apply(&normed(&q, q_norm)), rotary.apply(&normed(&k, k_norm)), heads(&v))
            }
        }; // [N, H, E], [N, K, E], [N, K, E]
        let attended = attend.attend(self.spec, &q, &k, &v); // [N, H, E]
        self.o_proj.forward(&attended.flatten(1, 2))
    }
}

/// `down(silu(gate(x)) * up(x))` with gate and up fused.
#[derive(Debug)]
pub(super) struct Mlp {
    gate_up_proj: Linear,
    down_proj: Linear,
}

impl Mlp {
    pub(super) fn new(config: &ModelConfig, index: usize, weights: &mut WeightsBuilder) -> Self {
        let name = |part: &str| format!("model.layers.{index}.mlp.{part}.weight");
        let width = config.intermediate_size;
        let parts = [(name("gate_proj"), width), (name("up_proj"), width)];
        Self {
            gate_up_proj: Linear::new(weights.fused(name("gate_up_proj"), &parts, config.hidden_size)),
            down_proj: Linear::new(weights.matrix(name("down_proj"), config.hidden_size, width)),
        }
    }

    /// `[N, D]` to `[N, D]`.
    pub(super) fn forward(&self, x: Recomputed) -> Tensor {
        self.down_proj.forward_of(Recomputed::gated(&self.gate_up_proj.forward_of(x)))
    }
}

/// Views of `x` along `dim`. One split, not several narrows: its backward is one concatenation.
fn split<const PARTS: usize>(x: &Tensor, sizes: [i64; PARTS], dim: i64) -> [Tensor; PARTS] {
    x.split_with_sizes(sizes, dim).try_into().expect("one view per size")
}
