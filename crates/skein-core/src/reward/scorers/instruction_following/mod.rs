//! Instruction following: IFEval's verifiable instructions, each checked by a program.
//!
//! A gold is a whole item, `{"type": "ifeval", "instruction_id_list": [...], "kwargs": [...]}`, or one instruction,
//! `{"instruction_id": "...", "kwargs": {...}}`; it is no answer, so it can't be scored against itself. A response
//! follows an item when it follows all its instructions. The verdicts are those of google-research's
//! instruction_following_eval, except that arguments it would draw at random, and checks that would raise, are errors
//! of the gold here, and languages are identified by another program ([`language`]).

mod checks;
mod instruction;
mod language;
mod sentences;
mod words;

use std::borrow::Cow;

use serde_json::Value;

use super::{ScoreError, as_score, without_reasoning};
use crate::skill::Domain;
use instruction::Instruction;

/// Longer responses follow nothing; no instruction asks for as much.
const MAX_RESPONSE_BYTES: usize = 32 * 1024;

/// How a response is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leniency {
    /// As it stands.
    #[default]
    Strict,
    /// Each instruction also holds when it does without the first line, the last one, or both, or without asterisks:
    /// the benchmark's loose accuracy, which overlooks an introduction and Markdown.
    Loose,
}

/// What a response has to follow.
#[derive(Debug, Clone)]
pub struct Gold {
    instructions: Vec<Instruction>,
}

/// 1 when `answer` follows every instruction of `gold`, read strictly, else 0.
///
/// # Errors
/// When `gold` is no list of known instructions with all their arguments.
pub fn score(answer: &str, gold: &str) -> Result<f64, ScoreError> {
    let gold = Gold::parse(gold)?;
    Ok(as_score(gold.is_followed_by(without_reasoning(answer), Leniency::Strict)))
}

impl Gold {
    /// Reads a gold's JSON text.
    ///
    /// # Errors
    /// When it is no list of known instructions with all their arguments.
    pub fn parse(gold: &str) -> Result<Self, ScoreError> {
        let fail = |problem| ScoreError::gold(Domain::InstructionFollowing, problem);
        let gold = serde_json::from_str(gold).map_err(|error| fail(format!("is no JSON object: {error}")))?;
        Self::of_value(&gold).map_err(fail)
    }

    fn of_value(gold: &Value) -> Result<Self, String> {
        let ids: Vec<&Value> = match (&gold["instruction_id"], &gold["instruction_id_list"]) {
            (Value::Null, Value::Array(ids)) if !ids.is_empty() => ids.iter().collect(),
            (id @ Value::String(_), Value::Null) => vec![id],
            _ => return Err("has neither an `instruction_id` nor a list of them in `instruction_id_list`".to_owned()),
        };
        let kwargs: Vec<&Value> = match &gold["kwargs"] {
            Value::Array(kwargs) => kwargs.iter().collect(),
            kwargs => vec![kwargs],
        };
        if ids.len() != kwargs.len() {
            return Err(format!("has {} instructions and `kwargs` for {}", ids.len(), kwargs.len()));
        }
        let parse = |(id, kwargs): (&Value, &Value)| {
            let id = id.as_str().ok_or_else(|| format!("has the instruction id {id}, which is no text"))?;
            Instruction::parse(id, kwargs).map_err(|problem| format!("has the instruction `{id}`, {problem}"))
        };
        Ok(Self { instructions: ids.into_iter().zip(kwargs).map(parse).collect::<Result<_, _>>()? })
    }

    /// Whether a response follows every instruction. An empty response follows none.
    pub fn is_followed_by(&self, response: &str, leniency: Leniency) -> bool {
        if response.len() > MAX_RESPONSE_BYTES {
            return false;
        }
        let readings = readings(response, leniency);
        let follows = |instruction: &Instruction| readings.iter().any(|text| instruction.is_followed_by(text));
        !readings.is_empty() && self.instructions.iter().all(follows)
    }
}

/// The texts as which a response is read, the blank ones left out.
fn readings(response: &str, leniency: Leniency) -> Vec<Cow<'_, str>> {
    let mut readings = vec![Cow::Borrowed(response)];
    if leniency == Leniency::Loose {
        let without_first = response.split_once('\n').map_or("", |(_, rest)| rest);
        let without_last = response.rsplit_once('\n').map_or("", |(rest, _)| rest);
        let without_both = without_first.rsplit_once('\n').map_or("", |(rest, _)| rest);
        readings.extend([without_first, without_last, without_both].map(|text| Cow::Borrowed(text.trim())));
        let plain: Vec<Cow<str>> = readings.iter().map(|text| Cow::Owned(text.replace('*', ""))).collect();
        readings.extend(plain);
    }
    readings.retain(|text| !text.trim().is_empty());
    readings
}

#[cfg(test)]
mod tests;
