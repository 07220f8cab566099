//! From a run's config to the back ends that its tasks need, and to none besides.
//!
//! A sandbox is started only where programs are scored, a judge only where a rubric is; what is missing is said before
//! anything is trained.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use skein_core::config::{JudgeConfig, RewardConfig, SandboxConfig};
use skein_core::reward::scorers::judge::{JudgeRules, RubricJudge};
use skein_core::reward::scorers::{DeferredJudge, ExternalScorer, Graders, Judge, is_judged};
use skein_core::skill::Domain;
use skein_core::task::Step;
use skein_io::api::ApiModel;
use skein_io::command_scorer::{CommandScorer, ScoreRequest};
use skein_sandbox::{Limits, Policy, Protection, Sandbox};

use super::code_runs::{CodeRuns, Counted};
use super::judge_calls::{CountedJudge, JudgeCalls};
use super::local_chat::LocalChat;
use crate::cli::UsageError;

/// What the back ends were asked and what came of it.
#[derive(Debug, Clone, Default)]
pub struct GraderCounts {
    /// Programs that were run.
    pub code: Arc<CodeRuns>,
    /// Answers that were judged.
    pub judge: Arc<JudgeCalls>,
}

impl GraderCounts {
    /// All counts since the last look, under their names in metrics; counting begins anew.
    pub fn take(&self) -> Vec<(&'static str, f64)> {
        [self.code.take(), self.judge.take()].concat()
    }
}

/// Which back ends some answers need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GraderNeeds {
    /// Programs are to be run.
    pub code: bool,
    /// Rubrics are to be judged by.
    pub judge: bool,
}

impl GraderNeeds {
    /// What answers to `steps` need, where `config` brings no scorer of the user's for them.
    pub fn of<'a>(config: &RewardConfig, steps: impl Iterator<Item = &'a Step>) -> Self {
        let mut needs = Self::default();
        for step in steps.filter(|step| !config.scorers.contains_key(&step.domain)) {
            needs.code |= step.domain == Domain::Coding;
            needs.judge |= is_judged(step);
        }
        needs
    }
}

/// A judge for the policy to decide as, where `needs` names one and `config` wants the policy.
pub fn policy_judge(config: &RewardConfig, needs: GraderNeeds) -> Option<Arc<DeferredJudge>> {
    let judge = config.judge.as_ref().filter(|judge| needs.judge && judge.policy)?;
    Some(Arc::new(DeferredJudge::new(judge_rules(judge))))
}

/// The back ends that `needs` names, and the scorers that `config` brings.
///
/// What they are asked is counted in `counts`; `policy` comes from [`policy_judge`], and only from whoever has a policy
/// to let decide.
///
/// # Errors
/// When one can't be started.
pub fn build_graders(
    config: &RewardConfig,
    needs: GraderNeeds,
    counts: GraderCounts,
    policy: Option<Arc<DeferredJudge>>,
) -> Result<Graders> {
    let mut graders = Graders { time_limit: Duration::from_secs_f64(config.grader_secs), ..Graders::default() };
    if needs.code {
        graders.code = Some(Arc::new(Counted { runner: start_sandbox(&config.sandbox)?, runs: counts.code }));
    }
    if let Some(judge) = config.judge.as_ref().filter(|_| needs.judge) {
        graders.judge = Some(Arc::new(CountedJudge { judge: build_judge(judge, policy)?, calls: counts.judge }));
    }
    for (&domain, scorer) in &config.scorers {
        let scorer = CommandScorer::new(scorer.clone()).map_err(|error| UsageError(error.to_string()))?;
        graders.external.insert(domain, Arc::new(UsersScorer(scorer)));
    }
    Ok(graders)
}

/// A sandbox with the limits of `config`.
///
/// # Errors
/// When the worker, the interpreter or a protection is missing.
fn start_sandbox(config: &SandboxConfig) -> Result<Sandbox> {
    let protection = |name: &String| {
        let all = [Protection::Landlock, Protection::Namespaces, Protection::ThreadLimit];
        all.into_iter().find(|known| known.to_string().eq_ignore_ascii_case(name)).ok_or_else(|| {
            UsageError(format!(
                "reward.sandbox.allow_missing: `{name}` is none of landlock, namespaces and thread limit"
            ))
        })
    };
    let policy = Policy {
        limits: Limits {
            cpu: Duration::from_secs(config.cpu_secs),
            wall: Duration::from_secs(config.wall_secs),
            memory_bytes: config.memory_mib << 20,
            ..Limits::default()
        },
        python: config.python.clone(),
        worker: None,
        allow_missing: config.allow_missing.iter().map(protection).collect::<Result<_, _>>()?,
    };
    let sandbox = Sandbox::start(&policy).map_err(|error| UsageError(format!("code can't be run: {error}")))?;
    for missing in sandbox.missing() {
        tracing::warn!("code runs without one protection, as reward.sandbox.allow_missing says: {missing}");
    }
    Ok(sandbox)
}

fn build_judge(config: &JudgeConfig, policy: Option<Arc<DeferredJudge>>) -> Result<Arc<dyn Judge>> {
    let rules = judge_rules(config);
    if let Some(api) = &config.api {
        let model = ApiModel::new(api.clone()).map_err(|error| UsageError(format!("reward.judge.api: {error}")))?;
        return Ok(Arc::new(RubricJudge::new(model, rules)));
    }
    if let Some(model) = &config.model {
        return Ok(Arc::new(RubricJudge::new(LocalChat::load(model)?, rules)));
    }
    let no_run = "reward.judge.policy: only a run has a policy that can judge; set api or model instead";
    Ok(policy.ok_or_else(|| UsageError(no_run.into()))?)
}

fn judge_rules(config: &JudgeConfig) -> JudgeRules {
    JudgeRules {
        max_attempts: config.max_attempts,
        temperature: config.temperature,
        max_new_tokens: config.max_new_tokens,
        ..JudgeRules::default()
    }
}

/// A user's command in the place of a domain's scorer.
struct UsersScorer(CommandScorer);

impl ExternalScorer for UsersScorer {
    fn score(&self, step: &Step, answer: &str, deadline: Instant) -> Result<f64, String> {
        let request = ScoreRequest {
            domain: step.domain,
            skill: &step.skill,
            question: step.standalone_question(),
            options: &step.options,
            answer,
            gold: &step.answer,
        };
        self.0.score(request, deadline).map_err(|error| error.to_string())
    }
}
