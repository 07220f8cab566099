//! What an update minimises: which sequences, each token's weight, each token's loss.

use std::collections::HashMap;

use serde::Serialize;
use skein_core::batching::packing::{CompletionTokens, GroupTokens, TargetOrigin};

use super::head::TokenStats;
use super::losses::{LossNormalizer, PolicyToken, TokenLoss, policy_loss, sft_loss};
use super::params::{Importance, LossAggregation};
use super::{PolicyLossParams, TrainerError};

/// A prompt and the response to learn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SftExample {
    /// The prompt's ids, at least one; not trained on.
    pub prompt_ids: Vec<u32>,
    /// The response's ids.
    pub completion_ids: Vec<u32>,
    /// One flag per response id, true where it is trained on; `None` trains on all.
    pub loss_mask: Option<Vec<bool>>,
}

/// A prompt and the completions sampled for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainingGroup {
    /// The prompt's ids, at least one.
    pub prompt_ids: Vec<u32>,
    /// The completions.
    pub completions: Vec<TrainingCompletion>,
}

/// A sampled completion with what its policy loss needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainingCompletion {
    /// The sampled ids.
    pub token_ids: Vec<u32>,
    /// One flag per id, true where it is trained on; `None` trains on all.
    pub loss_mask: Option<Vec<bool>>,
    /// For each id, its log-probability under the policy that sampled it, at the sampling temperature.
    pub old_logprobs: Vec<f32>,
    /// For each id, its log-probability under the reference; needed when `kl_coef` is not 0.
    pub ref_logprobs: Option<Vec<f32>>,
    /// The advantage of every token of the completion.
    pub advantage: f32,
}

/// A batch with a loss.
pub(super) trait Objective: Sync {
    /// The sequences and which of their tokens are trained on.
    fn tokens(&self) -> Vec<GroupTokens<'_>>;
    /// A trained token's share in the batch's loss.
    fn weight(&self, origin: TargetOrigin) -> f64;
    /// Whether a token's loss depends on the other tokens of its sequence, through [`Objective::sequence_log_ratios`].
    fn needs_sequences(&self) -> bool {
        false
    }
    /// For each token of a micro-batch the mean of `logprob - old_logprob` over the trained tokens of its sequence.
    fn sequence_log_ratios(&self, _origins: &[TargetOrigin], _stats: &[TokenStats]) -> Vec<f64> {
        Vec::new()
    }
    /// A trained token's loss, given its log-probability and the entropy it was drawn at, and its sequence's mean log
    /// ratio where the objective needs it.
    fn token_loss(&self, origin: TargetOrigin, stats: TokenStats, sequence_log_ratio: Option<f64>) -> TokenLoss;
}

/// Cross-entropy on responses, averaged over all their trained tokens.
pub(super) struct Sft<'a> {
    examples: &'a [SftExample],
    weight: f64,
}

impl<'a> Sft<'a> {
    pub(super) fn new(examples: &'a [SftExample]) -> Self {
        let trained = examples.iter().map(|example| example.response().num_trained());
        let weight = LossNormalizer::new(LossAggregation::TokenMean, 1, trained).weight(1);
        Self { examples, weight }
    }
}

impl SftExample {
    fn response(&self) -> CompletionTokens<'_> {
        CompletionTokens { token_ids: &self.completion_ids, loss_mask: self.loss_mask.as_deref() }
    }
}

impl Objective for Sft<'_> {
    fn tokens(&self) -> Vec<GroupTokens<'_>> {
        let examples = self.examples.iter();
        examples
            .map(|example| GroupTokens { prompt_ids: &example.prompt_ids, completions: vec![example.response()] })
            .collect()
    }

    fn weight(&self, _: TargetOrigin) -> f64 {
        self.weight
    }

    fn token_loss(&self, _: TargetOrigin, stats: TokenStats, _: Option<f64>) -> TokenLoss {
        sft_loss(f64::from(stats.logprob))
    }
}

/// A policy loss on sampled groups.
pub(super) struct Policy<'a> {
    groups: &'a [TrainingGroup],
    params: PolicyLossParams,
    weights: Vec<Vec<f64>>, // per completion, of each of its tokens
}

impl<'a> Policy<'a> {
    /// # Errors
    /// A completion whose log-probabilities are missing or as many as its ids are not.
    pub(super) fn new(groups: &'a [TrainingGroup], params: PolicyLossParams) -> Result<Self, TrainerError> {
        for (group, completion) in
            groups.iter().enumerate().flat_map(|(i, g)| (0..g.completions.len()).map(move |j| (i, j)))
        {
            let TrainingCompletion { token_ids, old_logprobs, ref_logprobs, .. } =
                &groups[group].completions[completion];
            let check = |kind, found| match found == token_ids.len() {
                true => Ok(()),
                false => Err(TrainerError::LogprobCount { kind, group, completion, found, tokens: token_ids.len() }),
            };
            check("old_logprobs", old_logprobs.len())?;
            if params.kl_coef != 0.0 {
                check("ref_logprobs", ref_logprobs.as_ref().map_or(0, Vec::len))?;
            }
        }
        let trained = |completion: &TrainingCompletion| completion.tokens().num_trained();
        let lens: Vec<Vec<usize>> =
            groups.iter().map(|group| group.completions.iter().map(trained).collect()).collect();
        let normalizer = LossNormalizer::new(params.aggregation, params.scale_tokens, lens.iter().flatten().copied());
        let weights = lens.iter().map(|lens| lens.iter().map(|&len| normalizer.weight(len)).collect()).collect();
        Ok(Self { groups, params, weights })
    }
}

impl TrainingCompletion {
    fn tokens(&self) -> CompletionTokens<'_> {
        CompletionTokens { token_ids: &self.token_ids, loss_mask: self.loss_mask.as_deref() }
    }
}

impl Objective for Policy<'_> {
    fn tokens(&self) -> Vec<GroupTokens<'_>> {
        let groups = self.groups.iter();
        groups
            .map(|group| GroupTokens {
                prompt_ids: &group.prompt_ids,
                completions: group.completions.iter().map(TrainingCompletion::tokens).collect(),
            })
            .collect()
    }

    fn weight(&self, origin: TargetOrigin) -> f64 {
        self.weights[origin.group][origin.completion]
    }

    fn needs_sequences(&self) -> bool {
        self.params.importance == Importance::Sequence
    }

    fn sequence_log_ratios(&self, origins: &[TargetOrigin], stats: &[TokenStats]) -> Vec<f64> {
        let key = |origin: &TargetOrigin| (origin.group, origin.completion);
        let mut sums: HashMap<(usize, usize), (f64, usize)> = HashMap::new();
        for (origin, stats) in origins.iter().zip(stats) {
            let old = self.groups[origin.group].completions[origin.completion].old_logprobs[origin.token];
            let (sum, count) = sums.entry(key(origin)).or_default();
            *sum += f64::from(stats.logprob) - f64::from(old);
            *count += 1;
        }
        origins.iter().map(|origin| sums[&key(origin)]).map(|(sum, count)| sum / count as f64).collect()
    }

    fn token_loss(&self, origin: TargetOrigin, stats: TokenStats, sequence_log_ratio: Option<f64>) -> TokenLoss {
        let completion = &self.groups[origin.group].completions[origin.completion];
        let ref_logprob = completion.ref_logprobs.as_ref().map_or(0.0, |logprobs| f64::from(logprobs[origin.token]));
        let token = PolicyToken {
            old_logprob: f64::from(completion.old_logprobs[origin.token]),
            ref_logprob,
            advantage: f64::from(completion.advantage),
            sequence_log_ratio,
        };
        policy_loss(&self.params, &token, f64::from(stats.logprob), f64::from(stats.entropy))
    }
}
