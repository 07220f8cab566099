//! What scoring may ask besides its own rules: a sandbox for code, a judge for open answers.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::ApiConfig;

/// How programs of coding answers are run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxConfig {
    /// The Python interpreter; default `python3` on the search path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<PathBuf>,
    /// Processor seconds of one program, whole; default 6.
    pub cpu_secs: u64,
    /// Seconds a program may take on the clock; default 10.
    pub wall_secs: u64,
    /// Memory of one program in MiB; default 1024.
    pub memory_mib: u64,
    /// Protections of the kernel whose absence is put up with: "landlock", "namespaces", "thread limit"; default none, so
    /// that code is refused where one is missing.
    pub allow_missing: Vec<String>,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self { python: None, cpu_secs: 6, wall_secs: 10, memory_mib: 1024, allow_missing: Vec::new() }
    }
}

/// Who judges open answers, and how it is asked. Exactly one of `api`, `model` and `policy` is set; when a later file or
/// override sets one, it replaces the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JudgeConfig {
    /// A chat model on a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<ApiConfig>,
    /// A chat model in this process: a Hugging Face directory or hub id. It has weights of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The run's own model, with the weights that wrote the answers; only a run has one. Bounded by `max_attempts` and
    /// `max_new_tokens` alone, not by `reward.grader_secs`. Default false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub policy: bool,
    /// Replies asked for until one holds a verdict; default 3.
    pub max_attempts: usize,
    /// Softmax temperature of the judge; default 0.
    pub temperature: f64,
    /// Tokens of a reply at most; default 1024.
    pub max_new_tokens: usize,
}

impl Default for JudgeConfig {
    fn default() -> Self {
        Self { api: None, model: None, policy: false, max_attempts: 3, temperature: 0.0, max_new_tokens: 1024 }
    }
}

impl JudgeConfig {
    /// What is wrong with these values, each with its field.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let chosen = [self.api.is_some(), self.model.is_some(), self.policy];
        if chosen.into_iter().filter(|&chosen| chosen).count() != 1 {
            let problem = "expected exactly one of api (a server), model (a directory or hub id) and policy = true (the \
                           run's own model)";
            problems.push(problem.to_owned());
        }
        if let Some(api) = &self.api {
            problems.extend(api.problems().into_iter().map(|problem| format!("api.{problem}")));
        }
        for (field, value) in [("max_attempts", self.max_attempts), ("max_new_tokens", self.max_new_tokens)] {
            if value == 0 {
                problems.push(format!("{field}: is 0, expected at least 1"));
            }
        }
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            problems.push(format!("temperature: is {}, expected 0 or more", self.temperature));
        }
        problems
    }
}
