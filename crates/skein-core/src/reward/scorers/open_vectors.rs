//! Runs the scorers over public graders' own test cases, where a checkout of them stands beside the repository.
//!
//! Each case says what a published grader decides. The thresholds are what the scorers reach today, so that a change
//! that loses cases fails here; the cases they miss are printed.

use std::path::Path;

use serde_json::Value;

use super::{information_extraction, math, science};

/// What became of one case: the score, or why there is none.
type Verdict = Result<f64, String>;

/// Scores every case of a domain that does not depend on a grader's own convention and checks the share that agrees.
fn check(domain: &str, least: f64, judge: impl Fn(&Value) -> Verdict) {
    let file = format!("{domain}.open.jsonl");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases").join(&file);
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("NOT RUN: the open cases of {domain} are not at ../shared/cases/{file}");
        return;
    };
    let (mut agreed, mut total) = (0, 0);
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).expect("the case file is JSONL");
        if case["tier"] == "policy" {
            continue;
        }
        total += 1;
        let verdict = judge(&case);
        let expected = case["expected"].as_f64().expect("every case says what is expected");
        // Expected fractions are printed with six decimals.
        if verdict.as_ref().is_ok_and(|score| (score - expected).abs() < 1e-5) {
            agreed += 1;
        } else {
            eprintln!("{}: {verdict:?}, expected {expected}: {} | {}", case["id"], case["gold"], case["pred"]);
        }
    }
    let share = f64::from(agreed) / f64::from(total);
    eprintln!("{domain}: {agreed} of {total} cases agree, {share:.4}");
    assert!(share >= least, "{share} of the {domain} cases agree, expected at least {least}");
}

fn text<'a>(case: &'a Value, field: &str) -> &'a str {
    case[field].as_str().unwrap_or_else(|| panic!("`{field}` is a string in {}", case["id"]))
}

fn strings(value: &Value) -> Vec<String> {
    let items = value.as_array().map_or(&[][..], Vec::as_slice);
    items.iter().map(|item| item.as_str().expect("a list of strings").to_owned()).collect()
}

#[test]
fn science_agrees_with_published_graders() {
    check("science", 0.99, |case| {
        let mut options = strings(&case["options"]);
        if options.is_empty() {
            // Letters alone: the case says how many there are.
            options = (0..case["n_options"].as_u64().expect("a count")).map(|i| format!("<option {i}>")).collect();
        }
        science::score(text(case, "pred"), text(case, "gold"), &options).map_err(|error| error.to_string())
    });
}

#[test]
fn information_extraction_agrees_with_published_graders() {
    use information_extraction::{span, values};
    check("information_extraction", 0.99, |case| match text(case, "kind") {
        "wtq" => {
            let gold = &case["gold"];
            let gold = values::targets(&strings(&gold["target"]), &strings(&gold["canon"]));
            Ok(super::as_score(values::denote_same(&gold, &strings(&case["pred"]))))
        }
        "token_f1" => Ok(span::token_f1(super::final_text(text(case, "pred")), text(case, "gold"))),
        "websrc" => {
            let f1 = span::token_f1(text(case, "pred"), text(case, "gold"));
            let expected = case["expected_f1"].as_f64().expect("an F1");
            if (f1 - expected).abs() > 1e-5 {
                return Err(format!("F1 {f1} is not {expected}"));
            }
            information_extraction::score(text(case, "pred"), text(case, "gold")).map_err(|error| error.to_string())
        }
        _ => information_extraction::score(text(case, "pred"), text(case, "gold")).map_err(|error| error.to_string()),
    });
}

#[test]
fn math_agrees_with_published_graders() {
    check("math", 0.0, |case| math::score(text(case, "pred"), text(case, "gold")).map_err(|error| error.to_string()));
}
