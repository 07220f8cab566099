//! The skills of a task file that a bank does not have. Most are slips of the keyboard, so each comes with the bank's
//! nearest name; whether one is a mistake, the caller decides, since users may bring skills of their own.

use std::collections::HashSet;
use std::fmt;

use super::CrossSkillTask;
use crate::excerpt::{QUOTED_CHARS, excerpt};
use crate::skill::{Bank, SkillKey, normalize_name};

/// Similarity (Jaro-Winkler of normalised names, 0 to 1) above which a bank's skill is offered for an unknown one.
const SUGGESTION_SIMILARITY: f64 = 0.85;

/// A skill that the bank does not have, where a task file first uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownSkill {
    /// The line, counted from 1.
    pub line: usize,
    /// The index of the step in its task.
    pub step: usize,
    /// The skill as the file spells it.
    pub skill: SkillKey,
    /// The bank's skill that is meant, as far as one can guess.
    pub nearest: Option<SkillKey>,
}

impl fmt::Display for UnknownSkill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (step, domain, name) = (self.step, self.skill.domain(), excerpt(self.skill.skill(), QUOTED_CHARS));
        write!(f, "`steps[{step}].skill`: `{name}` is not among the known skills of {domain}")?;
        match &self.nearest {
            Some(nearest) if nearest.domain() == domain => write!(f, " (did you mean `{}`?)", nearest.skill()),
            Some(nearest) => write!(f, " ({} has `{}`)", nearest.domain(), nearest.skill()),
            None => Ok(()),
        }
    }
}

/// The skills of `tasks`, given with their lines, that `bank` does not have: each once.
pub fn unknown_skills<'t>(
    tasks: impl IntoIterator<Item = (usize, &'t CrossSkillTask)>,
    bank: &Bank,
) -> Vec<UnknownSkill> {
    let mut seen = HashSet::new();
    let mut unknown = Vec::new();
    for (line, task) in tasks {
        for (step, skill) in task.steps.iter().map(|step| step.key()).enumerate() {
            if bank.resolve(&skill).is_none() && seen.insert(skill.clone()) {
                unknown.push(UnknownSkill { line, step, nearest: nearest(&skill, bank), skill });
            }
        }
    }
    unknown
}

/// The skill of the same domain whose name is nearest, or else the skill of that name in another domain.
fn nearest(skill: &SkillKey, bank: &Bank) -> Option<SkillKey> {
    let name = normalize_name(skill.skill());
    let in_domain = bank.keys().iter().filter(|key| key.domain() == skill.domain());
    in_domain
        .map(|key| (strsim::jaro_winkler(&name, &normalize_name(key.skill())), key))
        .filter(|(similarity, _)| *similarity >= SUGGESTION_SIMILARITY)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, key)| key)
        .or_else(|| bank.named(skill.skill()).next())
        .cloned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::parse_numbered_tasks;
    use super::*;

    #[test]
    fn each_unknown_skill_is_named_once_with_its_line_and_the_nearest_name() {
        let line = |id: &str, skills: &[(&str, &str)]| {
            let step = |(domain, skill): &(&str, &str)| {
                format!(r#"{{"question":"q","answer":"a","domain":"{domain}","skill":"{skill}"}}"#)
            };
            let steps: Vec<String> = skills.iter().map(step).collect();
            format!(r#"{{"id":"{id}","scenario":"","steps":[{}]}}"#, steps.join(","))
        };
        let text = [
            line("a", &[("math", "area_calculation"), ("math", "Area Calculatoin")]),
            String::new(),
            line("b", &[("math", "Area-Calculatoin"), ("science", "Juggling"), ("math", "Critical Thinking")]),
        ];
        let tasks = parse_numbered_tasks(text.join("\n").as_bytes(), Path::new("tasks.jsonl")).expect("valid tasks");
        let unknown = unknown_skills(tasks.iter().map(|(line, task)| (*line, task)), &Bank::embedded());
        let said: Vec<String> = unknown.iter().map(|unknown| format!("{}: {unknown}", unknown.line)).collect();
        assert_eq!(
            said,
            [
                "1: `steps[1].skill`: `Area Calculatoin` is not among the known skills of math (did you mean `Area \
                 Calculation`?)",
                "3: `steps[1].skill`: `Juggling` is not among the known skills of science",
                "3: `steps[2].skill`: `Critical Thinking` is not among the known skills of math (science has `Critical \
                 Thinking`)",
            ]
        );
    }
}
