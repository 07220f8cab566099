//! Random Qwen3 models from a config's sizes.
//!
//! Each weight has a random stream named after it, so its values depend on the seed and its own name and shape only,
//! not on the device, the other weights or libtorch's generator.

use std::f64::consts::TAU;
use std::path::Path;

use serde_json::{Map, Value, json};
use skein_core::config::ScratchConfig;
use skein_core::random::Stream;
use tch::{Device, Kind, Tensor};

use super::{CheckpointError, Pretrained, parse_config};
use crate::models::build_model;

/// Token ids that the tokenizer decides.
#[derive(Debug, Clone)]
pub struct TokenIds {
    /// Rows of the embedding.
    pub vocab_size: usize,
    /// Ids that end a completion.
    pub eos: Vec<u32>,
    /// The padding id, if the tokenizer has one.
    pub pad: Option<u32>,
}

/// A `Qwen3ForCausalLM` of the given sizes: matrices from a normal distribution of standard deviation `init_std`, norms 1.
///
/// # Errors
/// When the sizes do not fit together.
pub fn init_model(
    scratch: &ScratchConfig,
    tokens: &TokenIds,
    seed: u64,
    options: (Kind, Device),
) -> Result<Pretrained, CheckpointError> {
    let config_json = config_json(scratch, tokens);
    let config = parse_config(Path::new("model.scratch"), &config_json)?;
    let (kind, device) = options;
    let model = build_model(config, kind, device);
    let weights = model.weights();
    for entry in &weights.entries {
        let mut rows = weights.rows(entry);
        if rows.dim() == 1 {
            let _ones = rows.fill_(1.0);
        } else {
            let mut stream = Stream::new(seed, &entry.name, 0);
            let values: Vec<f32> = (0..rows.numel()).map(|_| (normal(&mut stream) * scratch.init_std) as f32).collect();
            rows.copy_(&Tensor::from_slice(&values).view_as(&rows));
        }
    }
    Ok(Pretrained { model, config_json })
}

/// A standard normal draw (Box and Muller; the second of the pair is not used).
fn normal(stream: &mut Stream) -> f64 {
    let radius = (-2.0 * (1.0 - stream.uniform()).ln()).sqrt();
    radius * (TAU * stream.uniform()).cos()
}

/// In the style of transformers 4, which 5 reads as well.
fn config_json(scratch: &ScratchConfig, tokens: &TokenIds) -> Map<String, Value> {
    let eos = match tokens.eos[..] {
        [] => Value::Null,
        [one] => json!(one),
        _ => json!(tokens.eos),
    };
    let fields = [
        ("architectures", json!(["Qwen3ForCausalLM"])),
        ("model_type", json!("qwen3")),
        ("attention_bias", json!(false)),
        ("attention_dropout", json!(0.0)),
        ("bos_token_id", Value::Null),
        ("eos_token_id", eos),
        ("pad_token_id", json!(tokens.pad)),
        ("hidden_act", json!("silu")),
        ("hidden_size", json!(scratch.hidden_size)),
        ("intermediate_size", json!(scratch.intermediate_size)),
        ("num_hidden_layers", json!(scratch.num_hidden_layers)),
        ("num_attention_heads", json!(scratch.num_attention_heads)),
        ("num_key_value_heads", json!(scratch.num_key_value_heads)),
        ("head_dim", json!(scratch.head_dim)),
        ("max_position_embeddings", json!(scratch.max_position_embeddings)),
        ("rms_norm_eps", json!(1e-6)),
        ("rope_theta", json!(scratch.rope_theta)),
        ("rope_scaling", Value::Null),
        ("sliding_window", Value::Null),
        ("use_sliding_window", json!(false)),
        ("tie_word_embeddings", json!(scratch.tie_word_embeddings)),
        ("torch_dtype", json!("float32")),
        ("initializer_range", json!(scratch.init_std)),
        ("use_cache", json!(true)),
        ("vocab_size", json!(tokens.vocab_size)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}
