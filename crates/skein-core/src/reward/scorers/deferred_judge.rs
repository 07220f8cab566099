//! A judge that hears many answers at once before any of them is scored.
//!
//! It stands between scorers on many threads and a model that can't be asked from them, as the policy can't while it
//! generates: whoever owns the model lets it decide between generation and scoring, and scorers look the verdicts up.
//! How an answer is asked about, asked about again and counted as an error is [`RubricJudge`]'s to say and the same for
//! every model. A verdict is never made on demand: an answer that was not heard is an error.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Judge;
use super::judge::{JudgeRules, Judged, RubricJudge};
use crate::chat::ChatModel;

/// Longer than any run: the model is bounded by the rules, and no clock decides a verdict.
const NO_DEADLINE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Verdicts on the answers that were heard last.
#[derive(Debug)]
pub struct DeferredJudge {
    rules: JudgeRules,
    verdicts: Mutex<HashMap<Heard, Result<f64, String>>>,
}

/// Question, rubric and answer.
type Heard = (String, String, String);

impl DeferredJudge {
    /// A judge that has heard nothing yet.
    pub fn new(rules: JudgeRules) -> Self {
        Self { rules, verdicts: Mutex::default() }
    }

    /// Lets `model` decide on `judged`, asked together and equal ones once; earlier verdicts are forgotten.
    pub fn hear(&self, judged: &[Judged<'_>], model: &dyn ChatModel) {
        let mut known = HashSet::new();
        let distinct: Vec<Judged<'_>> = judged.iter().filter(|judged| known.insert(**judged)).copied().collect();
        let verdicts = RubricJudge::new(model, self.rules).grade_all(&distinct, Instant::now() + NO_DEADLINE);
        let verdicts = verdicts.into_iter().map(|verdict| match verdict {
            Ok(verdict) => Ok(verdict.score),
            Err(error) => Err(error.to_string()),
        });
        let heard = distinct.iter().map(heard).zip(verdicts).collect();
        *self.verdicts.lock().unwrap_or_else(PoisonError::into_inner) = heard;
    }
}

impl Judge for DeferredJudge {
    fn grade(&self, judged: &Judged<'_>, _: Instant) -> Result<f64, String> {
        let verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = verdicts.get(&heard(judged)).cloned();
        verdict.unwrap_or_else(|| Err("the answer is scored before the judge has heard it".to_owned()))
    }
}

fn heard(judged: &Judged<'_>) -> Heard {
    (judged.question.to_owned(), judged.rubric.to_owned(), judged.answer.to_owned())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::super::judge::nonce;
    use super::*;
    use crate::chat::{ChatError, ChatReply, ChatRequest};
    use crate::types::FinishReason;

    const JUDGED: Judged<'_> = Judged { question: "Why?", rubric: "Says why.", answer: "Because." };
    const OTHER: Judged<'_> = Judged { answer: "So.", ..JUDGED };

    /// Gives 7 points to [`JUDGED`] when asked for the second time, and never a verdict on anything else.
    #[derive(Default)]
    struct Slow(RefCell<Vec<usize>>);

    impl ChatModel for Slow {
        fn complete(&self, requests: &[ChatRequest], _: Instant) -> Vec<Result<ChatReply, ChatError>> {
            self.0.borrow_mut().push(requests.len());
            let nonce = nonce(&JUDGED);
            let text = match self.0.borrow().len() {
                1 => "Let me think.".to_owned(),
                _ => format!("<verdict-{nonce}>{{\"points\": 7}}</verdict-{nonce}>"),
            };
            let reply = ChatReply { text, finish_reason: FinishReason::Stop };
            requests.iter().map(|_| Ok(reply.clone())).collect()
        }
    }

    #[test]
    fn equal_answers_are_heard_once_and_retried_within_the_rules() {
        let judge = DeferredJudge::new(JudgeRules::default());
        let model = Slow::default();
        judge.hear(&[JUDGED, OTHER, JUDGED], &model);
        // All together, then both again, then the one that still has no verdict.
        assert_eq!(*model.0.borrow(), [2, 2, 1]);
        // A deadline that has passed decides nothing.
        let now = Instant::now();
        assert_eq!(judge.grade(&JUDGED, now), Ok(0.7));
        let error = judge.grade(&OTHER, now).unwrap_err();
        assert!(error.contains("no verdict in 3 replies"), "{error}");
    }

    #[test]
    fn what_was_not_heard_last_is_an_error() {
        let judge = DeferredJudge::new(JudgeRules::default());
        let unheard = |judged: &Judged<'_>| judge.grade(judged, Instant::now()).unwrap_err();
        assert!(unheard(&JUDGED).contains("has heard"), "{}", unheard(&JUDGED));
        judge.hear(&[JUDGED], &Slow::default());
        judge.hear(&[OTHER], &Slow::default());
        assert!(unheard(&JUDGED).contains("has heard"), "{}", unheard(&JUDGED));
    }
}
