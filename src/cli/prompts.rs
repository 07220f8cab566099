//! Prompts from the command line or a JSONL file, as the token ids a model starts from.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;
use skein_core::jsonl::read_jsonl;
use skein_core::types::Message;
use skein_io::chat::{ChatOptions, ChatTemplate};
use skein_io::tokenizer::Tokenizer;

use super::UsageError;

/// One line of a prompts file: `{"prompt": "…"}` or `{"messages": [{"role": "user", "content": "…"}]}`, with an `id` where
/// its completions are to be told by one.
#[derive(Debug, Deserialize)]
struct Line {
    id: Option<String>,
    prompt: Option<String>,
    messages: Option<Vec<Message>>,
}

/// A prompt ready to generate from.
#[derive(Debug)]
pub struct Prompt {
    /// Names it in the output, as its line in the file does.
    pub id: Option<String>,
    /// What the user gave: the text, or the last message's content.
    pub text: String,
    /// The ids after templating.
    pub ids: Vec<u32>,
}

/// Turns texts and conversations into ids.
pub struct Prompts<'a> {
    tokenizer: &'a Tokenizer,
    model: PathBuf,
    chat: bool,
    template: Option<ChatTemplate>,
}

impl<'a> Prompts<'a> {
    /// Reads the model's chat template when `chat` wraps plain prompts into a user's turn; conversations in a file
    /// always need it, and load it when the first one comes.
    pub fn new(model: &Path, tokenizer: &'a Tokenizer, chat: bool) -> Self {
        Self { tokenizer, model: model.to_owned(), chat, template: None }
    }

    /// The ids of one text.
    pub fn text(&mut self, text: &str) -> Result<Prompt> {
        if self.chat {
            let message = Message { role: "user".into(), content: text.into() };
            return self.messages(&[message]);
        }
        // A text model starts from its beginning-of-text token, as its tokenizer puts it there.
        Ok(Prompt { id: None, text: text.into(), ids: self.tokenizer.encode_with_special_tokens(text)? })
    }

    fn messages(&mut self, messages: &[Message]) -> Result<Prompt> {
        let template = match &mut self.template {
            Some(template) => template,
            none => none.insert(ChatTemplate::load(&self.model).map_err(|error| UsageError(error.to_string()))?),
        };
        let options = ChatOptions { add_generation_prompt: true, ..ChatOptions::default() };
        let rendered = template.render(messages, &options)?;
        let text = messages.last().map(|message| message.content.clone()).unwrap_or_default();
        Ok(Prompt { id: None, text, ids: self.tokenizer.encode(&rendered)? })
    }

    /// The prompts of a JSONL file, in order.
    pub fn file(&mut self, path: &Path) -> Result<Vec<Prompt>> {
        let lines = read_jsonl::<Line>(path).map_err(|error| UsageError(error.to_string()))?;
        let prompt = |(line, record): (usize, Line)| {
            let prompt = match (&record.prompt, &record.messages) {
                (Some(prompt), None) => self.text(prompt),
                (None, Some(messages)) => self.messages(messages),
                _ => Err(UsageError("expected either `prompt`, a text, or `messages`, a list".into()).into()),
            };
            let prompt = prompt.with_context(|| format!("{}:{line}", path.display()))?;
            Ok(Prompt { id: record.id, ..prompt })
        };
        lines.into_iter().map(prompt).collect()
    }
}
