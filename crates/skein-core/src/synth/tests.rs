//! What must hold of procedural tasks, checked from their text alone where it can be.

use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use regex::Regex;

use super::content::Entities;
use super::formula::Formula;
use super::*;
use crate::reward::format::{StepCount, parse_response};
use crate::reward::{RewardContext, score_response};
use crate::skill::{Bank, Cell};
use crate::task::{CrossSkillTask, Step, read_tasks};

const SIDES: [(Level, Split); 4] = [
    (Level::Tiny, Split::Train),
    (Level::Tiny, Split::Test),
    (Level::Standard, Split::Train),
    (Level::Standard, Split::Test),
];

fn tasks(level: Level, split: Split, seed: u64, count: u64) -> Vec<CrossSkillTask> {
    Synthesizer::new(level, split, seed).tasks(count, 2..=5).expect("the levels fit five steps")
}

fn jsonl(tasks: &[CrossSkillTask]) -> String {
    tasks.iter().map(|task| serde_json::to_string(task).expect("plain data") + "\n").collect()
}

/// For each formula, patterns that read a question's numbers by their places in the wording it was asked with.
static PATTERNS: LazyLock<Vec<(&Formula, Vec<Regex>)>> = LazyLock::new(|| {
    let place = Regex::new(r"\\\{(x|a|b)\\\}").expect("a pattern");
    let pattern = |wording: &&str| {
        let escaped = regex::escape(wording);
        let named = place.replace_all(&escaped, "(?P<$1>[0-9]+)");
        Regex::new(&format!("^{named}$")).expect("each place stands once in a wording")
    };
    let of_formula = |formula: &'static Formula| {
        let Phrasing { terse, full } = &formula.phrasing;
        (formula, [terse.train, terse.test, full.train, full.test].concat().iter().map(pattern).collect())
    };
    FORMULAS.iter().map(of_formula).collect()
});

/// The numbers that the question of a math or science step states when it is asked alone.
fn stated(step: &Step) -> BTreeMap<&str, i64> {
    let question = step.standalone_question();
    let (_, patterns) = PATTERNS.iter().find(|(formula, _)| formula.skill == step.skill).expect("a formula");
    let found = patterns.iter().find_map(|pattern| Some((pattern, pattern.captures(question)?)));
    let (pattern, found) = found.unwrap_or_else(|| panic!("no wording gives: {question}"));
    let names = pattern.capture_names().flatten();
    names.map(|name| (name, found[name].parse().expect("digits"))).collect()
}

/// The answer to a question asked alone, worked out from its text.
fn solve(step: &Step) -> String {
    if step.domain == Domain::InformationExtraction {
        return solve_table(step);
    }
    let given = stated(step);
    let (x, a, b) = (given["x"], given["a"], given.get("b").copied());
    let y = match step.skill.as_str() {
        "Area Calculation" | "Constant Speed Calculations" | "Calculation Of Gross Earnings" => x * a,
        "Polynomial And Equation Solving" | "Financial Analysis" => x - a,
        "Absolute Value Inequalities" => (0..1000).filter(|n| i64::abs(n - a) <= x).max().expect("a solution"),
        "Cost Analysis" | "Date Calculation" => x + a,
        "Substitution Methods" | "Utility Function Computation" => a * x + b.expect("stated"),
        other => panic!("no solution known for {other}"),
    };
    match step.domain {
        Domain::Science => {
            let letters: Vec<usize> =
                (0..step.options.len()).filter(|&option| step.options[option] == y.to_string()).collect();
            assert_eq!(letters.len(), 1, "one option of {:?} is {y}", step.options);
            crate::task::option_letter(letters[0]).to_string()
        }
        _ => y.to_string(),
    }
}

fn solve_table(step: &Step) -> String {
    let (sentence, table) = step.standalone_question().split_once('\n').expect("a table follows");
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split('|').map(str::trim).collect()).collect();
    let (header, rows) = rows.split_first().expect("a header");
    let words: Vec<&str> = sentence.split(|c: char| !c.is_alphanumeric()).collect();
    let key = |row: &&Vec<&str>| match header[0] {
        "Number" => words.windows(2).any(|pair| pair[0].eq_ignore_ascii_case("number") && pair[1] == row[0]),
        // `#1` must not be found in `#12`.
        _ => sentence
            .match_indices(row[0])
            .any(|(at, key)| !sentence[at + key.len()..].starts_with(|next: char| next.is_alphanumeric())),
    };
    let wanted: Vec<&Vec<&str>> = rows.iter().filter(key).collect();
    assert_eq!(wanted.len(), 1, "one row is asked for in: {}", step.standalone_question());
    let named: Vec<usize> = (1..header.len()).filter(|&column| sentence.contains(header[column])).collect();
    let number = |row: &[&str], column: usize| row[column].parse::<i64>().expect("a number");
    match step.skill.as_str() {
        "Column Value Extraction" => wanted[0][named[0]].to_owned(),
        "Cross Column Analysis" => (number(wanted[0], named[0]) + number(wanted[0], named[1])).to_string(),
        "Rank Interpretation" => {
            let mut numbers: Vec<i64> = rows.iter().map(|row| number(row, named[0])).collect();
            numbers.sort_by_key(|n| -n);
            (numbers.iter().position(|n| *n == number(wanted[0], named[0])).expect("listed") + 1).to_string()
        }
        "Venue Extraction" => {
            wanted[0][header.iter().position(|title| *title == "Place").expect("a column")].to_owned()
        }
        "Player Identification" => {
            wanted[0][header.iter().position(|title| *title == "Name").expect("a column")].to_owned()
        }
        other => panic!("no solution known for {other}"),
    }
}

#[test]
fn at_least_twelve_skills_of_the_bank_over_three_domains() {
    let (bank, skills) = (Bank::embedded(), skills());
    assert_eq!(skills.iter().collect::<HashSet<_>>().len(), 15);
    for skill in &skills {
        assert_eq!(bank.resolve(skill).map(SkillKey::skill), Some(skill.skill()));
    }
    for domain in [Domain::Math, Domain::Science, Domain::InformationExtraction] {
        assert_eq!(skills.iter().filter(|skill| skill.domain() == domain).count(), 5);
    }
}

#[test]
fn gold_answers_follow_from_the_text() {
    for (level, split) in SIDES {
        for task in tasks(level, split, 11, 500) {
            for step in &task.steps {
                assert_eq!(solve(step), step.answer, "{}: {step:?}", task.id);
            }
        }
    }
}

#[test]
fn another_answer_before_means_another_answer_here() {
    const REQUIRED: f64 = 0.95;
    for (level, split) in SIDES {
        let synthesizer = Synthesizer::new(level, split, 5);
        let (mut changed, mut changed_defined) = (Vec::new(), Vec::new());
        for index in 0..1000 {
            let mut maker = synthesizer.maker("dependency", index);
            let all = skills();
            let mut sequence: Vec<SkillKey> = Vec::new();
            while sequence.len() < 4 {
                let skill = maker.stream.choose(&all);
                if sequence.last().is_none_or(|last| last.domain() != skill.domain()) {
                    sequence.push(skill.clone());
                }
            }
            let Some(drafts) = maker.realize(&sequence, Link::Dependent) else { continue };
            for pair in drafts.windows(2) {
                let (before, here) = (&pair[0].outcome, &pair[1]);
                assert_eq!(here.puzzle.gold(Some(&before.value)), Some(here.answer.clone()));
                assert_eq!(here.puzzle.gold(None), None, "{} can be answered alone", here.question);
                let mut others = before.others.clone();
                if let Value::Number(number) = before.value {
                    others.extend(maker.plausible(number, Vec::new()).into_iter().map(Value::Number));
                }
                for other in &others {
                    let gold = here.puzzle.gold(Some(other));
                    changed.push(gold.as_ref() != Some(&here.answer));
                    if let Some(gold) = gold {
                        changed_defined.push(gold != here.answer);
                    }
                }
            }
        }
        for (what, changed) in [("all", changed), ("answerable", changed_defined)] {
            let share = changed.iter().filter(|&&c| c).count() as f64 / changed.len() as f64;
            assert!(changed.len() > 2000, "{} {what} cases are too few", changed.len());
            assert!(share >= REQUIRED, "{level} {split}: {share} of {what} cases change");
        }
    }
}

#[test]
fn steps_alternate_domains_and_name_the_step_they_use() {
    for (level, split) in SIDES {
        let tasks = tasks(level, split, 3, 500);
        for task in &tasks {
            assert!((2..=5).contains(&task.steps.len()) && task.steps[0].standalone.is_none());
            for (before, pair) in task.steps.windows(2).enumerate() {
                assert_ne!(pair[0].domain, pair[1].domain);
                let number = before + 1;
                let reference = match (level, pair[0].domain) {
                    (Level::Standard, _) => format!("question {number}"),
                    (Level::Tiny, Domain::Science) => format!("choice {number}"),
                    (Level::Tiny, _) => format!("answer {number}"),
                };
                assert!(pair[1].question.contains(&reference), "{} lacks {reference}", pair[1].question);
            }
        }
        for length in 2..=5 {
            assert!(tasks.iter().filter(|task| task.steps.len() == length).count() > 80);
        }
    }
}

#[test]
fn every_order_of_domains_occurs() {
    let domains = [Domain::Math, Domain::Science, Domain::InformationExtraction];
    for (level, split) in SIDES {
        let tasks = tasks(level, split, 3, 300);
        let pairs: HashSet<(SkillKey, Domain)> =
            tasks.iter().flat_map(|task| task.steps.windows(2).map(|p| (p[0].key(), p[1].domain))).collect();
        for skill in skills() {
            for domain in domains {
                assert_eq!(pairs.contains(&(skill.clone(), domain)), skill.domain() != domain, "{skill} -> {domain}");
            }
        }
    }
}

static TITLES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(Pts|Points|Age|Qty|Quantity|Fee|Weight|Price|Stock|Matches)\b").expect("a pattern")
});
static DIGITS: LazyLock<Regex> = LazyLock::new(|| Regex::new("[0-9]+").expect("a pattern"));

/// A question's sentence without what it is about: numbers, names and column titles.
fn skeleton(step: &Step, names: &Regex) -> String {
    let sentence = step.standalone_question().lines().next().expect("a sentence");
    let sentence = names.replace_all(sentence, "NAME");
    let sentence = TITLES.replace_all(&sentence, "TITLE");
    DIGITS.replace_all(&sentence, "0").into_owned()
}

/// Whatever a set of tasks is about, piece by piece.
fn contents(level: Level, split: Split, seed: u64, names: &Regex) -> HashSet<String> {
    let mut contents: HashSet<String> = HashSet::new();
    for task in tasks(level, split, seed, 1000) {
        let text = serde_json::to_string(&task).expect("plain data");
        contents.extend(names.find_iter(&text).map(|name| name.as_str().to_owned()));
        let scenario = names.replace_all(&task.scenario, "NAME").into_owned();
        contents.extend((!scenario.is_empty()).then_some(scenario));
        for step in &task.steps {
            contents.insert(format!("{}: {}", step.skill, skeleton(step, names)));
            contents.insert(step.question.clone());
            contents.insert(match step.question.split_once('\n') {
                Some((_, table)) => table.to_owned(),
                None => format!("{} {:?}", step.skill, stated(step)),
            });
        }
    }
    contents
}

#[test]
fn train_and_test_share_no_content() {
    let (trained, held_out) = (Entities::of(Split::Train), Entities::of(Split::Test));
    let all: Vec<&str> = [&trained, &held_out]
        .iter()
        .flat_map(|side| [Kind::Person, Kind::Place].map(|kind| side.all(kind)))
        .flatten()
        .map(String::as_str)
        .collect();
    let names = Regex::new(&all.join("|")).expect("names are letters and spaces");
    for level in [Level::Tiny, Level::Standard] {
        // Other seeds: the parting must not hang on the seed.
        let train = contents(level, Split::Train, 1, &names);
        let test = contents(level, Split::Test, 2, &names);
        let more_train = contents(level, Split::Train, 3, &names);
        let shared: Vec<&String> = train.intersection(&test).take(5).collect();
        assert!(shared.is_empty(), "{level}: both sides have {shared:?}");
        assert!(train.intersection(&more_train).count() > 200, "the comparison sees nothing");
    }
}

#[test]
fn instances_follow_their_cells() {
    let all = skills();
    for level in [Level::Tiny, Level::Standard] {
        let synthesizer = Synthesizer::new(level, Split::Test, 9);
        for cell in Cell::required(&all) {
            for link in [Link::Independent, Link::Dependent] {
                for index in 0..3 {
                    let task = synthesizer.instance(&cell, link, index).expect("every cell is covered");
                    let keys: Vec<SkillKey> = task.steps.iter().map(Step::key).collect();
                    match (&cell, keys.as_slice()) {
                        (Cell::Domain(domain), [only]) => assert_eq!(only.domain(), *domain),
                        (Cell::Skill(skill), [only]) => assert_eq!(only, skill),
                        (Cell::SkillDomain(skill, domain), [first, second]) => {
                            assert_eq!((first, second.domain()), (skill, *domain));
                        }
                        (Cell::DomainSkill(domain, skill), [first, second]) => {
                            assert_eq!((first.domain(), second), (*domain, skill));
                        }
                        (cell, keys) => panic!("{} steps for {cell}", keys.len()),
                    }
                    if let [_, second] = task.steps.as_slice() {
                        assert_eq!(second.standalone.is_some(), link == Link::Dependent);
                    }
                    task.steps.iter().for_each(|step| assert_eq!(solve(step), step.answer, "{}", task.id));
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_made_is_refused() {
    let synthesizer = Synthesizer::new(Level::Tiny, Split::Train, 0);
    assert_eq!(synthesizer.task(0, 0..=2), Err(SynthError::NoSteps(0, 2)));
    let coding = Cell::Domain(Domain::Coding);
    assert_eq!(synthesizer.instance(&coding, Link::Independent, 0), Err(SynthError::NoGenerator(coding)));
}

#[test]
fn long_tasks_fit_every_level() {
    for (level, split) in SIDES {
        let synthesizer = Synthesizer::new(level, split, 1);
        assert!((0..20).all(|index| synthesizer.task(index, 10..=10).is_ok_and(|task| task.steps.len() == 10)));
    }
}

#[test]
fn files_read_back() {
    let tasks = tasks(Level::Standard, Split::Train, 0, 50);
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), jsonl(&tasks)).expect("writable");
    assert_eq!(read_tasks(file.path()).expect("valid tasks"), tasks);
}

#[test]
fn traces_parse_and_earn_the_whole_reward() {
    let context = RewardContext::answer_only(StepCount::Strict);
    for (level, split) in SIDES {
        for task in tasks(level, split, 21, 200) {
            let trace = task.trace.as_deref().expect("made with the task");
            let parsed = parse_response(trace, task.steps.len(), StepCount::Strict).expect("well-formed");
            for (said, step) in parsed.steps.iter().zip(&task.steps) {
                assert_eq!(said.skill.domain.and_then(|domain| domain.parse().ok()), Some(step.domain));
                assert_eq!(said.skill.skill, step.skill);
            }
            let reward = score_response(&task, trace, &context).expect("scorable");
            assert_eq!(reward.total, 1.0, "{trace}");
        }
    }
}

/// Pinned: a change here means a new `GENERATOR` version.
#[test]
fn equal_seeds_give_equal_files() {
    let digest = |seed| {
        let text: String = SIDES.iter().map(|&(level, split)| jsonl(&tasks(level, split, seed, 100))).collect();
        Stream::new(0, &text, 0).next_u64()
    };
    assert_eq!(digest(17), digest(17));
    assert_ne!(digest(17), digest(18));
    assert_eq!(digest(17), 13686433305355776476);
}

/// Words, digits and signs: about what a tokenizer trained on tiny tasks makes of them.
static ROUGH_TOKEN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[A-Za-z]+|[0-9]|[^A-Za-z0-9\s]|\n").expect("a pattern"));

#[test]
fn tiny_tasks_are_short() {
    let synthesizer = Synthesizer::new(Level::Tiny, Split::Train, 4);
    for index in 0..500 {
        let task = synthesizer.task(index, 3..=3).expect("three steps fit");
        let options = |step: &Step| step.options.iter().map(|option| format!("A. {option}\n")).collect::<String>();
        let text: String = task.steps.iter().map(|step| format!("1. {}\n{}", step.question, options(step))).collect();
        let tokens = ROUGH_TOKEN.find_iter(&(task.scenario + &text)).count();
        assert!(tokens <= 200, "{tokens} tokens: {text}");
    }
}
