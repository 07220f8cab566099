//! Public graders' coding cases and the references of real items, where a checkout of them stands beside the repository.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use skein_core::reward::scorers::case::Case;
use skein_core::reward::scorers::coding::Gold;
use skein_core::reward::scorers::{Graders, coding};

use super::{impatient_sandbox, sandbox};

/// References that are run unless all are asked for: every so many of them.
const REFERENCE_STRIDE: usize = 12;
/// Set to run every reference.
const ALL_REFERENCES: &str = "SKEIN_SANDBOX_ALL_REFERENCES";

fn lines(file: &str) -> Vec<Value> {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(file);
    match std::fs::read_to_string(&path) {
        Ok(text) => text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect(),
        Err(_) => {
            eprintln!("NOT RUN: there is no ../shared/{file}");
            Vec::new()
        }
    }
}

#[test]
fn coding_agrees_with_published_graders() {
    let graders = Graders { code: Some(Arc::new(impatient_sandbox())), ..Graders::default() };
    let (mut agreed, mut total) = (0, 0);
    for line in lines("cases/coding.open.jsonl") {
        let case: Case = serde_json::from_value(line).expect("a case");
        total += 1;
        let verdict = case.score(&graders);
        if verdict == Ok(case.expected.expect("every case says what is expected")) {
            agreed += 1;
        } else {
            eprintln!("{:?}: {verdict:?}, expected {:?}: {} | {}", case.id, case.expected, case.gold, case.pred);
        }
    }
    eprintln!("coding: {agreed} of {total} cases agree");
    assert_eq!(agreed, total);
}

#[test]
fn references_pass_their_own_tests() {
    let sandbox = sandbox();
    let stride = if std::env::var_os(ALL_REFERENCES).is_some() { 1 } else { REFERENCE_STRIDE };
    let mut passed = 0;
    for item in lines("data/coding.jsonl").into_iter().step_by(stride) {
        let gold = item["answer"].to_string();
        let parsed = Gold::parse(&gold).unwrap_or_else(|error| panic!("{}: {error}", item["id"]));
        let Some(reference) = parsed.reference() else { continue };
        assert_eq!(coding::score(reference, &gold, Some(&sandbox)), Ok(1.0), "{}", item["id"]);
        passed += 1;
    }
    eprintln!("{passed} references pass their own tests");
}
