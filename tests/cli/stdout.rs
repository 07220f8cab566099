//! Results that nobody reads, and a stdout that takes none.

use std::fs::{self, OpenOptions};
use std::process::{Command, Output, Stdio};

use super::train::Bench;

/// What shells report of a process ended by SIGPIPE.
const NO_READER: i32 = 141;

fn skein_into(stdout: impl Into<Stdio>, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skein"));
    command.args(args).stdout(stdout).stderr(Stdio::piped());
    command.spawn().expect("the binary was built with the tests").wait_with_output().unwrap()
}

/// Asserts how every command that prints ends where stdout takes nothing.
fn assert_ends(args: &[&str]) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = skein_into(writer, args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(NO_READER), "{args:?}: {said}");
    assert!(!said.contains("error"), "{args:?}: {said}");

    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = skein_into(full, args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
    let errors: Vec<&str> = said.lines().filter(|line| line.contains("error")).collect();
    assert_eq!(errors, ["error: cannot write to stdout: No space left on device (os error 28)"], "{args:?}");
}

#[test]
fn a_stdout_that_takes_nothing_ends_a_command_and_is_no_fault_of_it() {
    let bench = Bench::new();
    let run = bench.out("run");
    bench.train(&run, &["--set", "stages=[\"sft\",\"eval\"]", "--set", "sft.max_steps=1"]);
    let path = |name: &str| bench.out(name).display().to_string();
    let (run, config) = (path("run"), bench.config.display().to_string());
    fs::write(path("cases"), r#"{"domain":"math","gold":"5","pred":"5"}"#).unwrap();
    let step = r#"{"question":"1+1?","answer":"2","domain":"math","skill":"Sums"}"#;
    fs::write(path("tasks"), format!(r#"{{"id":"sum","scenario":"","steps":[{step}]}}"#)).unwrap();
    fs::write(path("responses"), r#"{"id":"sum","response":"2"}"#).unwrap();
    for args in [
        &["config", "show", &config][..],
        &["config", "check", &config],
        &["entropy", "show"],
        &["skills", "match", "math, area_calculation"],
        &["skills", "match", "--json", "math, area_calculation"],
        &["ckpt", "ls", &run],
        &["ckpt", "ls", "--json", &run],
        &["ckpt", "verify", &run],
        &["report", &run],
        &["score", "--cases", &path("cases")],
        &["score", "--json", "--cases", &path("cases")],
        &["reward", "--tasks", &path("tasks"), "--responses", &path("responses")],
        &["generate", "--model", &format!("{run}/latest"), "--prompt", "1+1?", "--max-new", "2"],
        &["bench", "reward", "--domain", "math", "--seconds", "0.05"],
    ] {
        assert_ends(args);
    }
}

#[test]
fn a_stderr_that_takes_nothing_stops_no_command() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.jsonl");
    let status = Command::new(env!("CARGO_BIN_EXE_skein"))
        .args(["synth", "--procedural", "--n", "3", "--out", path.to_str().unwrap()])
        .stderr(OpenOptions::new().write(true).open("/dev/full").unwrap())
        .status()
        .unwrap();
    assert!(status.success() && path.is_file());
}
