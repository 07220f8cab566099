//! What is wrong with a config, in words for the person who wrote it.

use std::fmt;

use crate::excerpt::{QUOTED_CHARS, excerpt};

/// Longest message, in characters: those that list every known key are the longest there are.
const MAX_MESSAGE_CHARS: usize = 1200;

/// One thing to fix in a config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where the value was set: `FILE:LINE`, `--set`, or the file alone for a value that was not set.
    pub location: String,
    /// The key, dotted; empty when a whole file is meant.
    pub key: String,
    /// What is wrong and what was expected.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = excerpt(&self.message, MAX_MESSAGE_CHARS);
        if self.key.is_empty() {
            write!(f, "{}: {message}", self.location)
        } else {
            write!(f, "{}: {}: {message}", self.location, excerpt(&self.key, QUOTED_CHARS))
        }
    }
}

/// What a look at a config and the files it names has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// What no run can begin with.
    pub problems: Vec<Problem>,
    /// What a run would warn of.
    pub warnings: Vec<Problem>,
}

/// Everything wrong with a config; displays one problem a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.lines())]
pub struct ConfigError {
    /// At least one problem.
    pub problems: Vec<Problem>,
}

impl ConfigError {
    fn lines(&self) -> String {
        self.problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }
}
