//! The loops: what a run does from its first stage to its last.
//!
//! Only this module knows an algorithm from end to end. Each stage reads top to bottom in a file of its own; engine,
//! trainer and rewards do not know of each other.

mod advantages;
mod code_runs;
pub mod data;
mod embedder;
mod engine_chat;
pub mod entropy;
pub mod eval;
mod graders;
mod interrupt;
mod judge_calls;
mod loaded;
mod local_chat;
mod logprob_check;
mod mapping;
mod metrics;
mod model_thread;
mod progress;
pub mod rl;
pub mod rollout;
mod run_dir;
mod saved_state;
mod session;
pub mod sft;
mod stage_tasks;
mod state;
mod watch;

use std::path::Path;

use anyhow::Result;
use skein_core::config::{Config, Stage};

pub use code_runs::CodeRuns;
pub use embedder::Embedder;
pub use graders::{GraderCounts, GraderNeeds, build_graders};
pub use interrupt::{EXIT_INTERRUPTED, Interrupt};
pub use judge_calls::JudgeCalls;
pub use loaded::LoadedModel;
pub use local_chat::LocalChat;
pub use progress::{Progress, clock};
pub use run_dir::Resume;
pub use session::Session;
pub use state::{Learned, RunState, StageEnd};

/// Runs the stages of `config` in `out`, from the beginning or from where a resumed run stands. A run that has finished
/// goes on where `rl.steps` now asks for more.
///
/// # Errors
/// What opening the run or a stage reports.
pub fn train(config: Config, out: &Path, resume: &Resume) -> Result<StageEnd> {
    let Some((mut session, mut state)) = Session::open(config, out, resume)? else { return Ok(StageEnd::Finished) };
    while let Some(stage) = session.config.stages.get(state.stage).copied() {
        let end = match stage {
            Stage::Sft => sft::run(&mut session, &mut state)?,
            Stage::Rl => rl::run(&mut session, &mut state)?,
            Stage::Eval => eval::run(&mut session, &state)?,
        };
        if end == StageEnd::Interrupted {
            return Ok(end);
        }
        state.enter_next_stage(&session.config);
    }
    Ok(StageEnd::Finished)
}
