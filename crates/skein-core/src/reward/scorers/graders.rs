//! What scoring may ask besides its own rules: programs that run code, chat models that judge, scorers of the user's.
//!
//! Core defines what it needs of each; others implement it. Every call has a deadline, since what is asked may hang, and
//! a back end that fails costs the answer it was asked about an error and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::coding::runner::RunCode;
use super::is_judged;
use super::judge::{Judged, RubricJudge};
use crate::chat::ChatModel;
use crate::skill::Domain;
use crate::task::Step;

/// Time that one response's graders have together, by default.
const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(60);

/// Judges open answers by their rubric.
pub trait Judge: Send + Sync {
    /// How far an answer meets its rubric, in [0, 1].
    ///
    /// # Errors
    /// Why there is no verdict, as text.
    fn grade(&self, judged: &Judged<'_>, deadline: Instant) -> Result<f64, String>;
}

impl<M: ChatModel + Send + Sync> Judge for RubricJudge<M> {
    fn grade(&self, judged: &Judged<'_>, deadline: Instant) -> Result<f64, String> {
        let verdict = RubricJudge::grade(self, judged, deadline);
        verdict.map(|verdict| verdict.score).map_err(|error| error.to_string())
    }
}

/// A scorer that a user brings for a domain, in place of the one here.
pub trait ExternalScorer: Send + Sync {
    /// The score of `answer` for `step`, in [0, 1].
    ///
    /// # Errors
    /// Why there is no score, as text.
    fn score(&self, step: &Step, answer: &str, deadline: Instant) -> Result<f64, String>;
}

/// The back ends that scoring may ask; a domain whose back end is missing can't be scored.
#[derive(Clone)]
pub struct Graders {
    /// Runs the programs of coding answers.
    pub code: Option<Arc<dyn RunCode>>,
    /// Judges the answers of open-ended domains.
    pub judge: Option<Arc<dyn Judge>>,
    /// Scorers that stand in for the ones here.
    pub external: BTreeMap<Domain, Arc<dyn ExternalScorer>>,
    /// Time that one response's graders have together.
    pub time_limit: Duration,
}

impl Graders {
    /// Whether answers to `step` are the judge's to score: only it can, and no scorer of the user's stands in for it.
    pub fn leave_to_judge(&self, step: &Step) -> bool {
        is_judged(step) && !self.external.contains_key(&step.domain)
    }
}

impl Default for Graders {
    fn default() -> Self {
        Self { code: None, judge: None, external: BTreeMap::new(), time_limit: DEFAULT_TIME_LIMIT }
    }
}
