//! `skein reward`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use skein_core::skill::{Cell, Domain, EntropyTable, Reference, SkillKey};

use super::{assert_refused, skein};

/// Files of one task with two steps, four responses to it, and a table that knows its skills.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self { folder: tempfile::tempdir().unwrap() };
        let step = |domain: &str, skill: &str, answer: &str| json!({"question": "?", "answer": answer, "domain": domain, "skill": skill});
        let steps = [step("math", "Sums", "12"), step("information_extraction", "Table Scanning", "Oslo")];
        files.write("tasks", &[json!({"id": "t", "scenario": "", "steps": steps})]);
        let right = "<think>x</think><skill>Math, Sums</skill><answer>12</answer>\
                     <skill>information extraction, table-scanning</skill><answer>oslo</answer>";
        files.write(
            "responses",
            &[
                json!({"id": "t", "response": right}),
                json!({"id": "t", "response": right.replace("Oslo", "Rome").replace("oslo", "rome")}),
                json!({"id": "t", "response": right.replace("Sums", "Magic")}),
                json!({"id": "t", "response": "12, Oslo"}),
            ],
        );
        let mut table = EntropyTable::new(Reference { model: "by hand".into(), command: "none".into() });
        let skills =
            [SkillKey::new(Domain::Math, "Sums"), SkillKey::new(Domain::InformationExtraction, "Table Scanning")];
        for cell in Cell::required(&skills) {
            table.record(cell, 0.5).unwrap();
        }
        fs::write(files.path("table"), table.to_json()).unwrap();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, lines: &[Value]) {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        fs::write(self.path(name), lines.join("\n")).unwrap();
    }

    /// The arguments that every call has, and `more`.
    fn args<'a>(&'a self, paths: &'a [PathBuf; 2], more: &[&'a str]) -> Vec<&'a str> {
        let [tasks, responses] = paths.each_ref().map(|path| text(path));
        ["reward", "--tasks", tasks, "--responses", responses].iter().chain(more).copied().collect()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn lines(stdout: &[u8]) -> Vec<Value> {
    String::from_utf8_lossy(stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn prints_both_rewards_and_every_step() {
    let files = Files::new();
    let (paths, table) = ([files.path("tasks"), files.path("responses")], files.path("table"));
    let output = skein(&files.args(&paths, &["--table", text(&table), "--json"]));
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = lines(&output.stdout);
    let field = |name: &str| lines.iter().map(|line| line[name].as_f64().unwrap()).collect::<Vec<_>>();
    assert_eq!(field("answer"), [1.0, 0.5, 1.0, 0.0]);
    assert_eq!(field("entropy"), [1.0, 1.0, 0.0, 0.0]);
    for (score, expected) in field("score").iter().zip([1.0, 0.65, 0.7, 0.0]) {
        assert!((score - expected).abs() < 1e-12, "{score} is not {expected}");
    }
    assert!(lines.iter().all(|line| line["id"] == "t"));
    assert_eq!(lines[0]["steps"][1]["matched"], "Information Extraction, Table Scanning");
    assert_eq!(lines[1]["steps"][1]["score"], 0.0);
    assert_eq!(lines[2]["steps"][0]["skill_correct"], false);
    assert_eq!(lines[3]["malformed"], "step 1: text where <skill> should open");
}

#[test]
fn without_a_table_for_its_skills_the_score_is_the_answer() {
    let files = Files::new();
    let paths = [files.path("tasks"), files.path("responses")];
    let output = skein(&files.args(&paths, &[]));
    let lines = lines(&output.stdout);
    assert!(lines.iter().all(|line| line["score"] == line["answer"] && line["entropy"].is_null()));
    let summary = String::from_utf8(output.stderr).unwrap();
    assert!(summary.contains("parse rate") && summary.contains("0.750"), "{summary}");
}

#[test]
fn what_cannot_be_scored_is_said_and_not_zero() {
    let files = Files::new();
    let step = |answer: &str, domain: &str| json!({"question": "?", "answer": answer, "domain": domain, "skill": "S"});
    let task = |id: &str, step: Value| json!({"id": id, "scenario": "", "steps": [step]});
    let tasks =
        [task("t", step("x", "coding")), task("u", step("5", "math")), task("v", step("x", "creative_writing"))];
    files.write("tasks", &tasks);
    let response = |id: &str| json!({"id": id, "response": "<skill>S</skill><answer>5</answer>"});
    files.write("responses", &["t", "u", "v", "v"].map(response));
    let paths = [files.path("tasks"), files.path("responses")];
    let output = skein(&files.args(&paths, &["--json"]));
    let lines = lines(&output.stdout);
    let (line, scored) = (&lines[0], &lines[1]);
    assert_eq!((lines.len(), scored["score"].as_f64()), (4, Some(1.0)), "what has a score is printed");
    let said = String::from_utf8_lossy(&output.stderr);
    let expected = "error: 3 of 4 responses have no score: the domain `creative_writing` needs a judge, and none is set up \
                    (reward.judge of a config); the gold answer of a coding step";
    assert!(said.contains(expected), "{said}");
    assert_eq!(output.status.code(), Some(1));
    assert!(line["score"].is_null() && line["error"].as_str().unwrap().contains("the gold answer of a coding step"));
}

#[test]
fn bad_input_is_refused() {
    let files = Files::new();
    let paths = [files.path("tasks"), files.path("responses")];
    assert_refused(&files.args(&paths, &["--entropy-form", "gap"]), 2, "task_gap");
    let table = files.path("table");
    let impossible = ["--table", text(&table), "--lambda-ans", "0", "--lambda-ent", "0"];
    assert_refused(&files.args(&paths, &impossible), 2, "every reward would be 0");
    files.write("responses", &[json!({"id": "u", "response": ""})]);
    assert_refused(&files.args(&paths, &[]), 2, "responses:1: no task in");
    files.write("responses", &[json!({"id": "t"})]);
    assert_refused(&files.args(&paths, &[]), 2, "responses:1: missing field `response`");
    fs::write(files.path("tasks"), "").unwrap();
    assert_refused(&files.args(&paths, &[]), 2, "tasks: ");
}
