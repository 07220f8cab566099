//! One scorer per domain: what an answer is worth against a step's gold answer, in [0, 1].
//!
//! A wrong answer is 0. A question this module can't judge is a [`ScoreError`], never a 0: the caller counts it and
//! keeps it out of the reward. Scorers see text only, do bounded work on any input, and never panic. What only running
//! programs can decide is asked of a back end in [`Graders`].

pub mod case;
pub mod coding;
mod deferred_judge;
mod graders;
pub mod information_extraction;
pub mod instruction_following;
pub mod judge;
pub mod logic;
pub mod math;
pub mod planning;
pub mod science;

#[cfg(test)]
mod open_vectors;

use std::borrow::Cow;
use std::time::Instant;

use crate::skill::Domain;
use crate::task::Step;

pub use deferred_judge::DeferredJudge;
pub use graders::{ExternalScorer, Graders, Judge};
use judge::Judged;

/// Answers are cut to this many bytes before they are looked at; no gold answer comes near it.
const MAX_ANSWER_BYTES: usize = 10_000;

/// Why an answer could not be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScoreError {
    /// An open-ended domain needs a judge.
    #[error("the domain `{domain}` needs a judge, and none is set up (reward.judge of a config)")]
    NoJudge {
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
    /// Coding needs a back end that runs programs.
    #[error("coding answers can't be scored: no back end that runs code is set up")]
    NoRunner,
    /// The back end that runs programs failed; the answer is neither right nor wrong.
    #[error("a coding answer could not be run: {0}")]
    Runner(String),
    /// The judge gave no verdict.
    #[error("the judge failed: {0}")]
    Judge(String),
    /// A user's own scorer failed.
    #[error("the scorer of domain `{domain}` failed: {problem}")]
    External {
        /// The step's domain.
        domain: Domain,
        /// What it says.
        problem: String,
    },
}

impl ScoreError {
    fn gold(domain: Domain, problem: impl Into<String>) -> Self {
        Self::Gold { domain, problem: problem.into() }
    }
}

/// The score of `answer`, an answer tag's content, for `step`, by `deadline`.
///
/// A user's own scorer comes first. An open-ended step whose gold answer is a rubric is the judge's; an
/// instruction-following one whose gold answer holds checks needs none.
///
/// # Errors
/// When the step's gold answer is unusable, or the back end it needs is missing or fails.
pub fn score(step: &Step, answer: &str, graders: &Graders, deadline: Instant) -> Result<f64, ScoreError> {
    if let Some(scorer) = graders.external.get(&step.domain) {
        let failed = |problem| ScoreError::External { domain: step.domain, problem };
        return scorer.score(step, without_reasoning(answer), deadline).map_err(failed);
    }
    match step.domain {
        Domain::Coding => coding::score(answer, &step.answer, graders.code.as_deref()),
        Domain::Math => math::score(answer, &step.answer),
        Domain::Science => science::score(answer, &step.answer, &step.options),
        Domain::Logic => logic::score(answer, &step.answer),
        Domain::InformationExtraction => information_extraction::score(answer, &step.answer),
        Domain::Planning => planning::score(answer, &step.answer, step.standalone_question()),
        Domain::InstructionFollowing if holds_checks(step) => instruction_following::score(answer, &step.answer),
        Domain::InstructionFollowing | Domain::CreativeWriting | Domain::ContextRetrieval => {
            let judge = graders.judge.as_ref().ok_or(ScoreError::NoJudge { domain: step.domain })?;
            judge.grade(&Judged::of(step, answer), deadline).map_err(ScoreError::Judge)
        }
    }
}

/// Whether only a judge can score answers to the step.
pub fn is_judged(step: &Step) -> bool {
    match step.domain {
        Domain::InstructionFollowing => !holds_checks(step),
        domain => !domain.is_verifiable(),
    }
}

/// Whether an instruction-following step's gold answer is checks and not a rubric.
fn holds_checks(step: &Step) -> bool {
    step.answer.trim_start().starts_with('{')
}

/// An answer that scores 1 for `step`; none where the gold answer holds tests or checks alone, or is no answer itself.
///
/// # Errors
/// When the gold answer is unusable.
pub fn right_answer(step: &Step) -> Result<Option<Cow<'_, str>>, ScoreError> {
    match step.domain {
        Domain::InstructionFollowing if holds_checks(step) => {
            instruction_following::Gold::parse(&step.answer).map(|_| None)
        }
        Domain::InstructionFollowing | Domain::CreativeWriting | Domain::ContextRetrieval => Ok(None),
        Domain::InformationExtraction => information_extraction::right_answer(&step.answer).map(Some),
        Domain::Planning => planning::check_gold(&step.answer, step.standalone_question()).map(|()| None),
        Domain::Coding => Ok(coding::Gold::parse(&step.answer)?.reference().map(|code| Cow::Owned(code.to_owned()))),
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
