//! The parsers under test, each with the pieces its inputs are made of.
//!
//! A new parser of untrusted text gets one entry in [`ALL`]. A target panics when its parser breaks a promise that
//! holds for every input; it never checks what a particular input is worth, which is what the unit tests are for.

mod programs;

use std::path::Path;

use serde::Deserialize;
use skein_core::jsonl::parse_jsonl;
use skein_core::reward::format::{StepCount, parse_response};
use skein_core::reward::scorers::case::Case;
use skein_core::reward::scorers::information_extraction::{self, span, values};
use skein_core::reward::scorers::{Graders, ScoreError, math, science};
use skein_core::skill::{Bank, EntropyTable};
use skein_core::task::parse_tasks;

use crate::generator::{Grammar, SEPARATOR};

/// A parser, and what to feed it.
pub struct Target {
    /// Names it on the command line and in findings.
    pub name: &'static str,
    /// What its inputs are made of.
    pub grammar: &'static Grammar,
    /// Texts in an input, divided by [`SEPARATOR`].
    pub num_texts: usize,
    /// Hands it an input; panics when a promise is broken.
    pub run: fn(&[u8]),
}

/// Every target.
pub const ALL: &[Target] = &[
    Target { name: "response", grammar: &RESPONSE, num_texts: 1, run: response },
    Target { name: "math", grammar: &MATH, num_texts: 2, run: math },
    Target { name: "math_numbers", grammar: &MATH, num_texts: 2, run: math_numbers },
    Target { name: "science", grammar: &SCIENCE, num_texts: 2, run: science },
    Target { name: "information_extraction", grammar: &VALUES, num_texts: 2, run: information_extraction },
    Target { name: "logic", grammar: &programs::LOGIC, num_texts: 2, run: programs::logic },
    Target { name: "planning", grammar: &programs::PLANNING, num_texts: 3, run: programs::planning },
    Target {
        name: "instruction_following",
        grammar: &programs::INSTRUCTION,
        num_texts: 2,
        run: programs::instruction_following,
    },
    Target { name: "coding", grammar: &programs::CODING, num_texts: 2, run: programs::coding },
    Target { name: "jsonl_tasks", grammar: &TASKS, num_texts: 1, run: jsonl_tasks },
    Target { name: "jsonl_cases", grammar: &CASES, num_texts: 1, run: jsonl_cases },
    Target { name: "jsonl_responses", grammar: &RESPONSES, num_texts: 1, run: jsonl_responses },
    Target { name: "entropy_table", grammar: &TABLE, num_texts: 1, run: entropy_table },
    Target { name: "skill_bank", grammar: &BANK, num_texts: 1, run: skill_bank },
];

/// The two texts of an input; a second one that is missing is empty.
fn two(bytes: &[u8]) -> (String, String) {
    let text = String::from_utf8_lossy(bytes);
    let (first, second) = text.split_once(SEPARATOR).unwrap_or((&text, ""));
    (first.to_owned(), second.to_owned())
}

fn check_score(score: Result<f64, ScoreError>) {
    if let Ok(score) = score {
        assert!((0.0..=1.0).contains(&score), "the score {score} is not in [0, 1]");
    }
}

fn response(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for rule in [StepCount::Strict, StepCount::Lenient] {
        match parse_response(&text, 2, rule) {
            Ok(parsed) => {
                assert!(!parsed.steps.is_empty(), "a response without steps was taken");
                assert!(rule == StepCount::Lenient || parsed.steps.len() == 2, "the steps were not counted");
                for step in &parsed.steps {
                    assert_eq!(step.answer, step.answer.trim(), "an answer is not trimmed");
                    assert!(!step.answer.contains("</answer>"), "an answer holds its own end");
                }
            }
            Err(reason) => assert!(!reason.to_string().is_empty(), "a reason says nothing"),
        }
    }
}

fn math(bytes: &[u8]) {
    let (gold, answer) = two(bytes);
    check_score(math::score(&answer, &gold));
}

fn math_numbers(bytes: &[u8]) {
    let (a, b) = two(bytes);
    if let (Some(a), Some(b)) = (math::Number::read(&a), math::Number::read(&b)) {
        let (there, back) = (a == b, b == a);
        assert_eq!(there, back, "equality has no direction");
    }
}

fn science(bytes: &[u8]) {
    let (options, answer) = two(bytes);
    let options: Vec<String> = options.split('|').take(26).map(str::to_owned).collect();
    if let Some(index) = science::choice(&answer, options.len(), &options) {
        assert!(index < options.len(), "option {index} of {}", options.len());
    }
    check_score(science::score(&answer, "A", &options));
    check_score(science::score(&answer, &options[0], &[]));
}

fn information_extraction(bytes: &[u8]) {
    let (gold, answer) = two(bytes);
    check_score(information_extraction::score(&answer, &gold));
    let f1 = span::token_f1(&answer, &gold);
    assert!((0.0..=1.0).contains(&f1), "the F1 {f1} is not in [0, 1]");
    let items = [gold, answer];
    values::denote_same(&values::targets(&items, &items), &items);
}

fn says_something<T>(outcome: Result<T, impl std::fmt::Display>) -> Option<T> {
    outcome.map_err(|error| assert!(!error.to_string().is_empty(), "an error says nothing")).ok()
}

fn jsonl_tasks(bytes: &[u8]) {
    if let Some(tasks) = says_something(parse_tasks(bytes, Path::new("tasks.jsonl"))) {
        assert!(tasks.iter().all(|task| !task.steps.is_empty()), "a task without steps was taken");
    }
}

fn jsonl_cases(bytes: &[u8]) {
    for (_, case) in says_something(parse_jsonl::<Case>(bytes, Path::new("cases.jsonl"))).unwrap_or_default() {
        if let Some(score) = says_something(case.score(&Graders::default())) {
            check_score(Ok(score));
        }
    }
}

/// A line of a file of responses, as the commands that score one read it.
#[derive(Deserialize)]
struct Response {
    #[serde(rename = "id")]
    _id: String,
    #[serde(rename = "response")]
    _response: String,
}

fn jsonl_responses(bytes: &[u8]) {
    says_something(parse_jsonl::<Response>(bytes, Path::new("responses.jsonl")));
}

fn entropy_table(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(table) = says_something(EntropyTable::parse(&text, Path::new("table.json"))) {
        let again = EntropyTable::parse(&table.to_json(), Path::new("again.json"));
        assert!(again.is_ok(), "a table does not read back: {:?}", again.err());
    }
}

fn skill_bank(bytes: &[u8]) {
    says_something(Bank::parse(&String::from_utf8_lossy(bytes), Path::new("skills.toml")));
}

static RESPONSE: Grammar = Grammar {
    tokens: &[
        "<think>",
        "</think>",
        "<skill>",
        "</skill>",
        "<answer>",
        "</answer>",
        "<skill >",
        "<Skill>",
        "< answer>",
        "Math",
        ", ",
        "Sums",
        "science, Units",
        " ",
        "\n",
        "12",
        "a",
        "<",
        ">",
        "</",
        "<skill>Math, Sums</skill>",
        "<answer>5</answer>",
        "<skill>a</skill><answer>b</answer>",
    ],
    seeds: &[
        "<think>so</think><skill>Math, Sums</skill><answer>12</answer><skill>science,units</skill><answer>B</answer>",
        "<skill>Math, Sums</skill>\n<answer>1 < 2</answer>\n<skill>x</skill> <answer></answer>",
        "because</think> <skill>Math, Sums</skill><answer>12</answer>",
    ],
};

static MATH: Grammar = Grammar {
    tokens: &[
        "\\frac",
        "\\dfrac",
        "\\sqrt",
        "\\sqrt[3]",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "|",
        "^",
        "_",
        "^{",
        "_{",
        "1",
        "2",
        "10",
        "x",
        "y",
        "n",
        "a",
        "+",
        "-",
        "*",
        "/",
        "\\cdot",
        "\\times",
        "\\div",
        "\\pm",
        "\\mp",
        ",",
        ";",
        ":",
        "=",
        "<",
        ">",
        "\\le",
        "\\ge",
        "\\ne",
        "\\neq",
        "\\in",
        "\\cup",
        "\\cap",
        "\\setminus",
        "\\emptyset",
        "\\infty",
        "\\pi",
        "e",
        "i",
        "%",
        "\\%",
        "!",
        "$",
        "$$",
        "\\(",
        "\\)",
        "\\[",
        "\\]",
        "\\{",
        "\\}",
        "\\left",
        "\\right",
        "\\text{",
        "\\text{ and }",
        "\\mathrm{",
        "\\mathbb{R}",
        "\\boxed{",
        "\\fbox{",
        "\\binom",
        "\\log",
        "\\log_2",
        "\\ln",
        "\\exp",
        "\\sin",
        "\\cos^2",
        "\\arctan",
        "\\sinh",
        "\\sum_{i=1}^{5}",
        "\\prod",
        "\\int",
        "\\lim",
        "\\gcd",
        "\\max",
        "\\lfloor",
        "\\rfloor",
        "\\lceil",
        "\\rceil",
        "\\lvert",
        "\\rvert",
        "\\bmod",
        "\\pmod{7}",
        "\\begin{pmatrix}",
        "\\end{pmatrix}",
        "\\begin{array}{cc}",
        "\\end{array}",
        "&",
        "\\\\",
        "\\overline{",
        "^\\circ",
        "\\circ",
        "\\ldots",
        "...",
        "\\langle",
        "\\rangle",
        "\\alpha",
        "\\to",
        "\\mapsto",
        "\\approx",
        "\\,",
        "\\!",
        "\\;",
        "\\ ",
        " ",
        " and ",
        " or ",
        "cm",
        "degrees",
        "dollars",
        "percent",
        "0.5",
        ".5",
        "1,234",
        "1{,}234",
        "3\\frac12",
        "final answer is ",
        "answer: ",
        "sqrt(",
        "**",
        "2^{2^{2^{49}}}",
        "\\binom{1000000}{500000}",
        "100000!",
        "'",
        "f(x)=",
        "\\operatorname{",
        "\\displaystyle",
        "101_2",
    ],
    seeds: &[
        "\\frac{1}{2}",
        "x^2+2x+1",
        "(-\\infty,-8)\\cup(8,\\infty)",
        "\\{1,2,3\\}",
        "1 \\pm \\sqrt 2",
        "\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}",
        "The answer is $\\boxed{\\frac{3}{4}}$.",
        "x=1,y=2",
        "1 \\le |z| \\le 2",
        "\\sin^2 x+\\cos^2 x",
        "3.14159",
        "1,234,567.8",
        "50\\%",
        "3 1/3",
        "\\log_2 8",
        "n!/(n-1)!",
        "\\binom{10}{3}",
        "z \\in [-2,-1] \\cup [1,2]",
        "-34x-45y+20z-100=0",
        "\\sum_{k=1}^{10} k^2",
        "0.\\overline{3}",
        "\\lfloor 3.7 \\rfloor",
        "final answer is $5$. I hope it is correct.",
        "\\frac{\\sqrt{3}+1}{2} \\text{ cm}",
        "e^{i\\pi}+1",
        "\\sqrt[3]{27}",
        "12:30",
        "(1;2)",
        "2x=4",
    ],
};

static SCIENCE: Grammar = Grammar {
    tokens: &[
        "A",
        "B",
        "C",
        "J",
        "a",
        "I",
        "(A)",
        "(B)",
        "[C]",
        "**B**",
        "A.",
        "B)",
        "The answer is ",
        "answer: ",
        "Answer:",
        "option ",
        "not ",
        " or ",
        " and ",
        ", ",
        "\\boxed{",
        "}",
        "\\text{",
        "$",
        ".",
        ":",
        "*",
        "|",
        "Helium",
        "4.2 m/s",
        "None of the above",
        "答案是",
        "réponse est ",
        "\n",
        " ",
        "I think ",
        "B12",
        "can't",
        "'",
        "(",
        ")",
        "[",
        "]",
        "1/2",
        "50%",
    ],
    seeds: &[
        "4.2 m/s|Helium|7.5 m/s|None of the above",
        "The answer is (B), since A can't be.",
        "B. Helium",
        "\\boxed{\\text{C}}",
        "**D**: none",
        "Answer: A or B",
        "so\n\nthe answer must be\n\nC.",
        "\\frac{1}{2}|0.25|\\sqrt{2}|3",
        "答案：B",
        "I|A|it|(C)",
    ],
};

static VALUES: Grammar = Grammar {
    tokens: &[
        "|",
        ", ",
        " and ",
        ", and ",
        ";",
        "\n",
        "/",
        "12",
        "75,287",
        "$",
        "%",
        "March",
        " 4",
        ", 2006",
        "2006-03-04",
        "xx-01-12",
        "-",
        "1990",
        "the ",
        "The ",
        "a ",
        "café",
        "[1]",
        "(b)",
        "\"",
        "[\"",
        "\"]",
        "[",
        "]",
        "{\"type\":\"span\",\"text\":\"",
        "\"}",
        "{\"type\":\"wtq\",\"target\":[",
        "],\"canon\":[",
        "]}",
        "1e5",
        ".",
        "null",
        "true",
        "Orion",
        " ",
    ],
    seeds: &[
        "75,287",
        "March 4, 2006",
        "[\"Orion\", \"Apollo\", \"12\"]",
        "{\"type\":\"wtq\",\"target\":[\"March 4, 2006\"],\"canon\":[\"2006-03-04\"]}",
        "{\"type\":\"span\",\"text\":\"20 MPG\"}",
        "Orion, Apollo, and 12",
        "The Little Mermaid",
        "12 | Orion | Apollo",
        "xx-01-12",
        "Café [1]",
        "-5.50%",
    ],
};

const JSON_TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "\\u0041",
    "\\ud800",
    "\\u0000",
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1e999",
    "1E-5",
    "0.5",
    "\n",
    "\r\n",
    " ",
    "\"id\":",
    "\"a\"",
    "\"scenario\":\"\"",
    "\"steps\":[",
    "\"question\":\"q\"",
    "\"answer\":\"2\"",
    "\"domain\":\"math\"",
    "\"domain\":\"science\"",
    "\"skill\":\"Sums\"",
    "\"options\":[\"x\",\"y\"]",
    "\"response\":\"<skill>\"",
    "\"gold\":",
    "\"pred\":",
    "\"kind\":\"wtq\"",
    "\"kind\":\"token_f1\"",
    "\"n_options\":4",
    "\"opts\":{\"precision\":3}",
    "\"expected\":1",
    "\"target\":[\"a\"]",
    "\"canon\":[\"a\"]",
    "\"domain\":\"information_extraction\"",
    "{\"a\":{\"a\":",
];

static TASKS: Grammar = Grammar {
    tokens: JSON_TOKENS,
    seeds: &[
        "{\"id\":\"a\",\"scenario\":\"\",\"steps\":[{\"question\":\"1+1?\",\"answer\":\"2\",\"domain\":\"math\",\"skill\":\"Sums\"}]}\n",
        "{\"id\":\"b\",\"scenario\":\"s\",\"steps\":[{\"question\":\"q\",\"answer\":\"B\",\"domain\":\"science\",\"skill\":\"Units\",\"options\":[\"x\",\"y\"],\"standalone\":\"q\"}],\"trace\":\"t\",\"provenance\":{\"generator\":\"g\",\"seed\":3}}\n",
    ],
};

static CASES: Grammar = Grammar {
    tokens: JSON_TOKENS,
    seeds: &[
        "{\"domain\":\"math\",\"gold\":5,\"pred\":\"5.0\",\"opts\":{\"precision\":3}}\n",
        "{\"id\":\"a\",\"domain\":\"science\",\"gold\":\"B\",\"pred\":\"C\",\"n_options\":4,\"expected\":0}\n",
        "{\"domain\":\"information_extraction\",\"kind\":\"wtq\",\"gold\":{\"target\":[\"1\"],\"canon\":[\"1.0\"]},\"pred\":[\"1\"]}\n",
        "{\"domain\":\"information_extraction\",\"kind\":\"token_f1\",\"gold\":\"a b\",\"pred\":\"b\",\"tier\":\"core\"}\n",
    ],
};

static RESPONSES: Grammar = Grammar {
    tokens: JSON_TOKENS,
    seeds: &["{\"id\":\"a\",\"response\":\"<skill>Math, Sums</skill><answer>12</answer>\"}\n"],
};

static TABLE: Grammar = Grammar {
    tokens: &[
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\"alpha\":",
        "\"cells\":",
        "\"reference\":",
        "\"model\":\"m\"",
        "\"command\":\"c\"",
        "0",
        "1",
        "-1",
        "0.5",
        "1e308",
        "1e-308",
        "null",
        "\"math\"",
        "\"math, Sums\"",
        " | ",
        " > ",
        "\"count\":",
        "\"sum\":",
        "\"sum_squares\":",
    ],
    seeds: &[include_str!("../../../data/entropy_table.json")],
};

static BANK: Grammar = Grammar {
    tokens: &[
        "[math]\n",
        "[science]\n",
        "[x]\n",
        "bank_size = 3\n",
        "bank_size = -1\n",
        "skills = [\"Sums\", \"sums\"]\n",
        "skills = [",
        "]",
        "\"a\"",
        ",",
        "=",
        "\n",
        "\"",
        "'''",
        "#",
        ".",
        "1979-05-27",
        "inf",
    ],
    seeds: &["[math]\nbank_size = 3\nskills = [\"Sums\", \"Units\"]\n[science]\nbank_size = 1\nskills = [\"Gases\"]\n"],
};
