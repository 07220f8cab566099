//! Directories that Skein writes, read by Hugging Face transformers in a Python of its own (`scripts/setup
//! --transformers`). The tests fail where it is absent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use skein::checkpoint::{Pretrained, SaveOptions, TokenIds, init_model, load_model, save_model};
use skein_core::config::ScratchConfig;
use skein_io::tokenizer::Tokenizer;
use tch::{Device, Kind, Tensor};

use crate::models::{FIXTURES, fixture, padded_logits};

/// f32 logits of small models, computed in another order.
const F32_TOLERANCE: f64 = 1e-4;
/// bf16 keeps eight bits: activations near 1 are rounded to 4e-3 in every layer, in other places than in transformers.
const BF16_TOLERANCE: f64 = 6e-2;
/// f32 logits of thirty trained layers, computed in another order.
const SMOLLM2_TOLERANCE: f64 = 3e-4;

/// Runs a script of this directory in the environment that has transformers.
fn python(script: &str, arguments: &[PathBuf]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join(".venv-hf/bin/python");
    assert!(python.exists(), "{} is absent: run scripts/setup --transformers", python.display());
    let output = Command::new(python).arg(root.join("tests").join(script)).args(arguments).output().unwrap();
    assert!(output.status.success(), "{script} failed:\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn transformers_gives_the_same_logits() {
    let parent = tempfile::tempdir().unwrap();
    let mut models: Vec<(String, Pretrained, SaveOptions)> = Vec::new();
    for name in FIXTURES {
        let model = load_model(&fixture(name), Kind::Float, Device::Cpu).unwrap();
        models.push((name.into(), model, SaveOptions { max_shard_bytes: 300_000, ..SaveOptions::default() }));
    }
    for name in ["qwen3-untied", "olmo3-yarn"] {
        let model = load_model(&fixture(name), Kind::BFloat16, Device::Cpu).unwrap();
        let options = SaveOptions { kind: Kind::BFloat16, ..SaveOptions::default() };
        models.push((format!("{name}-bf16"), model, options));
    }
    for tie_word_embeddings in [true, false] {
        let scratch = ScratchConfig { tie_word_embeddings, init_std: 0.2, ..ScratchConfig::default() };
        let tokens = TokenIds { vocab_size: 512, eos: vec![1, 2], pad: None };
        let model = init_model(&scratch, &tokens, 3, (Kind::Float, Device::Cpu)).unwrap();
        models.push((format!("scratch-tied-{tie_word_embeddings}"), model, SaveOptions::default()));
    }

    let ids = Tensor::from_slice(&[5i64, 400, 17, 3, 3, 250, 77, 8, 311, 12, 99, 5, 500, 42, 6, 7]).view([2, 8]);
    let rows: Vec<Vec<i64>> = Vec::try_from(&ids).unwrap();
    let mut dirs = Vec::new();
    for (name, model, options) in &models {
        let dir = parent.path().join(name);
        fs::create_dir(&dir).unwrap();
        save_model(&dir, &*model.model, &model.config_json, *options).unwrap();
        fs::write(dir.join("input_ids.json"), serde_json::to_string(&rows).unwrap()).unwrap();
        dirs.push(dir);
    }
    python("transformers_logits.py", &dirs);
    for ((name, model, options), dir) in models.iter().zip(&dirs) {
        let (_, theirs) = Tensor::read_safetensors(dir.join("logits.safetensors")).unwrap().remove(0);
        let ours = padded_logits(&*model.model, &ids, &ids.ones_like());
        assert_eq!(theirs.kind(), options.kind, "{name}");
        let tolerance = if options.kind == Kind::Float { F32_TOLERANCE } else { BF16_TOLERANCE };
        let worst = (ours - theirs).abs().max().double_value(&[]);
        eprintln!("{name}: {worst:e}");
        assert!(worst <= tolerance, "{name}: logits differ by {worst:e}");
    }
}

#[test]
fn a_real_model_saved_again_keeps_its_logits_and_its_tokenizer() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/SmolLM2-135M-Instruct");
    assert!(source.exists(), "{} is absent: run scripts/get-model smollm2", source.display());
    let model = load_model(&source, Kind::Float, Device::Cpu).unwrap();
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().to_path_buf();
    let options = SaveOptions { assets_from: Some(&source), ..SaveOptions::default() };
    save_model(&dir, &*model.model, &model.config_json, options).unwrap();

    let texts = [
        "<|im_start|>user\nWhat is 12 × 7?<|im_end|>\n<|im_start|>assistant\n",
        " naïve  café\t\n1234 <answer>-0.5</answer>",
        "def area(w, h):\n    return w * h",
    ];
    let tokenizer = Tokenizer::load(&dir).unwrap();
    let token_ids: Vec<Vec<u32>> = texts.iter().map(|text| tokenizer.encode(text).unwrap()).collect();
    fs::write(dir.join("texts.json"), serde_json::to_string(&texts).unwrap()).unwrap();
    fs::write(dir.join("input_ids.json"), serde_json::to_string(&token_ids[..1]).unwrap()).unwrap();
    python("transformers_logits.py", std::slice::from_ref(&dir));

    let theirs: Vec<Vec<u32>> = serde_json::from_slice(&fs::read(dir.join("token_ids.json")).unwrap()).unwrap();
    assert_eq!(token_ids, theirs);
    let (_, theirs) = Tensor::read_safetensors(dir.join("logits.safetensors")).unwrap().remove(0);
    let ids = Tensor::from_slice(&token_ids[0].iter().map(|&id| i64::from(id)).collect::<Vec<_>>()).unsqueeze(0);
    let worst = (padded_logits(&*model.model, &ids, &ids.ones_like()) - theirs).abs().max().double_value(&[]);
    eprintln!("SmolLM2: {worst:e}");
    assert!(worst <= SMOLLM2_TOLERANCE, "logits differ by {worst:e}");
}
