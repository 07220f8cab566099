//! Model code and checkpoint reading against Hugging Face's numbers (`tests/fixtures/models`).

use std::path::PathBuf;

use skein::checkpoint::load_model;
use skein::nn::DenseAttention;
use tch::{Device, Kind, Tensor};

/// f32 logits of a three-layer model: products are summed in other orders than the reference's.
const LOGIT_TOLERANCE: f64 = 1e-4;

const FIXTURES: [&str; 6] = ["llama-tied", "llama3-rope", "olmo3", "olmo3-yarn", "qwen3-tied", "qwen3-untied"];

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/models").join(name)
}

fn reference(name: &str) -> std::collections::HashMap<String, Tensor> {
    Tensor::read_safetensors(fixture(name).join("reference.safetensors")).unwrap().into_iter().collect()
}

fn max_abs(difference: &Tensor) -> f64 {
    difference.abs().max().double_value(&[])
}

#[test]
fn padded_logits_match_hugging_face() {
    for name in FIXTURES {
        let pretrained = load_model(&fixture(name), Kind::Float, Device::Cpu).unwrap();
        let reference = reference(name);
        let mask = &reference["attention_mask"];
        let mut attention = DenseAttention::new(mask);
        let positions = attention.positions();
        let normed = pretrained.model.forward(&reference["input_ids"].flatten(0, 1), &positions, &mut attention);
        let logits = pretrained.model.head(&normed).view_as(&reference["logits"]);
        let difference = (logits - &reference["logits"]) * mask.unsqueeze(-1);
        let worst = max_abs(&difference);
        eprintln!("{name}: {worst:e}");
        assert!(worst <= LOGIT_TOLERANCE, "{name}: logits differ by {worst:e}");
    }
}
