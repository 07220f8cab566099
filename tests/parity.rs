//! `skein parity` as a user runs it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tch::Tensor;

use crate::models::{FIXTURES, fixture};

fn parity(model: &Path, reference: &Path, json: bool) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skein"));
    // Tests run side by side: OpenMP teams that wait for each other's cores take twenty times as long.
    command.env("OMP_NUM_THREADS", "1").args(["parity", "--model"]).arg(model).arg("--reference").arg(reference);
    if json {
        command.arg("--json");
    }
    command.output().unwrap()
}

#[test]
fn every_path_agrees_with_every_fixture() {
    for name in FIXTURES {
        let output = parity(&fixture(name), &fixture(name), true);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{name}: {text}\n{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["passed"], true);
        let differences = report["differences"].as_array().unwrap();
        for path in ["plain", "cached", "packed"] {
            assert!(differences.iter().any(|difference| difference["path"] == path), "{name}: nothing of {path}");
        }
    }
}

/// A reference directory with `edit` applied to its tensors.
fn edited_reference(name: &str, edit: fn(&mut Vec<(String, Tensor)>)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(fixture(name).join("reference.json"), dir.path().join("reference.json")).unwrap();
    let mut tensors = Tensor::read_safetensors(fixture(name).join("reference.safetensors")).unwrap();
    edit(&mut tensors);
    Tensor::write_safetensors(&tensors, dir.path().join("reference.safetensors")).unwrap();
    dir
}

fn tensor_of<'a>(tensors: &'a mut [(String, Tensor)], name: &str) -> &'a mut Tensor {
    &mut tensors.iter_mut().find(|(other, _)| other == name).unwrap().1
}

#[test]
fn a_difference_past_its_tolerance_fails_and_is_named() {
    let reference = edited_reference("qwen3-tied", |tensors| {
        let logits = tensor_of(tensors, "logits");
        let _in_place = logits.get(0).get(3).get(7).g_add_scalar_(2e-4);
        let greedy = tensor_of(tensors, "greedy");
        let _in_place = greedy.get(1).get(2).g_add_scalar_(1);
    });
    let output = parity(&fixture("qwen3-tied"), reference.path(), false);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let failed: Vec<&str> = text.lines().filter(|line| line.starts_with("FAIL")).collect();
    assert!(failed.iter().any(|line| line.contains("plain") && line.ends_with("logits")), "{text}");
    assert!(failed.iter().any(|line| line.ends_with("greedy tokens")), "{text}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("past their tolerance"));
}

#[test]
fn a_number_that_is_none_fails() {
    let reference = edited_reference("llama-tied", |tensors| {
        let logprobs = tensor_of(tensors, "token_logprobs");
        let _in_place = logprobs.get(0).get(20).fill_(f64::NAN);
    });
    let output = parity(&fixture("llama-tied"), reference.path(), true);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let failed = report["differences"].as_array().unwrap().iter().filter(|difference| difference["passed"] == false);
    let failed: Vec<String> = failed.map(|difference| difference["path"].to_string()).collect();
    for path in ["\"plain\"", "\"cached\"", "\"packed\""] {
        assert!(failed.contains(&path.to_string()), "{failed:?}");
    }
}

#[test]
fn what_is_no_reference_is_a_usage_error() {
    let no_greedy = edited_reference("llama-tied", |tensors| tensors.retain(|(name, _)| name != "greedy"));
    let right_padded = edited_reference("llama-tied", |tensors| {
        let mask = tensor_of(tensors, "attention_mask");
        let _in_place = mask.get(0).get(-1).fill_(0);
    });
    let short_logits = edited_reference("llama-tied", |tensors| {
        let logits = tensor_of(tensors, "logits");
        *logits = logits.narrow(1, 0, 5).copy();
    });
    let other_model = edited_reference("llama-tied", |tensors| {
        let logits = tensor_of(tensors, "logits");
        *logits = logits.narrow(2, 0, 511).copy();
    });
    let nowhere = tempfile::tempdir().unwrap();
    let llama = fixture("llama-tied");
    for (model, reference, expected) in [
        (llama.as_path(), no_greedy.path(), "no tensor `greedy`"),
        (&llama, right_padded.path(), "padded on the left"),
        (&llama, nowhere.path(), "reference.safetensors"),
        (&llama, short_logits.path(), "`logits` has shape"),
        (&llama, other_model.path(), "another model's: vocabulary 511, not 512"),
        (nowhere.path(), &llama, "config.json"),
    ] {
        let output = parity(model, reference, false);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}
