//! From rewards to advantages: the group-relative part of GRPO, and the choice of groups worth training on.
//!
//! Pure arithmetic on scored groups. Nothing here samples, and the loss that uses the advantages is the trainer's.

mod advantage;
mod group;
mod ledger;
mod shaping;

pub use advantage::{AdvantageNorm, STD_EPSILON, batch_advantages};
pub use group::{FilterMetric, ScoredGroup, ScoredRollout};
pub use ledger::{AcceptedGroup, PromptLedger};
pub use shaping::OverlongPenalty;
