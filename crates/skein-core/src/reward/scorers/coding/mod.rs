//! Coding: what tests say of a program, run by a back end that this crate does not hold.
//!
//! A gold answer is a JSON object in one of these forms, where `outputs` and `inputs` are lists of texts of one length:
//!
//! - `{"tests": {"type": "asserts", "code", "entry_point"?}, "reference"?}`, in short `{"tests": "…", "entry_point"?}`
//! - `{"tests": {"type": "stdio", "inputs", "outputs"}, "reference"?}`, in short `{"inputs", "outputs"}`
//! - `{"tests": {"type": "call", "fn_name", "inputs", "outputs"}, "reference"?}`, in short `{"fn_name", "inputs", "outputs"}`;
//!   an input holds one JSON argument a line, an output is JSON.
//!
//! A program earns 1 when it passes every test, else 0; tests stop at the first that fails. Nothing is executed here,
//! and a back end that breaks is a [`ScoreError`], never a 0.

pub mod extract;
pub mod runner;
pub mod stdout;
pub mod value;

use serde_json::{Map, Value};

use super::{ScoreError, as_score, without_reasoning};
use crate::skill::Domain;
use extract::code_of;
use runner::{AssertTests, RunCode, RunError};
use stdout::outputs_agree;
use value::PlainValue;

/// A gold answer: tests, and a right program where one is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Gold {
    tests: Tests,
    reference: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Tests {
    Asserts(AssertTests),
    Programs(Vec<ProgramTest>),
    Calls { function: String, calls: Vec<CallTest> },
}

#[derive(Debug, Clone, PartialEq)]
struct ProgramTest {
    stdin: String,
    stdout: String,
}

#[derive(Debug, Clone, PartialEq)]
struct CallTest {
    arguments: Vec<PlainValue>,
    result: PlainValue,
}

/// 1 when the program in `answer` passes every test of `gold`, else 0.
///
/// # Errors
/// When `gold` is of no known form, its tests can't be run, there is no back end, or the back end fails.
pub fn score(answer: &str, gold: &str, runner: Option<&dyn RunCode>) -> Result<f64, ScoreError> {
    let gold = Gold::parse(gold)?;
    let runner = runner.ok_or(ScoreError::NoRunner)?;
    let Some(code) = code_of(without_reasoning(answer)) else { return Ok(0.0) };
    gold.tests.passed(code, runner).map(as_score).map_err(|error| match error {
        RunError::Broken(problem) => ScoreError::Runner(problem),
        RunError::Tests(problem) => ScoreError::gold(Domain::Coding, format!("has tests that can't be run: {problem}")),
    })
}

impl Gold {
    /// Reads a gold answer.
    ///
    /// # Errors
    /// When it has none of the known forms.
    pub fn parse(text: &str) -> Result<Self, ScoreError> {
        let gold: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| problem(&format!("is not a JSON object: {error}")))?;
        let reference = optional_text(&gold, "reference")?;
        let tests = match gold.get("tests") {
            Some(Value::String(code)) => Tests::asserts(code, optional_text(&gold, "entry_point")?, &reference),
            Some(Value::Object(tests)) => match tests.get("type").and_then(Value::as_str) {
                Some("asserts") => {
                    let entry_point = optional_text(tests, "entry_point")?.or(optional_text(&gold, "entry_point")?);
                    Tests::asserts(&text_field(tests, "code")?, entry_point, &reference)
                }
                Some("stdio" | "call") => Tests::pairs(tests)?,
                _ => return Err(problem("has tests of no known type: expected asserts, stdio or call")),
            },
            Some(_) => return Err(problem("has `tests` that are neither a text nor an object")),
            None => Tests::pairs(&gold)?,
        };
        Ok(Self { tests, reference })
    }

    /// A right program, where the gold answer has one.
    pub fn reference(&self) -> Option<&str> {
        self.reference.as_deref()
    }
}

impl Tests {
    fn asserts(code: &str, entry_point: Option<String>, reference: &Option<String>) -> Self {
        Self::Asserts(AssertTests { code: code.to_owned(), entry_point, reference: reference.clone() })
    }

    /// Tests given as inputs and outputs: calls where a function is named, else programs.
    fn pairs(tests: &Map<String, Value>) -> Result<Self, ScoreError> {
        let (inputs, outputs) = (text_list(tests, "inputs")?, text_list(tests, "outputs")?);
        if inputs.is_empty() || inputs.len() != outputs.len() {
            let problem_text = format!("has {} inputs and {} outputs", inputs.len(), outputs.len());
            return Err(problem(&problem_text));
        }
        let pairs = inputs.into_iter().zip(outputs);
        let Some(function) = optional_text(tests, "fn_name")? else {
            return Ok(Self::Programs(pairs.map(|(stdin, stdout)| ProgramTest { stdin, stdout }).collect()));
        };
        let calls = pairs
            .map(|(input, output)| {
                let arguments: Option<Vec<PlainValue>> =
                    input.lines().filter(|line| !line.trim().is_empty()).map(PlainValue::from_json).collect();
                let arguments = arguments.ok_or_else(|| problem("has an input line that is not JSON"))?;
                let result = PlainValue::from_json(&output).ok_or_else(|| problem("has an output that is not JSON"))?;
                Ok(CallTest { arguments, result })
            })
            .collect::<Result<_, ScoreError>>()?;
        Ok(Self::Calls { function, calls })
    }

    fn passed(&self, code: &str, runner: &dyn RunCode) -> Result<bool, RunError> {
        match self {
            Self::Asserts(tests) => Ok(runner.check_asserts(code, tests)?.is_ok()),
            Self::Programs(tests) => {
                for test in tests {
                    let stdout = runner.run_program(code, &test.stdin)?;
                    if !stdout.is_ok_and(|stdout| outputs_agree(&stdout, &test.stdout)) {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Calls { function, calls } => {
                for call in calls {
                    let result = runner.call(code, function, &call.arguments)?;
                    if !result.is_ok_and(|result| result.with_list_for_tuple().equals(&call.result)) {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}

fn problem(text: &str) -> ScoreError {
    ScoreError::gold(Domain::Coding, text)
}

fn text_field(object: &Map<String, Value>, field: &str) -> Result<String, ScoreError> {
    optional_text(object, field)?.ok_or_else(|| problem(&format!("has no `{field}`")))
}

fn optional_text(object: &Map<String, Value>, field: &str) -> Result<Option<String>, ScoreError> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(problem(&format!("has a `{field}` that is not a text"))),
    }
}

fn text_list(object: &Map<String, Value>, field: &str) -> Result<Vec<String>, ScoreError> {
    let items =
        object.get(field).and_then(Value::as_array).ok_or_else(|| problem(&format!("has no list `{field}`")))?;
    let text = |item: &Value| item.as_str().map(str::to_owned);
    items.iter().map(|item| text(item).ok_or_else(|| problem(&format!("has a text missing in `{field}`")))).collect()
}

#[cfg(test)]
mod tests;
