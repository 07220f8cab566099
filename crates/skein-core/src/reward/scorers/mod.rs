//! One scorer per domain: what an answer is worth against a step's gold answer, in [0, 1].
//!
//! A wrong answer is 0. A question this module can't judge is a [`ScoreError`], never a 0: the caller counts it and
//! keeps it out of the reward. Scorers see text only, do bounded work on any input, and never panic.

pub mod case;
pub mod information_extraction;
pub mod instruction_following;
pub mod logic;
pub mod judge;
pub mod math;
pub mod planning;
pub mod science;

#[cfg(test)]
mod open_vectors;

use std::borrow::Cow;

use crate::skill::Domain;
use crate::task::Step;

/// Answers are cut to this many bytes before they are looked at; no gold answer comes near it.
const MAX_ANSWER_BYTES: usize = 10_000;

/// Why an answer could not be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScoreError {
    /// The domain has no scorer in this build.
    #[error("the domain `{domain}` needs a judge, and there is none here")]
    Unsupported {
        /// The step's domain.
        domain: Domain,
    },
    /// The gold answer can't be one.
    #[error("the gold answer of a {domain} step {problem}")]
    Gold {
        /// The step's domain.
        domain: Domain,
        /// What is wrong with it.
        problem: String,
    },
}

impl ScoreError {
    fn gold(domain: Domain, problem: impl Into<String>) -> Self {
        Self::Gold { domain, problem: problem.into() }
    }
}

/// The score of `answer`, an answer tag's content, for `step`.
///
/// # Errors
/// When the step's domain has no scorer or its gold answer is unusable.
pub fn score(step: &Step, answer: &str) -> Result<f64, ScoreError> {
    match step.domain {
        Domain::Math => math::score(answer, &step.answer),
        Domain::Science => science::score(answer, &step.answer, &step.options),
        Domain::Logic => logic::score(answer, &step.answer),
        Domain::InformationExtraction => information_extraction::score(answer, &step.answer),
        Domain::InstructionFollowing => instruction_following::score(answer, &step.answer),
        Domain::Planning => planning::score(answer, &step.answer, step.standalone_question()),
        domain => Err(ScoreError::Unsupported { domain }),
    }
}

/// An answer that scores 1 for `step`; none where the gold answer holds checks alone.
///
/// # Errors
/// When the gold answer is unusable.
pub fn right_answer(step: &Step) -> Result<Option<Cow<'_, str>>, ScoreError> {
    match step.domain {
        Domain::InstructionFollowing => instruction_following::Gold::parse(&step.answer).map(|_| None),
        _ => Ok(Some(Cow::Borrowed(&step.answer))),
    }
}

/// What is left of an answer once reasoning and stray answer tags are taken off.
fn without_reasoning(answer: &str) -> &str {
    let answer = answer.rsplit_once("</think>").map_or(answer, |(_, after)| after);
    let answer = answer.split_once("<answer>").map_or(answer, |(_, after)| after);
    answer.split_once("</answer>").map_or(answer, |(before, _)| before).trim()
}

/// [`without_reasoning`], at most [`MAX_ANSWER_BYTES`] of it.
///
/// The end is kept when it is too long: conclusions stand last.
fn final_text(answer: &str) -> &str {
    let answer = without_reasoning(answer);
    let mut start = answer.len().saturating_sub(MAX_ANSWER_BYTES);
    while !answer.is_char_boundary(start) {
        start += 1;
    }
    &answer[start..]
}

fn as_score(correct: bool) -> f64 {
    f64::from(u8::from(correct))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_and_tags_come_off() {
        assert_eq!(final_text(" <think>a</think> <answer> 5 </answer> "), "5");
        assert_eq!(final_text("a</think>b</think>c"), "c");
        let long = format!("{}é7", "é".repeat(MAX_ANSWER_BYTES));
        let cut = final_text(&long);
        assert!(cut.len() <= MAX_ANSWER_BYTES && cut.ends_with("é7"));
    }
}
