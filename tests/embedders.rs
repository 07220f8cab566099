//! Sentence embedders against vectors that transformers made (`tests/fixtures/make_embeddings.py`).

use std::path::{Path, PathBuf};

use serde::Deserialize;
use skein::checkpoint::load_text_encoder;
use skein::jobs::Embedder;
use skein::models::{Pooling, TextEncoder};
use skein_core::reward::matcher::{Embed, TextRole};
use tch::{Device, Tensor};

use crate::models::{fixture, reference};

/// Components of unit vectors whose sums run in another order than the reference's.
const TOLERANCE: f32 = 1e-4;

#[derive(Deserialize)]
struct Case {
    text: String,
    ids: Vec<u32>,
    vector: Vec<f32>,
}

fn minilm() -> PathBuf {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/all-MiniLM-L6-v2");
    assert!(dir.is_dir(), "{} is missing: run `scripts/get-model minilm`", dir.display());
    dir
}

fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/minilm_embeddings.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn worst(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn rows(tensor: &Tensor) -> Vec<Vec<f32>> {
    Vec::try_from(tensor).unwrap()
}

#[test]
fn minilm_equals_transformers_alone_and_in_a_batch() {
    let embedder = Embedder::load(minilm().to_str().unwrap()).unwrap();
    let cases = cases();
    let texts: Vec<String> = cases.iter().map(|case| case.text.clone()).collect();
    let together = embedder.embed(&texts, TextRole::Query).unwrap();
    for (case, vector) in cases.iter().zip(&together) {
        assert!(worst(vector, &case.vector) < TOLERANCE, "{}", case.text);
        let alone = embedder.embed(std::slice::from_ref(&case.text), TextRole::Key).unwrap();
        assert!(worst(&alone[0], &case.vector) < TOLERANCE, "{} alone", case.text);
    }
}

#[test]
fn pooling_decides_the_vector() {
    let (encoder, pooling) = load_text_encoder(&minilm(), Device::Cpu).unwrap();
    assert_eq!(pooling, Pooling::Mean);
    let case = &cases()[0];
    let ids = std::slice::from_ref(&case.ids);
    assert!(worst(&rows(&encoder.embed(ids, Pooling::Mean))[0], &case.vector) < TOLERANCE);
    for other in [Pooling::First, Pooling::Last] {
        assert!(worst(&rows(&encoder.embed(ids, other))[0], &case.vector) > 100.0 * TOLERANCE, "{other:?}");
    }
}

#[test]
fn decoders_pool_their_last_token() {
    for name in ["qwen3-tied", "qwen3-untied", "llama-tied"] {
        let (encoder, pooling) = load_text_encoder(&fixture(name), Device::Cpu).unwrap();
        assert_eq!(pooling, Pooling::Last, "{name}");
        let reference = reference(name);
        let (ids, mask) = (&reference["input_ids"], &reference["attention_mask"]);
        let texts: Vec<Vec<u32>> = (0..ids.size()[0])
            .map(|row| {
                let tokens = ids.get(row).masked_select(&mask.get(row).to_kind(tch::Kind::Bool));
                Vec::<i64>::try_from(tokens).unwrap().into_iter().map(|id| id as u32).collect()
            })
            .collect();
        for (found, expected) in rows(&encoder.embed(&texts, pooling)).iter().zip(rows(&reference["embedding"])) {
            assert!(worst(found, &expected) < TOLERANCE, "{name}");
        }
    }
}

#[test]
fn headless_checkpoints_without_prefixes_load() {
    let source = fixture("qwen3-tied");
    let dir = tempfile::tempdir().unwrap();
    let tensors = Tensor::read_safetensors(source.join("model.safetensors")).unwrap();
    let bare: Vec<(String, Tensor)> =
        tensors.into_iter().map(|(name, tensor)| (name.trim_start_matches("model.").to_owned(), tensor)).collect();
    Tensor::write_safetensors(&bare, dir.path().join("model.safetensors")).unwrap();
    let config = std::fs::read_to_string(source.join("config.json")).unwrap();
    std::fs::write(dir.path().join("config.json"), config.replace("Qwen3ForCausalLM", "Qwen3Model")).unwrap();
    let (bare, _) = load_text_encoder(dir.path(), Device::Cpu).unwrap();
    let (whole, _) = load_text_encoder(&source, Device::Cpu).unwrap();
    let texts = [vec![1, 2, 3], vec![4]];
    let vectors = |encoder: &TextEncoder| rows(&encoder.embed(&texts, Pooling::Last));
    assert_eq!(vectors(&bare), vectors(&whole));
}

#[test]
fn what_is_no_embedder_is_refused_by_file_and_field() {
    let dir = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(minilm().join(file), dir.path().join(file)).unwrap();
    }
    let refusal = || Embedder::load(dir.path().to_str().unwrap()).err().expect("no embedder").to_string();
    std::fs::create_dir(dir.path().join("1_Pooling")).unwrap();
    let pooling = dir.path().join("1_Pooling/config.json");
    std::fs::write(&pooling, r#"{"pooling_mode_max_tokens": true}"#).unwrap();
    assert!(refusal().contains("1_Pooling/config.json: `pooling_mode_*` must have exactly one"), "{}", refusal());
    std::fs::write(dir.path().join("modules.json"), r#"[{"type": "sentence_transformers.models.Dense"}]"#).unwrap();
    assert!(refusal().contains("modules.json: `type` is sentence_transformers.models.Dense"), "{}", refusal());
    std::fs::remove_file(dir.path().join("model.safetensors")).unwrap();
    assert!(refusal().contains("no model.safetensors"), "{}", refusal());
}
