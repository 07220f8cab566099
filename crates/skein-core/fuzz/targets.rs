//! The parsers under test, each with the pieces its inputs are made of.
//!
//! A new parser of untrusted text gets one entry in [`ALL`]. A target panics when its parser breaks a promise that
//! holds for every input; it never checks what a particular input is worth, which is what the unit tests are for.

mod grammars;
mod programs;

use std::path::Path;

use serde::Deserialize;
use skein_core::jsonl::parse_jsonl;
use skein_core::reward::format::{StepCount, parse_response};
use skein_core::reward::scorers::case::Case;
use skein_core::reward::scorers::information_extraction::{self, span, values};
use skein_core::reward::scorers::{Graders, ScoreError, math, science};
use skein_core::skill::{Bank, EntropyTable};
use skein_core::task::parse_tasks;

use crate::generator::{Grammar, SEPARATOR};
use grammars::{BANK, CASES, MATH, RESPONSE, RESPONSES, SCIENCE, TABLE, TASKS, VALUES};

/// A parser, and what to feed it.
pub struct Target {
    /// Names it on the command line and in findings.
    pub name: &'static str,
    /// What its inputs are made of.
    pub grammar: &'static Grammar,
    /// Texts in an input, divided by [`SEPARATOR`].
    pub num_texts: usize,
    /// Hands it an input; panics when a promise is broken.
    pub run: fn(&[u8]),
}

/// Every target.
pub const ALL: &[Target] = &[
    Target { name: "response", grammar: &RESPONSE, num_texts: 1, run: response },
    Target { name: "math", grammar: &MATH, num_texts: 2, run: math },
    Target { name: "math_numbers", grammar: &MATH, num_texts: 2, run: math_numbers },
    Target { name: "science", grammar: &SCIENCE, num_texts: 2, run: science },
    Target { name: "information_extraction", grammar: &VALUES, num_texts: 2, run: information_extraction },
    Target { name: "logic", grammar: &programs::LOGIC, num_texts: 2, run: programs::logic },
    Target { name: "planning", grammar: &programs::PLANNING, num_texts: 3, run: programs::planning },
    Target {
        name: "instruction_following",
        grammar: &programs::INSTRUCTION,
        num_texts: 2,
        run: programs::instruction_following,
    },
    Target { name: "coding", grammar: &programs::CODING, num_texts: 2, run: programs::coding },
    Target { name: "jsonl_tasks", grammar: &TASKS, num_texts: 1, run: jsonl_tasks },
    Target { name: "jsonl_cases", grammar: &CASES, num_texts: 1, run: jsonl_cases },
    Target { name: "jsonl_responses", grammar: &RESPONSES, num_texts: 1, run: jsonl_responses },
    Target { name: "entropy_table", grammar: &TABLE, num_texts: 1, run: entropy_table },
    Target { name: "skill_bank", grammar: &BANK, num_texts: 1, run: skill_bank },
];

/// The two texts of an input; a second one that is missing is empty.
fn two(bytes: &[u8]) -> (String, String) {
    let text = String::from_utf8_lossy(bytes);
    let (first, second) = text.split_once(SEPARATOR).unwrap_or((&text, ""));
    (first.to_owned(), second.to_owned())
}

fn check_score(score: Result<f64, ScoreError>) {
    if let Ok(score) = score {
        assert!((0.0..=1.0).contains(&score), "the score {score} is not in [0, 1]");
    }
}

fn response(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for rule in [StepCount::Strict, StepCount::Lenient] {
        match parse_response(&text, 2, rule) {
            Ok(parsed) => {
                assert!(!parsed.steps.is_empty(), "a response without steps was taken");
                assert!(rule == StepCount::Lenient || parsed.steps.len() == 2, "the steps were not counted");
                for step in &parsed.steps {
                    assert_eq!(step.answer, step.answer.trim(), "an answer is not trimmed");
                    assert!(!step.answer.contains("</answer>"), "an answer holds its own end");
                }
            }
            Err(reason) => assert!(!reason.to_string().is_empty(), "a reason says nothing"),
        }
    }
}

fn math(bytes: &[u8]) {
    let (gold, answer) = two(bytes);
    check_score(math::score(&answer, &gold));
}

fn math_numbers(bytes: &[u8]) {
    let (a, b) = two(bytes);
    if let (Some(a), Some(b)) = (math::Number::read(&a), math::Number::read(&b)) {
        let (there, back) = (a == b, b == a);
        assert_eq!(there, back, "equality has no direction");
    }
}

fn science(bytes: &[u8]) {
    let (options, answer) = two(bytes);
    let options: Vec<String> = options.split('|').take(26).map(str::to_owned).collect();
    if let Some(index) = science::choice(&answer, options.len(), &options) {
        assert!(index < options.len(), "option {index} of {}", options.len());
    }
    check_score(science::score(&answer, "A", &options));
    check_score(science::score(&answer, &options[0], &[]));
}

fn information_extraction(bytes: &[u8]) {
    let (gold, answer) = two(bytes);
    check_score(information_extraction::score(&answer, &gold));
    let f1 = span::token_f1(&answer, &gold);
    assert!((0.0..=1.0).contains(&f1), "the F1 {f1} is not in [0, 1]");
    let items = [gold, answer];
    values::denote_same(&values::targets(&items, &items), &items);
}

fn says_something<T>(outcome: Result<T, impl std::fmt::Display>) -> Option<T> {
    outcome.map_err(|error| assert!(!error.to_string().is_empty(), "an error says nothing")).ok()
}

fn jsonl_tasks(bytes: &[u8]) {
    if let Some(tasks) = says_something(parse_tasks(bytes, Path::new("tasks.jsonl"))) {
        assert!(tasks.iter().all(|task| !task.steps.is_empty()), "a task without steps was taken");
    }
}

fn jsonl_cases(bytes: &[u8]) {
    for (_, case) in says_something(parse_jsonl::<Case>(bytes, Path::new("cases.jsonl"))).unwrap_or_default() {
        if let Some(score) = says_something(case.score(&Graders::default())) {
            check_score(Ok(score));
        }
    }
}

/// A line of a file of responses, as the commands that score one read it.
#[derive(Deserialize)]
struct Response {
    #[serde(rename = "id")]
    _id: String,
    #[serde(rename = "response")]
    _response: String,
}

fn jsonl_responses(bytes: &[u8]) {
    says_something(parse_jsonl::<Response>(bytes, Path::new("responses.jsonl")));
}

fn entropy_table(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(table) = says_something(EntropyTable::parse(&text, Path::new("table.json"))) {
        let again = EntropyTable::parse(&table.to_json(), Path::new("again.json"));
        assert!(again.is_ok(), "a table does not read back: {:?}", again.err());
    }
}

fn skill_bank(bytes: &[u8]) {
    says_something(Bank::parse(&String::from_utf8_lossy(bytes), Path::new("skills.toml")));
}
