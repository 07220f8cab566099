//! Rewards: what a response to a cross-skill task earns, from its text and the task alone.
//!
//! `r = λ_ans · r_ans + λ_ent · r_ent`. r_ans is the mean of the steps' domain scores; r_ent says how well the predicted
//! skill sequence agrees with the gold one through skill entropy. A malformed response earns 0 for both. A step whose
//! scorer can't judge it is an error of that response, to be counted by the caller, never a silent 0. Nothing here sees
//! a token or a tensor.

mod context;
pub mod entropy;
pub mod format;
pub mod matcher;
pub mod prompt;
pub mod scorers;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use rayon::prelude::*;

pub use context::{RewardContext, RewardRule, RewardSetupError};
pub use entropy::EntropyForm;
pub use format::{Malformed, StepCount};
pub use prompt::{PromptStyle, PromptTemplate};

use crate::skill::{SkillKey, normalize_name};
use crate::task::{CrossSkillTask, Step};
use entropy::entropy_reward;
use format::{ResponseStep, SkillLabel, parse_response};
use matcher::EmbedError;
use scorers::{Graders, ScoreError};

/// Why a response could not be scored. None of these is a wrong answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RewardError {
    /// A step's scorer can't judge it.
    #[error("task `{task}`, step {step}: {source}")]
    Step {
        /// The task's id.
        task: String,
        /// Counted from 1.
        step: usize,
        /// What the scorer says.
        source: ScoreError,
    },
    /// The task's own skills have no entropy.
    #[error(
        "task `{task}`: the entropy table does not cover the switch from `{from}` to `{to}`; give a table that does \
         (reward.entropy_table), or set reward.lambda_ent = 0"
    )]
    GoldSwitch {
        /// The task's id.
        task: String,
        /// The gold skill before the switch.
        from: String,
        /// The gold skill after it.
        to: String,
    },
    /// A grader panicked, which is a fault of its own and no verdict.
    #[error("task `{task}`: a grader crashed: {message}")]
    Crashed {
        /// The task's id.
        task: String,
        /// What the panic said.
        message: String,
    },
    /// The matcher's embedder failed.
    #[error(transparent)]
    Embed(#[from] EmbedError),
}

impl RewardError {
    fn step(task: &CrossSkillTask, index: usize, source: ScoreError) -> Self {
        Self::Step { task: task.id.clone(), step: index + 1, source }
    }
}

/// What became of one step of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct StepReward {
    /// The domain scorer's verdict, in [0, 1]; 0 where the response has no such step.
    pub score: f64,
    /// The skill the response names, as written; none where the response has no such step.
    pub label: Option<String>,
    /// Whether the label is the gold skill's name, normalised. Needs neither matcher nor bank, so that arms with and
    /// without λ_ent can be compared by it.
    pub skill_correct: bool,
    /// The bank key the matcher found; none out of the bank, and none when λ_ent is 0.
    pub matched: Option<SkillKey>,
}

impl StepReward {
    fn missing() -> Self {
        Self { score: 0.0, label: None, skill_correct: false, matched: None }
    }
}

/// What a response earns.
#[derive(Debug, Clone, PartialEq)]
pub struct Reward {
    /// `λ_ans · answer + λ_ent · entropy`, in [0, 1]; without a switch λ_ent's weight goes to the answer.
    pub total: f64,
    /// r_ans: the mean of the steps' scores.
    pub answer: f64,
    /// r_ent; none when λ_ent is 0 or the task has no switch.
    pub entropy: Option<f64>,
    /// One entry per step of the task.
    pub steps: Vec<StepReward>,
    /// Why the response earns nothing, if it does not keep the format.
    pub malformed: Option<Malformed>,
    /// Labels the matcher could not resolve; none when it did not run.
    pub num_out_of_bank: Option<usize>,
}

impl Reward {
    /// Share of the task's steps whose skill is named right.
    pub fn skill_accuracy(&self) -> f64 {
        self.steps.iter().filter(|step| step.skill_correct).count() as f64 / self.steps.len().max(1) as f64
    }
}

/// The reward of `response` to `task`.
///
/// # Errors
/// When a step can't be scored, the task's gold skills have no entropy, or the matcher fails.
pub fn score_response(task: &CrossSkillTask, response: &str, context: &RewardContext) -> Result<Reward, RewardError> {
    let deadline = Instant::now() + context.graders.time_limit;
    let gold = context.gold_entropies(task)?;
    let num_steps = task.steps.len();
    let parsed = match parse_response(response, num_steps, context.rule.step_count) {
        Ok(parsed) => parsed,
        Err(reason) => {
            return Ok(Reward {
                total: 0.0,
                answer: 0.0,
                entropy: (!gold.is_empty()).then_some(0.0),
                steps: vec![StepReward::missing(); num_steps],
                malformed: Some(reason),
                num_out_of_bank: None,
            });
        }
    };
    let mut steps = Vec::with_capacity(num_steps);
    for (index, step) in task.steps.iter().enumerate() {
        steps.push(match parsed.steps.get(index) {
            Some(given) => score_step(step, given, &context.graders, deadline)
                .map_err(|source| RewardError::step(task, index, source))?,
            None => StepReward::missing(),
        });
    }
    let mut num_out_of_bank = None;
    if let Some(skills) = &context.skills {
        for (step, given) in steps.iter_mut().zip(&parsed.steps) {
            step.matched = skills.matcher.resolve(&given.skill)?.cloned();
        }
        num_out_of_bank = Some(steps.iter().filter(|step| step.label.is_some() && step.matched.is_none()).count());
    }
    let answer = steps.iter().map(|step| step.score).sum::<f64>() / num_steps.max(1) as f64;
    let entropy = context.skills.as_ref().and_then(|skills| {
        let switch =
            |pair: &[StepReward]| skills.entropies.switch(pair[0].matched.as_ref()?, pair[1].matched.as_ref()?);
        let predicted: Vec<Option<f64>> = steps.windows(2).map(switch).collect();
        entropy_reward(context.rule.entropy_form, context.rule.entropy_scale, &predicted, &gold)
    });
    let total = context.rule.total(answer, entropy);
    Ok(Reward { total, answer, entropy, steps, malformed: None, num_out_of_bank })
}

fn score_step(
    step: &Step,
    given: &ResponseStep,
    graders: &Graders,
    deadline: Instant,
) -> Result<StepReward, ScoreError> {
    Ok(StepReward {
        score: scorers::score(step, given.answer, graders, deadline)?,
        label: Some(given.skill.to_string()),
        skill_correct: names_skill(&given.skill, &step.key()),
        matched: None,
    })
}

/// Whether a label spells a key: both names agree normalised, or the skill's alone where the label has no domain.
pub fn names_skill(label: &SkillLabel, key: &SkillKey) -> bool {
    let same_domain = label.domain.is_none_or(|domain| domain.parse() == Ok(key.domain()));
    same_domain && normalize_name(label.skill) == normalize_name(key.skill())
}

/// [`score_response`] for many responses on all threads; results come in the order of `pairs`.
///
/// Labels that need the embedder are embedded together first.
pub fn score_batch(pairs: &[(&CrossSkillTask, &str)], context: &RewardContext) -> Vec<Result<Reward, RewardError>> {
    if let Some(skills) = &context.skills {
        let step_count = context.rule.step_count;
        let parsed = pairs.iter().filter_map(|(task, text)| parse_response(text, task.steps.len(), step_count).ok());
        if let Err(error) = skills.matcher.prepare(parsed.flat_map(|response| response.steps).map(|step| step.skill)) {
            return vec![Err(error.into()); pairs.len()];
        }
    }
    pairs.par_iter().map(|(task, response)| score_guarded(task, response, context)).collect()
}

/// [`score_response`], with a panic in a grader as that response's error.
///
/// # Errors
/// As [`score_response`], and when a grader panics.
pub fn score_guarded(task: &CrossSkillTask, response: &str, context: &RewardContext) -> Result<Reward, RewardError> {
    // What a panic may leave half-done is the grader's own state; nothing of it is used for this response again.
    let outcome = catch_unwind(AssertUnwindSafe(|| score_response(task, response, context)));
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(RewardError::Crashed { task: task.id.clone(), message })
    })
}

#[cfg(test)]
mod tests;
