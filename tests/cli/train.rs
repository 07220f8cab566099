//! Runs of a very small model: what they leave behind, how they stop, how they go on.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{assert_refused, skein};

/// A run of a few updates takes seconds; past this something hangs.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

const CONFIG: &str = r#"
name = "test"
stages = ["sft", "rl", "eval"]

[model.scratch]
tokenizer = "data/tiny-tokenizer"
hidden_size = 32
intermediate_size = 64
num_hidden_layers = 2
num_attention_heads = 2
num_key_value_heads = 1
head_dim = 16
max_position_embeddings = 512

[prompt]
style = "compact"

[sft]
tasks = { procedural = { num_tasks = 64, min_steps = 2, max_steps = 2, seed = 1, level = "tiny" } }
max_steps = 6
batch_size = 4
micro_batch_tokens = 1024
lr = 1e-3
max_length = 512
save_every = 2

[rl]
tasks = { procedural = { num_tasks = 16, min_steps = 2, max_steps = 2, seed = 2, level = "tiny" } }
steps = 4
batch_size = 2
group_size = 2
micro_batch_tokens = 1024
max_prompt_tokens = 300
kl_coef = 0.1
filter = false
save_every = 1

[rl.sampling]
max_new_tokens = 12

[eval]
tasks = { procedural = { num_tasks = 4, min_steps = 2, max_steps = 2, seed = 3, split = "test", level = "tiny" } }
samples = 1

[eval.sampling]
max_new_tokens = 12

[reward]
lambda_ans = 1.0
lambda_ent = 0.0

[logging]
rollouts_every = 1
"#;

/// A config of a very small run, and a folder for what it leaves.
pub(super) struct Bench {
    folder: tempfile::TempDir,
    pub(super) config: PathBuf,
}

impl Bench {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("run.toml");
        fs::write(&config, CONFIG).unwrap();
        Self { folder, config }
    }

    pub(super) fn out(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn args(&self, out: &Path, more: &[&str]) -> Vec<String> {
        let own = ["train", "--config", self.config.to_str().unwrap(), "--out", out.to_str().unwrap()];
        own.iter().chain(more).map(|text| (*text).to_owned()).collect()
    }

    pub(super) fn train(&self, out: &Path, more: &[&str]) {
        self.said(out, more);
    }

    /// What a run that ends well says.
    fn said(&self, out: &Path, more: &[&str]) -> String {
        let args = self.args(out, more);
        let output = skein(&args.iter().map(String::as_str).collect::<Vec<_>>());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    }

    pub(super) fn refused(&self, out: &Path, more: &[&str], code: i32, expected: &str) {
        let args = self.args(out, more);
        assert_refused(&args.iter().map(String::as_str).collect::<Vec<_>>(), code, expected);
    }

    /// A run in the background that has written the checkpoint of `step`.
    pub(super) fn start_until(&self, out: &Path, step: u64, more: &[String]) -> Child {
        let args = self.args(out, &more.iter().map(String::as_str).collect::<Vec<_>>());
        let child = Command::new(env!("CARGO_BIN_EXE_skein")).args(args).stderr(Stdio::null()).spawn().unwrap();
        wait_for(out, step);
        child
    }
}

/// Returns once a run has written the checkpoint of `step`.
fn wait_for(out: &Path, step: u64) {
    let checkpoint = out.join(format!("step_{step:06}"));
    let started = Instant::now();
    while !checkpoint.exists() {
        assert!(started.elapsed() < PATIENCE, "{} never came", checkpoint.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(super) fn weights(out: &Path, step: u64) -> Vec<u8> {
    fs::read(out.join(format!("step_{step:06}/model.safetensors"))).unwrap()
}

#[test]
fn a_run_leaves_checkpoints_metrics_rollouts_and_an_evaluation() {
    let bench = Bench::new();
    let out = bench.out("run");
    bench.train(&out, &[]);
    for file in ["config.toml", "environment.json", "metrics.jsonl", "metrics.csv", "latest/config.json"] {
        assert!(out.join(file).is_file(), "{file} is missing");
    }
    assert_eq!(fs::read_link(out.join("sft")).unwrap(), Path::new("step_000006"));
    assert_eq!(fs::read_link(out.join("latest")).unwrap(), Path::new("step_000010"));
    assert!(out.join("rollouts/step_000010.jsonl").is_file());
    let evaluation = fs::read_to_string(out.join("eval/02_step_000010.json")).unwrap();
    let evaluation: serde_json::Value = serde_json::from_str(&evaluation).unwrap();
    assert_eq!(evaluation["tasks"].as_array().unwrap().len(), 4);
    assert_eq!(evaluation["arm"], "test");
    let metrics = fs::read_to_string(out.join("metrics.jsonl")).unwrap();
    for name in ["sft/loss", "reward/mean", "actor/kl", "response_length/mean", "eval/score"] {
        assert!(metrics.contains(name), "no {name} in metrics.jsonl");
    }
    let report = skein(&["report", out.to_str().unwrap()]);
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    assert!(out.join("report.html").is_file());
}

#[test]
fn a_killed_run_goes_on_to_the_same_weights() {
    let bench = Bench::new();
    let straight = bench.out("straight");
    bench.train(&straight, &[]);
    // In SFT, at the border of the stages, and in RL, where the reference model must come from the border.
    for kill_after in [2, 6, 8] {
        let out = bench.out(&format!("killed-{kill_after}"));
        let mut child = bench.start_until(&out, kill_after, &[]);
        child.kill().unwrap();
        child.wait().unwrap();
        bench.train(&out, &["--resume", "auto"]);
        assert!(weights(&straight, 10) == weights(&out, 10), "weights differ after a kill at step {kill_after}");
        let steps = |run: &Path| fs::read_to_string(run.join("metrics.jsonl")).unwrap().lines().count();
        assert_eq!(steps(&straight), steps(&out), "metrics rows differ after a kill at step {kill_after}");
    }
}

#[test]
fn a_run_that_nobody_hears_goes_on() {
    let bench = Bench::new();
    let out = bench.out("run");
    let mut child = Command::new(env!("CARGO_BIN_EXE_skein"))
        .args(bench.args(&out, &[]))
        .stderr(fs::OpenOptions::new().write(true).open("/dev/full").unwrap())
        .spawn()
        .unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(fs::read_link(out.join("latest")).unwrap(), Path::new("step_000010"));
}

#[test]
fn ctrl_c_saves_and_the_run_goes_on() {
    let bench = Bench::new();
    let out = bench.out("run");
    let mut child = bench.start_until(&out, 2, &[]);
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    bench.train(&out, &["--resume", "auto"]);
    let straight = bench.out("straight");
    bench.train(&straight, &[]);
    assert!(weights(&straight, 10) == weights(&out, 10), "weights differ after Ctrl-C");
}

#[test]
fn a_closed_terminal_saves_unless_the_run_was_to_outlive_it() {
    let bench = Bench::new();
    let hang_up = |child: &Child| {
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    };
    let out = bench.out("run");
    let skein = env!("CARGO_BIN_EXE_skein");
    // The tests themselves may run under nohup.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", skein]).args(bench.args(&out, &[])).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    wait_for(&out, 2);
    // From the system and from the shell.
    hang_up(&child);
    hang_up(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let stopped_at = fs::read_link(out.join("latest")).unwrap();
    assert_ne!(stopped_at, Path::new("step_000010"), "it went on to its end");
    bench.train(&out, &["--resume", "auto"]);

    let kept = bench.out("kept");
    let mut command = Command::new("nohup");
    command.arg(skein).args(bench.args(&kept, &[])).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    wait_for(&kept, 2);
    assert!(child.try_wait().unwrap().is_none(), "there is no run to hang up");
    hang_up(&child);
    assert!(child.wait().unwrap().success());
    assert!(weights(&kept, 10) == weights(&out, 10), "weights differ after a hangup");
}

#[test]
fn a_directory_with_a_run_is_refused_unless_resuming() {
    let bench = Bench::new();
    let out = bench.out("run");
    bench.train(&out, &["--set", "stages=[\"sft\"]"]);
    bench.refused(&out, &["--set", "stages=[\"sft\"]"], 2, "already holds a run");
    bench.refused(&out, &["--set", "seed=5", "--resume", "auto"], 2, "seed");
}

#[test]
fn a_finished_run_goes_on_for_more_rl_steps_and_for_nothing_else() {
    let bench = Bench::new();
    let (straight, out) = (bench.out("straight"), bench.out("run"));
    bench.train(&straight, &["--set", "rl.steps=6"]);
    bench.train(&out, &[]);
    let config = fs::read_to_string(out.join("config.toml")).unwrap();
    for steps in [4, 2] {
        let said = bench.said(&out, &["--resume", "auto", "--set", &format!("rl.steps={steps}")]);
        assert!(said.contains("has finished, there is nothing to do; a larger rl.steps than 4"), "{said}");
        assert_eq!(said.contains("rl.steps = 4 and is now asked for 2: it stays as it is"), steps == 2, "{said}");
        assert_eq!(fs::read_to_string(out.join("config.toml")).unwrap(), config, "the run is as it was");
    }
    bench.refused(&out, &["--resume", "auto", "--set", "sft.max_steps=9"], 2, "SFT can't be made longer");

    let said = bench.said(&out, &["--resume", "auto", "--set", "rl.steps=6"]);
    assert!(said.contains("the rl stage goes on from its step 4 to step 6"), "{said}");
    assert!(weights(&straight, 12) == weights(&out, 12), "a longer run differs from one that was that long at once");
    assert!(out.join("eval/02_step_000012.json").is_file(), "the evaluation is done again");
    for name in ["rl", "latest"] {
        assert_eq!(fs::read_link(out.join(name)).unwrap(), Path::new("step_000012"), "{name}");
    }
    let rows = |run: &Path| fs::read_to_string(run.join("metrics.jsonl")).unwrap().lines().count();
    assert_eq!(rows(&out), rows(&straight) + 1, "each update once, and the evaluation after step 4");

    // Only its evaluation is made again, and its config goes on telling how it was trained.
    let evaluation = out.join("eval/02_step_000012.json");
    let samples = |path: &Path| {
        serde_json::from_str::<serde_json::Value>(&fs::read_to_string(path).unwrap()).unwrap()["samples"].clone()
    };
    let before = samples(&evaluation).as_u64().unwrap();
    let more = format!("eval.samples={}", before + 1);
    bench.train(&out, &["--resume", "auto", "--set", "rl.steps=2", "--set", &more]);
    assert_eq!(samples(&evaluation), before + 1);
    let config: toml::Table = fs::read_to_string(out.join("config.toml")).unwrap().parse().unwrap();
    assert_eq!(config["rl"]["steps"].as_integer(), Some(6));
    fs::write(&evaluation, "").unwrap();
    let said = bench.said(&out, &["--resume", "auto", "--set", "rl.steps=6", "--set", &more]);
    assert!(said.contains("02_step_000012.json is not an evaluation") && said.contains("it is made again"), "{said}");
    assert_eq!(samples(&evaluation), before + 1);
}

#[test]
fn an_rl_stage_that_others_build_on_stays_as_long_as_it_is() {
    let bench = Bench::new();
    let out = bench.out("run");
    let stages = ["--set", "stages=[\"rl\",\"sft\"]", "--set", "rl.steps=1", "--set", "sft.max_steps=1"];
    bench.train(&out, &stages);
    let longer = [&stages[..2], &stages[4..], &["--set", "rl.steps=2", "--resume", "auto"]].concat();
    bench.refused(&out, &longer, 2, "a later stage has trained on its weights: it can't be made longer");
}

#[test]
fn a_run_that_is_past_what_it_is_asked_for_says_so() {
    let bench = Bench::new();
    let out = bench.out("run");
    let mut child = bench.start_until(&out, 9, &["--set", "rl.steps=50"].map(str::to_owned));
    child.kill().unwrap();
    child.wait().unwrap();
    // `latest` may still have been the checkpoint before.
    let said = bench.said(&out, &["--resume", "auto", "--set", "rl.steps=1"]);
    assert!(said.contains("more than rl.steps = 1: it ends here"), "{said}");
}

#[test]
fn a_task_that_cannot_be_used_is_told_by_file_and_line() {
    let bench = Bench::new();
    let tasks = bench.out("tasks.jsonl");
    let good = skein(&[
        "synth",
        "--procedural",
        "--n",
        "1",
        "--single",
        "--level",
        "tiny",
        "--traces",
        "--out",
        tasks.to_str().unwrap(),
    ]);
    assert!(good.status.success());
    let good = fs::read_to_string(&tasks).unwrap();
    let bad = |domain: &str, answer: &str, trace: &str| {
        let step = format!(r#"{{"question":"q","answer":{answer},"domain":"{domain}","skill":"Area Calculation"}}"#);
        format!("{{\"id\":\"bad\",\"scenario\":\"\"{trace},\"steps\":[{step}]}}\n")
    };
    let of = |stage: &str| format!("{stage}.tasks={{file={tasks:?}}}");
    for (stage, line, expected) in [
        ("sft", bad("math", "\"1\"", ""), "tasks.jsonl:3: task `bad` has no trace to imitate"),
        ("sft", bad("math", "\"1\"", ",\"trace\":\"1\""), "tasks.jsonl:3: task `bad`: its trace does not keep"),
        (
            "rl",
            bad("creative_writing", "\"1\"", ""),
            "tasks.jsonl:3: task `bad`, step 1: the domain `creative_writing` needs",
        ),
        ("eval", bad("coding", "\"1\"", ""), "tasks.jsonl:3: task `bad`, step 1: the gold answer of a coding step"),
        (
            "rl",
            bad("math", "\"1\"", "").replace("\"q\"", &format!("{:?}", "why ".repeat(300))),
            "tasks.jsonl:3: task `bad`: its prompt has",
        ),
    ] {
        fs::write(&tasks, format!("{good}\n{line}")).unwrap();
        bench.refused(
            &bench.out("run"),
            &["--set", &of(stage), "--set", "rl.max_prompt_tokens=500", "--set", "rl.micro_batch_tokens=512"],
            2,
            expected,
        );
    }
}

#[test]
fn what_is_damaged_in_a_runs_directory_is_named() {
    let bench = Bench::new();
    let out = bench.out("run");
    let stages = ["--set", "stages=[\"sft\",\"eval\"]", "--set", "sft.save_every=1"];
    bench.train(&out, &stages);
    let resume = [&stages[..], &["--resume", "auto"]].concat();
    let report = |code: i32, expected: &str| assert_refused(&["report", out.to_str().unwrap()], code, expected);
    let (config, metrics) = (out.join("config.toml"), out.join("metrics.jsonl"));
    let [whole_config, whole_metrics] = [&config, &metrics].map(|path| fs::read_to_string(path).unwrap());

    fs::write(&config, &whole_config[..whole_config.find("[reward]").unwrap()]).unwrap();
    bench.refused(&out, &resume, 1, "config.toml is damaged, or another version's: it lacks ");
    fs::write(&config, &whole_config[..whole_config.find("lr =").unwrap() + 5]).unwrap();
    bench.refused(&out, &resume, 1, "config.toml is damaged, or another version's: line ");
    fs::write(&config, &whole_config).unwrap();

    // Cut short by a kill: what is whole counts, what is lost is said where it is to be gone on from.
    fs::write(&metrics, &whole_metrics[..whole_metrics.find('\n').unwrap() + 5]).unwrap();
    report(0, "");
    fs::remove_dir_all(out.join("eval")).unwrap();
    let said = bench.said(&out, &resume);
    assert!(said.contains("metrics.jsonl: if steps 2 to 6 had records, they are lost"), "{said}");

    fs::write(&metrics, format!("{{\"step\":1,\n{whole_metrics}")).unwrap();
    let expected = "metrics.jsonl:1: not a metrics record: EOF while parsing";
    report(1, expected);
    fs::remove_dir_all(out.join("eval")).unwrap();
    bench.refused(&out, &resume, 1, expected);

    // A pipe that nobody writes must not be waited for.
    fs::remove_file(&metrics).unwrap();
    assert!(Command::new("mkfifo").arg(&metrics).status().unwrap().success());
    bench.refused(&out, &resume, 1, "metrics.jsonl: this is not a file; remove it");
}

#[test]
fn a_skill_that_nothing_knows_is_said_at_the_start() {
    let bench = Bench::new();
    let tasks = bench.out("tasks.jsonl");
    let step = r#"{"question":"1+1?","answer":"2","domain":"math","skill":"Area Calculatoin"}"#;
    fs::write(&tasks, format!("{{\"id\":\"a\",\"scenario\":\"\",\"steps\":[{step}]}}\n")).unwrap();
    let more = ["--set", &format!("rl.tasks={{file={tasks:?}}}"), "--set", "rl.max_prompt_tokens=1"];
    let expected = "tasks.jsonl:1: `steps[0].skill`: `Area Calculatoin` is not among the known skills of math (did you mean \
                    `Area Calculation`?)";
    bench.refused(&bench.out("run"), &more, 2, expected);
}

#[test]
fn updates_that_are_not_finite_are_skipped_then_end_the_run() {
    let bench = Bench::new();
    let out = bench.out("run");
    bench.refused(&out, &["--set", "sft.lr=1e38", "--set", "sft.max_steps=40"], 1, "updates in a row were skipped");
    assert!(out.join("latest/model.safetensors").is_file());
    let skipped: Vec<_> = fs::read_dir(out.join("skipped")).unwrap().collect();
    assert_eq!(skipped.len(), 6, "each skipped update leaves its batch: sft.max_skipped_steps and the one past it");
}

#[test]
fn what_cannot_work_is_said_before_anything_is_written() {
    let bench = Bench::new();
    let out = bench.out("run");
    for (set, expected) in [
        ("rl.stepz=3", "did you mean `steps`"),
        ("rl.steps=\"many\"", "rl.steps"),
        ("model.path=no/such/dir/at/all", "no/such/dir/at/all"),
        ("sft.tasks={file=\"missing.jsonl\"}", "missing.jsonl"),
    ] {
        bench.refused(&out, &["--set", set], 2, expected);
        assert!(!out.exists(), "{set} left {}", out.display());
    }
    let broken = bench.out("broken.jsonl");
    fs::write(&broken, "{\"id\": \"a\", \"scenario\": \"\", \"steps\": []\n").unwrap();
    bench.refused(&out, &["--set", &format!("sft.tasks={{file={broken:?}}}")], 2, "broken.jsonl:1");
    fs::write(&broken, "").unwrap();
    bench.refused(&out, &["--set", &format!("sft.tasks={{file={broken:?}}}")], 2, "broken.jsonl");
    bench.refused(&out, &["--set", "rl.max_prompt_tokens=10"], 2, "rl.max_prompt_tokens");
}

#[test]
fn a_damaged_newest_checkpoint_is_passed_over() {
    let bench = Bench::new();
    let out = bench.out("run");
    bench.train(&out, &["--set", "stages=[\"sft\"]", "--set", "checkpoint.keep_last=3"]);
    let (newest, latest) = (out.join("step_000006/model.safetensors"), out.join("latest"));
    let bytes = fs::read(&newest).unwrap();
    let written = |step: u64| fs::metadata(out.join(format!("step_{step:06}/MANIFEST.json"))).unwrap().ino();
    let earlier = [2, 4].map(written);
    type Damage<'a> = &'a dyn Fn();
    let damages: [(&str, Damage); 3] = [
        ("cut short", &|| fs::write(&newest, &bytes[..bytes.len() / 2]).unwrap()),
        ("gone, and its name with it", &|| {
            fs::remove_dir_all(newest.parent().unwrap()).unwrap();
            fs::remove_file(&latest).unwrap();
        }),
        ("gone, and its name not", &|| fs::remove_dir_all(newest.parent().unwrap()).unwrap()),
    ];
    for (what, damage) in damages {
        damage();
        bench.train(&out, &["--set", "stages=[\"sft\"]", "--set", "checkpoint.keep_last=3", "--resume", "auto"]);
        assert_eq!(fs::read(&newest).unwrap(), bytes, "{what}: the run went on from step 4 to the same weights");
        assert_eq!([2, 4].map(written), earlier, "{what}: the run began anew");
        assert_eq!(fs::read_link(&latest).unwrap(), Path::new("step_000006"), "{what}");
    }
}

#[test]
fn twenty_kills_at_random_instants_change_no_bit() {
    let bench = Bench::new();
    let config = bench.config.to_str().unwrap();
    let mut args = vec!["verify-resume", "--config", config, "--steps", "6", "--kills", "20"];
    // Mini-batches, groups that wait for the next step, evaluations on the way, and ends of epochs.
    for set in [
        "rl.mini_batch_size=1",
        "rl.rollout_batch_size=3",
        "rl.eval_every=2",
        "rl.advantage=\"batch_std\"",
        "rl.level_weights={low=2.0}",
        "rl.tasks={procedural={num_tasks=5,min_steps=2,max_steps=2,seed=2,level=\"tiny\"}}",
        "sft.tasks={procedural={num_tasks=9,min_steps=2,max_steps=2,seed=1,level=\"tiny\"}}",
    ] {
        args.extend(["--set", set]);
    }
    let output = skein(&args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("bitwise equal after 20 kills"));
}

#[test]
fn the_best_checkpoint_is_kept_and_patience_ends_the_stage() {
    let bench = Bench::new();
    let out = bench.out("run");
    let more = ["--set", "rl.eval_every=1", "--set", "rl.patience=2", "--set", "rl.steps=9", "--set", "rl.lr=1e-30"];
    bench.train(&out, &[&more[..], &["--set", "checkpoint.keep_last=1"]].concat());
    // With such a rate no evaluation beats the one before the first step: two more, and the stage is over.
    assert_eq!(fs::read_link(out.join("best")).unwrap(), Path::new("step_000006"));
    assert_eq!(fs::read_link(out.join("latest")).unwrap(), Path::new("step_000008"));
    assert!(out.join("best/model.safetensors").is_file(), "pruning passes over the best");
    let state: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(out.join("best/trainer/state.json")).unwrap()).unwrap();
    assert!(state["run"]["evaluated_at"].is_null(), "the checkpoint that SFT left was named, not written again");
}

#[test]
fn the_same_weights_are_evaluated_once() {
    let bench = Bench::new();
    let out = bench.out("run");
    let more = ["--set", "stages=[\"sft\",\"eval\",\"rl\",\"eval\"]", "--set", "rl.eval_every=2"];
    bench.train(&out, &more);
    let names = fs::read_dir(out.join("eval")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut evaluations: Vec<String> = names.filter(|name| name.ends_with(".json")).collect();
    evaluations.sort();
    assert_eq!(evaluations, ["01_step_000006.json", "02_step_000008.json", "02_step_000010.json"]);
    let metrics = fs::read_to_string(out.join("metrics.jsonl")).unwrap();
    let rows = metrics.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let steps: Vec<u64> =
        rows.filter(|row| row.get("eval/score").is_some()).map(|row| row["step"].as_u64().unwrap()).collect();
    assert_eq!(steps, [6, 8, 10]);
    let said = bench.said(&out, &[&more[..], &["--resume", "auto"]].concat());
    assert!(said.contains("has finished, there is nothing to do"), "{said}");
}

#[test]
fn checkpoints_are_listed_verified_exported_and_pruned() {
    let bench = Bench::new();
    let out = bench.out("run");
    bench.train(&out, &["--set", "checkpoint.keep_last=0", "--set", "stages=[\"sft\"]"]);
    let run = out.to_str().unwrap();
    let stdout = |args: &[&str]| {
        let output = skein(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let listed = stdout(&["ckpt", "ls", run, "--json"]);
    let steps: Vec<serde_json::Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(steps.iter().map(|line| line["step"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 4, 6]);
    assert_eq!(steps[2]["links"], serde_json::json!(["latest", "sft"]));
    assert_eq!(stdout(&["ckpt", "verify", run]).matches(": whole").count(), 3);

    let exported = bench.out("exported");
    let checkpoint = out.join("latest");
    stdout(&["ckpt", "export", checkpoint.to_str().unwrap(), "--out", exported.to_str().unwrap()]);
    assert!(exported.join("model.safetensors").is_file() && exported.join("tokenizer.json").is_file());
    assert!(!exported.join("trainer").exists() && !exported.join("MANIFEST.json").exists());
    assert_refused(
        &["ckpt", "export", checkpoint.to_str().unwrap(), "--out", exported.to_str().unwrap()],
        2,
        "is there already",
    );

    let damaged = out.join("step_000002/model.safetensors");
    let mut bytes = fs::read(&damaged).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&damaged, bytes).unwrap();
    assert_refused(&["ckpt", "verify", run], 1, "1 of 3 checkpoints are damaged");
    assert_refused(
        &["ckpt", "export", damaged.parent().unwrap().to_str().unwrap(), "--out", bench.out("x").to_str().unwrap()],
        1,
        "do not match their hash",
    );
    assert!(!bench.out("x").exists());
    assert_eq!(stdout(&["ckpt", "prune", run, "--keep-last", "1"]).lines().count(), 2);
    assert_eq!(stdout(&["ckpt", "ls", run, "--json"]).lines().count(), 1);
    assert_refused(&["ckpt", "ls", "no/such/run"], 2, "is no directory");

    let empty = bench.folder.path().to_str().unwrap();
    assert!(stdout(&["ckpt", "ls", empty]).contains("has no checkpoint: a run writes its first"));
    assert_refused(&["ckpt", "verify", empty], 1, "has no checkpoint: a run writes its first");
    let newest = out.join("step_000006");
    assert_eq!(stdout(&["ckpt", "verify", out.join("latest").to_str().unwrap()]).matches(": whole").count(), 1);
    fs::remove_file(newest.join("MANIFEST.json")).unwrap();
    assert_refused(&["ckpt", "verify", newest.to_str().unwrap()], 1, "1 of 1 checkpoints are damaged");
}

/// A scorer of the user's whose score depends on the answer alone and whose time does not.
const SCORER: &str = r#"
import hashlib, json, random, sys, time
mode, seed = sys.argv[1], sys.argv[2]
random.seed(seed)
for count, line in enumerate(sys.stdin):
    request = json.loads(line)
    if mode == "silent":
        continue
    if mode == "tired" and count >= 8:
        print(json.dumps({"id": request["id"], "error": "tired"}), flush=True)
        continue
    if mode != "tired":
        time.sleep(random.random() * float(mode))
    digest = hashlib.sha256(request["answer"].encode()).digest()
    print(json.dumps({"id": request["id"], "score": digest[0] / 255}), flush=True)
"#;

impl Bench {
    /// Settings that put [`SCORER`] in the place of every domain's scorer.
    pub(super) fn scorer(&self, mode: &str, seed: &str) -> Vec<String> {
        let script = self.out("scorer.py");
        fs::write(&script, SCORER).unwrap();
        let scorer = |domain: &str| {
            format!("reward.scorers.{domain}={{command=[\"python3\",{script:?},\"{mode}\",\"{seed}\"]}}")
        };
        let settings = ["math", "science", "information_extraction"].map(scorer);
        settings.into_iter().flat_map(|setting| ["--set".to_owned(), setting]).collect()
    }
}

/// What teaches the small model the response format, so that there are answers to score: single questions, a high rate.
pub(super) const SCORED: [&str; 12] = [
    "--set",
    "sft.max_steps=300",
    "--set",
    "sft.lr=1e-2",
    "--set",
    "model.scratch.init_std=0.06",
    "--set",
    "rl.sampling.max_new_tokens=80",
    "--set",
    "sft.tasks={procedural={num_tasks=400,min_steps=1,max_steps=1,seed=1,level=\"tiny\"}}",
    "--set",
    "rl.tasks={procedural={num_tasks=16,min_steps=1,max_steps=1,seed=2,level=\"tiny\"}}",
];

#[test]
fn when_a_reward_comes_decides_nothing() {
    let bench = Bench::new();
    let runs = [("0.0", "1"), ("0.05", "2")].map(|(mode, seed)| {
        let out = bench.out(&format!("run-{seed}"));
        let scorer = bench.scorer(mode, seed);
        let more: Vec<&str> = SCORED.into_iter().chain(scorer.iter().map(String::as_str)).collect();
        bench.train(&out, &more);
        let metrics = fs::read_to_string(out.join("metrics.jsonl")).unwrap();
        let rewarded = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["reward/mean"].as_f64();
        assert!(metrics.lines().filter_map(rewarded).any(|reward| reward > 0.0), "nothing was scored");
        weights(&out, 304)
    });
    assert!(runs[0] == runs[1], "weights depend on how long graders take");
}

#[test]
fn graders_that_hang_are_errors_and_too_many_end_the_run() {
    let bench = Bench::new();
    let scorer = bench.scorer("silent", "1");
    let limits = ["--set", "reward.grader_secs=0.3", "--set", "stages=[\"sft\",\"rl\"]"];
    let more: Vec<&str> = SCORED.into_iter().chain(limits).chain(scorer.iter().map(String::as_str)).collect();
    bench.refused(&bench.out("strict"), &more, 1, "responses could not be graded");
    let out = bench.out("tolerant");
    bench.train(&out, &[&more[..], &["--set", "reward.max_error_rate=1.0"]].concat());
    let metrics = fs::read_to_string(out.join("metrics.jsonl")).unwrap();
    let errors = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["reward/errors"].as_f64();
    assert!(metrics.lines().filter_map(errors).any(|errors| errors > 0.0), "{metrics}");
}
