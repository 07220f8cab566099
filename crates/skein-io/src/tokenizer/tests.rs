use std::fs;

use serde_json::{Value, json};

use super::*;
use crate::chat::{ChatOptions, ChatTemplate};

const TEXTS: [&str; 3] = ["the cat sat on the mat, the cat sat", "12 + 34 = 46; 120 + 3 = 123", "the answer is 46"];

fn trained(vocab_size: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    train_bpe(TEXTS, &BpeSpec { vocab_size, split_digits: true }, dir.path()).unwrap();
    dir
}

/// Replaces one file of `dir` by `value`.
fn write(dir: &Path, name: &str, value: Value) {
    fs::write(dir.join(name), value.to_string()).unwrap();
}

#[test]
fn training_twice_gives_the_same_files() {
    let (a, b) = (trained(300), trained(300));
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        assert_eq!(fs::read(a.path().join(name)).unwrap(), fs::read(b.path().join(name)).unwrap(), "{name}");
    }
}

#[test]
fn a_trained_tokenizer_splits_digits_and_encodes_any_text() {
    let dir = trained(280);
    let tokenizer = Tokenizer::load(dir.path()).unwrap();
    assert_eq!(tokenizer.vocab_size(), 280);
    let digits = tokenizer.encode("1234567890").unwrap();
    assert_eq!(digits.len(), 10);
    assert!(tokenizer.encode(" the").unwrap().len() == 1, "a frequent word is one token");
    for text in ["the cat", " 数学 🧮\n\t\u{0}", "<|im_start|>user\nhi<|im_end|>"] {
        assert_eq!(tokenizer.decode(&tokenizer.encode(text).unwrap()).unwrap(), text);
    }
    assert_eq!(tokenizer.encode("<|im_end|>a").unwrap()[0], 2, "special tokens in a text are one id");
    assert_eq!(tokenizer.decode_visible(&tokenizer.encode("yes<|im_end|>").unwrap()).unwrap(), "yes");
    let expected = SpecialTokens { eos_id: Some(2), stop_ids: vec![2], bos_id: None, pad_id: Some(3) };
    assert_eq!(tokenizer.special(), &expected);
}

#[test]
fn a_trained_tokenizer_has_a_chat_template() {
    let dir = trained(260);
    let template = ChatTemplate::load(dir.path()).unwrap();
    let messages = [json!({ "role": "system", "content": "a" }), json!({ "role": "user", "content": " b\n" })];
    let options = ChatOptions { add_generation_prompt: true, ..Default::default() };
    assert_eq!(
        template.render(&messages, &options).unwrap(),
        "<|im_start|>system\na<|im_end|>\n<|im_start|>user\n b\n<|im_end|>\n<|im_start|>assistant\n"
    );
}

#[test]
fn a_vocabulary_below_the_bytes_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let error = train_bpe(TEXTS, &BpeSpec { vocab_size: 259, split_digits: true }, dir.path()).unwrap_err().to_string();
    assert!(error.contains("a vocabulary of 259 cannot hold the bytes and special tokens (260)"), "{error}");
}

#[test]
fn special_ids_come_from_the_files_that_name_them() {
    let dir = trained(260);
    write(dir.path(), "generation_config.json", json!({ "eos_token_id": [0, 2], "pad_token_id": 1 }));
    write(dir.path(), "config.json", json!({ "eos_token_id": 7, "bos_token_id": 9 }));
    write(dir.path(), "tokenizer_config.json", json!({ "eos_token": { "content": "<|im_end|>", "special": true } }));
    let special = Tokenizer::load(dir.path()).unwrap().special().clone();
    assert_eq!(special, SpecialTokens { eos_id: Some(2), stop_ids: vec![0, 2], bos_id: Some(9), pad_id: Some(1) });

    write(dir.path(), "tokenizer_config.json", json!({ "bos_token": null }));
    fs::remove_file(dir.path().join("generation_config.json")).unwrap();
    let special = Tokenizer::load(dir.path()).unwrap().special().clone();
    assert_eq!(special, SpecialTokens { eos_id: Some(7), stop_ids: vec![7], bos_id: None, pad_id: Some(7) });
}

#[test]
fn truncation_and_padding_in_the_file_are_ignored() {
    let dir = trained(260);
    let path = dir.path().join("tokenizer.json");
    let mut file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    file["truncation"] = json!({ "direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0 });
    file["padding"] = json!({
        "strategy": { "Fixed": 50 }, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "<|endoftext|>",
    });
    write(dir.path(), "tokenizer.json", file);
    let tokenizer = Tokenizer::load(dir.path()).unwrap();
    assert_eq!(tokenizer.encode("1234567").unwrap().len(), 7);
}

#[test]
fn missing_and_broken_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = Tokenizer::load(dir.path()).err().unwrap().to_string();
    assert!(error.contains("there is no tokenizer.json"), "{error}");
    fs::write(dir.path().join("tokenizer.json"), "{\"model\":").unwrap();
    let error = Tokenizer::load(dir.path()).err().unwrap().to_string();
    assert!(error.contains("tokenizer.json: not a tokenizer: "), "{error}");

    let dir = trained(260);
    write(dir.path(), "tokenizer_config.json", json!({ "eos_token": "</s>" }));
    let error = Tokenizer::load(dir.path()).err().unwrap().to_string();
    assert!(
        error.ends_with("tokenizer_config.json: the eos token `</s>` is not in the vocabulary of tokenizer.json"),
        "{error}"
    );
    fs::write(dir.path().join("tokenizer_config.json"), "{").unwrap();
    let error = Tokenizer::load(dir.path()).err().unwrap().to_string();
    assert!(error.contains("tokenizer_config.json: not valid JSON: "), "{error}");
}
