//! Supervised warm-up: imitate traces in the response format, loss on the response only.

use std::time::Instant;

use anyhow::Result;
use skein_core::task::PromptSampler;

use super::data::TaskSet;
use super::progress::Progress;
use super::session::Session;
use super::state::{Learned, RunState, StageEnd};
use super::{mapping, metrics};
use crate::cli::UsageError;
use crate::trainer::{SftExample, Trainer};

/// Runs the stage from where `state` stands.
///
/// # Errors
/// When no example is left, a checkpoint cannot be written, or too many updates in a row are not finite.
pub fn run(session: &mut Session, state: &mut RunState) -> Result<StageEnd> {
    let config = session.config.sft.clone();
    let model = session.model.clone();
    let examples = load_examples(session)?;
    let mut order = PromptSampler::new(examples.len(), session.config.seed, state.prompts)?;
    let total = match config.max_steps {
        0 => config.epochs * examples.len().div_ceil(config.batch_size),
        steps => steps,
    } as u64;
    let mut trainer = Trainer::new(model.as_ref(), mapping::sft_optimizer(&config), mapping::sft_trainer(&config));
    session.restore_optimizer(&mut trainer)?;
    let schedule = mapping::sft_schedule(&config, total);
    let mut progress = Progress::new("sft", total, state.stage_step);

    while state.stage_step < total {
        let started = Instant::now();
        let batch: Vec<SftExample> =
            order.next_batch(config.batch_size).into_iter().map(|index| examples[index].clone()).collect();
        let update = session.step(trainer.sft_backward(&batch)?, schedule.at(state.stage_step as usize))?;
        state.prompts = order.position();
        state.count_update(Learned::Sft);
        session.guard_skips(state, &trainer, update.skipped, config.max_skipped_steps, &batch)?;

        progress.update(state.stage_step, &format!("loss {:.4}", update.loss));
        if session.is_due(state.stage_step, config.log_every) || state.stage_step == total {
            session.metrics.write(state.step, &metrics::sft(&update, started.elapsed()))?;
        }
        if session.interrupt.requested() {
            session.save(state, &trainer)?;
            return Ok(StageEnd::Interrupted);
        }
        if session.is_due(state.stage_step, config.save_every) && state.stage_step < total {
            session.begin_save(state, &trainer)?;
        }
    }
    session.finish_training(state, &trainer, &["sft"])?;
    Ok(StageEnd::Finished)
}

fn load_examples(session: &Session) -> Result<Vec<SftExample>> {
    let config = &session.config.sft;
    let source = config.tasks.as_ref().expect("a config with an SFT stage has SFT tasks");
    let tasks = TaskSet::load(source)?.tasks;
    let encoder = session.encoder(&tasks)?;
    let mut examples = Vec::with_capacity(tasks.len());
    for task in &tasks {
        let example = encoder.example(task)?;
        if example.prompt_ids.len() + example.completion_ids.len() <= config.max_length {
            examples.push(example);
        }
    }
    let dropped = tasks.len() - examples.len();
    if dropped > 0 {
        tracing::warn!(
            "{dropped} of {} SFT examples are longer than sft.max_length = {}",
            tasks.len(),
            config.max_length
        );
    }
    if examples.is_empty() {
        let problem =
            format!("none of the {} SFT examples fits into sft.max_length = {}", tasks.len(), config.max_length);
        return Err(UsageError(problem).into());
    }
    Ok(examples)
}
