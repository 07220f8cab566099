//! Scored groups and dynamic sampling: a group enters the batch only if its rewards differ.

use serde::{Deserialize, Serialize};

use super::advantage::{AdvantageNorm, all_equal, group_advantages};
use crate::reward::Reward;
use crate::types::Completion;

/// A completion and what it earned.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredRollout {
    /// What the policy sampled.
    pub completion: Completion,
    /// What its text earned.
    pub reward: Reward,
}

/// All completions of one prompt, each with its reward.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredGroup {
    /// The prompt's index in its data set.
    pub prompt: usize,
    /// In sample order.
    pub rollouts: Vec<ScoredRollout>,
}

/// The number by which dynamic sampling judges a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilterMetric {
    /// The whole reward, as in the paper. With λ_ent > 0 tiny differences in r_ent keep nearly every group.
    #[default]
    Total,
    /// r_ans alone.
    Answer,
}

impl FilterMetric {
    /// The metric's value of one reward.
    pub fn of(self, reward: &Reward) -> f64 {
        match self {
            Self::Total => reward.total,
            Self::Answer => reward.answer,
        }
    }
}

impl ScoredGroup {
    /// One value per rollout.
    pub fn values(&self, of: impl Fn(&Reward) -> f64) -> Vec<f64> {
        self.rollouts.iter().map(|rollout| of(&rollout.reward)).collect()
    }

    /// Whether all rollouts have exactly the same value of `metric`.
    pub fn is_degenerate(&self, metric: FilterMetric) -> bool {
        all_equal(&self.values(|reward| metric.of(reward)))
    }

    /// One advantage per rollout, from total rewards.
    pub fn advantages(&self, norm: AdvantageNorm) -> Vec<f64> {
        group_advantages(&self.values(|reward| reward.total), norm)
    }

    /// The variance of a part of the reward within the group (n − 1), 0 for fewer than two rollouts.
    pub fn variance(&self, of: impl Fn(&Reward) -> f64) -> f64 {
        crate::eval::variance(&self.values(of)).unwrap_or(0.0)
    }
}

/// What dynamic sampling made of one round's groups, both in the order they came in.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FilterOutcome {
    /// Groups with something to teach.
    pub kept: Vec<ScoredGroup>,
    /// Groups whose rewards are all equal.
    pub dropped: Vec<ScoredGroup>,
}

/// Splits groups by whether their values of `metric` differ.
pub fn filter_groups(groups: Vec<ScoredGroup>, metric: FilterMetric) -> FilterOutcome {
    let (dropped, kept) = groups.into_iter().partition(|group| group.is_degenerate(metric));
    FilterOutcome { kept, dropped }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::FinishReason;

    fn group(prompt: usize, rewards: &[(f64, f64)]) -> ScoredGroup {
        let rollout = |&(total, answer): &(f64, f64)| ScoredRollout {
            completion: Completion { token_ids: vec![1], logprobs: vec![-0.5], finish_reason: FinishReason::Stop },
            reward: Reward { total, answer, entropy: None, steps: Vec::new(), malformed: None, num_out_of_bank: None },
        };
        ScoredGroup { prompt, rollouts: rewards.iter().map(rollout).collect() }
    }

    #[test]
    fn filter_keeps_groups_that_differ_in_its_metric() {
        let groups = vec![
            group(7, &[(0.5, 0.5), (0.5, 0.5)]),
            group(3, &[(0.5, 0.5), (0.5000000001, 0.5)]),
            group(5, &[(0.1, 0.0), (0.9, 1.0)]),
        ];
        let prompts = |groups: &[ScoredGroup]| groups.iter().map(|group| group.prompt).collect::<Vec<_>>();
        let total = filter_groups(groups.clone(), FilterMetric::Total);
        assert_eq!((prompts(&total.kept), prompts(&total.dropped)), (vec![3, 5], vec![7]));
        let answer = filter_groups(groups, FilterMetric::Answer);
        assert_eq!((prompts(&answer.kept), prompts(&answer.dropped)), (vec![5], vec![7, 3]));
    }

    #[test]
    fn group_numbers() {
        let group = group(0, &[(0.0, 0.0), (1.0, 0.5)]);
        assert_eq!(group.advantages(AdvantageNorm::MeanOnly), [-0.5, 0.5]);
        assert_eq!(group.variance(|reward| reward.answer), 0.125);
    }
}
