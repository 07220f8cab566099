//! Scoring cases: a gold answer, a predicted one, and where known the score that a published grader gives.
//!
//! The format serves graders' test suites and users' own files alike, so fields that no scorer needs are ignored.

use std::time::Instant;

use serde::Deserialize;
use serde_json::Value;

use super::coding::stdout;
use super::information_extraction::{span, values};
use super::instruction_following::{self, Leniency};
use super::judge::Judged;
use super::{
    Graders, ScoreError, as_score, coding, final_text, information_extraction, logic, math, planning, science,
};
use crate::skill::Domain;
use crate::task::Step;

/// One line of a case file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Case {
    /// Names the case in the output; the line number does where there is none.
    pub id: Option<String>,
    /// Whose scorer judges it.
    pub domain: Domain,
    /// The gold answer: text, or an object where the domain and `kind` have one.
    pub gold: Value,
    /// The predicted answer: text, or a list of items for `kind` = `wtq`.
    pub pred: Value,
    /// The question, for scorers that read its constraints.
    #[serde(default)]
    pub question: String,
    /// Which of a domain's rules applies, where it has several.
    pub kind: Option<String>,
    /// The texts of a multiple-choice question's options.
    #[serde(default)]
    pub options: Vec<String>,
    /// How many options there are, where only that is known.
    pub n_options: Option<usize>,
    /// Departures from a scorer's defaults.
    #[serde(default)]
    pub opts: CaseOptions,
    /// The score that the case's source gives.
    pub expected: Option<f64>,
    /// How far `expected` binds; `policy` marks a grader's own convention.
    pub tier: Option<String>,
}

/// Options that have a name of their own.
const NUM_LETTERS: usize = 26;

/// Departures from a scorer's defaults.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct CaseOptions {
    /// Math: decimals compare when rounded to this many places.
    pub precision: Option<u32>,
    /// Planning: what makes a plan right, in place of what the gold answer says.
    pub mode: Option<planning::Mode>,
}

/// Why a case has no score.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaseError {
    /// The scorer refuses.
    #[error(transparent)]
    Score(#[from] ScoreError),
    /// A field has the wrong shape.
    #[error("`{field}` is not {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
    },
}

impl Case {
    /// The score of the predicted answer.
    ///
    /// # Errors
    /// When the domain has no scorer, the gold answer is unusable, a back end is missing or fails, or a field has the
    /// wrong shape.
    pub fn score(&self, graders: &Graders) -> Result<f64, CaseError> {
        if graders.external.contains_key(&self.domain) {
            let step = Step {
                question: self.question.clone(),
                answer: self.gold()?,
                domain: self.domain,
                skill: String::new(),
                options: self.options()?,
                standalone: None,
            };
            return Ok(super::score(&step, &self.pred()?, graders, Instant::now() + graders.time_limit)?);
        }
        match (self.domain, self.kind.as_deref()) {
            (Domain::Math, _) => {
                let rules = self.opts.precision.map_or_else(math::Rules::default, |decimals| math::Rules { decimals });
                Ok(math::score_with(&self.pred()?, &self.gold()?, rules)?)
            }
            (Domain::Science, _) => Ok(science::score(&self.pred()?, &self.gold()?, &self.options()?)?),
            (Domain::Logic, Some("guru_zebra" | "arc_grid" | "guru_ordering" | "guru_graph")) => {
                Ok(logic::guru_score(&self.pred()?, &self.gold()?)?)
            }
            (Domain::Logic, _) => Ok(logic::score(&self.pred()?, &self.gold()?)?),
            (Domain::InstructionFollowing, _) => {
                let gold = instruction_following::Gold::parse(&self.gold()?)?;
                Ok(as_score(gold.is_followed_by(&self.pred()?, Leniency::Strict)))
            }
            (Domain::InformationExtraction, Some("token_f1")) => {
                Ok(span::token_f1(final_text(&self.pred()?), &self.gold()?))
            }
            (Domain::InformationExtraction, Some("wtq")) if self.pred.is_array() => {
                let gold = values::targets(
                    &strings("gold.target", &self.gold["target"])?,
                    &strings("gold.canon", &self.gold["canon"])?,
                );
                Ok(as_score(values::denote_same(&gold, &strings("pred", &self.pred)?)))
            }
            (Domain::InformationExtraction, _) => Ok(information_extraction::score(&self.pred()?, &self.gold()?)?),
            (Domain::Planning, _) => {
                let (pred, gold) = (self.pred()?, self.gold()?);
                Ok(match self.opts.mode {
                    Some(mode) => planning::score_with(&pred, &gold, &self.question, mode)?,
                    None => planning::score(&pred, &gold, &self.question)?,
                })
            }
            (Domain::Coding, Some("stdout_compare")) => {
                Ok(as_score(stdout::outputs_agree(&self.pred()?, &self.gold()?)))
            }
            (Domain::Coding, _) => Ok(coding::score(&self.pred()?, &self.gold()?, graders.code.as_deref())?),
            (domain @ (Domain::CreativeWriting | Domain::ContextRetrieval), _) => {
                let judge = graders.judge.as_ref().ok_or(ScoreError::NoJudge { domain })?;
                let deadline = Instant::now() + graders.time_limit;
                let (rubric, answer) = (self.gold()?, self.pred()?);
                let judged = Judged { question: &self.question, rubric: &rubric, answer: &answer };
                Ok(judge.grade(&judged, deadline).map_err(ScoreError::Judge)?)
            }
        }
    }

    /// Whether its score takes running a program.
    pub fn runs_code(&self) -> bool {
        self.domain == Domain::Coding && self.kind.as_deref() != Some("stdout_compare")
    }

    fn pred(&self) -> Result<String, CaseError> {
        match &self.pred {
            Value::Array(_) | Value::Object(_) => Err(CaseError::Field { field: "pred", expected: "a text" }),
            value => Ok(plain(value)),
        }
    }

    /// Objects and lists stay JSON, for the scorers that read them.
    fn gold(&self) -> Result<String, CaseError> {
        match &self.gold {
            Value::Null => Err(CaseError::Field { field: "gold", expected: "an answer" }),
            value => Ok(plain(value)),
        }
    }

    /// The options, or as many placeholders as the case says there are.
    fn options(&self) -> Result<Vec<String>, CaseError> {
        match (self.options.is_empty(), self.n_options) {
            (true, Some(count)) if count > NUM_LETTERS => Err(CaseError::Field {
                field: "n_options",
                expected: "a number up to 26: options are named by letters",
            }),
            (true, Some(count)) => Ok((0..count).map(|index| format!("<option {index}>")).collect()),
            _ => Ok(self.options.clone()),
        }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn strings(field: &'static str, value: &Value) -> Result<Vec<String>, CaseError> {
    let problem = CaseError::Field { field, expected: "a list of texts" };
    let items = value.as_array().ok_or_else(|| problem.clone())?;
    items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(|| problem.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(line: &str) -> Result<f64, String> {
        let case: Case = serde_json::from_str(line).unwrap();
        case.score(&Graders::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn plain_lines_need_little() {
        assert_eq!(score(r#"{"domain":"math","gold":5,"pred":"5.0"}"#), Ok(1.0));
        assert_eq!(score(r#"{"id":"a","domain":"science","gold":"B","pred":"C","note":1}"#), Ok(0.0));
        assert_eq!(score(r#"{"id":"a","domain":"information_extraction","gold":["a","b"],"pred":"b, a"}"#), Ok(1.0));
        assert_eq!(score(r#"{"domain":"coding","kind":"stdout_compare","gold":"1\n","pred":"1.0"}"#), Ok(1.0));
    }

    #[test]
    fn structured_golds_are_read_as_json() {
        let grid = |pred: &str| format!(r#"{{"domain":"logic","kind":"arc_grid","gold":[[1]],"pred":"{pred}"}}"#);
        assert_eq!(score(&grid("<answer>[[1]]</answer>")), Ok(1.0));
        assert_eq!(score(&grid("[[1]]")), Ok(0.0), "the grader wants tags");
        assert_eq!(score(&grid("[[1]]").replace(r#""kind":"arc_grid","#, "")), Ok(1.0));
        let comma =
            r#"{"domain":"instruction_following","gold":{"instruction_id":"punctuation:no_comma","kwargs":{}},"#;
        assert_eq!(score(&format!(r#"{comma}"pred":"a; b"}}"#)), Ok(1.0));
        assert_eq!(score(&format!(r#"{comma}"pred":"a, b"}}"#)), Ok(0.0));
    }

    #[test]
    fn what_cannot_be_scored_is_said() {
        let uncountable = r#"{"id":"a","domain":"science","gold":"B","pred":"C","n_options":1109930816509586649}"#;
        assert!(score(uncountable).unwrap_err().contains("`n_options` is not a number up to 26"));
        let unsupported = score(r#"{"id":"a","domain":"creative_writing","gold":"","pred":""}"#).unwrap_err();
        assert!(unsupported.contains("`creative_writing` needs a judge"));
        let no_runner = score(r#"{"domain":"coding","gold":{"inputs":["1"],"outputs":["1"]},"pred":"x"}"#).unwrap_err();
        assert!(no_runner.contains("no back end that runs code"));
        let shape = score(r#"{"id":"a","domain":"math","gold":"1","pred":["1"]}"#).unwrap_err();
        assert_eq!(shape, "`pred` is not a text");
        let list = r#"{"id":"a","domain":"information_extraction","kind":"wtq","gold":{"target":["a"]},"pred":["a"]}"#;
        assert_eq!(score(list).unwrap_err(), "`gold.canon` is not a list of texts");
    }
}
