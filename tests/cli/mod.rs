//! The binary as people run it: exit codes, messages, files.

mod bench;
mod config;
mod files;
mod generate;
mod policy_judge;
mod resume;
mod reward;
mod score;
mod skills;
mod stdout;
mod synth;
mod train;

use std::process::{Command, Output};

/// What `skein` does with `args`.
fn skein(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skein")).args(args).output().expect("the binary was built with the tests")
}

/// Asserts that `skein` with `args` ends with `code` and says `expected` on stderr.
fn assert_refused(args: &[&str], code: i32, expected: &str) {
    let output = skein(args);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
    assert!(message.contains(expected), "{args:?}: {message} lacks {expected}");
}
