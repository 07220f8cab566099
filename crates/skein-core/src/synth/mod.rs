//! Procedural tasks: questions with known answers, made from a seed and nothing else.
//!
//! Math and science steps are [formulas](formula), information extraction steps are [queries to made tables](table). A
//! step's question uses the answer of the step before it, and another answer there means another answer here. Train and
//! test tasks share the words they are made of, but no table, no entity, no tuple of numbers and no wording. No language
//! model is involved, and nothing depends on how many tasks are made or in which order.

mod compose;
mod content;
mod difficulty;
mod formula;
mod table;
#[cfg(test)]
mod tests;

pub use compose::{Link, SynthError, Synthesizer};
pub use content::{Kind, Value};
pub use difficulty::{Difficulty, Level, Split};

use std::ops::RangeInclusive;

use content::{Entities, fill};
use formula::{FORMULAS, FormulaPuzzle};
use table::{QUERIES, TablePuzzle};

use crate::random::Stream;
use crate::skill::{Domain, SkillKey};

/// The skills that have generators, all of them in the embedded bank.
pub fn skills() -> Vec<SkillKey> {
    let formulas = FORMULAS.iter().map(|formula| SkillKey::new(formula.domain, formula.skill));
    formulas.chain(QUERIES.iter().map(|query| SkillKey::new(Domain::InformationExtraction, query.skill))).collect()
}

/// Sentences with `{name}` places, parted between training and test.
#[derive(Debug)]
struct Wordings {
    train: &'static [&'static str],
    test: &'static [&'static str],
}

/// The wordings of one skill, for both lengths of question.
#[derive(Debug)]
struct Phrasing {
    terse: Wordings,
    full: Wordings,
}

/// What a step's question states, from which its gold answer follows.
#[derive(Debug, Clone)]
enum Puzzle {
    Formula(FormulaPuzzle),
    Table(TablePuzzle),
}

impl Puzzle {
    /// The right answer, had the previous step been answered with `previous`; `None` where the question then has none.
    fn gold(&self, previous: Option<&Value>) -> Option<String> {
        match self {
            Puzzle::Formula(puzzle) => puzzle.gold(previous),
            Puzzle::Table(puzzle) => puzzle.gold(previous),
        }
    }
}

/// What a step's answer is to the steps after it.
#[derive(Debug, Clone)]
struct Outcome {
    value: Value,
    /// What a wrong answer could plausibly be.
    others: Vec<Value>,
    /// Whether the answer is an option's letter, and `value` what the option says.
    chosen: bool,
}

impl Outcome {
    fn other_numbers(&self) -> Vec<i64> {
        self.others.iter().filter_map(|v| if let Value::Number(number) = v { Some(*number) } else { None }).collect()
    }
}

/// The earlier answer that a step takes up.
#[derive(Debug, Clone, Copy)]
struct Incoming<'a> {
    /// Counted from 1.
    step: usize,
    outcome: &'a Outcome,
}

/// A step and everything known about it while its task is put together.
#[derive(Debug, Clone)]
struct Draft {
    domain: Domain,
    skill: &'static str,
    question: String,
    standalone: Option<String>,
    options: Vec<String>,
    answer: String,
    /// How the answer is found, in a few tokens.
    work: String,
    outcome: Outcome,
    puzzle: Puzzle,
}

/// What generators draw with.
#[derive(Debug)]
struct Maker<'a> {
    difficulty: Difficulty,
    split: Split,
    entities: &'a Entities,
    stream: Stream,
}

const REFERENCES: Wordings = Wordings {
    train: &["Let x be the answer to question {k}. ", "Take the answer to question {k} as x. "],
    test: &["Let x stand for the answer to question {k}. "],
};

const CHOICE_REFERENCES: Wordings = Wordings {
    train: &[
        "Let x be the value of the option chosen in question {k}. ",
        "Take the value chosen in question {k} as x. ",
    ],
    test: &["Let x stand for the value of the option chosen in question {k}. "],
};

const CASES: Phrasing = Phrasing {
    terse: Wordings {
        train: &["By answer {k}, x is one of ({cases}). ", "Find x by answer {k} ({cases}). "],
        test: &["Find x, by answer {k} one of ({cases}). "],
    },
    full: Wordings {
        train: &[
            "The answer to question {k} decides x: {cases}. ",
            "Choose x by the answer to question {k}: {cases}. ",
        ],
        test: &["The answer to question {k} says what x is: {cases}. "],
    },
};

impl Maker<'_> {
    fn wordings<'p>(&self, phrasing: &'p Phrasing) -> &'p Wordings {
        if self.difficulty.terse { &phrasing.terse } else { &phrasing.full }
    }

    /// The question that `asked_with` makes of a number or name, asked with the earlier answer instead.
    fn refer(&mut self, incoming: Incoming, asked_with: &dyn Fn(&str) -> String) -> String {
        let step = incoming.step.to_string();
        if self.difficulty.terse {
            return asked_with(&format!("{} {step}", if incoming.outcome.chosen { "choice" } else { "answer" }));
        }
        let wordings = if incoming.outcome.chosen { &CHOICE_REFERENCES } else { &REFERENCES };
        let wording = content::pick_wording(wordings, self.split, &mut self.stream);
        fill(wording, &[("k", &step)]) + &asked_with("x")
    }

    /// The sentence that says which number x is for each word the earlier answer can be.
    fn refer_by_cases(&mut self, incoming: Incoming, cases: &[(String, i64)]) -> String {
        let cases: Vec<String> = cases.iter().map(|(word, number)| format!("{word} = {number}")).collect();
        let cases = self.written(&cases.join(", "));
        let wording = content::pick_wording(self.wordings(&CASES), self.split, &mut self.stream);
        fill(wording, &[("k", &incoming.step.to_string()), ("cases", &cases)])
    }

    /// A calculation or list in the style of the level.
    fn written(&self, text: &str) -> String {
        if self.difficulty.terse { content::tighten(text) } else { text.to_owned() }
    }

    /// `count` different numbers of `range`, in random order; `None` where it holds fewer.
    fn distinct_numbers(&mut self, count: usize, range: RangeInclusive<i64>) -> Option<Vec<i64>> {
        let mut drawn = Vec::with_capacity(count);
        if (range.end() - range.start() + 1) < count as i64 {
            return None;
        }
        while drawn.len() < count {
            let number = self.stream.between(*range.start(), *range.end());
            if !drawn.contains(&number) {
                drawn.push(number);
            }
        }
        Some(drawn)
    }

    /// What `number` could have been: `others` first, then the answers next to it, each in random order.
    fn plausible(&mut self, number: i64, mut others: Vec<i64>) -> Vec<i64> {
        const REACH: i64 = 4;
        let mut near: Vec<i64> = (number - REACH..=number + REACH).collect();
        self.stream.shuffle(&mut others);
        self.stream.shuffle(&mut near);
        others.extend(near);
        others.retain(|&other| other != number && (1..=self.difficulty.max_answer).contains(&other));
        others
    }

    /// `number` and what it could have been, `count` different numbers in all; `None` where there are fewer.
    fn with_others(&mut self, number: i64, outcome: &Outcome, count: usize) -> Option<Vec<i64>> {
        let mut numbers = vec![number];
        for other in self.plausible(number, outcome.other_numbers()) {
            if numbers.len() < count && !numbers.contains(&other) {
                numbers.push(other);
            }
        }
        (numbers.len() == count).then_some(numbers)
    }
}
