//! `skein config`.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use skein_core::config::Config;

use super::{assert_refused, skein};

/// A config that needs nothing from the disk.
const VALID: &str = "stages = [\"rl\"]\n[model]\npath = \"owner/name\"\n[rl]\ntasks = { procedural = {} }\n";

#[test]
fn shows_the_whole_config_with_includes_and_overrides() {
    let folder = tempfile::tempdir().unwrap();
    let (base, run) = (folder.path().join("base.toml"), folder.path().join("run.toml"));
    fs::write(&base, VALID).unwrap();
    fs::write(&run, "include = \"base.toml\"\nname = \"mine\"\n").unwrap();
    let output = skein(&["config", "show", run.to_str().unwrap(), "--set", "rl.steps=3", "--set", "rl.lr=1e-7"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = folder.path().join("shown.toml");
    fs::write(&shown, &output.stdout).unwrap();
    let config = Config::load(&shown, &[]).unwrap();
    assert_eq!((config.name.as_str(), config.rl.steps, config.rl.lr, config.rl.group_size), ("mine", 3, 1e-7, 8));
}

#[test]
fn checks_every_file_and_reports_every_problem() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("good.toml"), folder.path().join("bad.toml"));
    fs::write(&good, VALID).unwrap();
    fs::write(&bad, format!("{VALID}lrr = 1\ngroup_size = 1\nbatch_size = 0\n")).unwrap();
    let output = skein(&["config", "check", good.to_str().unwrap(), bad.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{}: ok\n", good.display()));
    let message = String::from_utf8(output.stderr).unwrap();
    for expected in [
        "bad.toml:6: rl.lrr: unknown key; did you mean `lr`?",
        "bad.toml:7: rl.group_size: is 1",
        "bad.toml:8: rl.batch_size: is 0; expected 1 or more",
    ] {
        assert!(message.contains(expected), "{message} lacks {expected}");
    }
    assert!(skein(&["config", "check", good.to_str().unwrap()]).status.success());
}

#[test]
fn checks_what_stands_in_the_files_that_a_config_names() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let task = |id: &str, skills: [&str; 2], answer: &str| {
        let step = |skill: &str| format!(r#"{{"question":"q","answer":{answer},"domain":"math","skill":"{skill}"}}"#);
        let trace = skills.map(|skill| format!("<skill>{skill}</skill><answer>1</answer>")).concat();
        let steps = skills.map(step).join(",");
        format!(r#"{{"id":"{id}","scenario":"","steps":[{steps}],"trace":"{trace}"}}"#) + "\n"
    };
    let known = ["Area Calculation", "Inequality Solving"];
    write("good.jsonl", &task("a", known, "\"1\""));
    write("bad.jsonl", &(task("a", known, "\"1\"") + &task("b", known, "1")));
    write("misspelt.jsonl", &task("a", ["Area Calculatoin", "Juggling"], "\"1\""));
    write("table.json", "{}");
    let config = |rl: &str, reward: &str| {
        let tasks = |name: &str| place(name);
        let (sft, rl) = (tasks("misspelt.jsonl"), tasks(rl));
        format!(
            "stages = [\"sft\", \"rl\"]\n[model]\npath = \"owner/name\"\n[sft]\ntasks = {{ file = \"{sft}\" }}\n\
             [rl]\ntasks = {{ file = \"{rl}\" }}\n[reward]\n{reward}\n"
        )
    };
    let (run, run_path) = (place("run.toml"), folder.path().join("run.toml"));
    let scorers = "[reward.scorers.math]\ncommand = [\"no-such-scorer\"]\n[reward.scorers.logic]\ncommand = [\"sh\"]\n";
    let reward = format!("embedder = \"./no/embedder\"\nentropy_table = \"{}\"\n{scorers}", place("table.json"));
    fs::write(&run_path, config("bad.jsonl", &format!("stepcount = 1\n{reward}"))).unwrap();
    let output = skein(&["config", "check", &run]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    for expected in [
        format!("{run}:9: reward.stepcount: unknown key; did you mean `step_count`?"),
        format!("{run}:7: rl.tasks.file: {}:2: field `steps[0].answer`: `answer` is 1", place("bad.jsonl")),
        format!("{run}:10: reward.embedder: there is no directory ./no/embedder"),
        format!("{run}:11: reward.entropy_table: {}: not an entropy table", place("table.json")),
        format!("{run}:13: reward.scorers.math.command: no program no-such-scorer can be started"),
        format!(
            "warning: {run}:5: sft.tasks.file: {}:1: `steps[0].skill`: `Area Calculatoin` is not among the known skills \
             of math (did you mean `Area Calculation`?)",
            place("misspelt.jsonl")
        ),
    ] {
        assert!(message.contains(&expected), "{message} lacks {expected}");
    }
    assert!(!message.contains("scorers.logic"), "{message}");

    // What only a reward without entropy can be trained on is a warning there and an error where there is entropy.
    fs::write(&run_path, config("misspelt.jsonl", "lambda_ent = 0")).unwrap();
    let output = skein(&["config", "check", &run]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::write(&run_path, config("misspelt.jsonl", "")).unwrap();
    assert_refused(
        &["config", "check", &run],
        2,
        "`Juggling` is not among the known skills of math; the entropy table",
    );
}

#[test]
fn checks_that_every_stage_can_use_its_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    let task = |id: &str, domain: &str, answer: &str, trace: &str| {
        let step = format!(r#"{{"question":"q","answer":{answer},"domain":"{domain}","skill":"S"}}"#);
        format!("{{\"id\":\"{id}\",\"scenario\":\"\"{trace},\"steps\":[{step}]}}\n")
    };
    let program = r#"{"inputs":["1"],"outputs":["1"],"reference":"print(1)"}"#;
    let kept = ",\"trace\":\"<skill>S</skill><answer>1</answer>\"";
    let tasks = [
        task("a", "math", "\"1\"", kept),
        task("b", "coding", program, kept),
        task("c", "coding", "\"no tests\"", ""),
        task("d", "creative_writing", "\"It rhymes.\"", ",\"trace\":\"<answer>\""),
    ];
    fs::write(place("tasks"), tasks.concat()).unwrap();
    let tokenizer = folder.path().join("tokenizer");
    fs::create_dir(&tokenizer).unwrap();
    fs::write(tokenizer.join("tokenizer.json"), "{}").unwrap();
    fs::write(tokenizer.join("tokenizer_config.json"), "{}").unwrap();
    let (run, path) = (place("run.toml"), place("tasks"));
    let config = format!(
        "stages = [\"sft\", \"rl\"]\n[model.scratch]\ntokenizer = {tokenizer:?}\nmax_position_embeddings = 8192\n[sft]\n\
         tasks = {{ file = \"{path}\" }}\n[rl]\ntasks = {{ file = \"{path}\" }}\n[reward]\nlambda_ent = 0.0\n\
         [prompt]\nchat = false\n"
    );
    fs::write(&run, config).unwrap();
    let said = |more: &[&str]| {
        let sets = more.iter().flat_map(|set| ["--set", set]);
        let output = skein(&["config", "check", &run].into_iter().chain(sets).collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let message = said(&["prompt.chat=true"]);
    for expected in [
        format!(
            "{run}:6: sft.tasks.file: {path}:3: task `c` has no trace to imitate; SFT needs one in every task; 1 more"
        ),
        format!("{run}:8: rl.tasks.file: {path}:3: task `c`: the gold answer of a coding step is not a JSON object"),
        "--set prompt.chat=true: prompt.chat: is true, but ".to_owned(),
    ] {
        assert!(message.contains(&expected), "{message} lacks {expected}");
    }
    assert!(message.contains("; 1 more of its tasks can't be used either") && !message.contains("judge"), "{message}");

    fs::write(place("tasks"), [&tasks[0][..], &tasks[1], &tasks[3]].concat()).unwrap();
    let message = said(&["stages=[\"rl\"]"]);
    assert!(message.contains("tasks:3: task `d`: the domain `creative_writing` needs a judge"), "{message}");
    assert!(!message.contains("chat template"), "{message}");
    let message = said(&["stages=[\"rl\"]", "reward.judge.policy=true"]);
    let expected = "reward.judge.policy: ";
    assert!(
        message.contains(expected) && message.contains("has no chat template, and a judge is asked in"),
        "{message}"
    );
    assert!(!message.contains("needs a judge"), "{message}");
    let scorers = "reward.scorers={creative_writing={command=[\"sh\"]}}";
    for judge in [scorers, "reward.judge={model=\"owner/name\"}"] {
        let output = skein(&["config", "check", &run, "--set", "stages=[\"rl\"]", "--set", judge]);
        assert!(output.status.success(), "{judge}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_config_is_read_from_a_pipe() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_skein"))
        .args(["config", "show", "/dev/stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(VALID.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("[rl]"));
}

#[test]
fn a_missing_file_and_a_malformed_override_are_usage_errors() {
    assert_refused(&["config", "show", "no/such.toml"], 2, "no/such.toml: cannot read the config: ");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.toml");
    fs::write(&path, VALID).unwrap();
    assert_refused(&["config", "show", path.to_str().unwrap(), "--set", "rl.steps"], 2, "expected KEY=VALUE");
}
