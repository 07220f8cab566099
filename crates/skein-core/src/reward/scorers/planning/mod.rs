//! Planning: meetings in shared calendars, trips by direct flights, and days of meeting friends (the tasks of
//! NaturalPlan).
//!
//! A plan is read from the answer's text by each task's own form and compared with the gold plan, or under
//! [`Mode::Constraints`] held against what the question demands, since several plans can be right. What the question
//! demands stands in the gold object's `constraints`, or else is read from the question's text by rules. Text that is no
//! plan of the task's form is a wrong answer; nothing is repaired, and no wording is guessed at.
//!
//! A gold answer is a JSON object: `{"type": "calendar", "plan"}`, `{"type": "trip", "cities", "durations", "plan"}` or
//! `{"type": "meeting", "plan", "golden_meetings"}`, each with optional `constraints` (and `dist_matrix` for meetings)
//! and `mode`. The type may be missing where the fields tell it. A gold answer may also be the plan's text alone.

mod calendar;
mod clock;
mod gold;
mod meeting;
#[cfg(test)]
mod tests;
mod trip;

use serde::Deserialize;

use super::{ScoreError, as_score, final_text};
use crate::skill::Domain;
use gold::Gold;

/// What makes a plan right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It is the gold plan; for meetings, it holds as many valid ones as the gold plan.
    #[default]
    Exact,
    /// It satisfies what the question demands; for meetings, it holds at least as many valid ones as the gold plan.
    Constraints,
}

/// 1 when `answer` is the plan that `gold` asks for, else 0, under the gold object's `mode`.
///
/// `question` is read for constraints that the gold object lacks.
///
/// # Errors
/// When `gold` can't be read, or constraints are needed and neither it nor `question` states them.
pub fn score(answer: &str, gold: &str, question: &str) -> Result<f64, ScoreError> {
    let gold = Gold::read(gold)?;
    judge(answer, &gold, question, gold.mode())
}

/// [`score`] under a mode of the caller's choice.
///
/// # Errors
/// As for [`score`].
pub fn score_with(answer: &str, gold: &str, question: &str, mode: Mode) -> Result<f64, ScoreError> {
    judge(answer, &Gold::read(gold)?, question, mode)
}

/// That `gold` is usable: its plan's text, where it has one, earns 1 against itself.
///
/// A meeting plan whose constraints stand in the question alone is held against those of `question`.
///
/// # Errors
/// When `gold` can't be read, lacks constraints that it needs, or contradicts itself.
pub fn check_gold(gold: &str, question: &str) -> Result<(), ScoreError> {
    let gold = Gold::read(gold)?;
    let Some(plan) = gold.plan_text() else { return Ok(()) };
    let score = judge(&plan, &gold, question, gold.mode())?;
    if score != 1.0 {
        return Err(problem("has a plan that scores 0 against itself"));
    }
    if let (Gold::Meeting(gold), Some(day)) = (&gold, gold.day(question)?) {
        gold.check_count(&day)?;
    }
    Ok(())
}

/// How many valid meetings the plan in `answer` holds before it first breaks a rule.
///
/// # Errors
/// When `gold` is no meeting task, or its constraints are missing.
pub fn valid_meetings(answer: &str, gold: &str, question: &str) -> Result<usize, ScoreError> {
    let gold = Gold::read(gold)?;
    let day = gold.day(question)?.ok_or_else(|| problem("is no meeting task"))?;
    Ok(day.valid_meetings(meeting::steps(final_text(answer))))
}

fn judge(answer: &str, gold: &Gold, question: &str, mode: Mode) -> Result<f64, ScoreError> {
    let answer = final_text(answer);
    let correct = match (gold, mode) {
        (Gold::Calendar(gold), Mode::Exact) => {
            calendar::Slot::find(answer).is_some_and(|slot| Some(slot) == gold.slot())
        }
        (Gold::Calendar(gold), Mode::Constraints) => {
            let demands = gold.demands(question).ok_or_else(no_constraints)?;
            calendar::Slot::find(answer).is_some_and(|slot| demands.allow(&slot))
        }
        (Gold::Trip(gold), Mode::Exact) => trip::is_itinerary(&trip::stays(answer), &gold.stays),
        (Gold::Trip(gold), Mode::Constraints) => {
            gold.demands(question).ok_or_else(no_constraints)?.allow(&trip::stays(answer))
        }
        (Gold::Meeting(meetings), mode) => {
            let day = gold.day(question)?.ok_or_else(no_constraints)?;
            let (found, wanted) = (day.valid_meetings(meeting::steps(answer)), meetings.wanted(&day));
            match mode {
                Mode::Exact => found == wanted,
                Mode::Constraints => found >= wanted,
            }
        }
    };
    Ok(as_score(correct))
}

fn problem(text: impl Into<String>) -> ScoreError {
    ScoreError::gold(Domain::Planning, text)
}

fn no_constraints() -> ScoreError {
    problem("has no constraints, and the question states none that can be read")
}
