//! Where a stage's tasks come from.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::synth::{Level, Split};

/// The tasks of one stage: `{ file = "…" }` or `{ procedural = { … } }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskSource {
    /// A JSONL file of cross-skill tasks.
    File(PathBuf),
    /// Tasks made when the run starts, from seeded generators.
    Procedural(ProceduralTasks),
}

/// Which generated tasks to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProceduralTasks {
    /// Number of tasks; default 1000.
    pub num_tasks: usize,
    /// Fewest steps of a task; default 2, the fewest that hold a skill switch.
    pub min_steps: usize,
    /// Most steps of a task; default 5.
    pub max_steps: usize,
    /// Seed of the generators; default 0. The same seed and split give the same tasks.
    pub seed: u64,
    /// Side of the content (numbers, tables, entities, wordings) the tasks are made of; default "train".
    pub split: Split,
    /// How large numbers and tables get; default "standard".
    pub level: Level,
}

impl Default for ProceduralTasks {
    fn default() -> Self {
        Self { num_tasks: 1000, min_steps: 2, max_steps: 5, seed: 0, split: Split::Train, level: Level::Standard }
    }
}
