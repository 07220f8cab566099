//! The lines that go to a scorer and come back.
//!
//! To the scorer: `{"id": 7, "domain": …, "skill": …, "question": …, "options": […], "answer": …, "gold": …}`. Back, in
//! any order: `{"id": 7, "score": 0.5}`, or `{"id": 7, "error": "why not"}`. A line that is neither can't be laid at any
//! request's door, so it is a fault of the process, and so is an id that was not asked about.

use serde::{Deserialize, Serialize};
use skein_core::skill::Domain;

use super::CommandScorerError;

/// Most of a scorer's own words that is kept, in characters.
const MAX_WORDS_CHARS: usize = 300;

/// What a scorer is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ScoreRequest<'a> {
    /// The step's domain.
    pub domain: Domain,
    /// The step's skill.
    pub skill: &'a str,
    /// What was asked.
    pub question: &'a str,
    /// The options' texts; empty unless the question is multiple choice.
    pub options: &'a [String],
    /// The answer to be scored, untrusted.
    pub answer: &'a str,
    /// The gold answer or rubric.
    pub gold: &'a str,
}

#[derive(Serialize)]
struct RequestLine<'a> {
    id: u64,
    #[serde(flatten)]
    request: ScoreRequest<'a>,
}

/// The line that asks `request`, its end included.
pub(super) fn request_line(id: u64, request: ScoreRequest<'_>) -> Vec<u8> {
    let mut line = serde_json::to_vec(&RequestLine { id, request }).expect("plain data");
    line.push(b'\n');
    line
}

#[derive(Deserialize)]
struct ReplyLine {
    id: u64,
    score: Option<serde_json::Value>,
    error: Option<String>,
}

/// The request that a line answers, and with what.
///
/// # Errors
/// What is wrong with a line that is no answer to any request.
pub(super) fn parse_reply(line: &[u8]) -> Result<(u64, Result<f64, CommandScorerError>), String> {
    let shown = || shorten(&String::from_utf8_lossy(line));
    let text = str::from_utf8(line).map_err(|_| format!("it wrote a line that is not UTF-8: {}", shown()))?;
    // Python writes numbers that JSON does not have.
    let parsed = serde_json::from_str::<ReplyLine>(text)
        .or_else(|error| serde_json::from_str(&without_odd_numbers(text)).map_err(|_| error));
    let ReplyLine { id, score, error } = parsed.map_err(|error| format!("it wrote `{}`: {error}", shown()))?;
    let outcome = match (score, error) {
        (None, Some(words)) => Err(CommandScorerError::Reported(shorten(&words))),
        (Some(score), None) => match score.as_f64() {
            Some(number) if (0.0..=1.0).contains(&number) => Ok(number),
            _ => Err(CommandScorerError::BadScore(shorten(&score.to_string()))),
        },
        _ => Err(CommandScorerError::BadScore("missing, or there besides an error".to_owned())),
    };
    Ok((id, outcome))
}

/// `NaN`, `Infinity` and `-Infinity` as a text, which is a score as little as they are.
fn without_odd_numbers(text: &str) -> String {
    text.replace("-Infinity", "NaN").replace("Infinity", "NaN").replace("NaN", "\"NaN\"")
}

/// The beginning of `text`, on one line.
pub(super) fn shorten(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.trim().chars().take(MAX_WORDS_CHARS).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_is_one_line() {
        let options = ["x".to_owned()];
        let request = ScoreRequest {
            domain: Domain::CreativeWriting,
            skill: "Rhyme",
            question: "two\nlines",
            options: &options,
            answer: "\u{2028}é\"",
            gold: "",
        };
        let line = String::from_utf8(request_line(7, request)).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&value["id"], &value["domain"], &value["answer"]),
            (&7.into(), &"creative_writing".into(), &"\u{2028}é\"".into())
        );
    }

    #[test]
    fn scores_lie_between_zero_and_one() {
        let parse = |line: &str| parse_reply(line.as_bytes()).unwrap();
        assert_eq!(parse(r#"{"id": 1, "score": 0.25}"#), (1, Ok(0.25)));
        assert_eq!(parse(r#"{"score": 1, "id": 2, "note": "x"}"#), (2, Ok(1.0)));
        assert_eq!(parse(r#"{"id": 3, "error": "no"}"#), (3, Err(CommandScorerError::Reported("no".into()))));
        for bad in ["1.0001", "-0.1", "NaN", "Infinity", "-Infinity", "\"1\"", "true", "[]", "1e300"] {
            let (id, outcome) = parse(&format!("{{\"id\": 4, \"score\": {bad}}}"));
            assert!(id == 4 && matches!(outcome, Err(CommandScorerError::BadScore(_))), "{bad}: {outcome:?}");
        }
        for bad in [r#"{"id": 5}"#, r#"{"id": 5, "score": 1, "error": "x"}"#, r#"{"id": 5, "score": null}"#] {
            assert!(matches!(parse(bad), (5, Err(CommandScorerError::BadScore(_)))), "{bad}");
        }
    }

    #[test]
    fn other_lines_are_faults() {
        for bad in ["", "hello", "1", "{}", r#"{"id": "1", "score": 1}"#, r#"{"id": -1, "score": 1}"#, "{\"id\": 1"] {
            assert!(parse_reply(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(parse_reply(b"{\"id\": 1, \"error\": \"\xff\"}").unwrap_err().contains("not UTF-8"));
        assert!(parse_reply("x".repeat(100_000).as_bytes()).unwrap_err().len() < 1000);
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in "[{}\":,a-z0-9.NaInfinity -]{0,60}") {
            if let Ok((_, Ok(score))) = parse_reply(line.as_bytes()) {
                prop_assert!((0.0..=1.0).contains(&score));
            }
        }
    }
}
