//! Cross-skill tasks: a scenario and steps, each step with one gold answer in one domain under one skill.
//!
//! A task file holds one JSON object a line. Nothing here makes tasks, scores answers or writes prompts.

mod reader;
mod sampler;
mod unknown;

#[cfg(test)]
use reader::parse_numbered_tasks;
pub use reader::{ReadTasksError, parse_tasks, read_numbered_tasks, read_tasks};
pub use sampler::{EmptyDataSet, PromptSampler};
pub use unknown::{UnknownSkill, unknown_skills};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::skill::{Domain, SkillKey};

/// One question of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What is asked, without the options.
    pub question: String,
    /// The gold answer: a value; for multiple choice the letter of the right option; for an open-ended domain the rubric.
    /// An object or a list of a task file is kept as its JSON text.
    #[serde(deserialize_with = "answer_text")]
    pub answer: String,
    /// The skill's source domain; it decides how answers are scored.
    pub domain: Domain,
    /// The skill's name.
    pub skill: String,
    /// The texts of the options A, B, …; empty unless the question is multiple choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The question with what it takes from earlier steps filled in; none where it takes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standalone: Option<String>,
}

impl Step {
    /// The question to ask when the step is asked by itself.
    pub fn standalone_question(&self) -> &str {
        self.standalone.as_deref().unwrap_or(&self.question)
    }

    /// The bank key of the step's skill.
    pub fn key(&self) -> SkillKey {
        SkillKey::new(self.domain, self.skill.as_str())
    }
}

fn answer_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => Ok(text),
        value @ (Value::Object(_) | Value::Array(_)) => Ok(value.to_string()),
        other => Err(D::Error::custom(format!("`answer` is {other}, expected a text, an object or a list"))),
    }
}

/// Where a task comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Name and version of what made the task.
    pub generator: String,
    /// The seed it was made with.
    pub seed: u64,
}

/// A scenario and the steps to be answered in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrossSkillTask {
    /// Unique in its file.
    pub id: String,
    /// A sentence that sets the scene; may be empty.
    pub scenario: String,
    /// At least one step.
    pub steps: Vec<Step>,
    /// A right response in the response format, to imitate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Where the task comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

/// The letter of option `index`: 0 is `A`, 25 is `Z`.
///
/// # Panics
/// When `index` is over 25; [`read_tasks`] lets no such question in.
pub fn option_letter(index: usize) -> char {
    assert!(index < MAX_OPTIONS, "option {index} has no letter");
    char::from(b'A' + index as u8)
}

/// A question has at most this many options, one for each letter.
pub const MAX_OPTIONS: usize = 26;
