//! How many answers a second the scorers judge on one core, for each domain whose answers need neither sandbox nor judge.
//!
//! `made` inputs are made here; `open` ones are public graders' test cases, where a checkout of them stands beside the
//! repository. An iteration judges the whole list once, so criterion's elements a second are answers a second.

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};
use skein_core::reward::scorers::Graders;
use skein_core::reward::scorers::case::Case;

/// Answers and gold answers of domains whose cases are short.
const PAIRS: [(&str, &[(&str, &str)]); 4] = [
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

/// A case whose gold object is the text that a task holds it in; values to extract are read by the case itself.
fn case(mut line: Value) -> Case {
    if (line["gold"].is_object() || line["gold"].is_array()) && line["domain"] != "information_extraction" {
        line["gold"] = Value::String(line["gold"].to_string());
    }
    serde_json::from_value(line).expect("a case")
}

fn made_pairs(domain: &str, pairs: &[(&str, &str)]) -> Vec<Case> {
    let line = |(pred, gold): &(&str, &str)| json!({"domain": domain, "pred": pred, "gold": gold, "n_options": 4});
    pairs.iter().map(line).map(case).collect()
}

/// Zebra puzzles of five houses and six attributes in two forms, ARC grids of ten by ten, and an ordering.
fn made_logic() -> Vec<Case> {
    let header = ["House", "Name", "Pet", "Drink", "Color", "Sport", "Flower"];
    let cell = |house: usize, column: usize| format!("{} {house}", header[column].to_lowercase());
    let row = |house: usize| -> Vec<String> {
        (0..header.len()).map(|column| if column == 0 { house.to_string() } else { cell(house, column) }).collect()
    };
    let rows: Vec<Vec<String>> = (1..=5).map(row).collect();
    let house = |row: &Vec<String>| {
        let columns = header.iter().zip(row).skip(1).map(|(&name, cell)| (name.to_owned(), json!(cell)));
        (format!("House {}", row[0]), Value::Object(columns.collect()))
    };
    let solution = Value::Object(rows.iter().map(house).collect());
    let zebra = json!({"type": "zebra_grid", "header": header, "rows": rows});
    let grid: Vec<Vec<usize>> = (0..10).map(|row| (0..10).map(|column| row * column % 10).collect()).collect();
    let grid_answer = format!("The output grid is {}.", json!(grid));
    let answer = format!("By clue 3:\n```json\n{:#}\n```", json!({"reasoning": "clue 1", "solution": solution}));
    let pairs = [
        (zebra.clone(), answer),
        (zebra.clone(), zebra.to_string()),
        (json!({"type": "arc_grid", "grid": grid}), grid_answer),
        (json!(["hawk", "owl", "robin", "crow"]), "owl, hawk, robin, crow".to_owned()),
    ];
    pairs.into_iter().map(|(gold, pred)| case(json!({"domain": "logic", "gold": gold, "pred": pred}))).collect()
}

/// A response of two hundred words against instructions of each kind of work: patterns, counts, sentences, language.
fn made_instruction_following() -> Vec<Case> {
    let sentence =
        "The committee of Dr. Brown met at 5 p.m. to weigh *the long report*, which nobody HAD read before. ";
    let response = format!("<<Minutes>>\n\n{}\n\nP.S. It was late.", sentence.repeat(10));
    let instructions = [
        ("keywords:existence", json!({"keywords": ["committee", "report"]})),
        ("keywords:forbidden_words", json!({"forbidden_words": ["budget"]})),
        ("keywords:letter_frequency", json!({"letter": "e", "let_frequency": 10, "let_relation": "at least"})),
        ("language:response_language", json!({"language": "en"})),
        ("length_constraints:number_sentences", json!({"num_sentences": 5, "relation": "at least"})),
        ("length_constraints:number_words", json!({"num_words": 100, "relation": "at least"})),
        ("change_case:capital_word_frequency", json!({"capital_frequency": 20, "capital_relation": "less than"})),
        ("detectable_format:number_highlighted_sections", json!({"num_highlights": 3})),
        ("detectable_format:title", json!({})),
        ("punctuation:no_comma", json!({})),
    ];
    let line = |(id, kwargs): (&str, Value)| {
        let gold = json!({"instruction_id": id, "kwargs": kwargs});
        case(json!({"domain": "instruction_following", "gold": gold, "pred": response}))
    };
    instructions.into_iter().map(line).collect()
}

fn open_cases(domain: &str) -> Vec<Case> {
    let file = format!("{domain}.open.jsonl");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases").join(&file);
    let Ok(text) = std::fs::read_to_string(path) else {
        eprintln!("NOT RUN: the open cases of {domain} are not at ../shared/cases/{file}");
        return Vec::new();
    };
    text.lines().map(|line| case(serde_json::from_str(line).expect("JSON"))).collect()
}

fn bench_domain(criterion: &mut Criterion, domain: &str, made: Vec<Case>) {
    let mut group = criterion.benchmark_group(domain);
    group.sample_size(20).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(2));
    for (name, cases) in [("made", made), ("open", open_cases(domain))] {
        if cases.is_empty() {
            continue;
        }
        group.throughput(Throughput::Elements(cases.len() as u64));
        let num_right = || {
            cases
                .iter()
                .filter(|case| black_box(case).score(&Graders::default()).is_ok_and(|score| score > 0.0))
                .count()
        };
        group.bench_function(name, |bencher| bencher.iter(num_right));
    }
    group.finish();
}

fn scorers(criterion: &mut Criterion) {
    for (domain, pairs) in PAIRS {
        bench_domain(criterion, domain, made_pairs(domain, pairs));
    }
    bench_domain(criterion, "logic", made_logic());
    bench_domain(criterion, "instruction_following", made_instruction_following());
}

criterion_group!(benches, scorers);
criterion_main!(benches);
