//! How a task becomes the text a model sees.

use serde::{Deserialize, Serialize};

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

/// How much the prompt explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptStyle {
    /// Scenario, questions, the response format with an example, the domains.
    Standard,
    /// Scenario and questions only, for models that learn the format from traces.
    Compact,
}
