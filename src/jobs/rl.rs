//! GRPO with decoupled clipping and dynamic sampling (DAPO, arXiv:2503.14476) under the skill-entropy reward.
//!
//! One step: sample prompts, generate a group of completions for each, reward them, keep the groups whose rewards
//! differ, and update on their advantages. Old log-probabilities are the sampler's own; nothing is decoded and encoded
//! again. Every prompt is drawn once per epoch, and what became of it is decided at the end of a round, by prompt order.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use skein_core::config::{AtBound, RlConfig};
use skein_core::rl::AcceptedGroup;
use skein_core::skill::Level;
use skein_core::task::{CrossSkillTask, PromptSampler};

use super::advantages::{set_advantages, training_groups};
use super::data::{TaskSet, levels_of};
use super::eval::held_out;
use super::metrics::RlStep;
use super::progress::Progress;
use super::rollout::{RolloutRequest, Rollouts, rollouts};
use super::session::{BEST, Session, entropy_table};
use super::state::{Learned, RunState, StageEnd};
use super::watch::Watch;
use super::{logprob_check, mapping};
use crate::cli::UsageError;
use crate::engine::{DrawOrigin, Engine};
use crate::trainer::{ReferenceModel, Trainer, TrainingGroup, UpdateMetrics};

/// The setting that bounds prompts.
pub(super) const MAX_PROMPT: &str = "rl.max_prompt_tokens";

/// The tasks of the stage and their encoded prompts.
struct Prompts {
    tasks: Vec<CrossSkillTask>,
    ids: Vec<Vec<u32>>,
    levels: Vec<Option<Level>>,
    order: PromptSampler,
}

/// What one step trains on, and what it took to get it.
struct Batch {
    groups: Vec<AcceptedGroup>,
    rounds: Vec<Rollouts>,
}

/// Runs the stage from where `state` stands.
///
/// # Errors
/// When rollout and training log-probabilities disagree, a batch cannot be filled under `at_bound = "stop"`, a
/// checkpoint cannot be written, or too many updates in a row are not finite.
pub fn run(session: &mut Session, state: &mut RunState) -> Result<StageEnd> {
    let config = session.config.rl.clone();
    let model = session.model.clone();
    let mut prompts = load_prompts(session, &config, state)?;
    let reference = session.reference(&config, state)?;
    let mut engine = session.engine(model.as_ref())?;
    let mut trainer = Trainer::new(model.as_ref(), mapping::rl_optimizer(&config), mapping::rl_trainer(&config));
    session.restore_optimizer(&mut trainer)?;
    logprob_check::run(session, &mut engine, &trainer, &config, &prompts.ids)?;
    let schedule = mapping::rl_schedule(&config);
    let total = config.steps as u64;
    if state.stage_step > total {
        tracing::warn!(
            "the rl stage has taken {} steps already, more than rl.steps = {total}: it ends here",
            state.stage_step
        );
    }
    let mut progress = Progress::new("rl", total, state.stage_step);
    let mut watch = Watch::default();

    let is_best = loop {
        let mut is_best = false;
        if evaluation_is_due(state, &config) {
            let Some(score) = held_out(session, state)? else {
                session.save(state, &trainer)?;
                return Ok(StageEnd::Interrupted);
            };
            is_best = state.note_score(score) && session.config.checkpoint.keep_best;
            if config.patience > 0 && state.evaluations_since_best >= config.patience {
                tracing::info!("no better held-out score in {} evaluations: the stage ends here", config.patience);
                break is_best;
            }
        }
        if state.stage_step >= total {
            break is_best;
        }
        if is_best {
            session.keep_best(state, &trainer)?;
        }
        let started = Instant::now();
        let before = state.clone();
        let batch = match collect_batch(session, state, &config, &mut engine, &mut prompts) {
            Ok(Some(batch)) => batch,
            // The step has not begun: its draws are made again when the run goes on.
            Ok(None) => {
                session.save(&before, &trainer)?;
                return Ok(StageEnd::Interrupted);
            }
            Err(error) => {
                if let Err(unsaved) = session.save(&before, &trainer) {
                    tracing::error!("the steps before this one are not saved either: {unsaved:#}");
                }
                return Err(error);
            }
        };
        let mut training = training_groups(&batch.groups, &prompts.ids, &config);
        let reference_time = score_reference(reference.as_ref(), &mut training)?;
        set_advantages(&mut training, &batch.groups, &config);

        let updating = Instant::now();
        let lr = schedule.at(state.stage_step as usize);
        let updates = update(session, &mut trainer, &training, &config, lr)?;
        state.prompts = prompts.order.position();
        state.rl_updates += updates.len() as u64;
        state.count_update(Learned::Rl);
        let skipped = updates.iter().find_map(|update| update.skipped);
        session.guard_skips(state, &trainer, skipped, config.max_skipped_steps, &training)?;

        let step = RlStep {
            tasks: &prompts.tasks,
            levels: &prompts.levels,
            rounds: &batch.rounds,
            kept: &batch.groups,
            ledger: &state.ledger,
            stage_step: state.stage_step - 1,
            updates: &updates,
            reference: reference_time,
            update: updating.elapsed(),
            total: started.elapsed(),
        };
        progress.update(state.stage_step, &step.summary());
        let mut metrics = step.metrics();
        session.grader_counts.judge.add_time(batch.rounds.iter().map(|round| round.judging).sum());
        metrics.extend(session.grader_counts.take());
        session.metrics.write(state.step, &metrics)?;
        watch.look(&metrics).iter().for_each(|warning| tracing::warn!(step = state.step, "{warning}"));
        session.dump_rollouts(state, &prompts.tasks, &batch.rounds)?;
        if session.interrupt.requested() {
            session.save(state, &trainer)?;
            return Ok(StageEnd::Interrupted);
        }
        if session.is_due(state.stage_step, config.save_every) && state.stage_step < total {
            session.begin_save(state, &trainer)?;
        }
    };
    session.finish_training(state, &trainer, if is_best { &[BEST, "rl"] } else { &["rl"] })?;
    Ok(StageEnd::Finished)
}

fn load_prompts(session: &Session, config: &RlConfig, state: &RunState) -> Result<Prompts> {
    let source = config.tasks.as_ref().expect("a config with an RL stage has RL tasks");
    let set = TaskSet::load(source)?;
    let ids = session.encoder(&set.tasks)?.prompts(&set, config.max_prompt_tokens, MAX_PROMPT)?;
    let tasks = set.tasks;
    let levels = levels_of(&tasks, &entropy_table(&session.config)?);
    let seed = session.config.seed;
    let order = match &config.level_weights {
        None => PromptSampler::new(tasks.len(), seed, state.prompts)?,
        Some(weights) => {
            let weights = levels.iter().map(|&level| weights.of(level)).collect();
            PromptSampler::weighted(weights, seed, state.prompts)
                .map_err(|_| UsageError("rl.level_weights gives every task the weight 0".into()))?
        }
    };
    Ok(Prompts { tasks, ids, levels, order })
}

/// Rounds of generation until `batch_size` accepted groups wait, or the bound is reached; then the oldest are the batch.
/// None when the run is asked to stop between two rounds: the step has then not begun, and its draws are made again.
fn collect_batch(
    session: &Session,
    state: &mut RunState,
    config: &RlConfig,
    engine: &mut Engine<'_>,
    prompts: &mut Prompts,
) -> Result<Option<Batch>> {
    let mut rounds = Vec::new();
    state.ledger.expire(state.stage_step, config.max_staleness as u64);
    while state.ledger.num_waiting() < config.batch_size && rounds.len() < config.max_rounds {
        if session.interrupt.requested() {
            return Ok(None);
        }
        let first = prompts.order.position();
        let missing = config.batch_size - state.ledger.num_waiting();
        let wanted = prompts.order.next_batch(missing.max(config.rollout_batch_size));
        let round = rollouts(
            engine,
            &session.scoring(),
            &RolloutRequest {
                prompts: wanted.iter().map(|&i| (i, &prompts.tasks[i], prompts.ids[i].as_slice())).collect(),
                num_samples: config.group_size,
                sampling: &config.sampling,
                origin: DrawOrigin { seed: session.config.seed, step: first as u32, prompt: 0 },
            },
        )?;
        state.rollouts += (wanted.len() * config.group_size) as u64;
        session.guard_errors(&round, wanted.len() * config.group_size)?;
        state.ledger.enter(round.groups.clone(), state.stage_step, config.filter.then_some(config.filter_metric));
        rounds.push(round);
    }
    if state.ledger.num_waiting() < config.batch_size && config.at_bound == AtBound::Stop {
        bail!(
            "dynamic sampling stopped after rl.max_rounds = {} rounds: {} of {} groups have rewards that differ; {} were \
             dropped since the stage began because all their rewards are equal. The tasks are too easy or too hard for \
             this model; raise rl.max_rounds, change the tasks, or set rl.at_bound = \"train\" to go on with fewer groups",
            config.max_rounds,
            state.ledger.num_waiting(),
            config.batch_size,
            state.ledger.filtered
        );
    }
    Ok(Some(Batch { groups: state.ledger.take(config.batch_size), rounds }))
}

fn score_reference(reference: Option<&ReferenceModel>, groups: &mut [TrainingGroup]) -> Result<Duration> {
    let started = Instant::now();
    if let Some(reference) = reference {
        reference.score(groups)?;
    }
    Ok(started.elapsed())
}

/// One update per mini-batch of prompts; old and reference log-probabilities stay fixed through all of them.
fn update(
    session: &Session,
    trainer: &mut Trainer<'_>,
    groups: &[TrainingGroup],
    config: &RlConfig,
    lr: f64,
) -> Result<Vec<UpdateMetrics>> {
    let loss = mapping::policy_loss(config);
    let per_update = if config.mini_batch_size == 0 { groups.len().max(1) } else { config.mini_batch_size };
    // A step whose groups all had equal rewards still counts, as an update with nothing to train.
    let batches: Vec<&[TrainingGroup]> =
        if groups.is_empty() { vec![groups] } else { groups.chunks(per_update).collect() };
    batches.into_iter().map(|batch| session.step(trainer.policy_backward(batch, &loss)?, lr)).collect()
}

/// Whether the stage is to be evaluated where it stands, and has not been: before its first step, after its last, and
/// between them every `eval_every` steps.
fn evaluation_is_due(state: &RunState, config: &RlConfig) -> bool {
    let (step, every) = (state.stage_step, config.eval_every as u64);
    every > 0 && state.evaluated_at != Some(step) && (step.is_multiple_of(every) || step == config.steps as u64)
}
