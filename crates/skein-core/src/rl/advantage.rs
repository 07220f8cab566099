//! Group-relative advantages.

use serde::{Deserialize, Serialize};

/// Added to the standard deviation before dividing by it (verl's constant).
pub const STD_EPSILON: f64 = 1e-6;

/// What a group's centred rewards are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdvantageNorm {
    /// The group's standard deviation plus [`STD_EPSILON`], as in GRPO (arXiv:2402.03300).
    #[default]
    GroupStd,
    /// Nothing, as in Dr. GRPO (arXiv:2503.20783): small differences stay small.
    #[serde(rename = "group_mean")]
    MeanOnly,
}

/// The advantage of each sample of one group: its reward minus the group's mean, normalised by `norm`.
///
/// The standard deviation is the unbiased one (n − 1). A group whose rewards are all equal, one of a single sample
/// included, gets exact zeros: rounding of the mean is not a signal.
pub fn group_advantages(rewards: &[f64], norm: AdvantageNorm) -> Vec<f64> {
    if all_equal(rewards) {
        return vec![0.0; rewards.len()];
    }
    let mean = rewards.iter().sum::<f64>() / rewards.len() as f64;
    let scale = match norm {
        AdvantageNorm::MeanOnly => 1.0,
        AdvantageNorm::GroupStd => {
            let squares: f64 = rewards.iter().map(|reward| (reward - mean).powi(2)).sum();
            (squares / (rewards.len() - 1) as f64).sqrt() + STD_EPSILON
        }
    };
    rewards.iter().map(|reward| (reward - mean) / scale).collect()
}

/// Whether all values are exactly equal, so that the group has nothing to teach.
pub(super) fn all_equal(values: &[f64]) -> bool {
    values.windows(2).all(|pair| pair[0] == pair[1])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// verl computes in f32, whose rounding dominates.
    const FIXTURE_TOLERANCE: f64 = 1e-5;

    fn floats(value: &Value) -> Vec<f64> {
        value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
    }

    #[test]
    fn agrees_with_verl() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/grpo_losses.json");
        let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let mut compared = 0;
        for case in &cases {
            let (rewards, groups) = (floats(&case["rewards"]), floats(&case["group_id"]));
            for (norm, name) in [(AdvantageNorm::GroupStd, "group_std"), (AdvantageNorm::MeanOnly, "group_mean_only")] {
                let expected = floats(&case["advantages"][name]);
                let mut start = 0;
                while start < rewards.len() {
                    let end = start + groups[start..].iter().take_while(|&&group| group == groups[start]).count();
                    for (ours, theirs) in group_advantages(&rewards[start..end], norm).iter().zip(&expected[start..end])
                    {
                        assert!((ours - theirs).abs() < FIXTURE_TOLERANCE, "{name}: {ours} is not {theirs}");
                        compared += 1;
                    }
                    start = end;
                }
            }
        }
        assert_eq!(compared, 2 * (8 + 24 + 8), "the fixture's samples, under both norms");
    }

    #[test]
    fn equal_rewards_give_exact_zeros() {
        for norm in [AdvantageNorm::GroupStd, AdvantageNorm::MeanOnly] {
            assert_eq!(group_advantages(&[0.1; 3], norm), [0.0; 3], "0.1 + 0.1 + 0.1 is not 3 · 0.1 in binary");
            assert_eq!(group_advantages(&[0.7], norm), [0.0]);
            assert!(group_advantages(&[], norm).is_empty());
        }
    }

    proptest! {
        #[test]
        fn advantages_sum_to_zero_and_keep_the_order(rewards in proptest::collection::vec(0.0f64..=1.0, 2..16)) {
            for norm in [AdvantageNorm::GroupStd, AdvantageNorm::MeanOnly] {
                let advantages = group_advantages(&rewards, norm);
                prop_assert!(advantages.iter().sum::<f64>().abs() < 1e-6);
                for (i, j) in (1..rewards.len()).map(|j| (j - 1, j)) {
                    prop_assert!(rewards[i] > rewards[j] || advantages[i] <= advantages[j]);
                }
            }
        }
    }
}
