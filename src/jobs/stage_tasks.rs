//! The tasks of a run's stages, looked through before any weight is loaded.
//!
//! What can't be trained on or scored is refused here; a skill that nothing knows is only said, since users may bring
//! skills of their own.

use std::path::Path;

use anyhow::Result;
use skein_core::config::{Config, Stage, TaskSource, known_skills};
use skein_core::reward::RewardContext;
use skein_core::reward::format::{StepCount, parse_response};
use skein_core::task::{CrossSkillTask, unknown_skills};

use super::data::load_numbered_tasks;
use super::session::{entropy_table, skill_bank};
use crate::cli::UsageError;

/// The tasks of every stage that the config runs, evaluation within RL included.
///
/// # Errors
/// When a file, the table or the bank can't be read.
pub(super) fn stage_tasks(config: &Config) -> Result<Vec<(Stage, Vec<CrossSkillTask>)>> {
    let known = known_skills(&skill_bank(config)?, Some(&entropy_table(config)?));
    let sources = [(Stage::Sft, &config.sft.tasks), (Stage::Rl, &config.rl.tasks), (Stage::Eval, &config.eval.tasks)];
    let mut stages = Vec::new();
    let mut files: Vec<&Path> = Vec::new();
    for (stage, source) in sources.into_iter().filter(|(stage, _)| config.uses_tasks(*stage)) {
        let Some(source) = source else { continue };
        let numbered = load_numbered_tasks(source)?;
        if let TaskSource::File(path) = source
            && !files.contains(&path.as_path())
        {
            for unknown in unknown_skills(numbered.iter().map(|(line, task)| (*line, task)), &known) {
                tracing::warn!("{}:{}: {unknown}", path.display(), unknown.line);
            }
            files.push(path);
        }
        stages.push((stage, numbered.into_iter().map(|(_, task)| task).collect()));
    }
    Ok(stages)
}

/// That every task of every stage can be used.
///
/// # Errors
/// The first that can't, and why.
pub(super) fn check_tasks(tasks: &[(Stage, Vec<CrossSkillTask>)], rewards: &RewardContext) -> Result<()> {
    for (stage, task) in tasks.iter().flat_map(|(stage, tasks)| tasks.iter().map(move |task| (stage, task))) {
        let problem = match stage {
            Stage::Sft => trace_problem(task),
            Stage::Rl | Stage::Eval => rewards.check_task(task).err().map(|error| error.to_string()),
        };
        if let Some(problem) = problem {
            return Err(UsageError(problem).into());
        }
    }
    Ok(())
}

/// Why a task can't be imitated: no trace, or one that would earn nothing.
fn trace_problem(task: &CrossSkillTask) -> Option<String> {
    let Some(trace) = &task.trace else {
        return Some(format!("task `{}` has no trace to imitate; SFT needs one in every task", task.id));
    };
    let malformed = parse_response(trace, task.steps.len(), StepCount::Strict).err()?;
    Some(format!("task `{}`: its trace does not keep the response format: {malformed}", task.id))
}
