//! Chat templates: a conversation as the text a model was trained on.
//!
//! Renders the Jinja template a model ships with exactly as Hugging Face transformers does, byte for byte: same
//! environment, same variables, same Python habits of printing. Where a template calls `raise_exception` the conversation
//! is refused; nothing is guessed for a model without a template. Python's `%` on strings is not there: a template that
//! uses it fails.

use std::path::{Path, PathBuf};

use minijinja::value::Serde;
use minijinja::{Environment, Value as TemplateValue};
use serde::Serialize;
use serde_json::{Map, Value};

mod environment;
mod python;

use crate::tokenizer::{TokenizerError, read_json, token_text};

/// Why a conversation could not be rendered.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// The model has no chat template.
    #[error("{}: the model has no chat template (neither chat_template.jinja nor `chat_template` in tokenizer_config.json)", directory.display())]
    Missing {
        /// The model's directory.
        directory: PathBuf,
    },
    /// A file of the model cannot be read.
    #[error(transparent)]
    File(#[from] TokenizerError),
    /// The template itself is wrong.
    #[error("{}: the chat template does not parse: {message}", path.display())]
    Syntax {
        /// The file that holds the template.
        path: PathBuf,
        /// Where and why.
        message: String,
    },
    /// The template called `raise_exception`.
    #[error("the chat template refuses this conversation: {0}")]
    Refused(String),
    /// The template failed on this conversation.
    #[error("the chat template failed: {0}")]
    Failed(String),
    /// The messages are not a list of objects.
    #[error("messages must be objects with role and content, found {0}")]
    Messages(String),
}

/// What a template is told beyond the messages.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChatOptions {
    /// Ends the text where the assistant's turn begins.
    pub add_generation_prompt: bool,
    /// `enable_thinking`, as Qwen3's template reads it; not defined when none.
    pub enable_thinking: Option<bool>,
    /// JSON schemas of the tools on offer.
    pub tools: Vec<Value>,
    /// Any other variables.
    pub variables: Map<String, Value>,
}

/// A model's chat template.
pub struct ChatTemplate {
    default: Environment<'static>,
    /// The template for conversations with tools, where the model has another one for them.
    tool_use: Option<Environment<'static>>,
    special_tokens: Map<String, Value>,
}

impl ChatTemplate {
    /// The template of a Hugging Face directory: chat_template.jinja, else `chat_template` in tokenizer_config.json.
    ///
    /// # Errors
    /// [`ChatError::Missing`] when there is none, an unreadable file, a template that does not parse.
    pub fn load(directory: &Path) -> Result<Self, ChatError> {
        let config_path = directory.join("tokenizer_config.json");
        let config = read_json(&config_path)?;
        let special_tokens =
            ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]
                .into_iter()
                .filter_map(|name| Some((name.to_owned(), Value::String(token_text(&config[name])?))))
                .collect();
        let mut sources = sources_in_config(&config["chat_template"], &config_path);
        for (name, path) in [
            ("default", directory.join("chat_template.jinja")),
            ("tool_use", directory.join("additional_chat_templates/tool_use.jinja")),
        ] {
            if path.is_file() {
                let source = std::fs::read_to_string(&path).map_err(|error| TokenizerError::File {
                    path: path.clone(),
                    message: format!("cannot read the file: {error}"),
                })?;
                sources.retain(|(known, _, _)| known != name);
                sources.push((name.to_owned(), source, path));
            }
        }
        let build = |name: &str| {
            let Some((_, source, path)) = sources.iter().find(|(known, _, _)| known == name) else { return Ok(None) };
            let syntax = |error: minijinja::Error| ChatError::Syntax { path: path.clone(), message: error.to_string() };
            environment::build(source).map(Some).map_err(syntax)
        };
        let missing = || ChatError::Missing { directory: directory.to_owned() };
        Ok(Self { default: build("default")?.ok_or_else(missing)?, tool_use: build("tool_use")?, special_tokens })
    }

    /// The conversation as text. `messages` are objects with `role`, `content` and whatever else the template reads, such
    /// as `tool_calls`; fields that are null count as absent.
    ///
    /// # Errors
    /// [`ChatError::Refused`] when the template refuses the conversation, [`ChatError::Failed`] when it cannot render it.
    pub fn render<M: Serialize>(&self, messages: &[M], options: &ChatOptions) -> Result<String, ChatError> {
        let messages = messages.iter().map(message_fields).collect::<Result<Vec<Value>, _>>()?;
        let mut context = self.special_tokens.clone();
        context.extend(options.variables.clone());
        if let Some(enable_thinking) = options.enable_thinking {
            context.insert("enable_thinking".into(), enable_thinking.into());
        }
        let tools = if options.tools.is_empty() { Value::Null } else { options.tools.clone().into() };
        let environment = match &self.tool_use {
            Some(tool_use) if !options.tools.is_empty() => tool_use,
            _ => &self.default,
        };
        context.insert("messages".into(), messages.into());
        context.insert("tools".into(), tools);
        context.insert("documents".into(), Value::Null);
        context.insert("add_generation_prompt".into(), options.add_generation_prompt.into());
        let template = environment.get_template(environment::TEMPLATE).expect("the environment was built around it");
        template.render(TemplateValue::from(Serde(context))).map_err(render_error)
    }
}

/// The named templates of tokenizer_config.json: one string, or a list of names and templates.
fn sources_in_config(value: &Value, path: &Path) -> Vec<(String, String, PathBuf)> {
    let source = |name: &str, template: &str| (name.to_owned(), template.to_owned(), path.to_owned());
    match value {
        Value::String(template) => vec![source("default", template)],
        Value::Array(named) => named
            .iter()
            .filter_map(|entry| Some(source(entry["name"].as_str()?, entry["template"].as_str()?)))
            .collect(),
        _ => Vec::new(),
    }
}

/// A message as JSON without its null fields, which transformers drops too.
fn message_fields<M: Serialize>(message: &M) -> Result<Value, ChatError> {
    match serde_json::to_value(message) {
        Ok(Value::Object(mut fields)) => {
            fields.retain(|_, value| !value.is_null());
            Ok(fields.into())
        }
        Ok(other) => Err(ChatError::Messages(other.to_string())),
        Err(error) => Err(ChatError::Messages(error.to_string())),
    }
}

fn render_error(error: minijinja::Error) -> ChatError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(current) = cause {
        if let Some(refusal) = current.downcast_ref::<environment::Refusal>() {
            return ChatError::Refused(refusal.0.clone());
        }
        cause = current.source();
    }
    ChatError::Failed(error.to_string())
}

#[cfg(test)]
mod tests;
