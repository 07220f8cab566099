//! Reads replies of the chat API: one JSON object, or a stream of server-sent events.
//!
//! Which of the two it is the server's content type says. Nothing is repaired: a stream that stops before the model was
//! done is broken, not short. Whoever hands in a reader bounds what can be read from it.

use std::io::{self, BufRead, Read};

use serde::Deserialize;
use skein_core::chat::ChatReply;
use skein_core::types::FinishReason;

/// The `data` of the event that ends a stream.
const DONE: &str = "[DONE]";

/// Tokens a reply was charged for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct TokenCount {
    #[serde(default)]
    pub(super) prompt_tokens: u64,
    #[serde(default)]
    pub(super) completion_tokens: u64,
}

/// A reply and what it cost, where the server says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Metered {
    pub(super) reply: ChatReply,
    pub(super) tokens: Option<TokenCount>,
}

/// Why a body is no reply.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReplyError {
    /// Reading it failed.
    #[error("the reply broke off: {0}")]
    Io(#[from] io::Error),
    /// It is too long.
    #[error("the reply has more than {0} bytes")]
    TooLarge(usize),
    /// It is not what the API says it should be.
    #[error("the reply can't be read: {0}")]
    Broken(String),
    /// The server reports a failure inside a reply.
    #[error("the server reports a failure: {0}")]
    Reported(String),
    /// The model, or what guards it, won't answer.
    #[error("the model declines: {0}")]
    Declined(String),
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<TokenCount>,
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    #[serde(alias = "delta")]
    message: Option<Content>,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Content {
    content: Option<String>,
    refusal: Option<String>,
}

/// What the parts of a reply add up to.
#[derive(Default)]
struct Gathered {
    text: Option<String>,
    refusal: String,
    finish_reason: Option<String>,
    tokens: Option<TokenCount>,
}

impl Gathered {
    fn add(&mut self, json: &[u8]) -> Result<(), ReplyError> {
        let part: Part = serde_json::from_slice(json).map_err(|error| ReplyError::Broken(error.to_string()))?;
        if let Some(error) = part.error.filter(|error| !error.is_null()) {
            let message = error["message"].as_str().map_or_else(|| error.to_string(), str::to_owned);
            return Err(ReplyError::Reported(message));
        }
        self.tokens = part.usage.or(self.tokens);
        for choice in part.choices.into_iter().filter(|choice| choice.index == 0) {
            let Content { content, refusal } = choice.message.unwrap_or_default();
            if let Some(content) = content {
                self.text.get_or_insert_default().push_str(&content);
            }
            self.refusal.push_str(&refusal.unwrap_or_default());
            self.finish_reason = choice.finish_reason.or(self.finish_reason.take());
        }
        Ok(())
    }

    fn finish(self) -> Result<Metered, ReplyError> {
        if !self.refusal.is_empty() {
            return Err(ReplyError::Declined(self.refusal));
        }
        let finish_reason = match self.finish_reason.as_deref() {
            Some("length") => FinishReason::Length,
            Some("content_filter") => return Err(ReplyError::Declined("its reply was filtered".into())),
            _ => FinishReason::Stop,
        };
        let text = self.text.ok_or_else(|| ReplyError::Broken("it has no text".into()))?;
        Ok(Metered { reply: ChatReply { text, finish_reason }, tokens: self.tokens })
    }
}

/// The reply that one JSON object holds.
///
/// # Errors
/// When reading fails, the body has more than `max_bytes`, or it is no reply.
pub(super) fn read_object(reader: impl Read, max_bytes: usize) -> Result<Metered, ReplyError> {
    let mut body = Vec::new();
    reader.take(max_bytes as u64 + 1).read_to_end(&mut body)?;
    if body.len() > max_bytes {
        return Err(ReplyError::TooLarge(max_bytes));
    }
    let mut gathered = Gathered::default();
    gathered.add(&body)?;
    gathered.finish()
}

/// The reply that a stream of events adds up to (HTML standard, section 9.2).
///
/// Bytes become text line by line, so it does not matter where the network cuts them. Nothing is read after the end of
/// the reply, even if the connection stays open.
///
/// # Errors
/// When reading fails, the stream has more than `max_bytes`, or it ends before the reply does.
pub(super) fn read_events(reader: impl BufRead, max_bytes: usize) -> Result<Metered, ReplyError> {
    let mut reader = reader.take(max_bytes as u64 + 1);
    let (mut gathered, mut data, mut line) = (Gathered::default(), Vec::new(), Vec::new());
    loop {
        line.clear();
        let is_end = reader.read_until(b'\n', &mut line)? == 0;
        if reader.limit() == 0 {
            return Err(ReplyError::TooLarge(max_bytes));
        }
        let text = match line.as_slice() {
            [text @ .., b'\r', b'\n'] | [text @ .., b'\n'] => text,
            text => text,
        };
        // A carriage return alone ends a line too.
        for line in text.split(|byte| *byte == b'\r') {
            if let Some(value) = line.strip_prefix(b"data:") {
                data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
                data.push(b'\n');
            } else if line.is_empty() && !data.is_empty() && !is_end {
                if data.trim_ascii() == DONE.as_bytes() {
                    return gathered.finish();
                }
                gathered.add(&data)?;
                data.clear();
            }
        }
        if is_end {
            let done = data.trim_ascii() == DONE.as_bytes() || gathered.finish_reason.is_some();
            return if done { gathered.finish() } else { Err(ReplyError::Broken("the stream ended too early".into())) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use proptest::prelude::*;

    use super::*;

    const MAX: usize = 10_000;

    fn events(text: &str) -> Result<(String, FinishReason, Option<TokenCount>), String> {
        let metered = read_events(Cursor::new(text), MAX).map_err(|error| error.to_string())?;
        Ok((metered.reply.text, metered.reply.finish_reason, metered.tokens))
    }

    fn object(text: &str) -> Result<String, String> {
        read_object(text.as_bytes(), MAX).map(|metered| metered.reply.text).map_err(|error| error.to_string())
    }

    fn delta(text: &str) -> String {
        format!("data: {}\n\n", serde_json::json!({ "choices": [{ "index": 0, "delta": { "content": text } }] }))
    }

    const STOP: &str = "data: {\"choices\": [{\"delta\": {}, \"finish_reason\": \"length\"}]}\n\n";

    #[test]
    fn an_object_is_a_reply_or_says_why_not() {
        assert_eq!(
            object(r#"{"choices": [{"message": {"content": "hi"}}, {"index": 1, "message": {"content": "ho"}}]}"#)
                .unwrap(),
            "hi"
        );
        for (text, problem) in [
            ("", "can't be read: EOF"),
            ("{\"choices\": [", "can't be read: EOF"),
            ("[]", "can't be read"),
            ("{\"choices\": []}", "it has no text"),
            (r#"{"choices": [{"message": {"content": null}}]}"#, "it has no text"),
            (r#"{"choices": [{"message": {"content": null, "refusal": "no"}}]}"#, "declines: no"),
            (r#"{"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]}"#, "was filtered"),
            (r#"{"error": {"message": "overloaded"}}"#, "reports a failure: overloaded"),
            (r#"{"error": "overloaded"}"#, "reports a failure: \"overloaded\""),
        ] {
            let error = object(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
        let error = object(&"[".repeat(MAX + 1)).unwrap_err();
        assert!(error.contains("more than 10000 bytes"), "{error}");
        assert!(object(&"[".repeat(MAX)).is_err(), "deep nesting is refused");
    }

    #[test]
    fn events_add_up_whatever_ends_their_lines() {
        let usage = "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 3, \"completion_tokens\": 2}}\n\n";
        let text = format!(": hello\nevent: x\n{}{}{STOP}{usage}data: [DONE]\n\n", delta("a\n"), delta("é"));
        let expected =
            ("a\né".to_owned(), FinishReason::Length, Some(TokenCount { prompt_tokens: 3, completion_tokens: 2 }));
        for text in
            [text.clone(), text.replace('\n', "\r\n"), text.replace('\n', "\r"), text.replace("data: ", "data:")]
        {
            assert_eq!(events(&text).unwrap(), expected, "{text:?}");
        }
        let two_lines = "data: {\"choices\": [{\"delta\":\ndata: {\"content\": \"x\"}}]}\n\ndata: [DONE]\n\n";
        assert_eq!(events(two_lines).unwrap().0, "x");
        assert_eq!(events(&format!("{}{STOP}", delta("x"))).unwrap().0, "x", "some servers leave out the end");
        assert_eq!(events(&format!("{}data: [DONE]", delta("x"))).unwrap().0, "x");
        assert_eq!(events(&format!("{}data: [DONE]\n\nno event", delta("x"))).unwrap().0, "x");
    }

    #[test]
    fn a_stream_that_stops_early_is_broken() {
        for text in
            [String::new(), delta("x"), delta("x") + "data: {\"choi", delta("x") + ": ping\n\n", "<html>".into()]
        {
            assert!(events(&text).unwrap_err().contains("ended too early"), "{text:?}");
        }
        assert!(events(&format!("{}data: {{\n\n", delta("x"))).unwrap_err().contains("can't be read"));
        assert!(events("data: \u{fffd}\n\n").unwrap_err().contains("can't be read"));
        let error = events("data: {\"error\": {\"message\": \"out of memory\"}}\n\n").unwrap_err();
        assert!(error.contains("reports a failure: out of memory"), "{error}");
        for text in ["x".repeat(2 * MAX), delta("x").repeat(MAX)] {
            assert!(events(&text).unwrap_err().contains("more than 10000 bytes"));
        }
    }

    proptest! {
        #[test]
        fn cuts_do_not_matter(text in "[a-zé🦀\\n\"]{0,40}", capacity in 1_usize..7) {
            let stream = format!("{}{STOP}data: [DONE]\n\n", delta(&text));
            let metered = read_events(BufReader::with_capacity(capacity, stream.as_bytes()), MAX).unwrap();
            prop_assert_eq!(metered.reply.text, text);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_events(Cursor::new(&bytes), MAX);
            let _ = read_object(bytes.as_slice(), MAX);
        }
    }
}
