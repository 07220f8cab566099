use std::fs;
use std::path::Path;

use serde_json::json;
use skein_core::types::Message;

use super::*;
use crate::tokenizer::{Tokenizer, test_models};

fn fixture(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name);
    serde_json::from_slice(&fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))).unwrap()
}

/// A directory with `config` as its tokenizer_config.json.
fn directory(config: Value) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    dir
}

fn user(content: &str) -> Message {
    Message { role: "user".into(), content: content.into() }
}

/// Conversations of tests/fixtures/chat_cases.json, rendered and tokenized by transformers.
#[test]
fn real_templates_and_tokenizers_equal_hugging_face() {
    let cases = fixture("chat_cases.json");
    let mut counts = (0, 0);
    for model in ["qwen3-tokenizer", "SmolLM2-135M-Instruct"] {
        let dir = test_models::path(model);
        let (template, tokenizer) = (ChatTemplate::load(&dir).unwrap(), Tokenizer::load(&dir).unwrap());
        let of_model =
            |kind: &str| cases[kind].as_array().unwrap().iter().filter(|case| case["model"] == model).cloned();
        for case in of_model("chat") {
            let options = ChatOptions {
                add_generation_prompt: case["options"]["add_generation_prompt"].as_bool().unwrap(),
                enable_thinking: case["options"]["enable_thinking"].as_bool(),
                tools: case["options"]["tools"].as_array().cloned().unwrap_or_default(),
                variables: Map::new(),
            };
            let text = template.render(case["messages"].as_array().unwrap(), &options).unwrap();
            assert_eq!(text, case["text"].as_str().unwrap(), "{model}: {}", case["messages"]);
            assert_eq!(json!(tokenizer.encode(&text).unwrap()), case["ids"], "{model}: {text:?}");
            counts.0 += 1;
        }
        for case in of_model("text") {
            let ids = tokenizer.encode(case["text"].as_str().unwrap()).unwrap();
            assert_eq!(json!(ids), case["ids"], "{model}: {}", case["text"]);
            assert_eq!(tokenizer.decode(&ids).unwrap(), case["decoded"].as_str().unwrap());
            counts.1 += 1;
        }
    }
    assert_eq!(counts, (cases["chat"].as_array().unwrap().len(), cases["text"].as_array().unwrap().len()));
}

/// Templates of one feature each, rendered by transformers (tests/fixtures/make_jinja_cases.py).
#[test]
fn jinja_and_python_features_equal_transformers() {
    let fixture = fixture("jinja_cases.json");
    let messages = fixture["messages"].as_array().unwrap();
    let options = ChatOptions { variables: fixture["variables"].as_object().unwrap().clone(), ..Default::default() };
    let mut failures = Vec::new();
    for case in fixture["cases"].as_array().unwrap() {
        let dir = directory(json!({ "chat_template": case["template"] }));
        let rendered = ChatTemplate::load(dir.path()).and_then(|template| template.render(messages, &options));
        match (case["text"].as_str(), rendered) {
            (Some(expected), Ok(text)) if text == expected => {}
            (None, Err(_)) => {}
            (expected, rendered) => {
                failures.push(format!("{}\n  expected {expected:?}\n  found    {rendered:?}", case["template"]));
            }
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_refusal_carries_the_templates_words() {
    let dir = directory(json!({ "chat_template": "{{ raise_exception('roles must alternate') }}" }));
    let error = ChatTemplate::load(dir.path()).unwrap().render(&[user("a")], &ChatOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "the chat template refuses this conversation: roles must alternate");
}

#[test]
fn missing_and_broken_templates_name_the_place() {
    let dir = directory(json!({ "eos_token": "</s>" }));
    let error = ChatTemplate::load(dir.path()).err().unwrap().to_string();
    assert!(error.contains("the model has no chat template"), "{error}");
    let dir = directory(json!({ "chat_template": "{% if %}" }));
    let error = ChatTemplate::load(dir.path()).err().unwrap().to_string();
    assert!(error.contains("tokenizer_config.json: the chat template does not parse: syntax error"), "{error}");
    let dir = directory(json!({ "chat_template": "x" }));
    let template = ChatTemplate::load(dir.path()).unwrap();
    let error = template.render(&["not an object"], &ChatOptions::default()).unwrap_err().to_string();
    assert_eq!(error, "messages must be objects with role and content, found \"not an object\"");
}

#[test]
fn the_file_wins_over_the_config_and_tools_choose_their_template() {
    let dir = directory(json!({
        "chat_template": [{ "name": "default", "template": "old" }, { "name": "tool_use", "template": "{{ tools | length }} tools" }],
        "bos_token": { "content": "<s>" },
    }));
    fs::write(dir.path().join("chat_template.jinja"), "{{ bos_token }}{{ messages[0].content }}").unwrap();
    let template = ChatTemplate::load(dir.path()).unwrap();
    let mut options = ChatOptions::default();
    assert_eq!(template.render(&[user("hi")], &options).unwrap(), "<s>hi");
    options.tools = vec![json!({ "type": "function" })];
    assert_eq!(template.render(&[user("hi")], &options).unwrap(), "1 tools");
}
