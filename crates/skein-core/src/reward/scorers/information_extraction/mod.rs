//! Information extraction: typed values for answers read from tables, exact match for answers read from text.
//!
//! A gold answer is a plain value, several values (a JSON list, or `a | b`), or a JSON object that says its kind:
//! `{"type": "wtq", "target": [...], "canon": [...]}` or `{"type": "span", "text": "..."}`. A plain value counts as
//! matched under either rule. Nothing is evaluated as code, and partial overlap earns nothing here: [`span::token_f1`]
//! is for reports.

pub mod span;
pub mod values;

use std::borrow::Cow;

use serde::Deserialize;

use super::{ScoreError, as_score, final_text};
use crate::skill::Domain;
use values::Value;

/// A gold answer, read from its text.
#[derive(Debug, Clone, PartialEq)]
enum Gold {
    Values(Vec<Value>),
    Span(String),
    /// A single plain text: a value or a span.
    Plain(String),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum TypedGold {
    Wtq {
        target: Vec<String>,
        #[serde(default)]
        canon: Vec<String>,
    },
    Span {
        text: String,
    },
}

/// 1 when `answer` names the gold value or values, else 0.
///
/// # Errors
/// When `gold` is empty, or a JSON object of an unknown shape.
pub fn score(answer: &str, gold: &str) -> Result<f64, ScoreError> {
    let answer = final_text(answer);
    let correct = match parse_gold(gold)? {
        Gold::Values(gold) => candidate_lists(answer, gold.len()).iter().any(|items| values::denote_same(&gold, items)),
        Gold::Span(gold) => span::exact_match(answer, &gold),
        Gold::Plain(gold) => {
            let value = [Value::of(&gold)];
            span::exact_match(answer, &gold)
                || candidate_lists(answer, 1).iter().any(|items| values::denote_same(&value, items))
        }
    };
    Ok(as_score(correct))
}

/// An answer that names everything `gold` does.
///
/// # Errors
/// When `gold` is empty, or a JSON object of an unknown shape.
pub fn right_answer(gold: &str) -> Result<Cow<'_, str>, ScoreError> {
    parse_gold(gold)?;
    Ok(match serde_json::from_str(gold) {
        Ok(TypedGold::Wtq { target, .. }) => Cow::Owned(target.join(" | ")),
        Ok(TypedGold::Span { text }) => Cow::Owned(text),
        Err(_) => Cow::Borrowed(gold),
    })
}

fn parse_gold(gold: &str) -> Result<Gold, ScoreError> {
    let fail = |problem: &str| Err(ScoreError::gold(Domain::InformationExtraction, problem));
    let gold = gold.trim();
    if gold.is_empty() {
        return fail("is empty");
    }
    if gold.starts_with('{') {
        return match serde_json::from_str(gold) {
            Ok(TypedGold::Span { text }) => Ok(Gold::Span(text)),
            Ok(TypedGold::Wtq { target, canon }) if canon.is_empty() || canon.len() == target.len() => {
                Ok(Gold::Values(values::targets(&target, &canon)))
            }
            Ok(TypedGold::Wtq { .. }) => fail("has `target` and `canon` lists of different lengths"),
            Err(error) => fail(&format!("is not a JSON object of type `wtq` or `span`: {error}")),
        };
    }
    let items = json_list(gold).or_else(|| {
        let items: Vec<String> = gold.split('|').map(|item| item.trim().to_owned()).collect();
        (items.len() > 1 && items.iter().all(|item| !item.is_empty())).then_some(items)
    });
    Ok(match items {
        Some(items) => Gold::Values(values::targets(&items, &[])),
        None => Gold::Plain(gold.to_owned()),
    })
}

/// The ways to read an answer as a list of items, most literal first.
///
/// Commas and `and` separate items only where the gold answer has several, since they occur inside single ones.
fn candidate_lists(answer: &str, num_gold: usize) -> Vec<Vec<String>> {
    let split = |separators: &[&str]| {
        let mut items = vec![answer];
        for separator in separators {
            items = items.into_iter().flat_map(|item| item.split(separator)).collect();
        }
        items.into_iter().map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
    };
    let mut lists = vec![vec![answer.to_owned()]];
    lists.extend(json_list(answer));
    lists.push(split(&["|", "\n"]));
    if num_gold > 1 {
        lists.push(split(&["|", "\n", ";"]));
        lists.push(split(&["|", "\n", ", and ", " and "]));
        lists.push(split(&["|", "\n", ", and ", ", "]));
        lists.push(split(&["|", "\n", ", and ", ", ", " and ", "/"]));
    }
    lists
}

fn json_list(text: &str) -> Option<Vec<String>> {
    let items: Vec<serde_json::Value> = text.starts_with('[').then(|| serde_json::from_str(text).ok()).flatten()?;
    items
        .into_iter()
        .map(|item| match item {
            serde_json::Value::String(text) => Some(text),
            serde_json::Value::Number(number) => Some(number.to_string()),
            serde_json::Value::Bool(flag) => Some(flag.to_string()),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn correct(answer: &str, gold: &str) -> bool {
        score(answer, gold).unwrap() == 1.0
    }

    #[test]
    fn one_value() {
        assert!(correct("75287", "75,287") && correct("$75,287", "75287") && correct("Café [1]", "cafe"));
        assert!(correct("The Little Mermaid", "Little Mermaid"));
        assert!(!correct("", "12") && !correct("12, 13", "12") && !correct("1.5", "15") && !correct("-5", "5"));
    }

    #[test]
    fn several_values() {
        let gold = r#"["Orion", "Apollo", "12"]"#;
        for answer in ["Apollo, Orion, 12", "orion | 12.0 | apollo", "12\nApollo\nOrion", "[\"Apollo\", 12, \"Orion\"]"]
        {
            assert!(correct(answer, gold), "{answer}");
        }
        assert!(correct("Orion, Apollo, and 12", gold) && correct("Orion, Apollo and 12", "12 | Orion | Apollo"));
        assert!(!correct("Orion, Apollo", gold) && !correct("Orion, Apollo, 12, 13", gold));
        assert!(correct("March 4, 2006; March 5, 2006", "March 4, 2006 | March 5, 2006"));
    }

    #[test]
    fn typed_gold() {
        let date = r#"{"type":"wtq","target":["March 4, 2006"],"canon":["2006-03-04"]}"#;
        assert!(correct("2006-3-4", date) && correct("march 4, 2006", date) && !correct("2006-03-05", date));
        assert!(correct("20 mpg.", r#"{"type":"span","text":"20 MPG"}"#));
        assert!(score("x", r#"{"type":"wtq","target":["a"],"canon":["a","b"]}"#).is_err());
        assert!(score("x", r#"{"type":"other"}"#).is_err() && score("x", " ").is_err());
    }

    proptest! {
        #[test]
        fn never_panics_and_stays_in_range(answer in "\\PC{0,40}", gold in "\\PC{1,20}") {
            if let Ok(score) = score(&answer, &gold) {
                prop_assert!(score == 0.0 || score == 1.0);
            }
        }

        #[test]
        fn a_value_matches_itself(gold in "[A-Za-z0-9][A-Za-z0-9 .,-]{0,20}") {
            prop_assert!(correct(&gold, &gold));
        }
    }
}
