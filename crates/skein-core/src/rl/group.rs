//! Scored groups, and whether one has something to teach: only if its rewards differ.

use serde::{Deserialize, Serialize};

use super::advantage::all_equal;
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

    /// The variance of a part of the reward within the group (n − 1), 0 for fewer than two rollouts.
    pub fn variance(&self, of: impl Fn(&Reward) -> f64) -> f64 {
        crate::eval::variance(&self.values(of)).unwrap_or(0.0)
    }
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
    fn groups_are_judged_by_the_metric_alone() {
        let cases = [
            (vec![(0.5, 0.5), (0.5, 0.5)], true, true),
            (vec![(0.5, 0.5); 4], true, true),
            (vec![(0.5, 0.5), (0.5000000001, 0.5)], false, true),
            (vec![(0.1, 0.0), (0.9, 1.0)], false, false),
            (vec![(0.1, 0.0)], true, true),
        ];
        for (rewards, by_total, by_answer) in cases {
            let group = group(0, &rewards);
            assert_eq!(group.is_degenerate(FilterMetric::Total), by_total, "{rewards:?}");
            assert_eq!(group.is_degenerate(FilterMetric::Answer), by_answer, "{rewards:?}");
        }
    }

    #[test]
    fn group_numbers() {
        let group = group(0, &[(0.0, 0.0), (1.0, 0.5)]);
        assert_eq!(group.variance(|reward| reward.answer), 0.125);
    }
}
