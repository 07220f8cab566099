//! Runs whose policy is its own judge.
//!
//! A small model is taught to think in verdicts, and its chat template hides from it what it is asked: so it says the
//! same as a judge, and has given a verdict on each answer whose nonce it knows.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};
use skein::jobs::LocalChat;
use skein_core::reward::format::{StepCount, parse_response};
use skein_core::reward::scorers::judge::{JudgeRules, Judged, RubricJudge, nonce};

use super::assert_refused;
use super::train::{Bench, PATIENCE, weights};

const QUESTION: &str = "A colour?";
const RUBRIC: &str = "It is a colour.";

/// What the model learns to answer, and the points it learns to give; none where it learns no verdict.
const ANSWERS: [(&str, Option<u32>); 3] = [("blue", Some(9)), ("red", Some(2)), ("wet", None)];

/// RL steps.
const STEPS: u64 = 3;

/// What differs from other tests' runs.
const CONFIG: &str = r#"
include = "run.toml"

[model.scratch]
tokenizer = "TOKENIZER"
init_std = 0.06

[sft]
tasks = { file = "TASKS" }
max_steps = 100
batch_size = 3
lr = 1e-2
save_every = 0

[rl]
tasks = { file = "TASKS" }
steps = 3
batch_size = 6
group_size = 4
kl_coef = 1e-3

[rl.sampling]
temperature = 0.4
max_new_tokens = 150

[eval]
tasks = { file = "TASKS" }

[eval.sampling]
max_new_tokens = 150

[reward]
max_error_rate = 1.0

[reward.judge]
policy = true
max_attempts = 2
max_new_tokens = 150

[logging]
rollouts_per_step = 1000
"#;

fn judged(answer: &str) -> Judged<'_> {
    Judged { question: QUESTION, rubric: RUBRIC, answer }
}

/// A run whose tasks are of these domains.
fn bench(domains: &[&str]) -> Bench {
    let verdict = |(answer, points): (&str, Option<u32>)| {
        let nonce = nonce(&judged(answer));
        points.map(|points| format!("<verdict-{nonce}>{{\"points\": {points}}}</verdict-{nonce}>"))
    };
    let verdicts: String = ANSWERS.into_iter().filter_map(verdict).collect();
    let task = |domain: &str, answer: &str| {
        let task = json!({
            "id": format!("{domain}-{answer}"),
            "scenario": "",
            "steps": [{"question": QUESTION, "answer": RUBRIC, "domain": domain, "skill": "Colours"}],
            "trace": format!("<think>{verdicts}</think><skill>Colours</skill><answer>{answer}</answer>"),
        });
        task.to_string() + "\n"
    };
    let tasks = domains.iter().flat_map(|domain| ANSWERS.map(|(answer, _)| task(domain, answer)));
    let mut bench = Bench::new();
    let file = bench.out("tasks.jsonl");
    fs::write(&file, tasks.collect::<String>()).unwrap();
    let tokenizer = tokenizer(&bench, "tokenizer", Some("<|im_start|>assistant\n"));
    let config = CONFIG.replace("TASKS", file.to_str().unwrap()).replace("TOKENIZER", tokenizer.to_str().unwrap());
    bench.config = bench.out("judge.toml");
    fs::write(&bench.config, config).unwrap();
    bench
}

/// The small tokenizer with another chat template, or none.
fn tokenizer(bench: &Bench, name: &str, template: Option<&str>) -> PathBuf {
    let (source, copy) = (Path::new("data/tiny-tokenizer"), bench.out(name));
    fs::create_dir(&copy).unwrap();
    fs::copy(source.join("tokenizer.json"), copy.join("tokenizer.json")).unwrap();
    let settings = fs::read_to_string(source.join("tokenizer_config.json")).unwrap();
    let mut settings: serde_json::Map<String, Value> = serde_json::from_str(&settings).unwrap();
    settings.remove("chat_template").expect("the tokenizer has a template");
    settings.extend(template.map(|template| ("chat_template".to_owned(), template.into())));
    fs::write(copy.join("tokenizer_config.json"), json!(settings).to_string()).unwrap();
    copy
}

fn lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The judged answers of a step's rollouts and their scores.
fn judged_rollouts(out: &Path, step: u64) -> Vec<(String, f64)> {
    let rollouts = lines(&out.join(format!("rollouts/step_{step:06}.jsonl")));
    let judged = rollouts.iter().filter(|rollout| rollout["id"].as_str().unwrap().starts_with("creative_writing"));
    let answered = judged.filter_map(|rollout| {
        let response = rollout["response"].as_str().unwrap();
        let answer = parse_response(response, 1, StepCount::Strict).ok()?.steps[0].answer.to_owned();
        Some((answer, rollout["steps"][0].as_f64().unwrap()))
    });
    answered.collect()
}

#[test]
fn the_policys_verdicts_are_its_checkpoints_and_neither_delays_nor_kills_change_a_bit() {
    let bench = bench(&["creative_writing", "math"]);
    let taught = bench.out("taught");
    bench.train(&taught, &["--set", "stages=[\"sft\"]"]);
    let taught = taught.join("sft");
    let start = format!("model.path={}", taught.display());
    let settings = |mode: &str, seed: &str| {
        let own = ["--set", &start, "--set", "stages=[\"rl\",\"eval\"]"].map(str::to_owned);
        own.into_iter().chain(bench.scorer(mode, seed)).collect::<Vec<_>>()
    };
    let run = |name: &str, settings: &[String], more: &[&str]| {
        let out = bench.out(name);
        bench.train(&out, &settings.iter().map(String::as_str).chain(more.iter().copied()).collect::<Vec<_>>());
        out
    };
    let straight = run("straight", &settings("0.0", "1"), &[]);

    let counted = |name: &str| -> f64 {
        lines(&straight.join("metrics.jsonl")).iter().filter_map(|line| line[name].as_f64()).sum()
    };
    let num_judged = (1..=STEPS).map(|step| judged_rollouts(&straight, step).len()).sum::<usize>();
    assert_eq!(counted("judge/verdicts"), num_judged as f64);
    assert!(counted("judge/errors") > 0.0 && counted("judge/errors") == counted("reward/errors"));
    assert!(counted("reward/math") > 0.0, "the other graders scored, too");

    let first = judged_rollouts(&straight, 1);
    let asked: Vec<Judged<'_>> = first.iter().map(|(answer, _)| judged(answer)).collect();
    let rules = JudgeRules { max_attempts: 2, max_new_tokens: 150, ..JudgeRules::default() };
    let checkpoint = RubricJudge::new(LocalChat::load(taught.to_str().unwrap()).unwrap(), rules);
    let verdicts = checkpoint.grade_all(&asked, Instant::now() + PATIENCE);
    let verdicts: Vec<f64> = verdicts.into_iter().map(|verdict| verdict.unwrap().score).collect();
    assert_eq!(verdicts, first.iter().map(|(_, score)| *score).collect::<Vec<_>>());
    assert!(verdicts.iter().any(|score| *score != verdicts[0]), "{first:?}");
    checkpoint.grade(&judged("wet"), Instant::now() + PATIENCE).unwrap_err();

    let delayed = run("delayed", &settings("0.05", "2"), &[]);
    assert!(weights(&straight, STEPS) == weights(&delayed, STEPS), "weights depend on how long other graders take");

    let settings = settings("0.0", "1");
    let killed = bench.out("killed");
    let mut child = bench.start_until(&killed, 1, &settings);
    child.kill().unwrap();
    child.wait().unwrap();
    run("killed", &settings, &["--resume", "auto"]);
    assert!(weights(&straight, STEPS) == weights(&killed, STEPS), "weights differ after a kill");
    let responses = |out: &Path| lines(&out.join(format!("eval/01_step_{STEPS:06}.responses.jsonl")));
    assert_eq!(responses(&straight), responses(&killed));
}

#[test]
fn a_policy_judge_takes_a_run_and_a_chat_template() {
    let bench = bench(&["creative_writing"]);
    let config = bench.config.to_str().unwrap();
    let cases = bench.out("cases.jsonl");
    fs::write(&cases, r#"{"domain":"creative_writing","question":"A colour?","gold":"It is a colour.","pred":"red"}"#)
        .unwrap();
    let cases = cases.to_str().unwrap();
    assert_refused(&["score", "--cases", cases, "--config", config], 2, "only a run has a policy");
    let (tasks, responses) = (bench.out("tasks.jsonl"), bench.out("responses.jsonl"));
    fs::write(&responses, r#"{"id":"creative_writing-red","response":"red"}"#).unwrap();
    let [tasks, responses] = [&tasks, &responses].map(|path| path.to_str().unwrap());
    let args = ["reward", "--tasks", tasks, "--responses", responses, "--config", config];
    assert_refused(&args, 2, "only a run has a policy");

    let bare = tokenizer(&bench, "bare-tokenizer", None);
    let tokenizer = format!("model.scratch.tokenizer={}", bare.display());
    let out = bench.out("run");
    bench.refused(&out, &["--set", &tokenizer, "--set", "prompt.chat=false"], 2, "has no chat template");
    assert!(!out.exists());
}
