//! What scoring needs besides a task and a response: the rule, and for r_ent the matcher and the switches' entropies.
//!
//! Everything that can be wrong with a config, a table or a task is found here, before a response is scored.

use std::time::Instant;

use super::RewardError;
use super::entropy::{EntropyForm, SwitchEntropies};
use super::format::{StepCount, parse_response};
use super::matcher::SkillMatcher;
use super::scorers::judge::Judged;
use super::scorers::{self, Graders, ScoreError};
use crate::skill::{Bank, EntropyError, EntropyTable, SkillKey};
use crate::task::{CrossSkillTask, Step};

/// How a response's parts make its reward.
///
/// Only the ratio of the two weights counts: they are scaled to sum to 1, so that rewards lie in [0, 1] and λ_ent = 0 is
/// r_ans itself, whatever λ_ans is.
#[derive(Debug, Clone, PartialEq)]
pub struct RewardRule {
    /// Weight of r_ans (paper: 0.7).
    pub lambda_ans: f64,
    /// Weight of r_ent (paper: 0.3). At 0 no skill is matched and no entropy looked up: plain GRPO on r_ans.
    pub lambda_ent: f64,
    /// How entropies turn into r_ent.
    pub entropy_form: EntropyForm,
    /// The gap at which `task_gap_exp` has fallen to 1/e.
    pub entropy_scale: f64,
    /// What a response with another number of steps than the task is worth.
    pub step_count: StepCount,
}

impl Default for RewardRule {
    fn default() -> Self {
        Self {
            lambda_ans: 0.7,
            lambda_ent: 0.3,
            entropy_form: EntropyForm::default(),
            entropy_scale: 1.0,
            step_count: StepCount::default(),
        }
    }
}

impl RewardRule {
    /// Everything that is wrong with these values, one line each.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (field, weight) in [("lambda_ans", self.lambda_ans), ("lambda_ent", self.lambda_ent)] {
            if !(weight >= 0.0 && weight.is_finite()) {
                problems.push(format!("{field} = {weight}: expected a number that is not negative"));
            }
        }
        if self.lambda_ans == 0.0 && self.lambda_ent == 0.0 {
            problems.push("lambda_ans and lambda_ent are both 0: every reward would be 0".to_owned());
        }
        if !(self.entropy_scale > 0.0 && self.entropy_scale.is_finite()) {
            problems.push(format!("entropy_scale = {}: expected a positive number", self.entropy_scale));
        }
        problems
    }

    /// The reward of a response's two parts. Without r_ent the answer's part is all there is.
    pub(super) fn total(&self, answer: f64, entropy: Option<f64>) -> f64 {
        let Some(entropy) = entropy else { return answer };
        let sum = self.lambda_ans + self.lambda_ent;
        // Rounding may lift the sum of two shares over 1.
        (self.lambda_ans / sum * answer + self.lambda_ent / sum * entropy).min(1.0)
    }
}

/// What scoring needs besides the task and the response; built once, shared by all threads.
pub struct RewardContext {
    pub(super) rule: RewardRule,
    /// None when λ_ent is 0.
    pub(super) skills: Option<SkillContext>,
    /// The back ends of the domains that need one.
    pub(super) graders: Graders,
}

pub(super) struct SkillContext {
    pub(super) matcher: SkillMatcher,
    pub(super) entropies: SwitchEntropies,
}

impl RewardContext {
    /// The context of λ_ent = 0: no matcher, no table.
    pub fn answer_only(step_count: StepCount) -> Self {
        let rule = RewardRule { lambda_ans: 1.0, lambda_ent: 0.0, step_count, ..Default::default() };
        Self { rule, skills: None, graders: Graders::default() }
    }

    /// The context of a reward with entropy, whose bank is exactly what `table` has measured.
    ///
    /// # Errors
    /// When the rule is impossible, or the table lacks a cell for two of its skills.
    pub fn with_table(rule: RewardRule, table: &EntropyTable) -> Result<Self, RewardSetupError> {
        let skills = table.skills();
        Self::with_matcher(rule, table, SkillMatcher::exact(Bank::of(skills.iter().cloned())), &skills)
    }

    /// The context of a reward with entropy and a matcher of one's own over the keys `skills`.
    ///
    /// With λ_ent = 0 both are dropped unused.
    ///
    /// # Errors
    /// When the rule is impossible, or `table` lacks a cell for two of `skills`.
    pub fn with_matcher(
        rule: RewardRule,
        table: &EntropyTable,
        matcher: SkillMatcher,
        skills: &[SkillKey],
    ) -> Result<Self, RewardSetupError> {
        let problems = rule.problems();
        if !problems.is_empty() {
            return Err(RewardSetupError::Rule(problems.join("; ")));
        }
        if rule.lambda_ent == 0.0 {
            return Ok(Self { rule, skills: None, graders: Graders::default() });
        }
        let entropies = SwitchEntropies::new(table, skills)?;
        Ok(Self { rule, skills: Some(SkillContext { matcher, entropies }), graders: Graders::default() })
    }

    /// This context with back ends for the domains that need one; a new context has none.
    #[must_use]
    pub fn with_graders(mut self, graders: Graders) -> Self {
        self.graders = graders;
        self
    }

    /// The rule this context scores by.
    pub fn rule(&self) -> &RewardRule {
        &self.rule
    }

    /// That every response to `task` can be scored: each gold answer is one, a right answer scores 1 where one is known,
    /// each gold skill is known.
    ///
    /// # Errors
    /// The first step that can't be scored, and why.
    pub fn check_task(&self, task: &CrossSkillTask) -> Result<(), RewardError> {
        for (index, step) in task.steps.iter().enumerate() {
            self.check_gold(step).map_err(|source| RewardError::step(task, index, source))?;
        }
        self.gold_entropies(task).map(drop)
    }

    /// What scoring `response` will ask the judge.
    pub fn judged<'a>(&self, task: &'a CrossSkillTask, response: &'a str) -> Vec<Judged<'a>> {
        let Ok(parsed) = parse_response(response, task.steps.len(), self.rule.step_count) else { return Vec::new() };
        let answered = task.steps.iter().zip(&parsed.steps);
        let judged = answered.filter(|(step, _)| self.graders.leave_to_judge(step));
        judged.map(|(step, given)| Judged::of(step, given.answer)).collect()
    }

    /// That answers to `step` can be scored: its gold answer is one, and a right answer scores 1 where one is known.
    ///
    /// # Errors
    /// What stands in the way.
    pub fn check_gold(&self, step: &Step) -> Result<(), ScoreError> {
        if self.graders.external.contains_key(&step.domain) {
            // What a user's own scorer makes of a gold answer is the user's to know.
            return Ok(());
        }
        if scorers::is_judged(step) {
            return match self.graders.judge {
                Some(_) => Ok(()),
                None => Err(ScoreError::NoJudge { domain: step.domain }),
            };
        }
        let deadline = Instant::now() + self.graders.time_limit;
        let Some(answer) = scorers::right_answer(step)? else {
            // Whatever stands in the way of scoring a right answer stands in the way of an empty one.
            return scorers::score(step, "", &self.graders, deadline).map(drop);
        };
        let score = scorers::score(step, &answer, &self.graders, deadline)?;
        if score != 1.0 {
            let problem = format!("`{answer}` scores {score} against itself");
            return Err(ScoreError::Gold { domain: step.domain, problem });
        }
        Ok(())
    }

    /// Whether every switch between the task's gold skills has an entropy; true when λ_ent is 0.
    pub fn covers(&self, task: &CrossSkillTask) -> bool {
        self.gold_entropies(task).is_ok()
    }

    /// The entropies of a task's gold switches; empty when λ_ent is 0.
    pub(super) fn gold_entropies(&self, task: &CrossSkillTask) -> Result<Vec<f64>, RewardError> {
        let Some(skills) = &self.skills else { return Ok(Vec::new()) };
        let keys: Vec<SkillKey> = task.steps.iter().map(Step::key).collect();
        keys.windows(2)
            .map(|pair| {
                skills.entropies.switch(&pair[0], &pair[1]).ok_or_else(|| RewardError::GoldSwitch {
                    task: task.id.clone(),
                    from: pair[0].to_string(),
                    to: pair[1].to_string(),
                })
            })
            .collect()
    }
}

/// Why a context can't be built.
#[derive(Debug, thiserror::Error)]
pub enum RewardSetupError {
    /// Values that can't be.
    #[error("impossible reward: {0}")]
    Rule(String),
    /// The table lacks a cell.
    #[error(transparent)]
    Table(#[from] EntropyError),
}
