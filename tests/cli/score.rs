//! `skein score`.

use std::fs;

use serde_json::Value;

use super::{assert_refused, skein};

const CASES: &str = r#"{"id":"a","domain":"math","gold":"\\frac12","pred":"0.5","expected":1,"tier":"core"}
{"id":"b","domain":"math","gold":"2","pred":"3","expected":1,"tier":"core"}
{"domain":"science","gold":"B","pred":"(B)","options":["x","y"]}
{"id":"d","domain":"coding","gold":"","pred":"","expected":1}
"#;

#[test]
fn prints_one_line_a_case_or_a_summary() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cases.jsonl");
    fs::write(&path, CASES).unwrap();
    let path = path.to_str().unwrap();

    let output = skein(&["score", "--cases", path, "--json"]);
    assert_eq!(output.status.code(), Some(1), "one case has no score");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("error: 1 of 4 cases have no score: the gold answer of a coding step"), "{said}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["id"], &lines[0]["score"], &lines[0]["expected"]), (&"a".into(), &1.0.into(), &1.0.into()));
    assert_eq!(lines[1]["score"], 0.0);
    assert_eq!((&lines[2]["id"], &lines[2]["score"]), (&"3".into(), &1.0.into()), "the line stands for the id");
    assert!(lines[3]["score"].is_null() && lines[3]["error"].as_str().unwrap().contains("coding"));

    let output = skein(&["score", "--cases", path]);
    let table: Vec<Vec<String>> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect();
    assert!(
        table.contains(&["math", "–", "core", "2", "0", "0.5000", "1", "2"].map(str::to_owned).to_vec()),
        "{table:?}"
    );
    assert!(table.contains(&["coding", "–", "–", "1", "1", "–", "0", "0"].map(str::to_owned).to_vec()), "{table:?}");

    let scored: Vec<&str> = CASES.lines().take(3).collect();
    fs::write(path, scored.join("\n")).unwrap();
    assert!(skein(&["score", "--cases", path]).status.success());
}

#[test]
fn bad_cases_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cases.jsonl");
    fs::write(&path, "{\"id\":\"a\",\"domain\":\"alchemy\",\"gold\":\"1\",\"pred\":\"1\"}\n").unwrap();
    assert_refused(&["score", "--cases", path.to_str().unwrap()], 2, "cases.jsonl:1: field `domain`");
    assert_refused(&["score", "--cases", "/nowhere/cases.jsonl"], 2, "/nowhere/cases.jsonl");
}
