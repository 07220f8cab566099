use std::path::Path;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

const ZEBRA: &str = r#"{"type":"zebra_grid","header":["House","Name"],"rows":[["1","Eric"],["2","Ann"]]}"#;
const GRID: &str = r#"{"type":"arc_grid","grid":[[1,0],[2,3]]}"#;
const ORDERING: &str = r#"["hawk","Snowy Owl"]"#;

fn correct(answer: &str, gold: &str) -> bool {
    score(answer, gold).expect("the gold answer is usable") == 1.0
}

#[test]
fn a_gold_answer_scores_one_against_itself() {
    for gold in [ZEBRA, GRID, ORDERING, "[[1, 0], [2, 3]]", "Gxq", "The cube."] {
        assert!(correct(gold, gold), "{gold}");
    }
}

#[test]
fn answers_of_every_shape() {
    assert!(correct(
        "```json\n{\"solution\": {\"House 1\": {\"Name\": \"eric\"}, \"House 2\": {\"Name\": \"Ann\"}}}\n```",
        ZEBRA
    ));
    assert!(!correct(r#"{"solution": {"House 1": {"Name": "Eric"}}}"#, ZEBRA));
    assert!(correct("<think>[[9]]</think><answer>[[1, 0], [2, 3]]</answer>", GRID) && correct("1 0\n2 3", GRID));
    assert!(!correct("[[1, 0], [2, 3], [0, 0]]", GRID) && !correct("[[1, 0]]", GRID) && !correct("", GRID));
    for answer in ["['Hawk', 'snowy owl']", "hawk, snowy owl", "1. Hawk\n2. Snowy Owl", "- hawk\n- snowy owl"] {
        assert!(correct(answer, ORDERING), "{answer}");
    }
    assert!(!correct("snowy owl, hawk", ORDERING) && !correct("hawk", ORDERING) && !correct("", ORDERING));
    assert!(correct("gxq.", "Gxq") && !correct("gx", "Gxq") && !correct("", "Gxq"));
}

#[test]
fn cells_are_counted_for_zebra_puzzles_only() {
    assert_eq!(cell_accuracy(r#"{"solution": {"House 1": {"Name": "Eric"}}}"#, ZEBRA), Ok(0.5));
    assert!(cell_accuracy("x", GRID).is_err());
}

#[test]
fn guru_wants_answer_tags() {
    let guru = |response: &str, gold: &str| guru_score(response, gold).expect("the gold answer is usable");
    assert_eq!(guru("[[1, 0], [2, 3]]", GRID), 0.0);
    assert_eq!(guru("<answer>[[0]]</answer> no: <answer>\n[[1, 0],\n[2, 3]]</answer>", GRID), 1.0);
    assert_eq!(guru("<answer>1 0\n2 3</answer>", GRID), 0.0);
    assert_eq!(guru("<answer> [Hawk, 'Snowy Owl'] </answer>", ORDERING), 1.0);
    assert_eq!(guru("<answer>hawk, snowy owl</answer>", ORDERING), 0.0);
    assert_eq!(guru("<answer>\n<answer>gXQ </answer>", "Gxq"), 1.0);
    assert_eq!(guru("<answer>the gxq</answer>", "Gxq"), 0.0);
    assert_eq!(guru("<answer>\ngxq\n</answer>", "Gxq"), 0.0);
    assert_eq!(guru("<answer>{'rows': [['1', 'Eric'], ['2', 'ann']]}</answer>", ZEBRA), 0.75);
}

#[test]
fn unusable_golds_are_errors() {
    for gold in [
        "",
        "{}",
        "[]",
        "[[]]",
        "[[1], [2, 3]]",
        "[1, 2]",
        r#"["a", " "]"#,
        r#"["a, b"]"#,
        r#"{"type":"arc_grid","header":["House","Name"],"rows":[["1","Eric"]]}"#,
        r#"{"header":["House"],"rows":[["1"]]}"#,
        r#"{"header":["House","Name"],"rows":[["1"]]}"#,
        r#"{"header":["House","Name"],"rows":[["1",""]]}"#,
    ] {
        assert!(matches!(score("x", gold), Err(ScoreError::Gold { .. })), "{gold}");
        assert!(guru_score("x", gold).is_err(), "{gold}");
    }
}

/// The natural ways to write a gold object of the seed data as an answer.
fn renderings(gold: &Value) -> Vec<String> {
    if gold["type"] == "arc_grid" {
        let line = |row: &Value| row.to_string().replace(['[', ']'], "").replace(',', " ");
        let lines: Vec<String> = gold["grid"].as_array().expect("rows").iter().map(line).collect();
        return vec![gold["grid"].to_string(), format!("Output:\n```\n{}\n```", lines.join("\n"))];
    }
    let cells = |row: &Value| -> Vec<String> {
        row.as_array().expect("cells").iter().map(|cell| cell.as_str().expect("a text").to_owned()).collect()
    };
    let header = cells(&gold["header"]);
    let mut houses = serde_json::Map::new();
    let mut table = format!("| {} |\n|{}\n", header.join(" | "), "---|".repeat(header.len()));
    for row in gold["rows"].as_array().expect("rows") {
        let row = cells(row);
        table += &format!("| {} |\n", row.join(" | "));
        let columns = header.iter().cloned().zip(row.iter().cloned().map(Value::String)).skip(1).collect();
        houses.insert(format!("House {}", row[0]), Value::Object(columns));
    }
    let answer = serde_json::json!({"reasoning": "it's {so}", "solution": houses});
    vec![format!("Here it is:\n{answer:#}"), table, gold.to_string()]
}

#[test]
fn every_gold_of_the_seed_data_scores_one_in_every_form() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/logic.jsonl");
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("NOT RUN: the logic seed data are not at ../shared/data/logic.jsonl");
        return;
    };
    for line in text.lines() {
        let item: Value = serde_json::from_str(line).expect("JSON");
        let gold = item["answer"].to_string();
        for answer in renderings(&item["answer"]) {
            assert!(correct(&answer, &gold), "{}: {answer}", item["id"]);
        }
        let wrong = gold.replace("\"1\",", "\"9\",").replace("[[0", "[[9").replace("[[1", "[[0");
        assert!(wrong == gold || !correct(&wrong, &gold), "{}: {wrong}", item["id"]);
    }
}

proptest! {
    #[test]
    fn never_panics_and_stays_in_range(answer in "(<answer>|</answer>|[\\PC\n]{0,12}|[\\[\\]{}'\",:|0-9 ]{0,12}){0,6}", gold in 0..5usize) {
        let gold = [ZEBRA, GRID, ORDERING, "Gxq", "[[1]]"][gold];
        for score in [score(&answer, gold), guru_score(&answer, gold)] {
            prop_assert!((0.0..=1.0).contains(&score.expect("the gold answer is usable")));
        }
    }

    #[test]
    fn any_gold_is_usable_or_an_error(gold in "[\\[\\]{}\",:a-z0-9 ]{0,24}") {
        let usable = score(&gold, &gold);
        prop_assert!(usable.is_err() || usable == Ok(0.0) || usable == Ok(1.0));
    }

    #[test]
    fn a_grid_matches_itself_and_no_other(cells in proptest::collection::vec(0..10i64, 4), other in 0..4usize) {
        let text = |c: &[i64]| format!("[[{}, {}], [{}, {}]]", c[0], c[1], c[2], c[3]);
        let mut changed = cells.clone();
        changed[other] = (changed[other] + 1) % 10;
        prop_assert!(correct(&text(&cells), &text(&cells)) && !correct(&text(&changed), &text(&cells)));
    }
}
