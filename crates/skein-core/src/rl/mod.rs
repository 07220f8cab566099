//! From rewards to advantages: the group-relative part of GRPO, and the choice of groups worth training on.
//!
//! Pure arithmetic on scored groups. Nothing here samples, and the loss that uses the advantages is the trainer's.

mod advantage;
mod group;

pub use advantage::{AdvantageNorm, STD_EPSILON, group_advantages};
pub use group::{FilterMetric, FilterOutcome, ScoredGroup, ScoredRollout, filter_groups};
