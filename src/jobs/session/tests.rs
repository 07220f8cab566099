use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tch::Tensor;

use super::*;
use crate::jobs::{StageEnd, rl, sft};

/// A save of a test takes as many times as long as a step, and at least this.
const SLOWNESS: u32 = 2;
const SLOW: Duration = Duration::from_millis(300);

/// One step of a very small model, at a rate that no step leaves unseen.
const ONE_STEP: [&str; 11] = [
    "model.scratch.hidden_size=32",
    "model.scratch.num_hidden_layers=1",
    "sft.max_steps=1",
    "sft.batch_size=2",
    "sft.tasks.procedural.num_tasks=8",
    "rl.steps=1",
    "rl.batch_size=2",
    "rl.filter=false",
    "rl.lr=0.1",
    "rl.sampling.max_new_tokens=8",
    "rollout.cache_tokens=4096",
];

fn open(out: &Path, stage: &str) -> (Session, RunState) {
    let stages = format!("stages=[\"{stage}\"]");
    let settings: Vec<String> = ONE_STEP.into_iter().chain([stages.as_str()]).map(str::to_owned).collect();
    let config = Config::load(Path::new("configs/tiny/2-grpo.toml"), &settings).unwrap();
    Session::open(config, out, &Resume::Off).unwrap().expect("a new run has something to do")
}

type Run = fn(&mut Session, &mut RunState) -> Result<StageEnd>;

#[test]
fn no_step_is_taken_while_a_checkpoint_is_being_written() {
    let folder = tempfile::tempdir().unwrap();
    let loops: [(&str, Run); 2] = [("sft", sft::run), ("rl", rl::run)];
    for (stage, run) in loops {
        let (mut session, mut state) = open(&folder.path().join(format!("{stage}-timed")), stage);
        let started = Instant::now();
        run(&mut session, &mut state).unwrap();
        let slow = SLOW.max(started.elapsed() * SLOWNESS);

        let (mut session, mut state) = open(&folder.path().join(stage), stage);
        let weights: Vec<Tensor> = session.model.weights().leaves.iter().map(|leaf| leaf.tensor.detach()).collect();
        let before: Vec<Tensor> = weights.iter().map(Tensor::copy).collect();
        let is_unchanged = move || weights.iter().zip(&before).all(|(now, before)| now.equal(before));
        let (tell, told) = mpsc::channel();
        let save = move || {
            thread::sleep(slow);
            tell.send((is_unchanged(), is_unchanged)).unwrap();
            Ok(PathBuf::new())
        };
        session.saving.borrow_mut().begin(save).unwrap();
        run(&mut session, &mut state).unwrap();
        let (was_unchanged, is_unchanged) = told.recv().unwrap();
        assert!(was_unchanged, "{stage}: a step changed what a save was reading");
        assert!(!is_unchanged(), "{stage}: no step was taken: the test tests nothing");
    }
}

#[test]
fn the_weights_of_a_step_are_written_once() {
    let folder = tempfile::tempdir().unwrap();
    let (mut session, mut state) = open(folder.path(), "sft");
    sft::run(&mut session, &mut state).unwrap();
    let model = session.model.clone();
    let trainer = Trainer::new(model.as_ref(), Default::default(), Default::default());
    let written = || fs::metadata(folder.path().join("step_000001/MANIFEST.json")).unwrap().ino();
    let best = || fs::read_link(folder.path().join("best")).unwrap();
    let once = written();
    session.keep_best(&state, &trainer).unwrap();
    session.save(&state, &trainer).unwrap();
    assert_eq!((written(), best().as_path()), (once, Path::new("step_000001")));

    state.step += 1;
    session.keep_best(&state, &trainer).unwrap();
    assert_eq!(session.save(&state, &trainer).unwrap(), folder.path().join(best()));
    assert_eq!(best(), Path::new("step_000002"));
}
