//! How a task becomes the text a model sees.

use serde::{Deserialize, Serialize};

use crate::reward::prompt::PromptStyle;

/// The prompt of every stage: all arms of a comparison share it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PromptConfig {
    /// Which template; default "standard".
    pub style: PromptStyle,
    /// Whether the model's chat template wraps the prompt; default true. False gives the bare text.
    pub chat: bool,
    /// System message of the chat; default none (the template may bring its own).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Passed to the chat template as `enable_thinking`; default unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_thinking: Option<bool>,
}

impl Default for PromptConfig {
    fn default() -> Self {
        Self { style: PromptStyle::Standard, chat: true, system: None, enable_thinking: None }
    }
}
