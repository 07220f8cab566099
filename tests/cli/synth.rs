//! `skein synth`.

use std::fs;

use skein_core::skill::Domain;
use skein_core::task::read_tasks;

use super::{assert_refused, skein};

#[test]
fn writes_the_same_tasks_for_the_same_seed() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, seed: &str| {
        let path = folder.path().join(name);
        let out = path.to_str().unwrap();
        let args = ["synth", "--procedural", "--n", "40", "--steps", "2..4", "--seed", seed, "--out", out, "--traces"];
        let output = skein(&args);
        let summary = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{summary}");
        assert!(output.stdout.is_empty());
        for expected in ["wrote 40 tasks", "steps per task", "math", "Information Extraction, Rank Interpretation"] {
            assert!(summary.contains(expected), "{summary} lacks {expected}");
        }
        path
    };
    let (first, again, other) = (make("a", "1"), make("b", "1"), make("c", "2"));
    assert_eq!(fs::read(&first).unwrap(), fs::read(&again).unwrap());
    assert_ne!(fs::read(&first).unwrap(), fs::read(&other).unwrap());
    let tasks = read_tasks(&first).unwrap();
    assert_eq!(tasks.len(), 40);
    assert!(tasks.iter().all(|task| (2..=4).contains(&task.steps.len()) && task.trace.is_some()));
}

#[test]
fn single_questions_stand_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("single.jsonl");
    let out = path.to_str().unwrap();
    assert!(
        skein(&["synth", "--procedural", "--n", "60", "--single", "--level", "tiny", "--out", out]).status.success()
    );
    let tasks = read_tasks(&path).unwrap();
    assert!(
        tasks.iter().all(|task| task.steps.len() == 1 && task.steps[0].standalone.is_none() && task.trace.is_none())
    );
    for domain in [Domain::Math, Domain::Science, Domain::InformationExtraction] {
        assert!(tasks.iter().any(|task| task.steps[0].domain == domain));
    }
}

#[test]
fn bad_requests_are_refused_and_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.jsonl");
    fs::write(&path, "old").unwrap();
    let out = path.to_str().unwrap();
    let base = ["synth", "--procedural", "--out", out];
    for (rest, expected) in [
        (&["--n", "3", "--steps", "5..2"][..], "5 is more than 2"),
        (&["--n", "3", "--steps", "0..2"], "at least 1 step"),
        (&["--n", "3", "--steps", "2..99"], "at most 10 steps"),
        (&["--n", "0"], "at least one task"),
        (&["--n", "-4"], "--n"),
        (&["--n", "3", "--single", "--steps", "2..3"], "--single"),
        (&["--n", "3", "--split", "dev"], "unknown split `dev`, expected train or test"),
        (&["--n", "3", "--level", "huge"], "unknown level `huge`, expected tiny or standard"),
    ] {
        assert_refused(&[&base[..], rest].concat(), 2, expected);
    }
    assert_refused(&["synth", "--n", "3", "--out", out], 2, "--procedural");
    let beneath_a_file = path.join("tasks.jsonl");
    let out = beneath_a_file.to_str().unwrap();
    assert_refused(&["synth", "--procedural", "--n", "3", "--out", out], 1, "tasks.jsonl/tasks.jsonl: cannot write");
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
}
