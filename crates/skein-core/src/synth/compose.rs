//! Puts steps together: whole tasks, and the one- and two-step instances that skill entropy is estimated from.

use std::ops::RangeInclusive;

use super::content::{Entities, Kind, fill, pick_wording};
use super::{Difficulty, Draft, FORMULAS, Incoming, Level, Maker, Phrasing, QUERIES, Split, Wordings, skills};
use crate::random::Stream;
use crate::reward::format::{ResponseStep, SkillLabel, render_response};
use crate::skill::{Cell, Domain, SkillKey};
use crate::task::{CrossSkillTask, Provenance, Step};

/// Changes whenever the same seed would give other tasks.
const GENERATOR: &str = "skein-procedural-1";

/// Tries to find numbers for one sequence of skills before another sequence is drawn.
const TRIES_PER_SEQUENCE: usize = 200;
/// Tries to find numbers for one step.
const TRIES_PER_STEP: usize = 40;
/// Sequences drawn before giving up; one in two fits at the hardest setting, so this is never reached by bad luck.
const MAX_SEQUENCES: usize = 200;

/// Why a task could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SynthError {
    /// Tasks need steps.
    #[error("cannot make a task of {0} to {1} steps; a task has at least one step")]
    NoSteps(usize, usize),
    /// No generator for a skill.
    #[error("no generator makes questions for `{0}`; `skein synth` covers math, science and information_extraction")]
    NoGenerator(Cell),
    /// The numbers of the level leave no room for these skills in this order.
    #[error("found no numbers for the skills {0} within the limits of the level")]
    NoFit(String),
}

/// Whether the second step of an instance takes up the first one's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Two questions that have nothing to do with each other.
    Independent,
    /// The second question uses the first answer, as in tasks.
    Dependent,
}

/// Makes tasks of one level from one side of the split; equal settings and indices give equal tasks.
#[derive(Debug, Clone)]
pub struct Synthesizer {
    level: Level,
    difficulty: Difficulty,
    split: Split,
    seed: u64,
    entities: Entities,
}

impl Synthesizer {
    /// A maker of tasks; tasks of different splits never share content, whatever the seeds.
    pub fn new(level: Level, split: Split, seed: u64) -> Self {
        Self { level, difficulty: level.difficulty(), split, seed, entities: Entities::of(split) }
    }

    /// Task number `index`: as many steps as drawn uniformly from `num_steps`, of skills drawn uniformly, consecutive
    /// ones from different domains, each step but the first using the answer before it. It carries a trace.
    ///
    /// # Errors
    /// When `num_steps` is empty or begins at 0, or the level has no numbers for that many steps.
    pub fn task(&self, index: u64, num_steps: RangeInclusive<usize>) -> Result<CrossSkillTask, SynthError> {
        let (fewest, most) = (*num_steps.start(), *num_steps.end());
        if fewest == 0 || fewest > most {
            return Err(SynthError::NoSteps(fewest, most));
        }
        let mut maker = self.maker("task", index);
        let length = maker.stream.between(fewest as i64, most as i64) as usize;
        let all = skills();
        let mut sequence = Vec::new();
        for _ in 0..MAX_SEQUENCES {
            sequence.clear();
            while sequence.len() < length {
                let skill = maker.stream.choose(&all);
                if sequence.last().is_none_or(|last: &SkillKey| last.domain() != skill.domain()) {
                    sequence.push(skill.clone());
                }
            }
            if let Some(drafts) = maker.realize(&sequence, Link::Dependent) {
                let id = format!("{}-{}-{}-{index}", self.level, self.split, self.seed);
                return Ok(self.finish(id, &mut maker, drafts));
            }
        }
        Err(no_fit(&sequence))
    }

    /// Tasks 0 to `count` − 1, as [`Synthesizer::task`] makes them.
    ///
    /// # Errors
    /// As [`Synthesizer::task`].
    pub fn tasks(&self, count: u64, num_steps: RangeInclusive<usize>) -> Result<Vec<CrossSkillTask>, SynthError> {
        (0..count).map(|index| self.task(index, num_steps.clone())).collect()
    }

    /// Instance number `index` of a cell: one step for an accuracy of a skill or domain, two in the cell's order for a
    /// switch. A domain stands for one of its skills, drawn uniformly. It carries a trace.
    ///
    /// # Errors
    /// When no generator covers the cell, or the level has no numbers for it.
    pub fn instance(&self, cell: &Cell, link: Link, index: u64) -> Result<CrossSkillTask, SynthError> {
        let linked = if link == Link::Dependent { "dependent" } else { "independent" };
        let mut maker = self.maker(&format!("{cell} {linked}"), index);
        let all = skills();
        let of_skill = |skill: &SkillKey| all.iter().filter(|known| *known == skill).cloned().collect::<Vec<_>>();
        let of_domain = |domain: Domain| all.iter().filter(|s| s.domain() == domain).cloned().collect::<Vec<_>>();
        let candidates = match cell {
            Cell::Skill(skill) => vec![of_skill(skill)],
            Cell::Domain(domain) => vec![of_domain(*domain)],
            Cell::SkillDomain(skill, domain) => vec![of_skill(skill), of_domain(*domain)],
            Cell::DomainSkill(domain, skill) => vec![of_domain(*domain), of_skill(skill)],
        };
        if candidates.iter().any(Vec::is_empty) {
            return Err(SynthError::NoGenerator(cell.clone()));
        }
        let mut sequence = Vec::new();
        for _ in 0..MAX_SEQUENCES {
            sequence = candidates.iter().map(|skills| maker.stream.choose(skills).clone()).collect();
            if let Some(drafts) = maker.realize(&sequence, link) {
                let id = format!("{}-{}-{}-{cell}-{linked}-{index}", self.level, self.split, self.seed);
                return Ok(self.finish(id, &mut maker, drafts));
            }
        }
        Err(no_fit(&sequence))
    }

    pub(super) fn maker(&self, purpose: &str, index: u64) -> Maker<'_> {
        let label = format!("synth/{}/{}/{purpose}", self.level, self.split);
        Maker {
            difficulty: self.difficulty,
            split: self.split,
            entities: &self.entities,
            stream: Stream::new(self.seed, &label, index),
        }
    }

    fn finish(&self, id: String, maker: &mut Maker, drafts: Vec<Draft>) -> CrossSkillTask {
        CrossSkillTask {
            id,
            scenario: maker.scenario(&drafts),
            trace: Some(maker.trace(&drafts)),
            steps: drafts.into_iter().map(Draft::into_step).collect(),
            provenance: Some(Provenance { generator: GENERATOR.to_owned(), seed: self.seed }),
        }
    }
}

fn no_fit(sequence: &[SkillKey]) -> SynthError {
    let names: Vec<String> = sequence.iter().map(|skill| format!("`{skill}`")).collect();
    SynthError::NoFit(names.join(", "))
}

impl Draft {
    /// Whether every plausible other answer to the earlier step makes this step's answer wrong.
    fn depends_on(&self, incoming: Incoming) -> bool {
        incoming.outcome.others.iter().all(|other| self.puzzle.gold(Some(other)).as_ref() != Some(&self.answer))
    }

    fn into_step(self) -> Step {
        Step {
            question: self.question,
            answer: self.answer,
            domain: self.domain,
            skill: self.skill.to_owned(),
            options: self.options,
            standalone: self.standalone,
        }
    }
}

const SCENARIOS: Phrasing = Phrasing {
    // Tiny prompts have no room for a story; only what a choice stands for must be said.
    terse: Wordings { train: &["A choice counts as its value."], test: &["Each choice counts as its value."] },
    full: Wordings {
        train: &[
            "{person} works through a checklist at {place}, where each result is needed for the next entry.",
            "At {place}, {person} fills in a report line by line.",
            "{person} has to settle a few open points before {place} closes.",
        ],
        test: &[
            "{person} has to fill in a checklist at {place}, line by line.",
            "Before {place} closes, {person} works through a report.",
        ],
    },
};

impl Maker<'_> {
    /// The think block works each step in a few tokens; the pairs follow it.
    fn trace(&self, drafts: &[Draft]) -> String {
        let works: Vec<String> =
            drafts.iter().enumerate().map(|(index, draft)| format!("{}: {}", index + 1, draft.work)).collect();
        let pairs = drafts.iter().map(|draft| ResponseStep {
            skill: SkillLabel { domain: Some(draft.domain.title()), skill: draft.skill },
            answer: &draft.answer,
        });
        render_response(Some(&self.written(&works.join("; "))), pairs)
    }

    fn scenario(&mut self, drafts: &[Draft]) -> String {
        let counts_choice = drafts.windows(2).any(|pair| pair[0].outcome.chosen && pair[1].standalone.is_some());
        if self.difficulty.terse && !counts_choice {
            return String::new();
        }
        let wording = pick_wording(self.wordings(&SCENARIOS), self.split, &mut self.stream);
        let person = self.stream.choose(self.entities.all(Kind::Person)).clone();
        let place = self.stream.choose(self.entities.all(Kind::Place)).clone();
        fill(wording, &[("person", &person), ("place", &place)])
    }

    pub(super) fn realize(&mut self, sequence: &[SkillKey], link: Link) -> Option<Vec<Draft>> {
        (0..TRIES_PER_SEQUENCE).find_map(|_| self.try_sequence(sequence, link))
    }

    fn try_sequence(&mut self, sequence: &[SkillKey], link: Link) -> Option<Vec<Draft>> {
        let mut drafts: Vec<Draft> = Vec::with_capacity(sequence.len());
        for skill in sequence {
            let incoming = match link {
                Link::Independent => None,
                Link::Dependent => drafts.last().map(|draft| Incoming { step: drafts.len(), outcome: &draft.outcome }),
            };
            let draft = (0..TRIES_PER_STEP).find_map(|_| {
                self.draft(skill, incoming).filter(|draft| incoming.is_none_or(|incoming| draft.depends_on(incoming)))
            })?;
            drafts.push(draft);
        }
        Some(drafts)
    }

    fn draft(&mut self, skill: &SkillKey, incoming: Option<Incoming>) -> Option<Draft> {
        let formula = FORMULAS.iter().find(|f| f.domain == skill.domain() && f.skill == skill.skill());
        match formula {
            Some(formula) => formula.draft(self, incoming),
            None => QUERIES.iter().find(|query| query.skill == skill.skill())?.draft(self, incoming),
        }
    }
}
