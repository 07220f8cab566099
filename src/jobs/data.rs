//! Tasks and prompts of a run: where they come from and which ids the model reads.
//!
//! A prompt and its response are encoded apart, here and in rollouts alike, so that the ids a policy is trained on are
//! the ids it is prompted with and samples. Nothing is truncated: what does not fit is refused or dropped and counted.

use std::fmt::Display;
use std::path::PathBuf;

use anyhow::{Context, Result};
use skein_core::config::{PromptConfig, TaskSource};
use skein_core::reward::prompt::PromptTemplate;
use skein_core::skill::{Domain, EntropyTable, Level, SkillKey};
use skein_core::synth::Synthesizer;
use skein_core::task::{CrossSkillTask, Step, read_numbered_tasks};
use skein_io::chat::{ChatOptions, ChatTemplate};
use skein_io::tokenizer::Tokenizer;

use crate::cli::UsageError;
use crate::trainer::SftExample;

/// The tasks of a source, in file or generation order, and where each stands.
pub struct TaskSet {
    /// The tasks.
    pub tasks: Vec<CrossSkillTask>,
    /// Their file and the line of each; none where they are generated.
    lines: Option<(PathBuf, Vec<usize>)>,
}

impl TaskSet {
    /// Reads or generates the tasks of `source`.
    ///
    /// # Errors
    /// When the file cannot be read or a line is not a task, naming both.
    pub fn load(source: &TaskSource) -> Result<Self> {
        match source {
            TaskSource::File(path) => {
                let numbered = read_numbered_tasks(path).map_err(|error| UsageError(error.to_string()))?;
                let (lines, tasks) = numbered.into_iter().unzip();
                Ok(Self { tasks, lines: Some((path.clone(), lines)) })
            }
            TaskSource::Procedural(spec) => {
                let tasks = Synthesizer::new(spec.level, spec.split, spec.seed)
                    .tasks(spec.num_tasks as u64, spec.min_steps..=spec.max_steps)
                    .map_err(|error| UsageError(error.to_string()))?;
                Ok(Self { tasks, lines: None })
            }
        }
    }

    /// The tasks with their lines; empty where they are generated.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (usize, &CrossSkillTask)> {
        self.lines.iter().flat_map(|(_, lines)| lines.iter().copied().zip(&self.tasks))
    }

    /// What is wrong with the task at `index`, with the place where to mend it.
    pub(super) fn problem(&self, index: usize, problem: impl Display) -> UsageError {
        UsageError(match &self.lines {
            Some((path, lines)) => format!("{}:{}: {problem}", path.display(), lines[index]),
            None => problem.to_string(),
        })
    }
}

/// Turns tasks into the ids a model reads.
pub struct PromptEncoder<'a> {
    tokenizer: &'a Tokenizer,
    template: Option<&'a ChatTemplate>,
    config: &'a PromptConfig,
    wording: PromptTemplate,
}

impl<'a> PromptEncoder<'a> {
    /// An encoder for a model's tokenizer; `template` is its chat template where the config asks for one.
    ///
    /// # Errors
    /// When the config asks for a chat template and the model has none.
    pub fn new(
        tokenizer: &'a Tokenizer,
        template: Option<&'a ChatTemplate>,
        config: &'a PromptConfig,
        domains: Vec<Domain>,
    ) -> Result<Self> {
        if config.chat && template.is_none() {
            return Err(UsageError(
                "prompt.chat is true, but the model has no chat template: set prompt.chat = false".into(),
            )
            .into());
        }
        let template = template.filter(|_| config.chat);
        Ok(Self { tokenizer, template, config, wording: PromptTemplate::new(config.style, domains) })
    }

    /// The wording that prompts are written in.
    pub fn wording(&self) -> &PromptTemplate {
        &self.wording
    }

    /// Ids of a task's prompt.
    ///
    /// # Errors
    /// When the chat template refuses the messages or the text cannot be encoded.
    pub fn task(&self, task: &CrossSkillTask) -> Result<Vec<u32>> {
        self.message(&self.wording.task(task)).with_context(|| format!("task `{}`", task.id))
    }

    /// Ids of one user message.
    ///
    /// # Errors
    /// As [`PromptEncoder::task`].
    pub fn message(&self, text: &str) -> Result<Vec<u32>> {
        let prompt = match self.template {
            None => format!("{text}\n"),
            Some(template) => {
                let mut messages = Vec::new();
                if let Some(system) = &self.config.system {
                    messages.push(serde_json::json!({"role": "system", "content": system}));
                }
                messages.push(serde_json::json!({"role": "user", "content": text}));
                let options = ChatOptions {
                    add_generation_prompt: true,
                    enable_thinking: self.config.enable_thinking,
                    ..ChatOptions::default()
                };
                template.render(&messages, &options)?
            }
        };
        Ok(self.tokenizer.encode(&prompt)?)
    }

    /// Prompt and response ids of a task's trace, closed by the end-of-sequence id.
    ///
    /// # Errors
    /// When the tokenizer has no end-of-sequence id.
    ///
    /// # Panics
    /// When the task has no trace; a run checks that before it begins.
    pub fn example(&self, task: &CrossSkillTask) -> Result<SftExample> {
        let trace = task.trace.as_ref().expect("tasks of an SFT stage were checked for traces");
        let mut completion_ids = self.tokenizer.encode(trace)?;
        let end = self.tokenizer.special().eos_id.context("the tokenizer names no end-of-sequence token")?;
        completion_ids.push(end);
        Ok(SftExample { prompt_ids: self.task(task)?, completion_ids, loss_mask: None })
    }

    /// Prompts of all tasks.
    ///
    /// # Errors
    /// When a prompt cannot be encoded, or is longer than `limit`, which `limit_name` sets, naming the task.
    pub fn prompts(&self, set: &TaskSet, limit: usize, limit_name: &str) -> Result<Vec<Vec<u32>>> {
        let prompt = |(index, task): (usize, &CrossSkillTask)| {
            let ids = self.task(task).map_err(|error| set.problem(index, format!("{error:#}")))?;
            if ids.len() > limit {
                let (id, found) = (&task.id, ids.len());
                let problem = format!(
                    "task `{id}`: its prompt has {found} tokens, {limit_name} allows {limit}; allow more or leave the task out"
                );
                return Err(set.problem(index, problem).into());
            }
            Ok(ids)
        };
        set.tasks.iter().enumerate().map(prompt).collect()
    }
}

/// The skill-entropy level of each task; none for a task of one step or with a skill that `table` lacks, and none at all
/// where the table knows no switch between domains to part levels by.
pub fn levels_of(tasks: &[CrossSkillTask], table: &EntropyTable) -> Vec<Option<Level>> {
    let Ok(levels) = table.levels() else { return vec![None; tasks.len()] };
    let level = |task: &CrossSkillTask| {
        let skills: Vec<SkillKey> = task.steps.iter().map(Step::key).collect();
        // A skill the table lacks is an error where a reward needs it; for a level it only means that there is none.
        let entropy = table.sequence(&skills).ok().flatten()?;
        Some(levels.level(entropy))
    };
    tasks.iter().map(level).collect()
}

/// The domains that occur in a task set, in the bank's order.
pub fn domains_of(tasks: &[CrossSkillTask]) -> Vec<Domain> {
    let mut domains: Vec<Domain> = tasks.iter().flat_map(|task| task.steps.iter().map(|step| step.domain)).collect();
    domains.sort_unstable();
    domains.dedup();
    domains
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};
    use skein_core::config::ProceduralTasks;

    use super::*;

    fn text(value: &Value) -> String {
        value.as_str().unwrap().to_owned()
    }

    /// A prompt of one user message, as transformers rendered and tokenized it, and how we are asked for it.
    fn golden(model: &str) -> Vec<(Value, PromptConfig, String)> {
        let cases = std::fs::read_to_string("tests/fixtures/chat_cases.json").unwrap();
        let cases: Value = serde_json::from_str(&cases).unwrap();
        let prompts = cases["chat"].as_array().unwrap().iter().filter_map(|case| {
            let (messages, options) = (case["messages"].as_array().unwrap(), &case["options"]);
            let system = match &messages[..] {
                [user] if user["role"] == "user" => None,
                [system, user] if system["role"] == "system" && user["role"] == "user" => {
                    Some(text(&system["content"]))
                }
                _ => return None,
            };
            let is_prompt = options["add_generation_prompt"] == true && options["tools"].is_null();
            let enable_thinking = options["enable_thinking"].as_bool();
            let config = PromptConfig { system, enable_thinking, ..PromptConfig::default() };
            let user = text(&messages.last().unwrap()["content"]);
            (case["model"] == model && is_prompt).then(|| (case.clone(), config, user))
        });
        prompts.collect()
    }

    #[test]
    fn prompts_have_the_ids_that_transformers_gives_and_responses_are_never_rendered() {
        for (model, num_cases) in [("qwen3-tokenizer", 8), ("SmolLM2-135M-Instruct", 4)] {
            let dir = Path::new("models").join(model);
            let (tokenizer, template) = (Tokenizer::load(&dir).unwrap(), ChatTemplate::load(&dir).unwrap());
            let source = TaskSource::Procedural(ProceduralTasks { num_tasks: 1, ..ProceduralTasks::default() });
            let mut task = TaskSet::load(&source).unwrap().tasks.remove(0);
            let cases = golden(model);
            assert_eq!(cases.len(), num_cases, "{model}");
            for (case, config, user) in cases {
                let encoder = PromptEncoder::new(&tokenizer, Some(&template), &config, Vec::new()).unwrap();
                let prompt_ids = encoder.message(&user).unwrap();
                assert_eq!(json!(prompt_ids), case["ids"], "{model}: {}", case["text"]);

                // Where a template would add an empty block of thoughts, or drop these.
                for trace in ["<think>\n7\n</think>\n\n7", "7\n</think>\n\n7", "7"] {
                    task.trace = Some(trace.to_owned());
                    let example = encoder.example(&task).unwrap();
                    assert_eq!(example.prompt_ids, encoder.task(&task).unwrap());
                    let ids = [prompt_ids.clone(), example.completion_ids].concat();
                    let end = tokenizer.decode(&[tokenizer.special().eos_id.unwrap()]).unwrap();
                    assert_eq!(tokenizer.decode(&ids).unwrap(), text(&case["text"]) + trace + &end);
                }
            }
        }
    }
}
