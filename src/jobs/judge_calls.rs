//! What became of the answers that a judge was asked about, for metrics: a judge that counts and asks another one.
//!
//! Answers are counted, not responses: a response has as many as it has judged steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use skein_core::reward::scorers::Judge;
use skein_core::reward::scorers::judge::Judged;

/// Answers that a judge was asked about since the last look.
#[derive(Debug, Default)]
pub struct JudgeCalls {
    verdicts: AtomicU64,
    errors: AtomicU64,
    microseconds: AtomicU64,
}

impl JudgeCalls {
    /// How many got a verdict and how many none, and the seconds that this took together, under their names in metrics;
    /// counting begins anew. Empty where no judge was asked.
    pub fn take(&self) -> Vec<(&'static str, f64)> {
        let [verdicts, errors, microseconds] =
            [&self.verdicts, &self.errors, &self.microseconds].map(|count| count.swap(0, Ordering::Relaxed) as f64);
        if verdicts + errors == 0.0 {
            return Vec::new();
        }
        vec![("judge/verdicts", verdicts), ("judge/errors", errors), ("timing_s/judge", microseconds / 1e6)]
    }

    /// Adds time that a judge took elsewhere, as the policy does for many answers at once.
    pub fn add_time(&self, time: Duration) {
        self.microseconds.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
    }
}

/// A judge whose verdicts are counted.
pub(super) struct CountedJudge {
    pub(super) judge: Arc<dyn Judge>,
    pub(super) calls: Arc<JudgeCalls>,
}

impl Judge for CountedJudge {
    fn grade(&self, judged: &Judged<'_>, deadline: Instant) -> Result<f64, String> {
        let started = Instant::now();
        let verdict = self.judge.grade(judged, deadline);
        let count = if verdict.is_ok() { &self.calls.verdicts } else { &self.calls.errors };
        count.fetch_add(1, Ordering::Relaxed);
        self.calls.add_time(started.elapsed());
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has a verdict on every answer but the empty one, and takes its time.
    struct Slow;

    const PAUSE: Duration = Duration::from_millis(20);

    impl Judge for Slow {
        fn grade(&self, judged: &Judged<'_>, _: Instant) -> Result<f64, String> {
            std::thread::sleep(PAUSE);
            if judged.answer.is_empty() { Err("no answer".to_owned()) } else { Ok(0.5) }
        }
    }

    #[test]
    fn verdicts_and_failures_are_counted_each_and_timed() {
        let calls: Arc<JudgeCalls> = Arc::default();
        let judge = CountedJudge { judge: Arc::new(Slow), calls: calls.clone() };
        assert!(calls.take().is_empty());
        for answer in ["a", "", "b"] {
            let verdict = judge.grade(&Judged { question: "?", rubric: "!", answer }, Instant::now());
            assert_eq!(verdict.is_ok(), !answer.is_empty());
        }
        calls.add_time(PAUSE);
        let taken = calls.take();
        assert_eq!(taken[..2], [("judge/verdicts", 2.0), ("judge/errors", 1.0)]);
        assert!(taken[2].0 == "timing_s/judge" && taken[2].1 >= 4.0 * PAUSE.as_secs_f64(), "{taken:?}");
        assert!(calls.take().is_empty(), "counting begins anew");
    }
}
