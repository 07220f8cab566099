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
mod parser;
mod sets;
mod vocabulary;

use std::sync::LazyLock;

use regex::Regex;

use super::{ScoreError, as_score, final_text};
use crate::skill::Domain;
use expr::Expr;

/// Longest text that [`equivalent_numbers`] looks at.
const MAX_NUMBER_BYTES: usize = 200;

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
    let (gold, pred) = (Answer::read(gold), Answer::read(final_text(answer)));
    Ok(as_score(gold.equals(&pred, rules)))
}

/// Whether both texts are numbers without variables, and equal.
pub fn equivalent_numbers(a: &str, b: &str) -> bool {
    let number = |text: &str| {
        let text = text.trim();
        let tokens = (text.len() <= MAX_NUMBER_BYTES).then(|| lexer::tokenize(text)).flatten()?;
        parser::parse(&tokens).filter(|expr| expr.is_scalar() && !expr.has_symbol())
    };
    match (number(a), number(b)) {
        (Some(a), Some(b)) => compare::equal(&a, &b, Rules::default()),
        _ => false,
    }
}

/// An answer as a text and, where it can be read, as an expression.
struct Answer {
    /// Lower case, without spaces and wrappers.
    text: String,
    expr: Option<Expr>,
}

impl Answer {
    fn read(text: &str) -> Self {
        let text = extract::answer(text);
        let tokens = lexer::tokenize(&text);
        let expr = tokens.as_deref().and_then(|tokens| {
            parser::parse(tokens).or_else(|| {
                // A chain whose first part can't be read still ends in a value.
                let last = tokens.iter().rposition(|token| *token == lexer::Token::Sign("="))?;
                parser::parse(&tokens[last + 1..])
            })
        });
        Self { text: plain(&text), expr }
    }

    fn equals(&self, pred: &Self, rules: Rules) -> bool {
        if !self.text.is_empty() && self.text == pred.text {
            return true;
        }
        match (&self.expr, &pred.expr) {
            (Some(gold), Some(pred)) => compare::equal(gold, pred, rules),
            _ => false,
        }
    }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn correct(answer: &str, gold: &str) -> bool {
        score(answer, gold).unwrap() == 1.0
    }

    #[track_caller]
    fn check(equal: &[(&str, &str)], different: &[(&str, &str)]) {
        for (answer, gold) in equal {
            assert!(correct(answer, gold), "{answer} answers {gold}");
        }
        for (answer, gold) in different {
            assert!(!correct(answer, gold), "{answer} does not answer {gold}");
        }
    }

    #[test]
    fn exact_forms_are_exactly_equal() {
        check(
            &[("2/4", "1/2"), ("3 1/3", "\\frac{10}{3}"), ("1,234", "1234"), ("\\frac{1}{2}", "0.5"), ("1e3", "1000")],
            &[
                ("3.14", "\\pi"),
                ("10^{20}+1", "10^{20}"),
                ("1/2004!", "1/2006!"),
                ("\\frac{1}{2^{99}}", "\\frac{1}{2^{98}}"),
                ("\\sqrt{2}", "\\sqrt{3}"),
                ("12", "21"),
                ("-3", "3"),
                ("", "0"),
            ],
        );
    }

    #[test]
    fn decimals_are_equal_after_rounding_to_six_places() {
        check(
            &[("0.333333", "1/3"), ("1.414214", "\\sqrt{2}"), ("2.0", "2"), ("0.6", "\\frac35"), ("3.141593", "\\pi")],
            &[
                ("0.33333", "1/3"),
                ("1.41421", "\\sqrt{2}"),
                ("2.0000001", "2"),
                ("3.14159", "\\pi"),
                ("0.0000001", "0.0000002"),
            ],
        );
    }

    #[test]
    fn percentages_are_hundredths_or_whole_numbers() {
        check(
            &[("9%", "9"), ("9", "9\\%"), ("50%", "0.5"), ("0.335", "33.5\\%"), ("28 percent", "28\\%")],
            &[("5%", "0.5"), ("9%", "8%"), ("0.5\\%", "0.5")],
        );
    }

    #[test]
    fn formulas_are_equal_as_functions() {
        check(
            &[
                ("(r+5)^2", "(r+5)(r+5)"),
                ("\\frac{x}{7}+\\frac{2}{7}", "\\frac{x+2}{7}"),
                ("\\sec^2(y)", "\\tan^2(y)+1"),
                ("|x|", "\\sqrt{x^2}"),
                ("ba", "ab"),
                ("7\\pi", "7 \\cdot \\pi"),
            ],
            &[("x", "\\sqrt{x^2}"), ("x+1", "x+2n+1"), ("2\\pi", "\\pi"), ("\\frac{1}{2}x", "1/2"), ("x^2", "x^3")],
        );
    }

    #[test]
    fn collections_have_an_order_or_none() {
        check(
            &[
                ("3, 1, 2", "1,2,3"),
                ("\\{2,1\\}", "1, 2"),
                ("(1, 4.5)", "(1,\\frac92)"),
                ("1 \\pm \\sqrt 2", "1+\\sqrt2, 1-\\sqrt2"),
                ("(1,2),(3,4)", "(3,4),(1,2)"),
            ],
            &[
                ("(2,1)", "(1,2)"),
                ("1,2", "1,2,3"),
                ("[0,1)", "(0,1]"),
                ("(1,2)", "(1,2,3)"),
                ("2021", "\\pm 2021"),
                ("[1,2]", "12"),
            ],
        );
    }

    #[test]
    fn equations_relations_and_sets() {
        check(
            &[
                ("x=5", "5"),
                ("5", "x = 5"),
                ("5=x", "x=5"),
                ("-34x-45y+20z-100=0", "34x+45y-20z+100=0"),
                ("(-793, 10)", "-793 < a < 10"),
                ("5 \\leq x", "x \\geq 5"),
                ("-x > -1", "x < 1"),
                ("(0,1) \\cup (1,2)", "(0,2) \\setminus \\{1\\}"),
                ("z \\in [-2,-1] \\cup [1,2]", "1 \\le |z| \\le 2"),
            ],
            &[
                ("y=5", "x=5"),
                ("0", "a^2+b=0"),
                ("x<5", "x>5"),
                ("x<1", "x\\le 1"),
                ("(0,2)", "(0,1) \\cup (1,2)"),
                ("1<y<2", "1<x<2"),
            ],
        );
    }

    #[test]
    fn words_compare_as_texts() {
        check(
            &[("Even", "\\text{even}"), ("\\text{(C)}", "C"), ("a", "A")],
            &[("odd", "even"), ("\\text{oddd}", "odd")],
        );
        check(
            &[("1, 2, \\ldots, n", "$1,2,\\ldots,n$")],
            &[("1,3,5,\\ldots,2n-1", "1, 2, \\ldots, n"), ("0.999...", "0.999")],
        );
    }

    #[test]
    fn hostile_answers_are_wrong_and_cheap() {
        let repeated =
            ["(", "{", "\\frac{", "$$", "\\[", "-", "2^", "!", "%", "|", "\\boxed{", "1,", "a=", "\\sqrt", "9"];
        for text in repeated {
            assert!(!correct(&text.repeat(4000), "5"), "{text} repeated");
            assert!(!correct(&format!("1{}", text.repeat(4000)), "5"), "1 and {text} repeated");
        }
        for text in ["2^{2^{2^{49}}}", "\\binom{1000000}{500000}", "9^{9^{9}}", "100000!", "1/0", "\\log_1 5"] {
            assert!(!correct(text, "5"), "{text}");
            assert!(correct(text, text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(answer in "\\PC{0,40}", gold in "[-+*/^0-9a-z(){}\\\\|,.=<>% ]{1,24}") {
            if let Ok(score) = score(&answer, &gold) {
                prop_assert!(score == 0.0 || score == 1.0);
            }
        }

        #[test]
        fn formula_fragments_never_panic(
            parts in proptest::collection::vec(
                proptest::sample::select(vec![
                    "\\frac", "\\sqrt", "{", "}", "(", ")", "[", "]", "|", "^", "_", "1", "23", "x", "+", "-", "\\pm", ",",
                    ";", "=", "<", "\\cup", "\\in", "%", "!", "\\text{a}", "\\begin{pmatrix}", "\\end{pmatrix}", "&",
                    "\\\\", "\\sum", "\\log", "\\sin", "0.5", "\\infty", "i", "e", "\\{", "\\}", "\\mod", "\\boxed{",
                ]),
                0..14,
            ),
        ) {
            let text = parts.concat();
            let _ = score(&text, "x+1");
            if !final_text(&text).is_empty() {
                let _ = score("x+1", &text);
            }
        }

        #[test]
        fn numbers_equal_themselves_and_not_their_successors(n in -10_000i64..10_000, d in 1i64..50) {
            let text = format!("\\frac{{{n}}}{{{d}}}");
            let (same, plain) = (format!("{}/{}", 2 * n, 2 * d), format!("{}/{d}", n + 1));
            prop_assert!(correct(&same, &text));
            prop_assert!(!correct(&plain, &text));
        }
    }
}
