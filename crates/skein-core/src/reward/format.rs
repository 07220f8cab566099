//! The response format: one optional think block, then one skill tag and one answer tag for each step.
//!
//! ```text
//! <think> … </think> <skill> Domain, Skill </skill><answer> … </answer> … (L pairs)
//! ```
//!
//! A malformed response is an outcome ([`Malformed`]) with its reason, not an error: it earns nothing and is counted.
//! The parser refuses to guess. It repairs no tag, takes no answer from loose text, and reads each byte a constant
//! number of times, so that no response, however odd, can hold up a batch.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::task::CrossSkillTask;

const THINK: Tag = Tag { name: "think", open: "<think>", close: "</think>" };
const SKILL: Tag = Tag { name: "skill", open: "<skill>", close: "</skill>" };
const ANSWER: Tag = Tag { name: "answer", open: "<answer>", close: "</answer>" };

struct Tag {
    name: &'static str,
    open: &'static str,
    close: &'static str,
}

/// What a response with another number of pairs than the task has steps is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepCount {
    /// It is malformed.
    #[default]
    Strict,
    /// Missing steps score 0 and extra ones are ignored.
    Lenient,
}

/// A skill tag's content as the model wrote it, split at the first comma.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SkillLabel<'a> {
    /// What stands before the first comma; none where there is no comma.
    pub domain: Option<&'a str>,
    /// What stands after the first comma, or the whole content.
    pub skill: &'a str,
}

impl<'a> SkillLabel<'a> {
    /// Splits a skill tag's content; both parts come back trimmed.
    pub fn split(content: &'a str) -> Self {
        match content.split_once(',') {
            Some((domain, skill)) => Self { domain: Some(domain.trim()), skill: skill.trim() },
            None => Self { domain: None, skill: content.trim() },
        }
    }
}

impl fmt::Display for SkillLabel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.domain {
            Some(domain) => write!(f, "{domain}, {}", self.skill),
            None => f.write_str(self.skill),
        }
    }
}

/// One step of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseStep<'a> {
    /// The skill the model says it used.
    pub skill: SkillLabel<'a>,
    /// The answer tag's content, trimmed.
    pub answer: &'a str,
}

/// A response that keeps the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedResponse<'a> {
    /// The think block's content, trimmed; none where the response has no such block.
    pub think: Option<&'a str>,
    /// At least one step; exactly the expected number when parsed strictly.
    pub steps: Vec<ResponseStep<'a>>,
}

/// Why a response does not keep the format. Steps count from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum Malformed {
    /// Nothing but whitespace, or nothing after the think block.
    NoSteps,
    /// A `<think>` without its end.
    UnclosedThink,
    /// Something other than whitespace stands where a tag should open.
    UnexpectedText {
        /// The tag that should have opened: `skill` or `answer`.
        wanted: &'static str,
        /// The step it belongs to.
        step: usize,
    },
    /// A tag opened and was never closed.
    UnclosedTag {
        /// `skill` or `answer`.
        tag: &'static str,
        /// The step it belongs to.
        step: usize,
    },
    /// A skill or answer tag opens inside another one, so where a step ends is anybody's guess.
    NestedTag {
        /// The outer tag: `skill` or `answer`.
        tag: &'static str,
        /// The step it belongs to.
        step: usize,
    },
    /// Well-formed, but with another number of steps than the task (strict counting only).
    StepCount {
        /// The task's steps.
        expected: usize,
        /// The response's steps.
        found: usize,
    },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSteps => f.write_str("no step"),
            Self::UnclosedThink => f.write_str("<think> is not closed"),
            Self::UnexpectedText { wanted, step } => write!(f, "step {step}: text where <{wanted}> should open"),
            Self::UnclosedTag { tag, step } => write!(f, "step {step}: <{tag}> is not closed"),
            Self::NestedTag { tag, step } => write!(f, "step {step}: a tag opens inside <{tag}>"),
            Self::StepCount { expected, found } => write!(f, "{found} steps where the task has {expected}"),
        }
    }
}

/// Parses a response to a task of `num_steps` steps.
///
/// The think block may lack its opening tag, because some chat templates put it at the end of the prompt; it then
/// reaches from the response's start to the first `</think>`.
pub fn parse_response(text: &str, num_steps: usize, step_count: StepCount) -> Result<ParsedResponse<'_>, Malformed> {
    let (think, mut rest) = split_think(text)?;
    let mut steps = Vec::with_capacity(num_steps);
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            break;
        }
        let step = steps.len() + 1;
        let (skill, after_skill) = take_tag(rest, &SKILL, step)?;
        let (answer, after_answer) = take_tag(after_skill.trim_start(), &ANSWER, step)?;
        steps.push(ResponseStep { skill: SkillLabel::split(skill), answer: answer.trim() });
        rest = after_answer;
    }
    if steps.is_empty() {
        return Err(Malformed::NoSteps);
    }
    if step_count == StepCount::Strict && steps.len() != num_steps {
        return Err(Malformed::StepCount { expected: num_steps, found: steps.len() });
    }
    Ok(ParsedResponse { think, steps })
}

fn split_think(text: &str) -> Result<(Option<&str>, &str), Malformed> {
    let text = text.trim_start();
    if text.starts_with(SKILL.open) {
        return Ok((None, text));
    }
    let opened = text.strip_prefix(THINK.open);
    match opened.unwrap_or(text).split_once(THINK.close) {
        Some((think, rest)) => Ok((Some(think.trim()), rest)),
        None if opened.is_some() => Err(Malformed::UnclosedThink),
        None => Ok((None, text)),
    }
}

fn take_tag<'a>(text: &'a str, tag: &Tag, step: usize) -> Result<(&'a str, &'a str), Malformed> {
    let body = text.strip_prefix(tag.open).ok_or(Malformed::UnexpectedText { wanted: tag.name, step })?;
    let (content, rest) = body.split_once(tag.close).ok_or(Malformed::UnclosedTag { tag: tag.name, step })?;
    if content.contains(SKILL.open) || content.contains(ANSWER.open) {
        return Err(Malformed::NestedTag { tag: tag.name, step });
    }
    Ok((content, rest))
}

/// Writes the canonical response to a task: the inverse of [`parse_response`], used for self-made SFT traces.
///
/// No think block is written where `think` is `None`.
pub fn render_response<'a>(think: Option<&str>, steps: impl IntoIterator<Item = ResponseStep<'a>>) -> String {
    let mut text = String::new();
    if let Some(think) = think {
        text.push_str(&format!("<think>{think}</think>\n"));
    }
    for (index, step) in steps.into_iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        text.push_str(&format!("<skill>{}</skill><answer>{}</answer>", step.skill, step.answer));
    }
    text
}

/// Why `task` can't be imitated; none where it has a trace that keeps the format.
pub fn trace_problem(task: &CrossSkillTask) -> Option<String> {
    let Some(trace) = &task.trace else {
        return Some(format!("task `{}` has no trace to imitate; SFT needs one in every task", task.id));
    };
    let malformed = parse_response(trace, task.steps.len(), StepCount::Strict).err()?;
    Some(format!("task `{}`: its trace does not keep the response format: {malformed}", task.id))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn strict(text: &str, num_steps: usize) -> Result<ParsedResponse<'_>, Malformed> {
        parse_response(text, num_steps, StepCount::Strict)
    }

    #[test]
    fn reads_think_block_and_pairs() {
        let text = "<think> first\nthen </think>\n <skill> Math, Percentages </skill>\n<answer> 12 </answer>\n\
                    <skill>science, Unit Conversion</skill><answer>```\ncode\n```</answer>\n";
        let parsed = strict(text, 2).unwrap();
        assert_eq!(parsed.think, Some("first\nthen"));
        assert_eq!(parsed.steps[0].skill, SkillLabel { domain: Some("Math"), skill: "Percentages" });
        assert_eq!(parsed.steps[0].answer, "12");
        assert_eq!(parsed.steps[1].answer, "```\ncode\n```");
    }

    #[test]
    fn think_block_is_optional_and_may_open_in_the_prompt() {
        let pair = "<skill>a, b</skill><answer>1</answer>";
        assert_eq!(strict(pair, 1).unwrap().think, None);
        assert_eq!(strict(&format!("so it is 1</think>{pair}"), 1).unwrap().think, Some("so it is 1"));
        assert_eq!(strict(&format!("<think></think>{pair}"), 1).unwrap().think, Some(""));
        let quoted = "<skill>a, b</skill><answer>x </think> y</answer>";
        assert_eq!(strict(quoted, 1).unwrap().steps[0].answer, "x </think> y");
    }

    #[test]
    fn label_splits_at_the_first_comma() {
        let split = SkillLabel::split;
        assert_eq!(split(" a , b, c "), SkillLabel { domain: Some("a"), skill: "b, c" });
        assert_eq!(split("only skill"), SkillLabel { domain: None, skill: "only skill" });
    }

    #[test]
    fn names_the_reason() {
        let pair = "<skill>a, b</skill><answer>1</answer>";
        let cases = [
            ("", Malformed::NoSteps),
            ("<think>x</think> \n", Malformed::NoSteps),
            ("<think>x <skill>a</skill>", Malformed::UnclosedThink),
            ("The answer is 1", Malformed::UnexpectedText { wanted: "skill", step: 1 }),
            (
                "<think>x</think><think>y</think><skill>a</skill><answer>1</answer>",
                Malformed::UnexpectedText { wanted: "skill", step: 1 },
            ),
            ("<skill>a</skill> so <answer>1</answer>", Malformed::UnexpectedText { wanted: "answer", step: 1 }),
            ("<skill>a</skill>", Malformed::UnexpectedText { wanted: "answer", step: 1 }),
            ("<answer>1</answer><skill>a</skill>", Malformed::UnexpectedText { wanted: "skill", step: 1 }),
            ("<skill>a</skill><answer>1", Malformed::UnclosedTag { tag: "answer", step: 1 }),
            ("<skill>a", Malformed::UnclosedTag { tag: "skill", step: 1 }),
            (
                "<skill>a</skill><answer>1<skill>b</skill><answer>2</answer>",
                Malformed::NestedTag { tag: "answer", step: 1 },
            ),
        ];
        for (text, reason) in cases {
            assert_eq!(strict(text, 1), Err(reason), "{text}");
        }
        assert_eq!(strict(&format!("{pair} done"), 1), Err(Malformed::UnexpectedText { wanted: "skill", step: 2 }));
    }

    #[test]
    fn counts_steps_strictly_or_leniently() {
        let two = "<skill>a, b</skill><answer>1</answer> <skill>a, b</skill><answer>2</answer>";
        for num_steps in [1, 3] {
            assert_eq!(strict(two, num_steps), Err(Malformed::StepCount { expected: num_steps, found: 2 }));
            assert_eq!(parse_response(two, num_steps, StepCount::Lenient).unwrap().steps.len(), 2);
        }
    }

    #[test]
    fn repeated_tags_stay_linear() {
        // A quadratic parser needs minutes for these; the test's patience is the whole suite's.
        for unit in ["<skill>", "<answer>", "<think>", "<skill></skill>", "</think>", "<", "<skill>a</skill><answer>"] {
            let text = unit.repeat(400_000);
            assert!(strict(&text, 3).is_err());
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "(<think>|</think>|<skill>|</skill>|<answer>|</answer>|[a-z, \n<é]){0,24}", num_steps in 0usize..4) {
            let _ = parse_response(&text, num_steps, StepCount::Strict);
            let _ = parse_response(&text, num_steps, StepCount::Lenient);
        }

        #[test]
        fn reads_back_what_it_writes(
            think in proptest::option::of("[a-z ]{0,9}"),
            parts in proptest::collection::vec(("[a-z]{1,6}", "[a-z][a-z, ]{0,6}", "[^<]{0,9}"), 1..6),
        ) {
            let steps: Vec<_> = parts
                .iter()
                .map(|(domain, skill, answer)| ResponseStep {
                    skill: SkillLabel { domain: Some(domain), skill: skill.trim() },
                    answer: answer.trim(),
                })
                .collect();
            let text = render_response(think.as_deref(), steps.iter().copied());
            let parsed = strict(&text, steps.len()).unwrap();
            prop_assert_eq!(parsed.think, think.as_deref().map(str::trim));
            prop_assert_eq!(parsed.steps, steps);
        }
    }
}
