//! The benchmarks: parts that add up, and memory that does not grow where it must not.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use skein::checkpoint::{SaveOptions, TokenIds, init_model, save_model};
use skein_core::config::ScratchConfig;
use tch::{Device, Kind};

use super::skein;

/// A model of one narrow layer and a vocabulary of Qwen3's size, so that its logits outweigh all else.
fn wide_vocabulary(dir: &Path) -> PathBuf {
    let tokenizer = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/qwen3-tokenizer");
    let scratch = ScratchConfig {
        tokenizer: tokenizer.clone(),
        hidden_size: 32,
        intermediate_size: 64,
        num_hidden_layers: 1,
        num_attention_heads: 2,
        num_key_value_heads: 1,
        head_dim: 16,
        ..ScratchConfig::default()
    };
    let ids = TokenIds { vocab_size: 151_936, eos: vec![0], pad: None };
    let model = init_model(&scratch, &ids, 0, (Kind::Float, Device::Cpu)).unwrap();
    let options = SaveOptions { assets_from: Some(&tokenizer), ..SaveOptions::default() };
    save_model(dir, model.model.as_ref(), &model.config_json, options).unwrap();
    dir.into()
}

fn bench_train(model: &Path, completion_tokens: &str) -> Value {
    let model = model.to_str().unwrap();
    let shape = ["--batch", "2", "--group", "4", "--prompt-tokens", "8", "--completion-tokens", completion_tokens];
    let args = [&["bench", "train", "--model", model, "--repeats", "1", "--micro-batch-tokens", "4096"], &shape[..]];
    let output = skein(&args.concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Weights of [`wide_vocabulary`]'s layer, of its norms and of its head.
const BODY: f64 = 32.0 * 64.0 + 32.0 * 32.0 + 3.0 * 32.0 * 64.0;
const NORMS: f64 = 3.0 * 32.0 + 2.0 * 16.0;
const HEAD: f64 = 151_936.0 * 32.0;

#[test]
fn logits_are_never_whole() {
    let dir = tempfile::tempdir().unwrap();
    let model = wide_vocabulary(dir.path());
    let memory = |run: &Value| run["peak_rss_bytes"].as_f64().unwrap();
    let [short, long] = ["64", "512"].map(|tokens| bench_train(&model, tokens));
    // 3,584 more trained tokens, each with 151,936 logits of four bytes.
    let dense = 3584.0 * 151_936.0 * 4.0;
    let grown = memory(&long) - memory(&short);
    assert!(grown < dense / 10.0, "{grown} bytes more for logits that would take {dense} when whole");
}

#[test]
fn the_parts_of_an_update_add_up() {
    let dir = tempfile::tempdir().unwrap();
    let run = bench_train(&wide_vocabulary(dir.path()), "16");
    let parts: f64 = run["breakdown_s"].as_object().unwrap().values().map(|part| part.as_f64().unwrap()).sum();
    let whole = run["update_seconds"].as_f64().unwrap();
    assert!((parts - whole).abs() < 1e-9 * whole.max(1.0), "{parts} {whole}");
    let other = run["breakdown_s"]["other"].as_f64().unwrap();
    assert!((0.0..0.05 * whole).contains(&other), "{other} of {whole} s belong to no part");
    // Twice forward's products backward; a token's share of the head counts where it is trained only.
    // The last id of a completion is predicted, not read.
    let (tokens, trained) = (2.0 * 8.0 + 128.0 - 8.0, 128.0);
    let expected = 3.0 * 2.0 * (BODY * tokens + HEAD * trained);
    assert!((run["flops"].as_f64().unwrap() / expected - 1.0).abs() < 1e-3, "{} {expected}", run["flops"]);
}

#[test]
fn a_prompt_counts_as_often_as_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let model = wide_vocabulary(dir.path());
    let prompts = dir.path().join("prompts.jsonl");
    fs::write(&prompts, "{\"prompt\": \"Count me.\"}\n").unwrap();
    let flops = |micro_batch_tokens: &str| {
        let [model, prompts] = [&model, &prompts].map(|path| path.to_str().unwrap());
        let shape = ["--prompt-tokens", "40", "--group", "4", "--max-new", "8"];
        let rest = ["--repeats", "1", "--micro-batch-tokens", micro_batch_tokens];
        let output = skein(&[&["bench", "step", "--model", model, "--prompts", prompts], &shape[..], &rest].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["flops"].as_f64().unwrap()
    };
    // A micro-batch for the whole group, and one for each of its completions, whose last ids are not read.
    for (micro_batch_tokens, read) in [("1024", 40.0 + 4.0 * 7.0), ("50", 4.0 * (40.0 + 7.0))] {
        let trained = 4.0 * 8.0;
        let pass = |tokens: f64| 2.0 * ((BODY + NORMS) * tokens + HEAD * trained);
        // Generation, then the reference's pass, an update's forward pass, and its backward pass of two.
        let (expected, found) = (pass(40.0 + trained) + 4.0 * pass(read), flops(micro_batch_tokens));
        assert_eq!(found, expected, "{micro_batch_tokens}");
    }
}
