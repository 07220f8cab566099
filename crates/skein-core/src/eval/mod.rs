//! What an evaluation says: scores with intervals, beside them how many responses parse, and plain tables.
//!
//! Numbers only: nothing here runs a model or decides what is significant.

mod statistics;
mod summary;
mod table;

pub use statistics::{Cluster, IntervalMethod, MeanEstimate, estimate_mean, mean, paired_difference, variance};
pub use summary::{EvalRecord, EvalSummary, compare, summarize};
pub use table::render_table;
