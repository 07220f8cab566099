//! From scored groups to what the trainer trains on: ids, masks, old log-probabilities, and at last advantages.
//!
//! Shaping touches the rewards that advantages are made of and nothing else: dynamic sampling, metrics and dumps keep
//! what the responses earned.

use skein_core::config::{KlPlacement, RlConfig};
use skein_core::rl::{AcceptedGroup, OverlongPenalty, batch_advantages};
use skein_core::types::FinishReason;

use crate::trainer::losses::kl_penalty;
use crate::trainer::{TrainingCompletion, TrainingGroup};

/// The groups without their advantages. The ids are those that were sampled, the old log-probabilities the sampler's.
pub(super) fn training_groups(
    groups: &[AcceptedGroup],
    prompt_ids: &[Vec<u32>],
    config: &RlConfig,
) -> Vec<TrainingGroup> {
    groups
        .iter()
        .map(|group| TrainingGroup {
            prompt_ids: prompt_ids[group.prompt].clone(),
            completions: group
                .completions
                .iter()
                .map(|completion| {
                    let is_left_out = config.mask_truncated && completion.finish_reason == FinishReason::Length;
                    TrainingCompletion {
                        token_ids: completion.token_ids.clone(),
                        loss_mask: is_left_out.then(|| vec![false; completion.token_ids.len()]),
                        old_logprobs: completion.logprobs.clone(),
                        ref_logprobs: None,
                        advantage: 0.0,
                    }
                })
                .collect(),
        })
        .collect()
}

/// Sets every completion's advantage, from total rewards less the penalties that `config` names.
///
/// # Panics
/// When the divergence is charged to the reward and `training` has no reference log-probabilities.
pub(super) fn set_advantages(training: &mut [TrainingGroup], groups: &[AcceptedGroup], config: &RlConfig) {
    let overlong = OverlongPenalty {
        max_tokens: config.sampling.max_new_tokens,
        buffer_tokens: config.overlong_buffer_tokens,
        factor: config.overlong_penalty,
    };
    let rewards: Vec<Vec<f64>> = groups
        .iter()
        .zip(&*training)
        .map(|(group, training)| {
            let shaped = group.rewards.iter().zip(&training.completions).map(|(reward, completion)| {
                reward + overlong.of(completion.token_ids.len()) - charged_kl(completion, config)
            });
            shaped.collect()
        })
        .collect();
    for (group, advantages) in training.iter_mut().zip(batch_advantages(&rewards, config.advantage)) {
        for (completion, advantage) in group.completions.iter_mut().zip(advantages) {
            completion.advantage = advantage as f32;
        }
    }
}

/// `kl_coef` times the estimated divergence of the policy that sampled a completion from the reference.
fn charged_kl(completion: &TrainingCompletion, config: &RlConfig) -> f64 {
    if config.kl_in == KlPlacement::Loss || config.kl_coef == 0.0 {
        return 0.0;
    }
    let reference = completion.ref_logprobs.as_ref().expect("the reference has scored every completion");
    let tokens = completion.old_logprobs.iter().zip(reference);
    let kl = |(old, reference): (&f32, &f32)| kl_penalty(config.kl_estimator, f64::from(*old), f64::from(*reference)).0;
    config.kl_coef * tokens.map(kl).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use skein_core::reward::Reward;
    use skein_core::rl::{AdvantageNorm, FilterMetric, PromptLedger, ScoredGroup, ScoredRollout};
    use skein_core::types::Completion;

    use super::*;

    /// Advantages are stored in f32.
    const TOLERANCE: f32 = 1e-6;

    fn group(rollouts: &[(f64, usize, FinishReason)]) -> AcceptedGroup {
        let completion = |&(_, len, finish_reason): &(f64, usize, FinishReason)| Completion {
            token_ids: vec![5; len],
            logprobs: vec![-1.0; len],
            finish_reason,
        };
        AcceptedGroup {
            draw: 0,
            step: 0,
            prompt: 0,
            completions: rollouts.iter().map(completion).collect(),
            rewards: rollouts.iter().map(|rollout| rollout.0).collect(),
        }
    }

    fn config() -> RlConfig {
        let mut config = RlConfig { advantage: AdvantageNorm::MeanOnly, ..RlConfig::default() };
        config.sampling.max_new_tokens = 10;
        config
    }

    fn advantages(groups: &[AcceptedGroup], config: &RlConfig, ref_logprob: f32) -> Vec<f32> {
        let mut training = training_groups(groups, &[vec![1]], config);
        for completion in training.iter_mut().flat_map(|group| &mut group.completions) {
            completion.ref_logprobs = Some(vec![ref_logprob; completion.token_ids.len()]);
        }
        set_advantages(&mut training, groups, config);
        training.iter().flat_map(|group| group.completions.iter().map(|completion| completion.advantage)).collect()
    }

    fn assert_close(found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len());
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < TOLERANCE), "{found:?} {expected:?}");
    }

    #[test]
    fn length_is_punished_in_the_advantage_alone() {
        let groups = [group(&[(0.5, 4, FinishReason::Stop), (0.5, 10, FinishReason::Length)])];
        assert_close(&advantages(&groups, &config(), -1.0), &[0.0, 0.0]);
        let shaped = RlConfig { overlong_buffer_tokens: 5, overlong_penalty: 0.4, ..config() };
        assert_close(&advantages(&groups, &shaped, -1.0), &[0.2, -0.2]);
    }

    #[test]
    fn the_divergence_can_be_charged_to_the_reward() {
        let groups = [group(&[(0.5, 2, FinishReason::Stop), (0.5, 6, FinishReason::Stop)])];
        let in_loss = RlConfig { kl_coef: 0.1, kl_estimator: skein_core::config::KlEstimator::K1, ..config() };
        assert_close(&advantages(&groups, &in_loss, -3.0), &[0.0, 0.0]);
        let in_reward = RlConfig { kl_in: KlPlacement::Reward, ..in_loss };
        // 0.1 · 2 nats a token: 0.4 and 1.2.
        assert_close(&advantages(&groups, &in_reward, -3.0), &[0.4, -0.4]);
    }

    #[test]
    fn truncated_completions_are_masked_but_counted() {
        let groups = [group(&[(0.0, 10, FinishReason::Length), (1.0, 3, FinishReason::Stop)])];
        let config = RlConfig { mask_truncated: true, ..config() };
        let training = training_groups(&groups, &[vec![1]], &config);
        assert_eq!(training[0].completions[0].loss_mask, Some(vec![false; 10]));
        assert_eq!(training[0].completions[1].loss_mask, None);
        assert_close(&advantages(&groups, &config, -1.0), &[-0.5, 0.5]);
    }

    /// Any ids, among them the few that models pad and stop with, and why the completion ended: nothing follows from either.
    fn completion() -> impl Strategy<Value = Completion> {
        let token = (prop_oneof![0..4u32, any::<u32>()], -30f32..0.0);
        let reason = prop_oneof![Just(FinishReason::Stop), Just(FinishReason::Length)];
        (prop::collection::vec(token, 1..12), reason).prop_map(|(tokens, finish_reason)| {
            let (token_ids, logprobs) = tokens.into_iter().unzip();
            Completion { token_ids, logprobs, finish_reason }
        })
    }

    proptest! {
        #[test]
        fn from_sampler_to_trainer_no_id_and_no_bit_changes(
            prompt_ids in prop::collection::vec(prop::collection::vec(any::<u32>(), 1..6), 1..4),
            sampled in prop::collection::vec(prop::collection::vec(completion(), 2..5), 1..6),
            mask_truncated: bool,
        ) {
            let scored = |(group, completions): (usize, &Vec<Completion>)| ScoredGroup {
                prompt: group % prompt_ids.len(),
                rollouts: completions
                    .iter()
                    .enumerate()
                    .map(|(sample, completion)| ScoredRollout {
                        completion: completion.clone(),
                        reward: Reward {
                            total: sample as f64,
                            answer: 0.0,
                            entropy: None,
                            steps: Vec::new(),
                            malformed: None,
                            num_out_of_bank: None,
                        },
                    })
                    .collect(),
            };
            let mut ledger = PromptLedger::default();
            ledger.enter(sampled.iter().enumerate().map(scored).collect(), 0, Some(FilterMetric::Total));
            // As a checkpoint keeps groups that wait.
            let mut ledger: PromptLedger = serde_json::from_str(&serde_json::to_string(&ledger).unwrap()).unwrap();
            let accepted = ledger.take(sampled.len());
            let config = RlConfig { mask_truncated, ..config() };
            let training = training_groups(&accepted, &prompt_ids, &config);
            prop_assert_eq!(training.len(), sampled.len());
            for (group, (training, sampled)) in training.iter().zip(&sampled).enumerate() {
                prop_assert_eq!(&training.prompt_ids, &prompt_ids[group % prompt_ids.len()]);
                prop_assert_eq!(training.completions.len(), sampled.len());
                for (training, sampled) in training.completions.iter().zip(sampled) {
                    prop_assert_eq!(&training.token_ids, &sampled.token_ids);
                    let bits = |logprobs: &[f32]| logprobs.iter().map(|logprob| logprob.to_bits()).collect::<Vec<_>>();
                    prop_assert_eq!(bits(&training.old_logprobs), bits(&sampled.logprobs));
                    let is_masked = mask_truncated && sampled.finish_reason == FinishReason::Length;
                    let mask = is_masked.then(|| vec![false; sampled.token_ids.len()]);
                    prop_assert_eq!(&training.loss_mask, &mask);
                }
            }
        }
    }
}
