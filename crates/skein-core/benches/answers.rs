//! How many answers a second the scorers of math, science, information extraction and planning judge on one core.
//!
//! `made` inputs stand here; `open` ones are public graders' test cases, where a checkout of them stands beside the
//! repository. Each iteration judges the whole list once, so criterion's elements per second are answers per second.

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use skein_core::reward::scorers::Graders;
use skein_core::reward::scorers::case::Case;

/// Answers and gold answers of each scored domain.
const MADE: [(&str, &[(&str, &str)]); 4] = [
    (
        "math",
        &[
            ("42", "42"),
            ("The answer is $\\frac{3}{4}$.", "0.75"),
            ("\\boxed{x^2+2x+1}", "(x+1)^2"),
            ("1, 2, 3", "\\{3,2,1\\}"),
            ("[0, \\infty)", "x \\ge 0"),
            ("\\sin^2 x + \\cos^2 x", "1"),
            ("\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}", "\\begin{pmatrix} 1 & 2 \\\\ 3 & 5 \\end{pmatrix}"),
            ("3.141593", "\\pi"),
            ("2\\sqrt{3}", "\\sqrt{12}"),
            ("so 17 apples", "18"),
        ],
    ),
    ("science", &[("(B) because it is heavier", "B"), ("C", "A"), ("The answer is D.", "D"), ("unclear", "A")]),
    (
        "information_extraction",
        &[("1996", "1996"), ("Lake Geneva", "lake geneva"), ("Ada, Bo", "Bo|Ada"), ("3,200", "3200"), ("none", "12")],
    ),
    (
        "planning",
        &[
            ("Here is the proposed time: Monday, 9:30 - 10:00", "Monday, 9:30 - 10:00"),
            (
                "**Day 1-3:** Visit Oslo.\n**Day 3:** Fly from Oslo to Riga.\n**Day 3-6:** Visit Riga.",
                r#"{"type":"trip","cities":["Oslo","Riga"],"durations":[3,4]}"#,
            ),
            (
                "You start at Pier at 9:00AM. You travel to Mint in 10 minutes. You meet Kim for 15 minutes.",
                concat!(
                    r#"{"type":"meeting","golden_meetings":1,"constraints":[["Pier","9:00AM"],"#,
                    r#"["Kim","Mint","9:00AM to 10:00AM",15]],"dist_matrix":{"Pier":{"Mint":10}}}"#,
                ),
            ),
        ],
    ),
];

fn made_cases(domain: &str, pairs: &[(&str, &str)]) -> Vec<Case> {
    let case = |(pred, gold): &(&str, &str)| {
        let line = serde_json::json!({"domain": domain, "pred": pred, "gold": gold, "n_options": 4});
        serde_json::from_value(line).expect("a case")
    };
    pairs.iter().map(case).collect()
}

/// The open cases of a domain, with gold objects as the texts that tasks hold them in.
fn open_cases(domain: &str) -> Vec<Case> {
    let file = format!("{domain}.open.jsonl");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases").join(&file);
    let Ok(text) = std::fs::read_to_string(path) else {
        eprintln!("NOT RUN: the open cases of {domain} are not at ../shared/cases/{file}");
        return Vec::new();
    };
    let cases = text.lines().map(|line| serde_json::from_str(line).expect("a case"));
    cases
        .map(|mut case: Case| {
            // Golds with values to extract are read by the case itself.
            if case.gold.is_object() && domain == "planning" {
                case.gold = serde_json::Value::String(case.gold.to_string());
            }
            case
        })
        .collect()
}

fn answers(criterion: &mut Criterion) {
    for (domain, pairs) in MADE {
        let mut group = criterion.benchmark_group(domain);
        group.sample_size(20).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(2));
        for (name, cases) in [("made", made_cases(domain, pairs)), ("open", open_cases(domain))] {
            if cases.is_empty() {
                continue;
            }
            group.throughput(Throughput::Elements(cases.len() as u64));
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    cases
                        .iter()
                        .filter(|case| black_box(case).score(&Graders::default()).is_ok_and(|score| score > 0.0))
                        .count()
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, answers);
criterion_main!(benches);
