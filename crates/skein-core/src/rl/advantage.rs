//! Group-relative advantages.

use serde::{Deserialize, Serialize};

/// Added to the standard deviation before dividing by it (verl's constant).
pub const STD_EPSILON: f64 = 1e-6;

/// What a sample's reward is compared with and divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdvantageNorm {
    /// The group's mean; divided by the group's standard deviation plus [`STD_EPSILON`], as in GRPO (arXiv:2402.03300).
    #[default]
    GroupStd,
    /// The group's mean; divided by nothing, as in Dr. GRPO (arXiv:2503.20783): small differences stay small.
    #[serde(rename = "group_mean")]
    MeanOnly,
    /// The group's mean; divided by the standard deviation of all rewards of the batch plus [`STD_EPSILON`]: groups with
    /// small differences get small advantages.
    BatchStd,
    /// The mean of the group's other samples; divided by nothing (RLOO, arXiv:2402.14740).
    LeaveOneOut,
}

/// The advantage of each sample of each group of a batch: its reward against its group, normalised by `norm`.
///
/// Standard deviations are the unbiased ones (n − 1). A group whose rewards are all equal, one of a single sample
/// included, gets exact zeros: rounding of the mean is not a signal.
pub fn batch_advantages(groups: &[Vec<f64>], norm: AdvantageNorm) -> Vec<Vec<f64>> {
    let batch: Vec<f64> = match norm {
        AdvantageNorm::BatchStd => groups.iter().flatten().copied().collect(),
        _ => Vec::new(),
    };
    let batch_scale = standard_deviation(&batch) + STD_EPSILON;
    groups
        .iter()
        .map(|rewards| {
            if all_equal(rewards) {
                return vec![0.0; rewards.len()];
            }
            let mean = rewards.iter().sum::<f64>() / rewards.len() as f64;
            let scale = match norm {
                AdvantageNorm::MeanOnly => 1.0,
                AdvantageNorm::GroupStd => standard_deviation(rewards) + STD_EPSILON,
                AdvantageNorm::BatchStd => batch_scale,
                // r − mean of the others = (r − mean) · n / (n − 1).
                AdvantageNorm::LeaveOneOut => (rewards.len() - 1) as f64 / rewards.len() as f64,
            };
            rewards.iter().map(|reward| (reward - mean) / scale).collect()
        })
        .collect()
}

/// 0 for fewer than two values.
fn standard_deviation(values: &[f64]) -> f64 {
    crate::eval::variance(values).unwrap_or(0.0).sqrt()
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
                    let ours = batch_advantages(&[rewards[start..end].to_vec()], norm).remove(0);
                    for (ours, theirs) in ours.iter().zip(&expected[start..end]) {
                        assert!((ours - theirs).abs() < FIXTURE_TOLERANCE, "{name}: {ours} is not {theirs}");
                        compared += 1;
                    }
                    start = end;
                }
            }
        }
        assert_eq!(compared, 2 * (8 + 24 + 8), "the fixture's samples, under both norms");
    }

    const NORMS: [AdvantageNorm; 4] =
        [AdvantageNorm::GroupStd, AdvantageNorm::MeanOnly, AdvantageNorm::BatchStd, AdvantageNorm::LeaveOneOut];

    /// A few sums and quotients of doubles.
    const TOLERANCE: f64 = 1e-12;

    #[test]
    fn equal_rewards_give_exact_zeros() {
        for norm in NORMS {
            let advantages = batch_advantages(&[vec![0.1; 3], vec![0.7], vec![], vec![0.0, 1.0]], norm);
            assert_eq!(advantages[0], [0.0; 3], "0.1 + 0.1 + 0.1 is not 3 · 0.1 in binary");
            assert_eq!(advantages[1], [0.0]);
            assert!(advantages[2].is_empty());
            assert!(advantages[3][0] < 0.0 && advantages[3][1] > 0.0);
        }
    }

    #[test]
    fn one_odd_sample_keeps_its_group_whole_and_bounded() {
        for odd in [vec![1.0, 0.0, 0.0, 0.0], [vec![0.0], vec![0.95; 7]].concat()] {
            for norm in NORMS {
                let advantages = batch_advantages(std::slice::from_ref(&odd), norm).remove(0);
                assert!(advantages.iter().all(|advantage| *advantage != 0.0), "{norm:?}: no sample lost");
                // The largest |r − mean| / σ of n samples is (n − 1) / √n.
                let bound = (odd.len() - 1) as f64 / (odd.len() as f64).sqrt() + TOLERANCE;
                assert!(advantages.iter().all(|advantage| advantage.abs() <= bound), "{norm:?}: {advantages:?}");
            }
        }
        let residue = [0.3, 0.1 + 0.2, 0.3, 0.3];
        let advantages = batch_advantages(&[residue.to_vec()], AdvantageNorm::GroupStd).remove(0);
        assert!(advantages.iter().all(|advantage| advantage.abs() < 1e-9), "rounding is divided by ε, not by itself");
    }

    #[test]
    fn leave_one_out_compares_with_the_others() {
        let rewards = [0.2, 0.9, 0.4, 0.4];
        let advantages = batch_advantages(&[rewards.to_vec()], AdvantageNorm::LeaveOneOut).remove(0);
        for (index, advantage) in advantages.iter().enumerate() {
            let others = (rewards.iter().sum::<f64>() - rewards[index]) / 3.0;
            assert!((advantage - (rewards[index] - others)).abs() < TOLERANCE);
        }
    }

    #[test]
    fn batch_scale_keeps_small_groups_small() {
        let groups = [vec![0.0, 1.0], vec![0.50, 0.51]];
        let std = {
            let all: [f64; 4] = [0.0, 1.0, 0.50, 0.51];
            let mean = all.iter().sum::<f64>() / 4.0;
            (all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 3.0).sqrt()
        };
        let advantages = batch_advantages(&groups, AdvantageNorm::BatchStd);
        assert!((advantages[0][1] - 0.5 / (std + STD_EPSILON)).abs() < TOLERANCE);
        assert!((advantages[1][1] - 0.005 / (std + STD_EPSILON)).abs() < TOLERANCE);
    }

    proptest! {
        #[test]
        fn advantages_sum_to_zero_and_keep_the_order(rewards in proptest::collection::vec(0.0f64..=1.0, 2..16)) {
            for norm in NORMS {
                let advantages = batch_advantages(std::slice::from_ref(&rewards), norm).remove(0);
                prop_assert!(advantages.iter().sum::<f64>().abs() < 1e-6);
                for (i, j) in (1..rewards.len()).map(|j| (j - 1, j)) {
                    prop_assert!(rewards[i] > rewards[j] || advantages[i] <= advantages[j]);
                }
            }
        }
    }
}
