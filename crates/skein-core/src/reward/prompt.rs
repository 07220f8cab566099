//! The prompts that ask for the response format: whole tasks, single questions, and the second of two questions.
//!
//! One template serves every arm, in traces, training and evaluation, so that a difference between arms is never a
//! difference in wording. A prompt shows the scenario, the questions, the format and the domains' names. It never lists
//! skills: naming the right one is what is being taught. Changing a word here means a new version.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::skill::Domain;
use crate::task::{CrossSkillTask, Step, option_letter};

/// How much a prompt says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptStyle {
    /// Explains the format, with an abstract example and the list of domains; for models that read instructions.
    #[default]
    Standard,
    /// Scenario, questions and a one-line cue; for small models that learn the format by training.
    Compact,
}

impl PromptStyle {
    /// The style a user names.
    ///
    /// # Errors
    /// Any other name, with the two there are.
    pub fn from_name(name: &str) -> Result<Self, String> {
        match name {
            "standard" => Ok(Self::Standard),
            "compact" => Ok(Self::Compact),
            _ => Err(format!("unknown prompt style `{name}`, expected standard or compact")),
        }
    }

    /// Names this wording in logs and result files.
    pub fn version(self) -> &'static str {
        match self {
            Self::Standard => "standard-1",
            Self::Compact => "compact-1",
        }
    }
}

/// Writes prompts in one style for one list of domains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptTemplate {
    style: PromptStyle,
    domains: Vec<Domain>,
}

impl PromptTemplate {
    /// A template that offers `domains`: those of the whole task set, so that the list gives no task away.
    pub fn new(style: PromptStyle, domains: impl Into<Vec<Domain>>) -> Self {
        Self { style, domains: domains.into() }
    }

    /// Names the wording in logs and result files.
    pub fn version(&self) -> &'static str {
        self.style.version()
    }

    /// The user message that asks for all steps of a task.
    pub fn task(&self, task: &CrossSkillTask) -> String {
        let mut text = String::new();
        if !task.scenario.trim().is_empty() {
            push_line(&mut text, task.scenario.trim());
        }
        for (index, step) in task.steps.iter().enumerate() {
            push_question(&mut text, index + 1, &step.question, &step.options);
        }
        let rule = match task.steps.len() {
            1 => "Answer the question.",
            _ => "Answer the questions in order; a later one may need an earlier answer.",
        };
        self.push_format(&mut text, rule, task.steps.len());
        text
    }

    /// The user message that asks one question by itself, with what it takes from other steps filled in.
    pub fn single(&self, step: &Step) -> String {
        let mut text = String::new();
        push_question(&mut text, 1, step.standalone_question(), &step.options);
        self.push_format(&mut text, "Answer the question.", 1);
        text
    }

    /// The user message that asks `second` once the model has given `first_answer` to `first`.
    pub fn second_of_two(&self, first: &Step, first_answer: &str, second: &Step) -> String {
        let mut text = String::new();
        push_question(&mut text, 1, first.standalone_question(), &first.options);
        push_line(&mut text, &format!("Answer 1: {}", first_answer.trim()));
        push_question(&mut text, 2, second.standalone_question(), &second.options);
        self.push_format(&mut text, "Question 1 is answered. Answer question 2.", 1);
        text
    }

    fn push_format(&self, text: &mut String, rule: &str, num_answers: usize) {
        match self.style {
            PromptStyle::Compact => text.push_str("<skill>Domain, Skill</skill><answer>…</answer>"),
            PromptStyle::Standard => {
                push_line(text, "");
                push_line(text, rule);
                push_line(
                    text,
                    "Reason inside <think> </think> first. After it write, for each answer, the skill it takes and the \
                     answer itself, and no other text. For options give the letter.",
                );
                text.push_str("<think>…</think>");
                for number in 1..=num_answers.min(2) {
                    write!(text, "\n<skill>Domain {number}, Skill {number}</skill><answer>Answer {number}</answer>")
                        .expect("writing to a string cannot fail");
                }
                if num_answers > 2 {
                    text.push_str("\n…");
                }
                let names: Vec<&str> = self.domains.iter().map(|domain| domain.title()).collect();
                write!(text, "\nDomains: {}", names.join("; ")).expect("writing to a string cannot fail");
            }
        }
    }
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn push_question(text: &mut String, number: usize, question: &str, options: &[String]) {
    push_line(text, &format!("{number}. {}", question.trim()));
    for (index, option) in options.iter().enumerate() {
        push_line(text, &format!("{}. {option}", option_letter(index)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(domain: Domain, question: &str, options: &[&str]) -> Step {
        Step {
            question: question.into(),
            answer: "A".into(),
            domain,
            skill: "Hidden Skill".into(),
            options: options.iter().map(|&option| option.into()).collect(),
            standalone: None,
        }
    }

    fn task() -> CrossSkillTask {
        CrossSkillTask {
            id: "t".into(),
            scenario: "A shop counts its stock.".into(),
            steps: vec![step(Domain::Math, "What is 2+3?", &[]), step(Domain::Science, "Which unit?", &["kg", "m"])],
            trace: None,
            provenance: None,
        }
    }

    #[test]
    fn compact_wording_is_pinned() {
        let template = PromptTemplate::new(PromptStyle::Compact, [Domain::Math]);
        assert_eq!(
            template.task(&task()),
            "A shop counts its stock.\n1. What is 2+3?\n2. Which unit?\nA. kg\nB. m\n\
             <skill>Domain, Skill</skill><answer>…</answer>"
        );
        assert_eq!(template.version(), "compact-1");
    }

    #[test]
    fn standard_wording_is_pinned() {
        let template = PromptTemplate::new(PromptStyle::Standard, [Domain::Math, Domain::InformationExtraction]);
        assert_eq!(
            template.task(&task()),
            "A shop counts its stock.\n1. What is 2+3?\n2. Which unit?\nA. kg\nB. m\n\n\
             Answer the questions in order; a later one may need an earlier answer.\n\
             Reason inside <think> </think> first. After it write, for each answer, the skill it takes and the answer \
             itself, and no other text. For options give the letter.\n\
             <think>…</think>\n\
             <skill>Domain 1, Skill 1</skill><answer>Answer 1</answer>\n\
             <skill>Domain 2, Skill 2</skill><answer>Answer 2</answer>\n\
             Domains: Math; Information Extraction"
        );
        assert_eq!(template.version(), "standard-1");
    }

    #[test]
    fn questions_asked_alone_show_what_they_need() {
        let mut dependent = step(Domain::Math, "Double the last answer.", &[]);
        dependent.standalone = Some("Double 4.".into());
        let template = PromptTemplate::new(PromptStyle::Compact, [Domain::Math]);
        assert!(template.single(&dependent).starts_with("1. Double 4.\n"));
        assert!(template.second_of_two(&task().steps[0], "5", &dependent).contains("\n2. Double 4.\n"));
    }

    #[test]
    fn two_step_prompt_shows_the_models_own_answer() {
        let steps = task().steps;
        for style in [PromptStyle::Standard, PromptStyle::Compact] {
            let template = PromptTemplate::new(style, [Domain::Math]);
            let text = template.second_of_two(&steps[0], " 7 ", &steps[1]);
            assert!(text.starts_with("1. What is 2+3?\nAnswer 1: 7\n2. Which unit?\nA. kg\n"), "{text}");
            let single = template.single(&steps[0]);
            assert!(single.starts_with("1. What is 2+3?\n") && !single.contains("shop"), "{single}");
            for text in [text, single, template.task(&task())] {
                assert!(!text.contains("Hidden"), "a prompt never names the skill: {text}");
            }
        }
    }
}
