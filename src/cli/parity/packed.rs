//! The path that training runs: packed micro-batches, shared prompts, the chunked head.
//!
//! Logits are never whole on this path, so log-probabilities stand for them.

use anyhow::Result;

use super::comparison::{ADAMW_LOSS_TOLERANCE, Comparison, LOGPROB_TOLERANCE, LOSS_TOLERANCE, Section, larger};
use super::reference::{ADAMW_LR, Reference};
use crate::checkpoint::Pretrained;
use crate::models::CausalLm;
use crate::optim::AdamWParams;
use crate::trainer::{PromptCompletions, SftExample, Trainer, TrainerParams, logprobs, sft_gradients};

/// Rows of the head at once where it is made to work in chunks.
const SMALL_HEAD_ROWS: usize = 5;

/// Compares log-probabilities, loss, gradients and AdamW steps; `load` gives the model with fresh weights.
pub(super) fn compare(
    load: &dyn Fn() -> Result<Pretrained>,
    reference: &Reference,
    comparison: &mut Comparison,
) -> Result<()> {
    let rows: Vec<Vec<u32>> = (0..reference.num_rows()).map(|row| reference.ids_vec(row)).collect();
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
    let together =
        TrainerParams { max_tokens: rows.iter().map(Vec::len).sum(), max_grad_norm: None, ..TrainerParams::default() };
    let apart = TrainerParams { max_tokens: longest, head_rows: SMALL_HEAD_ROWS, checkpoint_layers: true, ..together };
    for (layout, params) in [("one batch", together), ("many batches", apart)] {
        let model = load()?.model;
        let mut section = comparison.section("packed", layout);
        compare_logprobs(&*model, &params, reference, &rows, 1, &mut section)?;
        compare_training(&*model, params, reference, &rows, &mut section)?;
    }
    // Each row's first half once, its second half as two completions.
    let shared = TrainerParams { max_tokens: 2 * together.max_tokens, ..together };
    let mut section = comparison.section("packed", "shared prompt");
    compare_logprobs(&*load()?.model, &shared, reference, &rows, 2, &mut section)
}

/// Log-probabilities of rows cut into a prompt of `1 / copies` of the row (one token if `copies` is 1) and the rest,
/// `copies` times.
fn compare_logprobs(
    model: &dyn CausalLm,
    params: &TrainerParams,
    reference: &Reference,
    rows: &[Vec<u32>],
    copies: usize,
    section: &mut Section,
) -> Result<()> {
    let prompt_len = |row: &[u32]| if copies == 1 { 1 } else { row.len().div_ceil(copies) };
    let completions: Vec<Vec<&[u32]>> = rows.iter().map(|row| vec![&row[prompt_len(row)..]; copies]).collect();
    let groups: Vec<PromptCompletions> = rows
        .iter()
        .zip(&completions)
        .map(|(row, completions)| PromptCompletions { prompt_ids: &row[..prompt_len(row)], completions })
        .collect();
    let mut worst = 0.0;
    for (row, group) in logprobs(model, params, &groups)?.iter().enumerate() {
        for completion in group {
            let expected = reference.last_logprobs(row as i64, completion.len());
            for (logprob, expected) in completion.iter().zip(expected) {
                worst = larger(worst, f64::from((logprob - expected).abs()));
            }
        }
    }
    section.add("token_logprobs", worst, LOGPROB_TOLERANCE);
    Ok(())
}

fn compare_training(
    model: &dyn CausalLm,
    params: TrainerParams,
    reference: &Reference,
    rows: &[Vec<u32>],
    section: &mut Section,
) -> Result<()> {
    let example = |row: &Vec<u32>| SftExample {
        prompt_ids: row[..1].to_vec(),
        completion_ids: row[1..].to_vec(),
        loss_mask: None,
    };
    let examples: Vec<SftExample> = rows.iter().map(example).collect();
    let scalars = &reference.scalars;
    let mut trainer = Trainer::new(model, AdamWParams::default(), params);
    let loss = sft_gradients(model, &params, &examples)?;
    section.add("sft_loss", (loss - scalars.sft_loss).abs(), LOSS_TOLERANCE);
    section.add_grad_norms(model.weights(), &scalars.grad_norms);
    for (step, expected) in scalars.adamw_losses.iter().enumerate() {
        let loss = trainer.sft_update(&examples, ADAMW_LR)?.loss;
        section.add(format!("loss before AdamW step {}", step + 1), (loss - expected).abs(), ADAMW_LOSS_TOLERANCE);
    }
    section.add_param_norms(model.weights(), &scalars.adamw_param_norms);
    Ok(())
}
