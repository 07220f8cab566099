//! Held-out evaluation: the same tasks, seeds and prompt for every arm, so that arms can be compared task by task.
//!
//! Writes a summary and every response under `eval/`; never touches the weights.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skein_core::config::Config;
use skein_core::eval::{EvalRecord, EvalSummary, IntervalMethod, summarize};
use skein_core::task::CrossSkillTask;
use skein_io::atomic::write_atomically;
use skein_io::jsonl::write_jsonl;

use super::data::TaskSet;
use super::progress::Progress;
use super::rollout::{RolloutRequest, Rollouts, rollouts};
use super::run_dir::RunDir;
use super::session::Session;
use super::state::{Learned, RunState, StageEnd};
use crate::cli::UsageError;
use crate::engine::DrawOrigin;

/// Keeps evaluation's draws apart from training's, whose steps count up from 0.
const EVAL_DRAWS: u32 = u32::MAX;

/// One arm's evaluation as it is written to `eval/`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Evaluation {
    /// The `[eval]` section it was made with.
    #[serde(default)]
    pub settings: Value,
    /// Which weights: `base`, `SFT` or the run's name once RL has run.
    pub arm: String,
    /// Updates of the run before this evaluation.
    pub step: u64,
    /// RL updates among them.
    pub rl_updates: u64,
    /// Completions sampled for training so far.
    pub rollouts: u64,
    /// Completions per task.
    pub samples: usize,
    /// Wall time in seconds.
    pub seconds: f64,
    /// Mean score of each task, in task order.
    pub tasks: Vec<TaskScore>,
    /// Responses whose grader failed; they are in no mean.
    pub errors: usize,
    /// The arm in a few numbers.
    pub summary: EvalSummary,
}

/// One task's mean over its samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskScore {
    /// The task's id.
    pub id: String,
    /// Mean of r_ans.
    pub score: f64,
}

/// Runs the stage; it is short, so an interrupted one starts over.
///
/// # Errors
/// When a task cannot be scored or generated, or a file cannot be written.
pub fn run(session: &mut Session, state: &RunState) -> Result<StageEnd> {
    Ok(match held_out(session, state)? {
        Some(_) => StageEnd::Finished,
        None => StageEnd::Interrupted,
    })
}

/// The mean score on the held-out tasks as the weights now stand; none where the run is asked to stop meanwhile. An
/// evaluation of these weights that is there already is read, not repeated, whichever stage made it.
///
/// # Errors
/// As [`run`].
pub fn held_out(session: &mut Session, state: &RunState) -> Result<Option<f64>> {
    if let Some((path, evaluation)) = made_already(&session.run, &session.config, state)? {
        tracing::info!("{} is there already", path.display());
        return Ok(Some(evaluation.summary.score.mean));
    }
    let config = session.config.eval.clone();
    let source = config.tasks.as_ref().expect("a config with an eval stage has eval tasks");
    let set = TaskSet::load(source)?;
    let model = session.model.clone();
    // A completion ends where the context does, whatever eval.sampling.max_new_tokens allows.
    let longest = model.config().max_position_embeddings - 1;
    let prompts =
        session.encoder(&set.tasks)?.prompts(&set, longest, "the model's context, with a token to generate,")?;
    let tasks = set.tasks;
    let mut engine = session.engine(model.as_ref())?;
    let started = Instant::now();
    let mut progress = Progress::new("eval", tasks.len() as u64, 0);
    let mut batches: Vec<Rollouts> = Vec::new();
    let mut done = 0;
    for indices in (0..tasks.len()).collect::<Vec<_>>().chunks(config.batch_size) {
        if session.interrupt.requested() {
            return Ok(None);
        }
        let request = RolloutRequest {
            prompts: indices.iter().map(|&index| (index, &tasks[index], prompts[index].as_slice())).collect(),
            num_samples: config.samples,
            sampling: &config.sampling,
            // Not the run's step: every arm and every evaluation draws the same numbers.
            origin: DrawOrigin { seed: session.config.seed, step: EVAL_DRAWS, prompt: 0 },
        };
        batches.push(rollouts(&mut engine, &session.scoring(), &request)?);
        done += indices.len();
        progress.update(done as u64, "");
    }
    drop(progress);
    // What an evaluation asks of graders belongs to no step's metrics.
    session.grader_counts.take();
    let evaluation = evaluate(session, state, &tasks, &batches, started.elapsed().as_secs_f64())?;
    report(&evaluation);
    write(session, state, &tasks, &evaluation, &batches)?;
    Ok(Some(evaluation.summary.score.mean))
}

/// Whether the weights at `state` have been evaluated as `config` asks.
///
/// # Errors
/// When the settings cannot be compared.
pub(super) fn has_been_made(run: &RunDir, config: &Config, state: &RunState) -> Result<bool> {
    Ok(made_already(run, config, state)?.is_some())
}

/// The evaluation of these weights by these settings, whichever stage made it.
fn made_already(run: &RunDir, config: &Config, state: &RunState) -> Result<Option<(PathBuf, Evaluation)>> {
    let settings = serde_json::to_value(&config.eval)?;
    for stem in run.evaluation_stems(config, state.step) {
        let path = stem.with_extension("json");
        if !path.exists() {
            continue;
        }
        let evaluation = match read_evaluation(&path) {
            Ok(evaluation) => evaluation,
            Err(error) => {
                tracing::warn!("{error:#}: it is made again");
                continue;
            }
        };
        let counts = (evaluation.rl_updates, evaluation.rollouts, evaluation.arm.as_str());
        if counts == (state.rl_updates, state.rollouts, arm(config, state)) && evaluation.settings == settings {
            return Ok(Some((path, evaluation)));
        }
    }
    Ok(None)
}

fn evaluate(
    session: &Session,
    state: &RunState,
    tasks: &[CrossSkillTask],
    batches: &[Rollouts],
    seconds: f64,
) -> Result<Evaluation> {
    let groups = || batches.iter().flat_map(|batch| &batch.groups);
    let records: Vec<EvalRecord> = groups()
        .flat_map(|group| {
            group.rollouts.iter().map(|rollout| EvalRecord { task: &tasks[group.prompt], reward: &rollout.reward })
        })
        .collect();
    let errors: Vec<_> = batches.iter().flat_map(|batch| &batch.errors).collect();
    if let Some(first) = errors.first() {
        tracing::warn!("{} responses could not be graded, the first: {first}", errors.len());
    }
    let summary = summarize(&records, IntervalMethod::Normal)
        .ok_or_else(|| UsageError("no response of the evaluation could be graded".into()))?;
    Ok(Evaluation {
        settings: serde_json::to_value(&session.config.eval)?,
        arm: arm(&session.config, state).to_owned(),
        step: state.step,
        rl_updates: state.rl_updates,
        rollouts: state.rollouts,
        samples: session.config.eval.samples,
        seconds,
        tasks: groups()
            .filter_map(|group| {
                let score = skein_core::eval::mean(&group.values(|reward| reward.answer))?;
                Some(TaskScore { id: tasks[group.prompt].id.clone(), score })
            })
            .collect(),
        errors: errors.len(),
        summary,
    })
}

fn arm<'a>(config: &'a Config, state: &RunState) -> &'a str {
    match state.learned {
        Learned::Nothing => "base",
        Learned::Sft => "SFT",
        Learned::Rl => &config.name,
    }
}

fn report(evaluation: &Evaluation) {
    let [score, parse_rate, if_parsed, skills] = evaluation.summary.cells();
    tracing::info!(
        "eval {}: score {score}, parse rate {parse_rate}, score if parsed {if_parsed}, skill accuracy {skills}",
        evaluation.arm
    );
}

fn write(
    session: &mut Session,
    state: &RunState,
    tasks: &[CrossSkillTask],
    evaluation: &Evaluation,
    batches: &[Rollouts],
) -> Result<()> {
    let summary = &evaluation.summary;
    let metrics = [
        ("eval/score", summary.score.mean),
        ("eval/reward", summary.reward.mean),
        ("eval/parse_rate", summary.parse_rate.mean),
        ("eval/skill_accuracy", summary.skill_accuracy.mean),
    ];
    session.metrics.write(state.step, &metrics)?;
    let stem = session.run.evaluation_stem(state.stage, state.step);
    let responses = batches.iter().flat_map(|batch| batch.records(tasks));
    write_jsonl(&stem.with_extension("responses.jsonl"), responses)?;
    let text = serde_json::to_string_pretty(evaluation).context("writing an evaluation")?;
    let path = stem.with_extension("json");
    // Last and whole: where it stands, the evaluation is done.
    write_atomically(&path, (text + "\n").as_bytes()).with_context(|| format!("writing {}", path.display()))
}

/// The evaluations of a run directory, in the order they were made.
///
/// # Errors
/// When the directory holds none, or one cannot be read.
pub fn read_evaluations(run: &Path) -> Result<Vec<Evaluation>> {
    let folder = run.join("eval");
    let entries = fs::read_dir(&folder)
        .map_err(|error| UsageError(format!("{} is not a run with evaluations: {error}", run.display())))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    if paths.is_empty() {
        return Err(UsageError(format!("{} holds no evaluation yet", folder.display())).into());
    }
    paths.iter().map(|path| read_evaluation(path)).collect()
}

fn read_evaluation(path: &Path) -> Result<Evaluation> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not an evaluation", path.display()))
}
