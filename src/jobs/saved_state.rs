//! What a checkpoint says of its run, and where a run goes on from it.
//!
//! A run goes on where it stood. Only an RL stage that has ended may be taken up again, for more steps, and only where
//! the result is what a run of that length would have come to.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use skein_core::config::{Config, Schedule, Stage};

use super::state::RunState;
use crate::checkpoint::Loaded;
use crate::cli::UsageError;
use crate::optim::AdamWState;

/// What a checkpoint's `trainer/state.json` holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedState {
    pub(super) run: RunState,
    /// Where a stage stood when it ended here, to take it up again for more steps; none in the middle of a stage.
    #[serde(default)]
    pub(super) ended: Option<RunState>,
    pub(super) optimizer_step: i64,
}

impl SavedState {
    /// Where a run of `config` goes on from a checkpoint, and with which moments.
    ///
    /// # Errors
    /// When the checkpoint is not a run's, or its RL stage cannot be as long as `config` wants it.
    pub(super) fn take_up(config: &Config, loaded: Loaded) -> Result<(RunState, Option<AdamWState>)> {
        let Self { run, ended, optimizer_step: step } = serde_json::from_value(loaded.train_state.state)
            .with_context(|| format!("{} holds no state of a run", loaded.dir.display()))?;
        let run = if run.is_asked_for_more(config) { longer(config, &run, ended)? } else { run };
        // A stage that has not begun starts with moments of its own.
        let moments = (run.stage_step > 0).then_some(AdamWState { step, tensors: loaded.train_state.tensors });
        Ok((run, moments))
    }
}

/// The end of the RL stage that is to be longer now; later stages are done again after it.
fn longer(config: &Config, run: &RunState, ended: Option<RunState>) -> Result<RunState, UsageError> {
    let (asked, steps) = (run.rl_asked, config.rl.steps);
    let is_only = |stage: usize| config.stages.iter().take(stage + 1).filter(|&&stage| stage == Stage::Rl).count() == 1;
    let Some(ended) = ended.filter(|ended| config.stages.get(ended.stage) == Some(&Stage::Rl) && is_only(ended.stage))
    else {
        return Err(UsageError(format!(
            "rl.steps is {steps}, but the rl stage has ended after {asked} and a later stage has trained on its weights: \
             it can't be made longer. Use another --out for a longer run"
        )));
    };
    if config.rl.schedule != Schedule::Constant {
        return Err(UsageError(format!(
            "rl.steps is {steps}, but the rl stage has ended after {asked} and its learning rate followed that length: it \
             can't be made longer. Use another --out for a longer run"
        )));
    }
    tracing::info!("the rl stage goes on from its step {} to step {steps}", ended.stage_step);
    Ok(ended)
}
