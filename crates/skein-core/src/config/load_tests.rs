use std::fs;

use super::*;
use crate::config::{LossAggregation, Stage, TaskSource};
use crate::synth::{Level, Split};

/// A config that needs nothing from the disk.
const VALID: &str = r#"
stages = ["rl"]

[model]
path = "owner/name"

[rl]
tasks = { procedural = { num_tasks = 4 } }
"#;

/// Loads `text` as run.toml; errors come back with the directory's name removed.
fn load_text(text: &str, overrides: &[&str]) -> Result<Config, String> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("run.toml"), text).unwrap();
    load_from(dir.path(), overrides)
}

fn load_from(dir: &Path, overrides: &[&str]) -> Result<Config, String> {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    Config::load(&dir.join("run.toml"), &overrides)
        .map_err(|error| error.to_string().replace(&format!("{}/", dir.display()), ""))
}

fn problems(text: &str, overrides: &[&str]) -> Vec<String> {
    load_text(text, overrides).unwrap_err().lines().map(str::to_owned).collect()
}

#[test]
fn a_file_sets_what_it_names_and_defaults_fill_the_rest() {
    let config =
        load_text(VALID, &["rl.lr=3e-6", "rl.loss_aggregation=seq-mean-token-sum", "rl.sampling.top_k = 5"]).unwrap();
    assert_eq!(config.stages, [Stage::Rl]);
    assert_eq!(config.rl.lr, 3e-6);
    assert_eq!(config.rl.loss_aggregation, LossAggregation::SeqMeanTokenSum);
    // A table inside a section keeps its own defaults: those of rl.sampling, not those of SamplingParams.
    assert_eq!((config.rl.sampling.top_k, config.rl.sampling.max_new_tokens), (5, 3072));
    let Some(TaskSource::Procedural(tasks)) = &config.rl.tasks else { panic!("{:?}", config.rl.tasks) };
    assert_eq!((tasks.num_tasks, tasks.max_steps, tasks.split, tasks.level), (4, 5, Split::Train, Level::Standard));
}

#[test]
fn the_papers_hyperparameters_are_the_defaults() {
    let config = Config::default();
    assert_eq!((config.sft.lr, config.sft.warmup_ratio, config.sft.weight_decay), (1e-5, 0.1, 0.01));
    assert_eq!((config.sft.batch_size, config.sft.epochs, config.sft.max_length), (256, 4, 1024));
    assert_eq!((config.rl.lr, config.rl.weight_decay, config.rl.kl_coef), (1e-6, 0.01, 1e-3));
    assert_eq!((config.rl.batch_size, config.rl.group_size, config.rl.steps), (256, 8, 400));
    assert_eq!((config.rl.clip_ratio_low, config.rl.clip_ratio_high, config.rl.filter), (0.2, 0.2, true));
    assert_eq!(config.rl.max_prompt_tokens + config.rl.sampling.max_new_tokens, 4096);
    assert_eq!((config.reward.lambda_ans, config.reward.lambda_ent), (0.7, 0.3));
    let eval = &config.eval;
    assert_eq!((eval.samples, eval.sampling.temperature, eval.sampling.top_p), (4, 0.7, 0.9));
}

#[test]
fn the_resolved_config_reads_back_to_itself() {
    let config = load_text(VALID, &["prompt.system=Be brief.", "prompt.enable_thinking=false", "rl.lr=1e-7"]).unwrap();
    assert_eq!(load_text(&config.to_toml(), &[]).unwrap(), config);
}

#[test]
fn included_files_come_first_and_overrides_last() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("base")).unwrap();
    fs::write(dir.path().join("base/deep.toml"), "seed = 1\nname = \"deep\"\n[rl]\nlr = 1e-3\nsteps = 7\n").unwrap();
    fs::write(dir.path().join("base/base.toml"), "include = \"deep.toml\"\nname = \"base\"\n[rl]\nsteps = 8\n")
        .unwrap();
    fs::write(dir.path().join("run.toml"), format!("include = \"base/base.toml\"\n{VALID}\nbatch_size = 32\n"))
        .unwrap();
    let config = load_from(dir.path(), &["rl.batch_size=16", "rl.batch_size=64"]).unwrap();
    assert_eq!((config.seed, config.name.as_str()), (1, "base"));
    assert_eq!((config.rl.lr, config.rl.steps, config.rl.batch_size), (1e-3, 8, 64));
}

#[test]
fn a_later_layer_replaces_the_alternative_of_an_earlier_one() {
    let dir = tempfile::tempdir().unwrap();
    let tasks = dir.path().join("tasks.jsonl");
    fs::write(&tasks, "{}\n").unwrap();
    fs::write(dir.path().join("run.toml"), VALID).unwrap();
    let config = load_from(dir.path(), &[&format!("rl.tasks.file={}", tasks.display())]).unwrap();
    assert_eq!(config.rl.tasks, Some(TaskSource::File(tasks)));

    fs::write(dir.path().join("tokenizer.json"), "{}").unwrap();
    let scratch = format!("model.scratch.tokenizer={}", dir.path().display());
    let small = ["rl.sampling.max_new_tokens=8", "rl.max_prompt_tokens=64"];
    let config = load_from(dir.path(), &[&scratch, small[0], small[1]]).unwrap();
    assert!(config.model.path.is_empty() && config.model.scratch.is_some());
    let config = load_from(dir.path(), &[&scratch, "model.path=owner/other"]).unwrap();
    assert!(config.model.path == "owner/other" && config.model.scratch.is_none());
}

#[test]
fn unknown_keys_are_named_with_line_and_nearest_key() {
    let text = "stages = [\"rl\"]\n[model]\npath = \"a/b\"\n[rl]\nlrr = 1e-6\ngroup_sise = 4\nlambda_ent = 0.1\ntasks = { procedural = { num_task = 3 } }\nzzz = 1\n[rewards]\n";
    let mut found = problems(text, &["rl.sampling.temprature=0.5", "rl.kl_coeff=0"]);
    found.sort();
    let known =
        found.iter().position(|line| line.starts_with("run.toml:9: rl.zzz: unknown key; known here: tasks, steps,"));
    assert!(known.is_some(), "{found:?}");
    found.remove(known.unwrap());
    assert_eq!(
        found,
        [
            "--set rl.kl_coeff=0: rl.kl_coeff: unknown key; did you mean `kl_coef`?",
            "--set rl.sampling.temprature=0.5: rl.sampling.temprature: unknown key; did you mean `temperature`?",
            "run.toml:10: rewards: unknown key; did you mean `reward`?",
            "run.toml:5: rl.lrr: unknown key; did you mean `lr`?",
            "run.toml:6: rl.group_sise: unknown key; did you mean `group_size`?",
            "run.toml:7: rl.lambda_ent: unknown key; did you mean `reward.lambda_ent`?",
            "run.toml:8: rl.tasks.procedural.num_task: unknown key; did you mean `num_tasks`?",
        ]
    );
}

#[test]
fn wrong_types_say_what_was_expected_and_found() {
    let text = "seed = -1\nstages = [\"rl\", \"evl\"]\n[model]\npath = \"a/b\"\ndtype = \"fp16\"\n[rl]\nlr = \"fast\"\nsteps = 1.5\nfilter = 1\nschedule = \"cosin\"\ntasks = \"x.jsonl\"\nsampling = 3\n";
    assert_eq!(
        problems(text, &["name=5"]),
        [
            "--set name=5: name: expected text in quotes, found integer `5`",
            "run.toml:1: seed: expected a whole number, 0 or more, found integer `-1`",
            "run.toml:2: stages: \"evl\" is not one of \"sft\", \"rl\", \"eval\"; did you mean \"eval\"?",
            "run.toml:5: model.dtype: \"fp16\" is not one of \"f32\", \"bf16\"; did you mean \"bf16\"?",
            "run.toml:8: rl.steps: expected a whole number, 0 or more, found floating point `1.5`",
            "run.toml:7: rl.lr: expected a number, found string \"fast\"",
            "run.toml:10: rl.schedule: \"cosin\" is not one of \"cosine\", \"constant\"; did you mean \"cosine\"?",
            "run.toml:9: rl.filter: expected true or false, found integer `1`",
            "run.toml:12: rl.sampling: expected a table, found integer `3`",
            "run.toml:11: rl.tasks: expected { file = \"tasks.jsonl\" } or { procedural = { … } }",
        ]
    );
}

#[test]
fn scorers_of_a_wrong_type_are_named_with_an_example() {
    let text = format!(
        "{VALID}\n[reward.scorers]\nmath = 3\nscience = {{ command = \"python3 grade.py\" }}\nlogic = {{ command = [] }}\n\
         coding = {{ command = [\"python3\", 3] }}\n"
    );
    let mut found = problems(&text, &[]);
    found.sort();
    assert_eq!(
        found,
        [
            r#"run.toml:11: reward.scorers.math: expected a table, such as { command = ["python3", "scorer.py"] }, found integer `3`"#,
            r#"run.toml:12: reward.scorers.science.command: expected an array, such as ["python3", "scorer.py"], found string "python3 grade.py""#,
            r#"run.toml:13: reward.scorers.logic.command: expected a program and its arguments, such as ["python3", "scorer.py"]"#,
            r#"run.toml:14: reward.scorers.coding.command: expected text in quotes, such as ["python3", "scorer.py"], found integer `3`"#,
        ]
    );
    let unknown = problems(VALID, &["reward.scorers.maths.command=[\"x\"]"]);
    assert!(
        unknown[0].contains(r#""maths" is not one of "math","#) && unknown[0].contains("did you mean"),
        "{unknown:?}"
    );
    let whole = problems(VALID, &["reward.scorers=3"]);
    assert!(
        whole[0].contains(r#"expected a table, such as { math = { command = ["python3", "scorer.py"] } }"#),
        "{whole:?}"
    );
}

#[test]
fn an_array_is_no_table_wherever_it_stands() {
    let paths = [
        "model",
        "rl",
        "rl.sampling",
        "rl.level_weights",
        "eval",
        "reward",
        "reward.sandbox",
        "reward.judge",
        "reward.judge.api",
        "logging",
    ];
    for path in paths {
        let found = problems(VALID, &[&format!("{path}=[]")]);
        assert!(found.contains(&format!("--set {path}=[]: {path}: expected a table, found an array")), "{found:?}");
    }
    for (set, expected) in [
        ("rl.tasks=[4]", "expected { file = \"tasks.jsonl\" } or"),
        ("rl.tasks={procedural=[4]}", "rl.tasks.procedural: expected a table, found an array"),
        ("model={scratch=[]}", "model.scratch: expected a table, found an array"),
        ("reward.scorers={math=[[\"true\"]]}", "reward.scorers.math: expected a table"),
    ] {
        let found = problems(VALID, &[set]);
        assert!(found.iter().any(|problem| problem.contains(expected)), "{set}: {found:?}");
    }
}

#[test]
fn what_is_quoted_is_cut() {
    let long = "x".repeat(1 << 20);
    for text in [
        format!("name = {long}"),
        format!("name = \"{long}"),
        format!("{long} = 1"),
        format!("{VALID}\nlr = \"{long}\""),
        format!("{VALID}\nadvantage = \"{long}\""),
        format!("stages = [\"{long}\"]"),
        format!("[reward]\nentropy_table = \"{long}\""),
        format!("include = \"{long}\""),
    ] {
        let found = load_text(&text, &[]).unwrap_err();
        let longest = found.lines().map(str::len).max().unwrap();
        assert!(longest < 1600 && found.contains("xxx") && found.contains('…'), "{found:.300}");
    }
    let found = load_text(VALID, &[&format!("rl.steps={long}")]).unwrap_err();
    assert!(found.len() < 600, "{found:.300}");
    let deep = format!("name = [{}oops oops, {}]", "1, ".repeat(1000), "2, ".repeat(1000));
    let found = load_text(&deep, &[]).unwrap_err();
    assert!(found.lines().all(|line| line.len() < 600) && found.contains("oops"), "{found:.300}");
}

#[test]
fn what_is_no_file_is_told_by_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let found = problems(VALID, &[&format!("rl.tasks.file={}", dir.path().display())]);
    assert!(found[0].ends_with("is a directory, expected a file"), "{found:?}");
    let found = problems(VALID, &["rl.tasks.file=/dev/null"]);
    assert!(found[0].contains("/dev/null is a pipe or a device, which gives its contents once"), "{found:?}");
}

#[test]
fn syntax_errors_show_their_lines() {
    let found = problems("name = \"x\"\n[rl]\nlr = 1e-\nsteps = 5 5\n", &[]);
    assert!(found[0].starts_with("run.toml:3: not valid TOML: ") && found[0].ends_with("in `lr = 1e-`"), "{found:?}");
    assert!(found.iter().any(|line| line.starts_with("run.toml:4: not valid TOML: ")), "{found:?}");
    let found = problems("seed = 1\nseed = 2\n", &[]);
    assert!(found[0].starts_with("run.toml:2: not valid TOML: duplicate key"), "{found:?}");
}

#[test]
fn unreadable_and_cyclic_includes_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(load_from(dir.path(), &[]).unwrap_err().starts_with("run.toml: cannot read the config: "));
    let missing = load_text("seed = 1\ninclude = \"none.toml\"\n", &[]).unwrap_err();
    assert!(missing.starts_with("run.toml:2: include: cannot read none.toml: "), "{missing}");
    assert_eq!(
        load_text("include = 3", &[]).unwrap_err(),
        "run.toml:1: include: expected the path of one file, found 3"
    );
    fs::write(dir.path().join("run.toml"), "include = \"other.toml\"").unwrap();
    fs::write(dir.path().join("other.toml"), "include = \"run.toml\"").unwrap();
    assert_eq!(
        load_from(dir.path(), &[]).unwrap_err(),
        "other.toml:1: include: run.toml is being read already: the files include each other"
    );
}

#[test]
fn malformed_overrides_are_refused() {
    assert_eq!(
        problems(VALID, &["rl.steps", "rl..lr=1", "=3"]),
        [
            "--set rl.steps: expected KEY=VALUE, such as rl.steps=20",
            "--set rl..lr=1: expected KEY=VALUE with a dotted KEY, such as rl.steps=20",
            "--set =3: expected KEY=VALUE with a dotted KEY, such as rl.steps=20",
        ]
    );
}

#[test]
fn impossible_combinations_are_reported_all_at_once() {
    let text = r#"
stages = ["sft", "rl", "eval"]
[model]
path = "a/b"
[model.scratch]
[rl]
batch_size = 10
mini_batch_size = 4
group_size = 1
clip_ratio_low = 1.5
clip_ratio_c = 0.5
eval_every = 5
tasks = { file = "no/such.jsonl" }
[rl.sampling]
temperature = 0.0
[eval.sampling]
top_p = 0.0
temperature = 0.0
[reward]
lambda_ans = 0
lambda_ent = 0.0
entropy_table = "no/table.json"
[rollout]
cache_tokens = 100
[sft]
lr = nan
epochs = 0
"#;
    let found = problems(text, &["sft.batch_size=0"]);
    for expected in [
        "run.toml:4: model.path: set together with model.scratch",
        "run.toml:8: rl.mini_batch_size: is 4, which does not divide rl.batch_size (10)",
        "run.toml:9: rl.group_size: is 1: a group of one",
        "run.toml:10: rl.clip_ratio_low: is 1.5; expected above 0 and below 1",
        "run.toml:11: rl.clip_ratio_c: is 0.5; expected 0 (off) or above 1",
        "run.toml:13: rl.tasks.file: there is no file no/such.jsonl",
        "run.toml:15: rl.sampling.temperature: is not above 0",
        "run.toml:17: eval.sampling.top_p: is 0; expected above 0 and at most 1",
        "eval.samples: is 4 with a temperature of 0",
        "run.toml:20: reward.lambda_ans: is 0, and so is reward.lambda_ent",
        "run.toml:22: reward.entropy_table: there is no file no/table.json",
        "run.toml:24: rollout.cache_tokens: is 100, too few for one sequence of 1024 + 3072 tokens",
        "run.toml:26: sft.lr: is NaN; expected a number above 0",
        "run.toml:27: sft.epochs: is 0, and so is sft.max_steps",
        "--set sft.batch_size=0: sft.batch_size: is 0; expected 1 or more",
        "sft.tasks: missing, although \"sft\" is a stage",
        "eval.tasks: missing, although \"eval\" is a stage",
    ] {
        assert!(found.iter().any(|line| line.contains(expected)), "no `{expected}` in\n{}", found.join("\n"));
    }
}

#[test]
fn a_micro_batch_holds_a_whole_sequence() {
    let sections = [
        ("rl", "rl.max_prompt_tokens + rl.sampling.max_new_tokens (4096)", 4096),
        ("sft", "sft.max_length (1024)", 1024),
    ];
    for (section, longest, least) in sections {
        let set = |tokens: usize| format!("{section}.micro_batch_tokens={tokens}");
        for tokens in [0, 5, least - 1] {
            let set = set(tokens);
            let key = format!("{section}.micro_batch_tokens");
            let expected = format!("--set {set}: {key}: is {tokens}, less than one sequence of {longest}");
            assert_eq!(problems(VALID, &[&set]), [expected]);
        }
        load_text(VALID, &[&set(least)]).unwrap();
    }
}

#[test]
fn a_scratch_model_is_checked_against_the_lengths_of_the_stages() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tokenizer.json"), "{}").unwrap();
    let text = format!(
        "stages = [\"sft\", \"rl\", \"eval\"]\n[model.scratch]\ntokenizer = \"{}\"\nmax_position_embeddings = 512\nnum_attention_heads = 3\nhead_dim = 7\n[sft]\ntasks = {{ procedural = {{}} }}\n[rl]\ntasks = {{ procedural = {{ min_steps = 4, max_steps = 3 }} }}\n[eval]\ntasks = {{ procedural = {{}} }}\n",
        dir.path().display()
    );
    assert_eq!(
        problems(&text, &[]),
        [
            "run.toml:6: model.scratch.head_dim: is 7; rotary embedding needs an even width",
            "run.toml:5: model.scratch.num_key_value_heads: 3 query heads cannot share 2 key-value heads evenly",
            "run.toml:10: rl.tasks.procedural.min_steps: is 4, more than max_steps (3)",
            "run.toml:4: sft.max_length: is 1024, more than the model's context (512)",
            "run.toml:4: rl.sampling.max_new_tokens: is 3072: with 1024 prompt tokens that is more than the model's context (512)",
            "run.toml:4: eval.sampling.max_new_tokens: is 16384: with 1 prompt tokens that is more than the model's context (512)",
        ]
    );
}

#[test]
fn a_model_is_needed_and_must_be_there() {
    let without = VALID.replace("path = \"owner/name\"", "");
    assert_eq!(problems(&without, &[]), ["run.toml:4: model.path: no model: set model.path or model.scratch"]);
    let missing = problems(VALID, &["model.path=./models/none"]);
    assert_eq!(
        missing,
        [
            "--set model.path=./models/none: model.path: there is no directory ./models/none, and it is not a hub id like `owner/name`"
        ]
    );
    let dir = tempfile::tempdir().unwrap();
    let bare = problems(VALID, &[&format!("model.path={}", dir.path().display())]);
    assert!(bare[0].ends_with("holds no config.json: not a Hugging Face model directory"), "{bare:?}");
}

#[test]
fn wrong_values_do_not_hide_impossible_combinations_elsewhere() {
    let found = problems(VALID, &["rl.group_size=many", "rl.mini_batch_size=7"]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("rl.group_size: expected a whole number"), "{found:?}");
    assert!(found[1].contains("rl.mini_batch_size: is 7, which does not divide rl.batch_size (256)"), "{found:?}");
}

#[test]
fn the_judge_is_one_of_three() {
    let judge = |text: &str| format!("{VALID}\n[reward.judge]\n{text}\n");
    for text in ["", "policy = false", "model = \"a/b\"\npolicy = true", "api = { model = \"m\" }\nmodel = \"a/b\""] {
        let problems = problems(&judge(text), &[]);
        assert!(problems.iter().any(|problem| problem.contains("exactly one of api")), "{text}: {problems:?}");
    }
    let config = load_text(&judge("policy = true"), &[]).unwrap();
    assert!(config.to_toml().contains("policy = true"));
    let model = load_text(&judge("model = \"a/b\""), &[]).unwrap();
    assert!(!model.to_toml().contains("policy"), "runs made without the field go on");
    let replaced = load_text(&judge("model = \"a/b\""), &["reward.judge.policy=true"]).unwrap().reward.judge.unwrap();
    assert_eq!((replaced.policy, replaced.model), (true, None));
    let kept = load_text(&judge("model = \"a/b\""), &["reward.judge.policy=false"]).unwrap().reward.judge.unwrap();
    assert_eq!((kept.policy, kept.model.as_deref()), (false, Some("a/b")));
    let small = problems(&judge("policy = true"), &["rollout.cache_tokens=1000", "rl.sampling.max_new_tokens=8"]);
    assert!(small.iter().any(|problem| problem.contains("too few for a judge's reply of 1024")), "{small:?}");
}
