//! What a run is told: one TOML file, read into plain structs, complete before anything expensive starts.
//!
//! [`Config::load`] reads a file, the files it includes and the `--set` overrides, fills in the defaults and reports
//! every problem at once, each with its file, line and key. Nothing here loads a model: a path is looked at for
//! existence and no further, but for [`Config::check`], which reads the files of text it names. Paths are relative to
//! the directory `skein` is started in; only `include` is relative to the file that holds it.
//!
//! A field's default is the paper's hyperparameter (arXiv:2608.05139) where the paper gives one.

use std::path::Path;

use serde::{Deserialize, Serialize};

mod api;
mod checkpoint;
mod command_scorer;
mod contents;
mod decode;
mod eval;
mod graders;
mod load;
mod logging;
mod model;
mod problem;
mod prompt;
mod reward;
mod rl;
mod rollout;
mod sft;
mod tasks;
mod validate;

pub use api::ApiConfig;
pub use checkpoint::CheckpointConfig;
pub use command_scorer::CommandScorerConfig;
pub use contents::known_skills;
pub use eval::EvalConfig;
pub use graders::{JudgeConfig, SandboxConfig};
pub use logging::LoggingConfig;
pub use model::{Dtype, ModelConfig, ScratchConfig};
pub use problem::{Checked, ConfigError, Problem};
pub use prompt::PromptConfig;
pub use reward::RewardConfig;
pub use rl::{AtBound, Importance, KlEstimator, KlPlacement, LevelWeights, LossAggregation, RlConfig};
pub use rollout::RolloutConfig;
pub use sft::{Schedule, SftConfig};
pub use tasks::{ProceduralTasks, TaskSource};
pub use validate::is_hub_id;

/// One part of a run; stages run in the order the config lists them and may repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Supervised warm-up on traces.
    Sft,
    /// GRPO with the skill-entropy reward.
    Rl,
    /// Scoring on held-out tasks.
    Eval,
}

/// Everything a run is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The run's name, shown in reports; default "run".
    pub name: String,
    /// Seed of every random stream; default 0.
    pub seed: u64,
    /// The stages in order, such as `["eval", "sft", "eval", "rl", "eval"]`; default SFT then RL, as in the paper.
    pub stages: Vec<Stage>,
    /// The policy's weights.
    pub model: ModelConfig,
    /// How a task becomes a prompt.
    pub prompt: PromptConfig,
    /// Supervised warm-up.
    pub sft: SftConfig,
    /// Reinforcement learning.
    pub rl: RlConfig,
    /// Held-out evaluation.
    pub eval: EvalConfig,
    /// The reward of RL and the scores of evaluation.
    pub reward: RewardConfig,
    /// The generation engine.
    pub rollout: RolloutConfig,
    /// What is saved.
    pub checkpoint: CheckpointConfig,
    /// What is written down while training.
    pub logging: LoggingConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "run".into(),
            seed: 0,
            stages: vec![Stage::Sft, Stage::Rl],
            model: ModelConfig::default(),
            prompt: PromptConfig::default(),
            sft: SftConfig::default(),
            rl: RlConfig::default(),
            eval: EvalConfig::default(),
            reward: RewardConfig::default(),
            rollout: RolloutConfig::default(),
            checkpoint: CheckpointConfig::default(),
            logging: LoggingConfig::default(),
        }
    }
}

impl Config {
    /// The config in `path` with its includes, then `overrides` (`a.b=value`, later ones win), complete and valid.
    ///
    /// # Errors
    /// [`ConfigError`] lists every problem found: unreadable or cyclic includes, syntax, unknown keys, wrong types,
    /// impossible combinations, files that are not there.
    pub fn load(path: &Path, overrides: &[String]) -> Result<Self, ConfigError> {
        load::load(path, overrides)
    }

    /// Everything that [`Config::load`] would report, and what is wrong or doubtful in the task files, tables, banks and
    /// commands that the config names.
    pub fn check(path: &Path, overrides: &[String]) -> Checked {
        load::check(path, overrides)
    }

    /// Whether a run reads the tasks of `stage`'s section: the stage is listed, or RL evaluates on the way.
    pub fn uses_tasks(&self, stage: Stage) -> bool {
        let evaluates_in_rl = stage == Stage::Eval && self.stages.contains(&Stage::Rl) && self.rl.eval_every > 0;
        self.stages.contains(&stage) || evaluates_in_rl
    }

    /// The whole config as TOML, defaults included; [`Config::load`] reads it back to the same value.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("every section is a TOML table of plain values")
    }
}
