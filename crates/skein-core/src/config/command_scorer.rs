//! How a user's own scorer is started and what it may take.

use serde::{Deserialize, Serialize};

/// Longest time a config may ask for, in seconds: a day.
const MAX_SECS: f64 = 86_400.0;

/// A command that scores answers, one JSON object a line each way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CommandScorerConfig {
    /// The program and its arguments; no shell reads them. No default.
    pub command: Vec<String>,
    /// Requests the command may have unanswered; default 32.
    pub max_in_flight: usize,
    /// How long the command may leave requests without any reply before it is taken to hang; default 60.
    pub silence_secs: f64,
    /// Starts in a row that may fail before the command is given up; a reply begins the count anew. Default 5.
    pub max_restarts: u32,
    /// Wait before the first restart; it doubles each time; default 0.2.
    pub backoff_secs: f64,
    /// Longest wait the doubling leads to; default 10.
    pub max_backoff_secs: f64,
    /// Longest reply line, in bytes; default 64 KiB.
    pub max_reply_bytes: usize,
}

impl Default for CommandScorerConfig {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            max_in_flight: 32,
            silence_secs: 60.0,
            max_restarts: 5,
            backoff_secs: 0.2,
            max_backoff_secs: 10.0,
            max_reply_bytes: 64 << 10,
        }
    }
}

impl CommandScorerConfig {
    /// What is wrong with these values, each with its field.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.command.first().is_none_or(String::is_empty) {
            problems
                .push(r#"command: expected a program and its arguments, such as ["python3", "scorer.py"]"#.to_owned());
        }
        for (field, value) in [("max_in_flight", self.max_in_flight), ("max_reply_bytes", self.max_reply_bytes)] {
            if value == 0 {
                problems.push(format!("{field}: is 0, expected at least 1"));
            }
        }
        for (field, secs) in [
            ("silence_secs", self.silence_secs),
            ("backoff_secs", self.backoff_secs),
            ("max_backoff_secs", self.max_backoff_secs),
        ] {
            if !(secs > 0.0 && secs <= MAX_SECS) {
                problems.push(format!("{field}: is {secs}, expected more than 0 and at most {MAX_SECS}"));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_names_its_problems() {
        assert!(CommandScorerConfig { command: vec!["true".into()], ..Default::default() }.problems().is_empty());
        let bad = CommandScorerConfig {
            command: vec![String::new()],
            max_in_flight: 0,
            silence_secs: f64::INFINITY,
            ..Default::default()
        };
        assert_eq!(bad.problems().len(), 3, "{:?}", bad.problems());
        assert!(toml::from_str::<CommandScorerConfig>("command = \"true\"").is_err());
    }
}
