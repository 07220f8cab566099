//! Math: numbers, formulas and collections of them, compared by value.
//!
//! An answer is found in its text ([`extract`]), read ([`lexer`], [`parser`]), and compared with the gold one
//! ([`compare`]) exactly where both are exact, after rounding where one is a decimal, and at random points where
//! variables occur ([`evaluate`]); [`sets`] knows intervals. What can't be read is compared as text. No answer is
//! evaluated as a program, and all work is bounded: an answer that asks for more is wrong.

mod commands;
mod compare;
mod evaluate;
mod expr;
mod extract;
mod lexer;
mod matrices;
mod parser;
mod polynomial;
mod precise;
mod rational;
mod sets;
#[cfg(test)]
mod tests;
mod vocabulary;
mod work;

use std::sync::LazyLock;

use regex::Regex;

use super::{ScoreError, as_score, final_text};
use crate::skill::Domain;
use expr::Expr;
use work::Work;

/// Longest text that [`Number::read`] looks at, and steps of reading one and of comparing two: options are many.
const MAX_NUMBER_BYTES: usize = 200;
const NUMBER_STEPS: u64 = 100_000;

/// What may differ between equal answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// A decimal and another number are equal when they agree after rounding to this many places.
    pub decimals: u32,
}

impl Default for Rules {
    /// Six places, as in Math-Verify.
    fn default() -> Self {
        Self { decimals: 6 }
    }
}

/// 1 when `answer` denotes what `gold` does, else 0.
///
/// # Errors
/// When `gold` is empty.
pub fn score(answer: &str, gold: &str) -> Result<f64, ScoreError> {
    score_with(answer, gold, Rules::default())
}

/// [`score`] under other rules.
///
/// # Errors
/// When `gold` is empty.
pub fn score_with(answer: &str, gold: &str, rules: Rules) -> Result<f64, ScoreError> {
    let gold = final_text(gold);
    if gold.is_empty() {
        return Err(ScoreError::gold(Domain::Math, "is empty"));
    }
    Ok(as_score(is_correct(final_text(answer), gold, rules, &Work::new())))
}

fn is_correct(answer: &str, gold: &str, rules: Rules, work: &Work) -> bool {
    let (gold, pred) = (Answer::read(gold, work), Answer::read(answer, work));
    gold.equals(&pred, rules, work)
}

/// A number without variables, read from a text.
pub struct Number(Expr);

impl Number {
    /// Reads a whole text of at most [`MAX_NUMBER_BYTES`].
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let work = Work::of(NUMBER_STEPS);
        let tokens = (text.len() <= MAX_NUMBER_BYTES).then(|| lexer::tokenize(text, &work)).flatten()?;
        parser::parse(&tokens, &work).filter(|expr| expr.is_scalar() && !expr.has_symbol()).map(Self)
    }
}

impl PartialEq for Number {
    /// Equal as answers are: decimals after rounding, whichever of the two were the gold one.
    fn eq(&self, other: &Self) -> bool {
        let equal = |gold: &Expr, pred: &Expr| compare::equal(gold, pred, Rules::default(), &Work::of(NUMBER_STEPS));
        equal(&self.0, &other.0) || equal(&other.0, &self.0)
    }
}

/// An answer as a text and, where it can be read, as an expression.
struct Answer {
    /// Lower case, without spaces and wrappers.
    text: String,
    expr: Option<Expr>,
}

impl Answer {
    fn read(text: &str, work: &Work) -> Self {
        let text = extract::answer(text);
        let tokens = lexer::tokenize(&text, work);
        let expr = tokens.as_deref().and_then(|tokens| {
            parser::parse(tokens, work).or_else(|| {
                // A chain whose first part can't be read still ends in a value.
                let last = tokens.iter().rposition(|token| *token == lexer::Token::Sign("="))?;
                parser::parse(&tokens[last + 1..], work)
            })
        });
        Self { text: plain(&text), expr }
    }

    fn equals(&self, pred: &Self, rules: Rules, work: &Work) -> bool {
        if !self.text.is_empty() && self.text == pred.text {
            return true;
        }
        if is_time(&self.text) && is_time(&pred.text) {
            return self.text.trim_start_matches('0') == pred.text.trim_start_matches('0');
        }
        match (&self.expr, &pred.expr) {
            (Some(gold), Some(pred)) if compare::equal(gold, pred, rules, work) => true,
            _ => same_decimals(&self.text, &pred.text),
        }
    }
}

/// Whether one text is the other with a comma for its decimal point: `1,22` and `1.22`.
fn same_decimals(a: &str, b: &str) -> bool {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let has_comma = |text: &str, point: &str| {
        let parts = point.trim_start_matches('-').split_once('.');
        // Three digits behind a comma are a group of thousands.
        parts.is_some_and(|(whole, part)| is_digits(whole) && is_digits(part) && part.len() != 3)
            && text.replacen(',', ".", 1) == point
    };
    has_comma(a, b) || has_comma(b, a)
}

/// Whether a text is a time of day, `9:05`, which is no ratio.
fn is_time(text: &str) -> bool {
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    text.split_once(':').is_some_and(|(hour, minute)| {
        (1..=2).contains(&hour.len()) && minute.len() == 2 && minute < "60" && is_number(hour) && is_number(minute)
    })
}

/// The form in which answers compare as texts.
fn plain(text: &str) -> String {
    static TEXT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\\(?:text|mbox|mathrm|textbf|textit)\s*\{([^{}]*)\}").expect("a constant"));
    let mut text = TEXT.replace_all(&text.to_lowercase(), "$1").into_owned();
    for noise in ["\\left", "\\right", "\\!", "\\,", "\\ ", "\\(", "\\)"] {
        text = text.replace(noise, "");
    }
    let text: String = text.chars().filter(|c| !c.is_whitespace() && *c != '$').collect();
    text.strip_suffix('.').filter(|rest| !rest.ends_with('.')).unwrap_or(&text).to_owned()
}
