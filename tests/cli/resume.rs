//! Runs whose rewards move the weights: what a resumed one must repeat, and what a stage that learns nothing does.

use std::f64::consts::PI;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;

use super::skein;
use super::train::{Bench, SCORED, weights};

/// Updates of [`SCORED`]'s SFT stage, after which RL begins.
const SFT_STEPS: u64 = 300;
/// RL steps of [`learning`].
const RL_STEPS: u64 = 6;
/// Learning rates are written as they are computed, but for the schedule's own rounding.
const RATE_TOLERANCE: f64 = 1e-12;

/// RL that filters, carries groups over, takes two updates a step, ends epochs and follows a schedule.
fn learning(more: &[&'static str]) -> Vec<&'static str> {
    let own = [
        "rl.filter=true",
        "rl.group_size=4",
        "rl.batch_size=4",
        "rl.mini_batch_size=2",
        "rl.rollout_batch_size=6",
        "rl.lr=1e-3",
        "rl.steps=6",
        "rl.schedule=\"cosine\"",
        "rl.warmup_steps=2",
        "checkpoint.keep_last=0",
        "logging.rollouts_per_step=1000",
    ];
    let set = |settings: &[&'static str]| settings.iter().flat_map(|&setting| ["--set", setting]).collect::<Vec<_>>();
    [&SCORED[..], &set(&own), &set(more)].concat()
}

/// The rows of RL steps, without what depends on the machine's speed.
fn rl_rows(run: &Path) -> Vec<Value> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut rows: Vec<Value> = rows.filter(|row| row.get("rollout/rounds").is_some()).collect();
    for row in &mut rows {
        let fields = row.as_object_mut().unwrap();
        fields.retain(|name, _| {
            name != "time"
                && !["timing_s/", "perf/"].iter().any(|part| name.starts_with(part))
                && !name.ends_with("second")
        });
    }
    rows
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("no {name} in {row}"))
}

/// Task ids of the rollouts of one step, one for each group, in order.
fn prompts(run: &Path, step: u64) -> Vec<String> {
    let text = fs::read_to_string(run.join(format!("rollouts/step_{step:06}.jsonl"))).unwrap_or_default();
    let rollouts = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rollouts
        .filter(|rollout| rollout["sample"] == 0)
        .map(|rollout| rollout["id"].as_str().unwrap().to_owned())
        .collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, target) = (entry.as_ref().unwrap().path(), to.join(entry.as_ref().unwrap().file_name()));
        if path.is_symlink() {
            symlink(fs::read_link(&path).unwrap(), target).unwrap();
        } else if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, target).unwrap();
        }
    }
}

#[test]
fn a_run_resumed_at_any_step_of_a_stage_that_learns_repeats_it() {
    let bench = Bench::new();
    let straight = bench.out("straight");
    bench.train(&straight, &learning(&[]));
    let end = SFT_STEPS + RL_STEPS;
    let rows = rl_rows(&straight);
    assert!(weights(&straight, SFT_STEPS) != weights(&straight, end), "nothing was learned: the test tests nothing");
    assert!(rows.iter().any(|row| number(row, "actor/kl") > 0.0), "the reference is the policy");
    for from in SFT_STEPS..end {
        let out = bench.out(&format!("from-{from}"));
        copy(&straight, &out);
        // What comes after must come again; an evaluation that is there would be read instead of made.
        fs::remove_dir_all(out.join("eval")).unwrap();
        for step in from + 1..=end {
            fs::remove_dir_all(out.join(format!("step_{step:06}"))).unwrap();
            fs::remove_file(out.join(format!("rollouts/step_{step:06}.jsonl"))).unwrap();
        }
        fs::remove_file(out.join("rl")).unwrap();
        fs::remove_file(out.join("latest")).unwrap();
        symlink(format!("step_{from:06}"), out.join("latest")).unwrap();
        bench.train(&out, &[&learning(&[])[..], &["--resume", "auto"]].concat());
        assert!(weights(&out, end) == weights(&straight, end), "other weights from step {from}");
        assert_eq!(rl_rows(&out), rows, "from step {from}");
        for step in SFT_STEPS + 1..=end {
            assert_eq!(prompts(&out, step), prompts(&straight, step), "prompts of step {step}, from {from}");
        }
    }
}

#[test]
fn kills_in_a_stage_that_learns_change_no_bit() {
    let bench = Bench::new();
    let sft = bench.out("sft");
    bench.train(&sft, &[&SCORED[..], &["--set", "stages=[\"sft\"]"]].concat());
    // The learned model as the start, so that every kill lands in RL.
    let model = format!("model.path={}", sft.join("latest").display());
    let out = bench.out("verify");
    let config = bench.config.to_str().unwrap();
    let run = ["verify-resume", "--config", config, "--steps", "6", "--kills", "8", "--set", &model];
    let settings = learning(&["stages=[\"rl\"]", "rl.eval_every=3", "checkpoint.keep_last=1"]);
    let settings = &settings[SCORED.len()..];
    let tasks = ["--set", "rl.sampling.max_new_tokens=80", "--set", SCORED[SCORED.len() - 1]];
    let output = skein(&[&run[..], &["--out", out.to_str().unwrap()], &tasks, settings].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(weights(&sft, SFT_STEPS) != weights(&out.join("straight"), RL_STEPS), "nothing was learned");
}

#[test]
fn steps_count_updates_and_not_rounds_of_generation() {
    let bench = Bench::new();
    let run = bench.out("run");
    bench.train(&run, &learning(&[]));
    let rows = rl_rows(&run);
    assert_eq!(rows.len() as u64, RL_STEPS);
    assert!(rows.iter().any(|row| number(row, "rollout/rounds") > 1.0), "no step needed more than one round");
    assert!(number(rows.last().unwrap(), "ledger/filtered") > 0.0);
    // Two steps of warm-up, then half a cosine over the four that are left.
    let expected =
        [5e-4, 1e-3, 1e-3, 1e-3 * (1.0 + (PI / 4.0).cos()) / 2.0, 5e-4, 1e-3 * (1.0 + (0.75 * PI).cos()) / 2.0];
    for (row, expected) in rows.iter().zip(expected) {
        assert!((number(row, "actor/lr") - expected).abs() < RATE_TOLERANCE, "{row} lacks {expected}");
    }
    let state = fs::read_to_string(run.join("latest/trainer/state.json")).unwrap();
    let state: Value = serde_json::from_str(&state).unwrap();
    assert_eq!((state["run"]["rl_updates"].as_u64(), state["optimizer_step"].as_u64()), (Some(12), Some(12)));
}

#[test]
fn every_prompt_is_drawn_once_an_epoch_and_ends_in_one_way() {
    let bench = Bench::new();
    let run = bench.out("run");
    let three = "rl.tasks={procedural={num_tasks=3,min_steps=1,max_steps=1,seed=2,level=\"tiny\"}}";
    bench.train(&run, &learning(&[three, "rl.batch_size=2", "rl.rollout_batch_size=4"]));
    let drawn: Vec<String> = (SFT_STEPS + 1..=SFT_STEPS + RL_STEPS).flat_map(|step| prompts(&run, step)).collect();
    assert!(drawn.len() > 6, "{drawn:?}");
    for epoch in drawn.chunks_exact(3) {
        let distinct: std::collections::BTreeSet<&String> = epoch.iter().collect();
        assert_eq!(distinct.len(), 3, "{drawn:?}");
    }
    for row in rl_rows(&run) {
        let [drawn, trained, filtered, stale, waiting] =
            ["ledger/drawn", "ledger/trained", "ledger/filtered", "ledger/stale", "rollout/groups_waiting"]
                .map(|name| number(&row, name));
        assert_eq!(drawn, trained + filtered + stale + waiting, "{row}");
    }
}

#[test]
fn tasks_that_teach_nothing_end_in_bounded_time() {
    // No SFT to speak of: no response parses, so that all rewards of every group are 0.
    let bench = Bench::new();
    let run = bench.out("run");
    let more = ["--set", "rl.filter=true", "--set", "rl.max_rounds=3"];
    bench.train(&run, &more);
    let rows = rl_rows(&run);
    for row in &rows {
        let found = ["rollout/rounds", "rollout/groups_kept", "actor/skipped"].map(|name| number(row, name));
        assert_eq!(found, [3.0, 0.0, 1.0], "{row}");
    }
    assert_eq!(number(rows.last().unwrap(), "ledger/filtered"), 24.0);
    assert!(weights(&run, 10) == weights(&run, 6), "a step without a group changed the weights");

    let stopped = bench.out("stopped");
    let stop = [&more[..], &["--set", "rl.at_bound=\"stop\""]].concat();
    bench.refused(&stopped, &stop, 1, "0 of 2 groups have rewards that differ; 6 were dropped");
    assert!(skein(&["ckpt", "verify", stopped.to_str().unwrap()]).status.success());
}

#[test]
fn length_makes_no_group_worth_training_on() {
    // Wrong answers that end anywhere, under a penalty that is another for each length.
    let bench = Bench::new();
    let more = [
        "--set",
        "rl.group_size=4",
        "--set",
        "rl.overlong_buffer_tokens=12",
        "--set",
        "rl.sampling.stop_strings=[\"e\", \"a\", \"1\"]",
        "--set",
        "rl.max_rounds=2",
    ];
    let filtered = bench.out("filtered");
    bench.train(&filtered, &[&more[..], &["--set", "rl.filter=true"]].concat());
    for row in rl_rows(&filtered) {
        let found = ["reward/mean", "rollout/groups_kept", "actor/skipped"].map(|name| number(&row, name));
        assert_eq!(found, [0.0, 0.0, 1.0], "{row}");
    }
    // The same groups do differ once they are shaped.
    let kept = bench.out("kept");
    bench.train(&kept, &more);
    assert!(rl_rows(&kept).iter().any(|row| number(row, "actor/grad_norm") > 0.0));
}

#[test]
fn a_step_that_fails_loses_none_before_it() {
    let bench = Bench::new();
    let run = bench.out("run");
    // Graders that give up after a while, and no checkpoint on the way.
    let scorer = bench.scorer("tired", "1");
    let limits = ["--set", "rl.steps=60", "--set", "rl.save_every=0"];
    let args: Vec<&str> = SCORED.into_iter().chain(limits).chain(scorer.iter().map(String::as_str)).collect();
    bench.refused(&run, &args, 1, "responses could not be graded");
    let steps = rl_rows(&run).len() as u64;
    assert!(steps > 0, "the first step failed already: the test tests nothing");
    let latest = fs::read_link(run.join("latest")).unwrap();
    assert_eq!(latest, Path::new(&format!("step_{:06}", SFT_STEPS + steps)));
}

#[test]
fn the_temperature_is_the_same_for_rollouts_training_and_reference() {
    let bench = Bench::new();
    for temperature in ["0.6", "1.3"] {
        let run = bench.out(temperature);
        let set = format!("rl.sampling.temperature={temperature}");
        let more =
            ["stages=[\"rl\"]", "rl.steps=1", "model.scratch.init_std=0.2", "rl.sampling.max_new_tokens=40", &set];
        let more: Vec<&str> = more.iter().flat_map(|&setting| ["--set", setting]).collect();
        bench.train(&run, &more);
        // The first update: policy, sampler and reference are one model, apart by f32's rounding.
        let row = &rl_rows(&run)[0];
        assert!(number(row, "actor/approx_kl").abs() < 1e-5 && number(row, "actor/kl").abs() < 1e-9, "{row}");
    }
}
