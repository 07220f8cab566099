//! The tasks of a run's stages, looked through before any weight is loaded.
//!
//! What can't be trained on or scored is refused here; a skill that nothing knows is only said, since users may bring
//! skills of their own.

use std::path::Path;

use anyhow::Result;
use skein_core::config::{Config, Stage, TaskSource, known_skills};
use skein_core::reward::RewardContext;
use skein_core::reward::format::trace_problem;
use skein_core::task::unknown_skills;

use super::data::TaskSet;
use super::session::{entropy_table, skill_bank};
use crate::cli::UsageError;

/// The tasks of every stage that the config runs, evaluation within RL included.
///
/// # Errors
/// When a file, the table or the bank can't be read.
pub(super) fn stage_tasks(config: &Config) -> Result<Vec<(Stage, TaskSet)>> {
    let known = known_skills(&skill_bank(config)?, Some(&entropy_table(config)?));
    let sources = [(Stage::Sft, &config.sft.tasks), (Stage::Rl, &config.rl.tasks), (Stage::Eval, &config.eval.tasks)];
    let mut stages = Vec::new();
    let mut files: Vec<&Path> = Vec::new();
    for (stage, source) in sources.into_iter().filter(|(stage, _)| config.uses_tasks(*stage)) {
        let Some(source) = source else { continue };
        let set = TaskSet::load(source)?;
        if let TaskSource::File(path) = source
            && !files.contains(&path.as_path())
        {
            for unknown in unknown_skills(set.numbered(), &known) {
                tracing::warn!("{}:{}: {unknown}", path.display(), unknown.line);
            }
            files.push(path);
        }
        stages.push((stage, set));
    }
    Ok(stages)
}

/// That every task of every stage can be used.
///
/// # Errors
/// The first that can't, where it stands, and why.
pub(super) fn check_tasks(stages: &[(Stage, TaskSet)], rewards: &RewardContext) -> Result<(), UsageError> {
    for (stage, set) in stages {
        for (index, task) in set.tasks.iter().enumerate() {
            let problem = match stage {
                Stage::Sft => trace_problem(task),
                Stage::Rl | Stage::Eval => rewards.check_task(task).err().map(|error| error.to_string()),
            };
            if let Some(problem) = problem {
                return Err(set.problem(index, problem));
            }
        }
    }
    Ok(())
}
