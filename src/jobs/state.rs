//! Where a run stands: everything besides weights and moments that a resumed run needs.
//!
//! Random draws are functions of (seed, step, prompt, sample, token), so counters are enough; no generator is saved.

use serde::{Deserialize, Serialize};
use skein_core::config::{Config, Stage};
use skein_core::rl::PromptLedger;

/// Counters of one run, written into every checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunState {
    /// Updates over all stages; names the checkpoints.
    pub step: u64,
    /// Index of the stage in the config's list.
    pub stage: usize,
    /// Updates finished in this stage.
    pub stage_step: u64,
    /// The run's step at which this stage began: the reference model's checkpoint.
    pub stage_start: u64,
    /// Prompts or examples this stage has consumed.
    pub prompts: u64,
    /// Completions sampled for training.
    pub rollouts: u64,
    /// RL updates.
    pub rl_updates: u64,
    /// The `rl.steps` under which an RL stage has ended; 0 before one has.
    #[serde(default)]
    pub rl_asked: u64,
    /// What became of the prompts that the RL stage has drawn.
    #[serde(default)]
    pub ledger: PromptLedger,
    /// The best held-out score of the RL stage so far.
    #[serde(default)]
    pub best_score: Option<f64>,
    /// Steps of the RL stage at its last evaluation.
    #[serde(default)]
    pub evaluated_at: Option<u64>,
    /// Evaluations since that score.
    #[serde(default)]
    pub evaluations_since_best: usize,
    /// Updates skipped since the last good one, for a loss or gradient that was not finite.
    pub skipped_in_a_row: usize,
    /// What the weights last learned from; names evaluations.
    pub learned: Learned,
}

/// The last training the weights went through in this run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Learned {
    /// None yet.
    #[default]
    Nothing,
    /// SFT.
    Sft,
    /// RL.
    Rl,
}

impl RunState {
    /// Moves to the next stage of `config`.
    pub fn enter_next_stage(&mut self, config: &Config) {
        if config.stages.get(self.stage) == Some(&Stage::Rl) {
            self.rl_asked = config.rl.steps as u64;
        }
        self.stage += 1;
        self.stage_step = 0;
        self.stage_start = self.step;
        self.prompts = 0;
        self.ledger = PromptLedger::default();
        self.best_score = None;
        self.evaluated_at = None;
        self.evaluations_since_best = 0;
        self.skipped_in_a_row = 0;
    }

    /// Whether `config` asks an RL stage that has ended for more steps.
    pub fn is_asked_for_more(&self, config: &Config) -> bool {
        self.rl_asked > 0 && config.rl.steps as u64 > self.rl_asked
    }

    /// Notes a held-out score; whether it is the best of the stage.
    pub fn note_score(&mut self, score: f64) -> bool {
        self.evaluated_at = Some(self.stage_step);
        let is_best = self.best_score.is_none_or(|best| score > best);
        if is_best {
            self.best_score = Some(score);
            self.evaluations_since_best = 0;
        } else {
            self.evaluations_since_best += 1;
        }
        is_best
    }

    /// Counts one update, whether it was applied or skipped.
    pub fn count_update(&mut self, learned: Learned) {
        self.step += 1;
        self.stage_step += 1;
        self.learned = learned;
    }
}

/// How a stage ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageEnd {
    /// It did all it was asked to.
    Finished,
    /// Someone asked the run to stop; its checkpoint is written.
    Interrupted,
}
