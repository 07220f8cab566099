//! What became of the programs that were run, for metrics: a runner that counts and asks another one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use skein_core::reward::scorers::coding::runner::{AssertTests, Evidence, Failure, RunCode, RunError};
use skein_core::reward::scorers::coding::value::PlainValue;

/// Runs of programs by outcome, since the last look.
#[derive(Debug, Default)]
pub struct CodeRuns {
    counts: [AtomicU64; OUTCOMES.len()],
    microseconds: AtomicU64,
}

/// Names of the counts in metrics, in the order of [`CodeRuns::counts`].
const OUTCOMES: [&str; 9] = [
    "code/ran",
    "code/passed",
    "code/passed_assisted",
    "code/stopped",
    "code/rejected",
    "code/time_limit",
    "code/output_limit",
    "code/not_plain",
    "code/errors",
];

impl CodeRuns {
    /// The counts and the seconds that runs took together, under their names in metrics; counting begins anew. Empty
    /// where nothing was run.
    pub fn take(&self) -> Vec<(&'static str, f64)> {
        let counts = self.counts.each_ref().map(|count| count.swap(0, Ordering::Relaxed));
        let seconds = self.microseconds.swap(0, Ordering::Relaxed) as f64 / 1e6;
        if counts.iter().all(|&count| count == 0) {
            return Vec::new();
        }
        let counts = OUTCOMES.into_iter().zip(counts.map(|count| count as f64));
        counts.chain([("timing_s/code", seconds)]).collect()
    }

    fn count<T>(
        &self,
        started: Instant,
        outcome: &Result<Result<T, Failure>, RunError>,
        passed: impl Fn(&T) -> &'static str,
    ) {
        let name = match outcome {
            Ok(Ok(value)) => passed(value),
            Ok(Err(Failure::Stopped(_))) => "code/stopped",
            Ok(Err(Failure::Rejected(_))) => "code/rejected",
            Ok(Err(Failure::TimeLimit)) => "code/time_limit",
            Ok(Err(Failure::OutputLimit)) => "code/output_limit",
            Ok(Err(Failure::NotPlain)) => "code/not_plain",
            Err(_) => "code/errors",
        };
        let index = OUTCOMES.iter().position(|&known| known == name).expect("every name is listed");
        self.counts[index].fetch_add(1, Ordering::Relaxed);
        self.microseconds.fetch_add(started.elapsed().as_micros() as u64, Ordering::Relaxed);
    }
}

/// A runner whose outcomes are counted.
pub(super) struct Counted<R> {
    pub(super) runner: R,
    pub(super) runs: std::sync::Arc<CodeRuns>,
}

impl<R: RunCode> RunCode for Counted<R> {
    fn run_program(&self, code: &str, stdin: &str) -> Result<Result<String, Failure>, RunError> {
        let started = Instant::now();
        let outcome = self.runner.run_program(code, stdin);
        self.runs.count(started, &outcome, |_| "code/ran");
        outcome
    }

    fn call(
        &self,
        code: &str,
        function: &str,
        arguments: &[PlainValue],
    ) -> Result<Result<PlainValue, Failure>, RunError> {
        let started = Instant::now();
        let outcome = self.runner.call(code, function, arguments);
        self.runs.count(started, &outcome, |_| "code/ran");
        outcome
    }

    fn check_asserts(&self, code: &str, tests: &AssertTests) -> Result<Result<Evidence, Failure>, RunError> {
        let started = Instant::now();
        let outcome = self.runner.check_asserts(code, tests);
        self.runs.count(started, &outcome, |evidence| match evidence {
            Evidence::Values => "code/passed",
            Evidence::Assisted => "code/passed_assisted",
        });
        outcome
    }
}
