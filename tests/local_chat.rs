//! A chat model in this process.

use std::path::Path;
use std::time::{Duration, Instant};

use skein::jobs::LocalChat;
use skein_core::chat::{ChatError, ChatModel, ChatRequest};
use skein_core::types::Message;

/// Two short replies of a small model take seconds; past this something hangs.
const PATIENCE: Duration = Duration::from_secs(120);

fn request(content: &str) -> ChatRequest {
    let messages = vec![Message { role: "user".into(), content: content.into() }];
    ChatRequest { messages, temperature: 0.0, max_new_tokens: 12, seed: 0 }
}

#[test]
fn replies_are_the_same_alone_and_together_and_deadlines_hold() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/SmolLM2-135M-Instruct");
    assert!(dir.is_dir(), "{} is missing: run `scripts/get-model smollm2`", dir.display());
    let model = LocalChat::load(dir.to_str().unwrap()).unwrap();
    let requests = [request("Name one colour."), request("What is 2 + 2?")];
    let soon = || Instant::now() + PATIENCE;
    let together = model.complete(&requests, soon());
    for (request, reply) in requests.iter().zip(&together) {
        let alone = model.complete(std::slice::from_ref(request), soon()).remove(0).unwrap();
        assert_eq!(&alone, reply.as_ref().unwrap());
        assert!(!alone.text.trim().is_empty());
    }
    let late = model.complete(&requests, Instant::now());
    assert!(late.iter().all(|reply| matches!(reply, Err(ChatError::Deadline { .. }))), "{late:?}");
    let mut endless = request("hello");
    endless.messages[0].content = "word ".repeat(20_000);
    let refused = model.complete(&[endless, requests[0].clone()], soon());
    assert!(matches!(refused[0], Err(ChatError::Refused { .. })), "{refused:?}");
    assert_eq!(refused[1], together[0], "the other request is unharmed");
}

#[test]
fn a_model_without_a_chat_template_is_refused() {
    let dir = crate::models::fixture("qwen3-tied");
    let error = LocalChat::load(dir.to_str().unwrap()).err().expect("no tokenizer, no template");
    assert!(error.to_string().contains("qwen3-tied"), "{error}");
}
