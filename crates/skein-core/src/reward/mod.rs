//! Rewards: what a response to a cross-skill task earns, from its text and the task alone.
//!
//! `r = λ_ans · r_ans + λ_ent · r_ent`. r_ans is the mean of the steps' domain scores; r_ent says how well the predicted
//! skill sequence agrees with the gold one through skill entropy. A malformed response earns 0 for both. A step whose
//! scorer can't judge it is an error of that response, to be counted by the caller, never a silent 0. Nothing here sees
//! a token or a tensor.

pub mod entropy;
pub mod format;
pub mod matcher;
pub mod prompt;
pub mod scorers;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::skill::{Bank, EntropyError, EntropyTable, SkillKey, normalize_name};
use crate::task::{CrossSkillTask, Step};
use entropy::{EntropyForm, SwitchEntropies, entropy_reward};
use format::{Malformed, ResponseStep, SkillLabel, StepCount, parse_response};
use matcher::{EmbedError, SkillMatcher};
use scorers::ScoreError;

/// λ_ans + λ_ent may miss 1 by this much, which is what decimals in a config file can miss it by.
const WEIGHT_SUM_TOLERANCE: f64 = 1e-9;

/// How a response's parts make its reward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RewardConfig {
    /// Weight of r_ans; with `lambda_ent` it makes 1 (paper: 0.7).
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

impl Default for RewardConfig {
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

impl RewardConfig {
    /// Everything that is wrong with these values, one line each.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (field, weight) in [("lambda_ans", self.lambda_ans), ("lambda_ent", self.lambda_ent)] {
            if !(0.0..=1.0).contains(&weight) {
                problems.push(format!("{field} = {weight}: expected a weight from 0 to 1"));
            }
        }
        let sum = self.lambda_ans + self.lambda_ent;
        if problems.is_empty() && (sum - 1.0).abs() > WEIGHT_SUM_TOLERANCE {
            problems.push(format!("lambda_ans + lambda_ent = {sum}: expected 1, so that rewards stay from 0 to 1"));
        }
        if !(self.entropy_scale > 0.0 && self.entropy_scale.is_finite()) {
            problems.push(format!("entropy_scale = {}: expected a positive number", self.entropy_scale));
        }
        problems
    }
}

/// What scoring needs besides the task and the response; built once, shared by all threads.
pub struct RewardContext {
    config: RewardConfig,
    /// None when λ_ent is 0.
    skills: Option<SkillContext>,
}

struct SkillContext {
    matcher: SkillMatcher,
    entropies: SwitchEntropies,
}

impl RewardContext {
    /// The context of λ_ent = 0: no matcher, no table, `lambda_ans` = 1.
    pub fn answer_only(step_count: StepCount) -> Self {
        Self {
            config: RewardConfig { lambda_ans: 1.0, lambda_ent: 0.0, step_count, ..Default::default() },
            skills: None,
        }
    }

    /// The context of a reward with entropy, whose bank is exactly what `table` has measured.
    ///
    /// # Errors
    /// When the config is impossible, or the table lacks a cell for two of its skills.
    pub fn with_table(config: RewardConfig, table: &EntropyTable) -> Result<Self, RewardSetupError> {
        let skills = table.skills();
        Self::with_matcher(config, table, SkillMatcher::exact(Bank::of(skills.iter().cloned())), &skills)
    }

    /// The context of a reward with entropy and a matcher of one's own over the keys `skills`.
    ///
    /// With λ_ent = 0 both are dropped unused.
    ///
    /// # Errors
    /// When the config is impossible, or `table` lacks a cell for two of `skills`.
    pub fn with_matcher(
        config: RewardConfig,
        table: &EntropyTable,
        matcher: SkillMatcher,
        skills: &[SkillKey],
    ) -> Result<Self, RewardSetupError> {
        let problems = config.problems();
        if !problems.is_empty() {
            return Err(RewardSetupError::Config(problems.join("; ")));
        }
        if config.lambda_ent == 0.0 {
            return Ok(Self { config, skills: None });
        }
        let entropies = SwitchEntropies::new(table, skills)?;
        Ok(Self { config, skills: Some(SkillContext { matcher, entropies }) })
    }

    /// The config this context scores by.
    pub fn config(&self) -> &RewardConfig {
        &self.config
    }

    /// That every response to `task` can be scored: each gold answer scores 1 against itself, each gold skill is known.
    ///
    /// # Errors
    /// The first step that can't be scored, and why.
    pub fn check_task(&self, task: &CrossSkillTask) -> Result<(), RewardError> {
        for (index, step) in task.steps.iter().enumerate() {
            let score = scorers::score(step, &step.answer).map_err(|source| RewardError::step(task, index, source))?;
            if score != 1.0 {
                let problem = format!("`{}` scores {score} against itself", step.answer);
                return Err(RewardError::step(task, index, ScoreError::Gold { domain: step.domain, problem }));
            }
        }
        self.gold_entropies(task).map(drop)
    }

    /// The entropies of a task's gold switches; empty when λ_ent is 0.
    fn gold_entropies(&self, task: &CrossSkillTask) -> Result<Vec<f64>, RewardError> {
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
    #[error("reward config: {0}")]
    Config(String),
    /// The table lacks a cell.
    #[error(transparent)]
    Table(#[from] EntropyError),
}

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
    #[error("task `{task}`: the entropy table does not cover the switch from `{from}` to `{to}`")]
    GoldSwitch {
        /// The task's id.
        task: String,
        /// The gold skill before the switch.
        from: String,
        /// The gold skill after it.
        to: String,
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
    let gold = context.gold_entropies(task)?;
    let num_steps = task.steps.len();
    let parsed = match parse_response(response, num_steps, context.config.step_count) {
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
            Some(given) => score_step(step, given).map_err(|source| RewardError::step(task, index, source))?,
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
        entropy_reward(context.config.entropy_form, context.config.entropy_scale, &predicted, &gold)
    });
    let RewardConfig { lambda_ans, lambda_ent, .. } = context.config;
    let total = match entropy {
        Some(entropy) => (lambda_ans * answer + lambda_ent * entropy).min(1.0),
        None if lambda_ent == 0.0 => lambda_ans * answer,
        None => answer,
    };
    Ok(Reward { total, answer, entropy, steps, malformed: None, num_out_of_bank })
}

fn score_step(step: &Step, given: &ResponseStep) -> Result<StepReward, ScoreError> {
    Ok(StepReward {
        score: scorers::score(step, given.answer)?,
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
pub fn score_batch(pairs: &[(&CrossSkillTask, &str)], context: &RewardContext) -> Vec<Result<Reward, RewardError>> {
    pairs.par_iter().map(|(task, response)| score_response(task, response, context)).collect()
}
