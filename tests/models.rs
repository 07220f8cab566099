//! Model code against Hugging Face's numbers (`tests/fixtures/models`, made by transformers 5.24 in f32).

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use serde_json::Value;
use skein::checkpoint::{Pretrained, SaveOptions, load_model, read_config, save_model};
use skein::models::{CausalLm, ModelConfig};
use skein::nn::{DenseAttention, RopeConfig, RopeScaling};
use skein::optim::AdamWParams;
use skein::trainer::{SftExample, Trainer, TrainerParams};
use tch::{Device, Kind, Tensor};

/// f32 logits and log-probs of a three-layer model whose sums run in another order than the reference's.
pub const LOGIT_TOLERANCE: f64 = 1e-4;
/// Relative; a gradient norm adds thousands of products.
const GRAD_NORM_TOLERANCE: f64 = 1e-3;

pub const FIXTURES: [&str; 6] = ["llama-tied", "llama3-rope", "olmo3", "olmo3-yarn", "qwen3-tied", "qwen3-untied"];

pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/models").join(name)
}

pub fn load_fixture(name: &str) -> Box<dyn CausalLm> {
    load_model(&fixture(name), Kind::Float, Device::Cpu).unwrap().model
}

pub fn reference(name: &str) -> HashMap<String, Tensor> {
    Tensor::read_safetensors(fixture(name).join("reference.safetensors")).unwrap().into_iter().collect()
}

fn reference_json(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixture(name).join("reference.json")).unwrap()).unwrap()
}

fn max_abs(difference: &Tensor) -> f64 {
    difference.abs().max().double_value(&[])
}

/// Logits of all positions, `[B, T, V]`.
pub fn padded_logits(model: &dyn CausalLm, ids: &Tensor, attention_mask: &Tensor) -> Tensor {
    let mut attention = DenseAttention::new(attention_mask);
    let positions = attention.positions();
    model.head(&model.forward(&ids.flatten(0, 1), &positions, &mut attention)).unflatten(0, ids.size())
}

#[test]
fn left_padded_logits_match_hugging_face() {
    for name in FIXTURES {
        let reference = reference(name);
        let mask = &reference["attention_mask"];
        let logits = padded_logits(&*load_fixture(name), &reference["input_ids"], mask);
        let worst = max_abs(&((logits - &reference["logits"]) * mask.unsqueeze(-1)));
        assert!(worst <= LOGIT_TOLERANCE, "{name}: logits differ by {worst:e}");
    }
}

#[test]
fn unpadded_logits_match_hugging_face() {
    for name in FIXTURES {
        let reference = reference(name);
        let model = load_fixture(name);
        for row in 0..reference["input_ids"].size()[0] {
            let is_token = reference["attention_mask"].get(row).to_kind(Kind::Bool);
            let ids = reference["input_ids"].get(row).masked_select(&is_token).unsqueeze(0);
            let logits = padded_logits(&*model, &ids, &ids.ones_like());
            let expected = reference["logits"].get(row).index(&[Some(is_token)]);
            let worst = max_abs(&(logits.squeeze_dim(0) - expected));
            assert!(worst <= LOGIT_TOLERANCE, "{name} row {row}: logits differ by {worst:e}");
        }
    }
}

/// Mean next-token cross-entropy over pairs of neighbours that are both tokens.
fn sft_loss(model: &dyn CausalLm, ids: &Tensor, mask: &Tensor) -> Tensor {
    let len = ids.size()[1];
    let logits = padded_logits(model, ids, mask).narrow(1, 0, len - 1).flatten(0, 1);
    let both = (mask.narrow(1, 1, len - 1) * mask.narrow(1, 0, len - 1)).flatten(0, 1).to_kind(Kind::Bool);
    let targets = ids.narrow(1, 1, len - 1).flatten(0, 1);
    let select = |tensor: &Tensor| tensor.index(&[Some(&both)]);
    select(&logits).cross_entropy_for_logits(&select(&targets))
}

#[test]
fn loss_and_every_gradient_norm_match_hugging_face() {
    for name in FIXTURES {
        let (reference, json) = (reference(name), reference_json(name));
        let model = load_fixture(name);
        model.weights().set_requires_grad(true);
        let loss = sft_loss(&*model, &reference["input_ids"], &reference["attention_mask"]);
        let difference = loss.double_value(&[]) - json["sft_loss"].as_f64().unwrap();
        assert!(difference.abs() <= LOGIT_TOLERANCE, "{name}: loss differs by {difference:e}");
        loss.backward();
        let expected = json["grad_norms"].as_object().unwrap();
        assert_eq!(expected.len(), model.weights().entries.len());
        for entry in &model.weights().entries {
            let expected = expected[&entry.name].as_f64().unwrap();
            let norm = model.weights().grad_rows(entry).unwrap().norm().double_value(&[]);
            let relative = (norm / expected - 1.0).abs();
            assert!(relative <= GRAD_NORM_TOLERANCE, "{name}: gradient of {} off by {relative:e}", entry.name);
        }
    }
}

#[test]
fn entries_are_exactly_the_checkpoint_names_and_cover_every_row() {
    for name in FIXTURES {
        let stored: BTreeSet<String> = Tensor::read_safetensors(fixture(name).join("model.safetensors"))
            .unwrap()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        let model = load_fixture(name);
        let weights = model.weights();
        let entries: BTreeSet<String> = weights.entries.iter().map(|entry| entry.name.clone()).collect();
        assert_eq!(entries, stored);
        assert_eq!(entries.len(), weights.entries.len());
        for (index, leaf) in weights.leaves.iter().enumerate() {
            let mut next_row = 0;
            for entry in weights.entries.iter().filter(|entry| entry.leaf == index) {
                assert_eq!(entry.start, next_row, "{name}: {} starts elsewhere", entry.name);
                next_row += entry.len;
            }
            assert_eq!(next_row, leaf.tensor.size()[0], "{name}: rows of {} without a name", leaf.name);
        }
    }
}

#[test]
fn a_tied_head_is_the_embedding_and_an_untied_one_is_not() {
    for name in FIXTURES {
        let Pretrained { model, config_json } = load_model(&fixture(name), Kind::Float, Device::Cpu).unwrap();
        let assert_tied = |model: &dyn CausalLm, when: &str| {
            let same = model.head_weight().data_ptr() == model.weights().leaves[0].tensor.data_ptr();
            assert_eq!(same, model.config().tie_word_embeddings, "{name} {when}");
        };
        assert_tied(&*model, "as loaded");
        let example = SftExample { prompt_ids: vec![5], completion_ids: vec![6, 7], loss_mask: None };
        let mut trainer = Trainer::new(&*model, AdamWParams::default(), TrainerParams::default());
        trainer.sft_update(&[example], 1e-2).unwrap();
        assert_tied(&*model, "after a step");
        let dir = tempfile::tempdir().unwrap();
        save_model(dir.path(), &*model, &config_json, SaveOptions::default()).unwrap();
        let resumed = load_model(dir.path(), Kind::Float, Device::Cpu).unwrap().model;
        assert_tied(&*resumed, "resumed");
        assert!(resumed.head_weight().equal(&model.head_weight().detach()), "{name}");
    }
}

/// Rewrites a fixture's config in the style of transformers 4: rotary parameters at the top, `torch_dtype`.
fn as_transformers_4(name: &str) -> (ModelConfig, ModelConfig) {
    let (config, mut json) = read_config(&fixture(name)).unwrap();
    let dtype = json.remove("dtype").unwrap();
    json.insert("torch_dtype".into(), dtype);
    let Some(Value::Object(mut rope)) = json.remove("rope_parameters") else { panic!("{name} has rope_parameters") };
    if let Some(Value::Object(full)) = rope.get("full_attention") {
        rope = full.clone();
    }
    json.insert("rope_theta".into(), rope.remove("rope_theta").unwrap());
    let scaling = if rope["rope_type"] == "default" { Value::Null } else { Value::Object(rope) };
    json.insert("rope_scaling".into(), scaling);
    let old = skein::checkpoint::parse_config(&fixture(name).join("config.json"), &json).unwrap();
    (config, old)
}

#[test]
fn both_styles_of_config_mean_the_same_model() {
    for name in FIXTURES {
        let (new, old) = as_transformers_4(name);
        assert_eq!(new, old, "{name}");
    }
}

#[test]
fn yarn_attention_factor_has_the_documented_default() {
    // 0.1 ln(8) + 1, the number the fixture spells out.
    assert_eq!(RopeScaling::yarn_attention_factor(8.0, None, None), 1.2079441541679836);
    assert_eq!(RopeScaling::yarn_attention_factor(1.0, None, None), 1.0);
    assert_eq!(RopeScaling::yarn_attention_factor(40.0, Some(1.0), Some(1.0)), 1.0);
}

#[test]
fn default_frequencies_are_a_geometric_series() {
    let config = RopeConfig { theta: 10_000.0, scaling: RopeScaling::Default };
    let inv_freq = Vec::<f32>::try_from(config.inv_freq(8)).unwrap();
    for (got, expected) in inv_freq.iter().zip([1.0, 0.1, 0.01, 0.001]) {
        assert!((got / expected - 1.0).abs() < 1e-6, "{got} instead of {expected}");
    }
}
