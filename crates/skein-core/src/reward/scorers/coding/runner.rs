//! What a back end that executes programs must offer; core itself never executes anything.
//!
//! Every judgement that can be made on text or plain values is made in this module's siblings, outside the process that
//! runs the answer. A back end tells the answer's faults ([`Failure`], worth 0) from its own ([`RunError`], counted as
//! errors), and it never trusts what the answer's process says about passing.

use super::value::PlainValue;

/// Runs answers written in Python, each in a fresh process of its own.
pub trait RunCode: Send + Sync {
    /// What `code`, run as a program with `stdin` as its input, writes to its standard output.
    ///
    /// `SystemExit` of any status ends a program normally; any other uncaught exception is a failure.
    ///
    /// # Errors
    /// When the back end fails.
    fn run_program(&self, code: &str, stdin: &str) -> Result<Result<String, Failure>, RunError>;

    /// What `function` of `code` returns; it is a method of `Solution` where the code has a class of that name.
    ///
    /// # Errors
    /// When the back end fails.
    fn call(
        &self,
        code: &str,
        function: &str,
        arguments: &[PlainValue],
    ) -> Result<Result<PlainValue, Failure>, RunError>;

    /// Whether `code` passes assertions that are evaluated where `code` can't reach them.
    ///
    /// # Errors
    /// When the back end fails, or the tests can't be run for any answer.
    fn check_asserts(&self, code: &str, tests: &AssertTests) -> Result<Result<Evidence, Failure>, RunError>;
}

/// Test code that raises unless an answer is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssertTests {
    /// Assertions, or a function `check(candidate)` with or without its call.
    pub code: String,
    /// The name under test, where the source says it.
    pub entry_point: Option<String>,
    /// A right answer; it tells names under test from helpers.
    pub reference: Option<String>,
}

/// What a pass rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// The tests saw plain values from the names under test, and nothing else of the answer's.
    Values,
    /// The tests also relied on the answer's own objects or helpers: how they compare, iterate, index or print. An
    /// answer could lie there.
    Assisted,
}

/// Why an answer is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The answer raised, or its process ended before its time.
    #[error("the answer stopped: {0}")]
    Stopped(String),
    /// A test decided against it.
    #[error("a test failed: {0}")]
    Rejected(String),
    /// It used up its time.
    #[error("the answer ran out of time")]
    TimeLimit,
    /// It wrote more than it may.
    #[error("the answer wrote too much")]
    OutputLimit,
    /// It returned something other than a plain value.
    #[error("the answer returned a live object")]
    NotPlain,
}

/// Why an answer could not be judged. None of these is a wrong answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The back end could not start or broke.
    #[error("running code failed: {0}")]
    Broken(String),
    /// No answer could pass or fail these tests.
    #[error("the tests can't be run: {0}")]
    Tests(String),
}
