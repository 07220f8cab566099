//! Runs the scorers over public graders' own test cases, where a checkout of them stands beside the repository.
//!
//! Each case says what a published grader decides. The thresholds are what the scorers reach today, so that a change
//! that loses cases fails here; the cases they miss are printed.

use std::path::Path;

use serde_json::Value;

use super::Graders;
use super::case::Case;
use super::information_extraction::span;
use super::instruction_following::{Gold, Leniency};
use super::{logic, planning};

/// Expected fractions are printed with six decimals.
const TOLERANCE: f64 = 1e-5;

/// Cases that depend on a grader's own convention, or on one language identifier's guesses.
const UNGATED_TIERS: [&str; 2] = ["policy", "langdetect"];

/// Scores every case of a domain that needs no back end and is outside [`UNGATED_TIERS`]; all its lines.
fn check(domain: &str, least: f64) -> Vec<(Case, Value)> {
    let file = format!("{domain}.open.jsonl");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases").join(&file);
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("NOT RUN: the open cases of {domain} are not at ../shared/cases/{file}");
        return Vec::new();
    };
    let read = |line| (serde_json::from_str(line).expect("a case"), serde_json::from_str(line).expect("JSON"));
    let cases: Vec<(Case, Value)> = text.lines().map(read).collect();
    let (mut agreed, mut total) = (0, 0);
    for (case, _) in cases.iter().filter(|(case, _)| counts(case)) {
        total += 1;
        let verdict = case.score(&Graders::default());
        let expected = case.expected.expect("every case says what is expected");
        if verdict.as_ref().is_ok_and(|score| (score - expected).abs() < TOLERANCE) {
            agreed += 1;
        } else {
            eprintln!("{:?}: {verdict:?}, expected {expected}: {} | {}", case.id, case.gold, case.pred);
        }
    }
    let share = f64::from(agreed) / f64::from(total);
    eprintln!("{domain}: {agreed} of {total} cases agree, {share:.4}");
    assert!(share >= least, "{share} of the {domain} cases agree, expected at least {least}");
    cases
}

fn counts(case: &Case) -> bool {
    let executes = case.kind.as_deref().is_some_and(|kind| kind.starts_with("exec_"));
    !executes && !case.tier.as_deref().is_some_and(|tier| UNGATED_TIERS.contains(&tier))
}

/// The cases that execute code are in `skein-sandbox`, which can.
#[test]
fn coding_outputs_agree_with_published_graders() {
    check("coding", 1.0);
}

#[test]
fn math_agrees_with_published_graders() {
    let cases = check("math", 0.99);
    for (tier, least) in [("core", 0.99), ("better", 0.9)] {
        let scored: Vec<bool> = cases
            .iter()
            .filter(|(case, _)| case.tier.as_deref() == Some(tier))
            .map(|(case, _)| case.score(&Graders::default()).is_ok_and(|score| Some(score) == case.expected))
            .collect();
        let agreed = scored.iter().filter(|agrees| **agrees).count();
        eprintln!("math, tier {tier}: {agreed} of {} cases agree", scored.len());
        assert!(agreed as f64 >= least * scored.len() as f64, "{agreed} of {} {tier} cases", scored.len());
    }
}

#[test]
fn science_agrees_with_published_graders() {
    check("science", 1.0);
}

#[test]
fn information_extraction_agrees_with_published_graders() {
    for (case, line) in check("information_extraction", 1.0) {
        if let (Some(expected), Value::String(gold), Value::String(pred)) =
            (line["expected_f1"].as_f64(), &case.gold, &case.pred)
        {
            let f1 = span::token_f1(pred, gold);
            assert!((f1 - expected).abs() < TOLERANCE, "{:?}: F1 {f1} is not {expected}", case.id);
        }
    }
}

#[test]
fn logic_agrees_with_published_graders() {
    for (case, line) in check("logic", 1.0) {
        if let (Some(expected), Value::String(pred)) = (line["expected_cell_acc"].as_f64(), &case.pred) {
            let accuracy = logic::cell_accuracy(pred, &case.gold.to_string()).expect("a zebra puzzle");
            assert!((accuracy - expected).abs() < TOLERANCE, "{:?}: {accuracy} is not {expected}", case.id);
        }
    }
}

#[test]
fn instruction_following_agrees_with_published_graders() {
    let mut num_languages = [0, 0];
    for (case, line) in check("instruction_following", 1.0) {
        let gold = Gold::parse(&case.gold.to_string()).expect("a known instruction");
        let pred = case.pred.as_str().expect("a text");
        let verdict = |leniency| f64::from(u8::from(gold.is_followed_by(pred, leniency)));
        let agrees = [("expected", Leniency::Strict), ("expected_loose", Leniency::Loose)]
            .into_iter()
            .all(|(field, leniency)| line[field].as_f64().is_none_or(|expected| verdict(leniency) == expected));
        if case.tier.as_deref() == Some("langdetect") {
            num_languages[usize::from(agrees)] += 1;
        } else {
            assert!(agrees, "{:?}: {} strict {}", case.id, case.gold, verdict(Leniency::Strict));
        }
    }
    let [differ, agree] = num_languages;
    eprintln!("instruction_following: of the cases that need langdetect {agree} agree and {differ} differ");
}

#[test]
fn planning_agrees_with_published_graders() {
    for (case, line) in check("planning", 0.99) {
        if let (Some(expected), Value::String(pred)) = (line["expected_meetings"].as_u64(), &case.pred) {
            let found = planning::valid_meetings(pred, &case.gold.to_string(), "").expect("a meeting task");
            assert_eq!(found as u64, expected, "{:?}", case.id);
        }
    }
}
