//! Updates of a model from supervised examples or from scored completions.
//!
//! An update packs its sequences into micro-batches, accumulates the gradient of one global loss over them, clips it
//! and takes one AdamW step. The result is the same for any micro-batch size. A loss or gradient that is not finite
//! changes nothing and is reported. Reference log-probabilities go through the same forward pass, without gradients.
//! The trainer never samples, scores, tokenizes or touches a file.

mod attention;
mod body;
mod head;
pub mod losses;
mod metrics;
mod objective;
mod params;
mod reference;

use std::time::Instant;

use skein_core::batching::packing::{CompletionTokens, GroupTokens, MicroBatch, PackingError, TargetOrigin, pack};
use thiserror::Error;

pub use attention::PackedAttention;
pub use metrics::{PolicyMetrics, SkipReason, UpdateMetrics, UpdateTimings};
pub use objective::{SftExample, TrainingCompletion, TrainingGroup};
pub use params::{Importance, KlEstimator, LossAggregation, PolicyLossParams, TrainerParams};
pub use reference::ReferenceModel;

use crate::models::CausalLm;
use crate::optim::{AdamW, AdamWParams};
use body::Body;
use head::{Head, TokenGradient, TokenStats};
use losses::TokenLoss;
use metrics::Totals;
use objective::{Objective, Policy, Sft};

/// Why an update or a log-probability pass cannot start. Indices count from 0 in the order given.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TrainerError {
    /// The sequences do not fit into micro-batches.
    #[error(transparent)]
    Packing(#[from] PackingError),
    /// A sequence is longer than the model's context.
    #[error(
        "group {group}, completion {completion}: {tokens} tokens with the prompt, the model's context holds {context}"
    )]
    Context {
        /// Which group.
        group: usize,
        /// Which of its completions.
        completion: usize,
        /// Ids of prompt and completion.
        tokens: usize,
        /// Positions of the model.
        context: usize,
    },
    /// An id has no row in the embedding.
    #[error("group {group}: token id {id} is outside the model's vocabulary of {vocab_size}")]
    TokenId {
        /// Which group.
        group: usize,
        /// The id.
        id: u32,
        /// Rows of the embedding.
        vocab_size: i64,
    },
    /// A sampled completion came without its log-probabilities.
    #[error("group {group}, completion {completion}: {found} {kind} for {tokens} token ids")]
    LogprobCount {
        /// `old_logprobs` or `ref_logprobs`.
        kind: &'static str,
        /// Which group.
        group: usize,
        /// Which of its completions.
        completion: usize,
        /// Log-probabilities given.
        found: usize,
        /// Ids of the completion.
        tokens: usize,
    },
}

/// A prompt and completions to compute log-probabilities of.
#[derive(Debug, Clone, Copy)]
pub struct PromptCompletions<'a> {
    /// The prompt's ids, at least one.
    pub prompt_ids: &'a [u32],
    /// Each completion's ids.
    pub completions: &'a [&'a [u32]],
}

/// A batch's gradients, accumulated and not yet stepped on: weights and moments are still what they were.
#[must_use = "the weights learn nothing until the step is taken"]
pub struct PendingUpdate<'t, 'm> {
    trainer: &'t mut Trainer<'m>,
    totals: Totals,
}

/// A model and its optimizer.
pub struct Trainer<'m> {
    model: &'m dyn CausalLm,
    optimizer: AdamW,
    params: TrainerParams,
}

impl<'m> Trainer<'m> {
    /// A trainer of all weights of `model`, which require gradients from now on.
    pub fn new(model: &'m dyn CausalLm, optimizer: AdamWParams, params: TrainerParams) -> Self {
        model.weights().set_requires_grad(true);
        Self { model, optimizer: AdamW::new(model.weights(), optimizer), params }
    }

    /// The optimizer, to save its state.
    pub fn optimizer(&self) -> &AdamW {
        &self.optimizer
    }

    /// The optimizer, to load its state.
    pub fn optimizer_mut(&mut self) -> &mut AdamW {
        &mut self.optimizer
    }

    /// One step on the cross-entropy of the examples' responses, averaged over all their trained tokens.
    ///
    /// # Errors
    /// An example without a prompt, with a mask of another length than its response, longer than a micro-batch or the
    /// model's context, or with an id outside its vocabulary.
    pub fn sft_update(&mut self, examples: &[SftExample], lr: f64) -> Result<UpdateMetrics, TrainerError> {
        Ok(self.sft_backward(examples)?.step(lr))
    }

    /// [`Trainer::sft_update`] up to its step.
    ///
    /// # Errors
    /// What [`Trainer::sft_update`] refuses.
    pub fn sft_backward(&mut self, examples: &[SftExample]) -> Result<PendingUpdate<'_, 'm>, TrainerError> {
        self.backward(&Sft::new(examples))
    }

    /// One step on the policy loss of the groups' completions.
    ///
    /// # Errors
    /// A completion without as many log-probabilities as ids, and what [`Trainer::sft_update`] refuses.
    pub fn policy_update(
        &mut self,
        groups: &[TrainingGroup],
        loss: &PolicyLossParams,
        lr: f64,
    ) -> Result<UpdateMetrics, TrainerError> {
        Ok(self.policy_backward(groups, loss)?.step(lr))
    }

    /// [`Trainer::policy_update`] up to its step.
    ///
    /// # Errors
    /// What [`Trainer::policy_update`] refuses.
    pub fn policy_backward(
        &mut self,
        groups: &[TrainingGroup],
        loss: &PolicyLossParams,
    ) -> Result<PendingUpdate<'_, 'm>, TrainerError> {
        self.backward(&Policy::new(groups, *loss)?)
    }

    /// Log-probabilities under the current weights, as [`logprobs`].
    ///
    /// # Errors
    /// What [`logprobs`] refuses.
    pub fn logprobs(&self, groups: &[PromptCompletions<'_>]) -> Result<Vec<Vec<Vec<f32>>>, TrainerError> {
        logprobs(self.model, &self.params, groups)
    }

    fn backward(&mut self, objective: &dyn Objective) -> Result<PendingUpdate<'_, 'm>, TrainerError> {
        self.optimizer.zero_grad();
        let totals = accumulate_gradients(self.model, &self.params, objective)?;
        Ok(PendingUpdate { trainer: self, totals })
    }
}

impl PendingUpdate<'_, '_> {
    /// Clips the gradients, takes one AdamW step with rate `lr` and clears them. Nothing else changes weights or moments.
    pub fn step(self, lr: f64) -> UpdateMetrics {
        let Self { trainer: Trainer { optimizer, params, .. }, totals } = self;
        let stepping = Instant::now();
        let grad_norm = optimizer.grad_norm();
        let mut metrics = totals.metrics(grad_norm, lr);
        metrics.skipped = skip_reason(&metrics);
        if metrics.skipped.is_none() {
            let max_norm = params.max_grad_norm.unwrap_or(f64::INFINITY);
            optimizer.step(lr, (grad_norm / max_norm).max(1.0));
        }
        optimizer.zero_grad();
        metrics.timings.optimizer = stepping.elapsed();
        metrics
    }
}

fn skip_reason(metrics: &UpdateMetrics) -> Option<SkipReason> {
    if metrics.num_tokens == 0 {
        Some(SkipReason::NothingToTrain)
    } else if !metrics.loss.is_finite() {
        Some(SkipReason::NonFiniteLoss)
    } else if !metrics.grad_norm.is_finite() {
        Some(SkipReason::NonFiniteGradient)
    } else {
        None
    }
}

/// The loss of an SFT batch, with its gradient added to the weights' gradients and no step taken: what
/// [`Trainer::sft_update`] steps on, for comparison with a reference.
///
/// # Errors
/// What [`Trainer::sft_update`] refuses.
pub fn sft_gradients(
    model: &dyn CausalLm,
    params: &TrainerParams,
    examples: &[SftExample],
) -> Result<f64, TrainerError> {
    Ok(accumulate_gradients(model, params, &Sft::new(examples))?.loss())
}

/// The same for a policy loss: what [`Trainer::policy_update`] steps on.
///
/// # Errors
/// What [`Trainer::policy_update`] refuses.
pub fn policy_gradients(
    model: &dyn CausalLm,
    params: &TrainerParams,
    groups: &[TrainingGroup],
    loss: &PolicyLossParams,
) -> Result<f64, TrainerError> {
    Ok(accumulate_gradients(model, params, &Policy::new(groups, *loss)?)?.loss())
}

/// Log-probabilities of every completion id, as `[group][completion][token]`: log softmax(logits / temperature) of the
/// id given all before it. No gradients are recorded.
///
/// # Errors
/// An empty prompt, a prompt and completion longer than a micro-batch or the model's context, or an id outside its
/// vocabulary.
pub fn logprobs(
    model: &dyn CausalLm,
    params: &TrainerParams,
    groups: &[PromptCompletions<'_>],
) -> Result<Vec<Vec<Vec<f32>>>, TrainerError> {
    let mut result: Vec<Vec<Vec<f32>>> = groups
        .iter()
        .map(|group| group.completions.iter().map(|token_ids| vec![0.0; token_ids.len()]).collect())
        .collect();
    let tokens: Vec<GroupTokens<'_>> = groups
        .iter()
        .map(|group| GroupTokens {
            prompt_ids: group.prompt_ids,
            completions: group
                .completions
                .iter()
                .map(|token_ids| CompletionTokens { token_ids, loss_mask: None })
                .collect(),
        })
        .collect();
    for batch in micro_batches(model, params, &tokens)? {
        let stats = tch::no_grad(|| {
            let hidden = Body::new(model, &batch).hidden();
            Head::new(model, params, &batch).stats(&hidden)
        });
        for (&TargetOrigin { group, completion, token }, stats) in batch.origins.iter().zip(stats) {
            result[group][completion][token] = stats.logprob;
        }
    }
    Ok(result)
}

/// Packs `groups`, whose ids and positions `model` must have.
fn micro_batches(
    model: &dyn CausalLm,
    params: &TrainerParams,
    groups: &[GroupTokens<'_>],
) -> Result<Vec<MicroBatch>, TrainerError> {
    let (vocab_size, context) = (model.config().vocab_size, model.config().max_position_embeddings);
    for (group, tokens) in groups.iter().enumerate() {
        let ids = tokens.completions.iter().flat_map(|completion| completion.token_ids).chain(tokens.prompt_ids);
        if let Some(&id) = ids.into_iter().find(|&&id| i64::from(id) >= vocab_size) {
            return Err(TrainerError::TokenId { group, id, vocab_size });
        }
        for (completion, ids) in tokens.completions.iter().enumerate() {
            let tokens = tokens.prompt_ids.len() + ids.token_ids.len();
            if tokens > context {
                return Err(TrainerError::Context { group, completion, tokens, context });
            }
        }
    }
    Ok(pack(groups, params.max_tokens, params.shared_prefix)?)
}

fn accumulate_gradients(
    model: &dyn CausalLm,
    params: &TrainerParams,
    objective: &dyn Objective,
) -> Result<Totals, TrainerError> {
    let mut totals = Totals::default();
    for batch in micro_batches(model, params, &objective.tokens())? {
        totals.num_micro_batches += 1;
        totals.num_layer_tokens += batch.token_ids.len();
        let trained = accumulate_micro_batch(model, params, objective, &batch, &mut totals.timings);
        for (&origin, token) in batch.origins.iter().zip(trained) {
            totals.add(objective.weight(origin), &token.loss, token.entropy);
        }
    }
    Ok(totals)
}

/// A trained token's loss and the entropy it was drawn at.
struct TrainedToken {
    loss: TokenLoss,
    entropy: f64,
}

fn accumulate_micro_batch(
    model: &dyn CausalLm,
    params: &TrainerParams,
    objective: &dyn Objective,
    batch: &MicroBatch,
    timings: &mut UpdateTimings,
) -> Vec<TrainedToken> {
    let started = Instant::now();
    let pass = Body::new(model, batch).forward(params.checkpoint_layers);
    let forward_done = Instant::now();
    let head = Head::new(model, params, batch);
    // A sequence's ratio is known only when all its tokens are, so such losses run the head once more.
    let sequence_log_ratios =
        objective.needs_sequences().then(|| objective.sequence_log_ratios(&batch.origins, &head.stats(&pass.hidden)));
    let loss = |target: usize, stats: TokenStats| {
        let sequence_log_ratio = sequence_log_ratios.as_ref().map(|ratios| ratios[target]);
        objective.token_loss(batch.origins[target], stats, sequence_log_ratio)
    };
    let derivative = |target: usize, stats: TokenStats| {
        let (loss, weight) = (loss(target, stats), objective.weight(batch.origins[target]));
        TokenGradient { d_logprob: (weight * loss.d_logprob) as f32, d_entropy: (weight * loss.d_entropy) as f32 }
    };
    let (stats, gradient) = head.backward(&pass.hidden, &derivative);
    let head_done = Instant::now();
    pass.backward(gradient);
    timings.forward += forward_done - started;
    timings.head += head_done - forward_done;
    timings.backward += head_done.elapsed();
    let trained = |(target, stats): (usize, TokenStats)| TrainedToken {
        loss: loss(target, stats),
        entropy: f64::from(stats.entropy),
    };
    stats.into_iter().enumerate().map(trained).collect()
}
