//! r_ent: how well the predicted skill sequence agrees with the gold one, measured through skill entropy.
//!
//! Pure functions of the entropies of switches; where they come from is [`SwitchEntropies`]'s business, which labels
//! name which skills the matcher's. A switch with a label out of the bank has no entropy and earns nothing; it is never
//! given a default value.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::skill::{EntropyError, EntropyTable, SkillKey};

/// How predicted and gold entropies turn into a reward in [0, 1], 1 at a perfect match.
///
/// `v` of the task's `L − 1` switches are valid: both their labels resolve to bank keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntropyForm {
    /// `v/(L−1) · max(0, 1 − |ŜkE − SkE*| / SkE*)`, with ŜkE the mean over valid switches and SkE* over gold ones.
    #[default]
    TaskGap,
    /// `v/(L−1) · exp(−|ŜkE − SkE*| / scale)`.
    TaskGapExp,
    /// `1/(L−1) · Σ over valid i of max(0, 1 − |ŜkE_i − SkE_i*| / SkE_i*)`: each switch against its own gold one, so
    /// that neither another sequence with the same mean nor dropping a bad switch can raise it.
    SwitchProfile,
}

/// The reward of a predicted sequence.
///
/// `predicted` and `gold` hold one entropy per switch, in order and equally many; a predicted one is none where the
/// switch is not valid. `scale` serves [`EntropyForm::TaskGapExp`] only. None when there is no switch.
pub fn entropy_reward(form: EntropyForm, scale: f64, predicted: &[Option<f64>], gold: &[f64]) -> Option<f64> {
    assert_eq!(predicted.len(), gold.len(), "one predicted entropy per gold switch");
    if gold.is_empty() {
        return None;
    }
    let num_switches = gold.len() as f64;
    if form == EntropyForm::SwitchProfile {
        let pairs = predicted.iter().zip(gold).filter_map(|(p, g)| Some((*p.as_ref()?, *g)));
        return Some(pairs.map(|(p, g)| relative_agreement(p, g)).sum::<f64>() / num_switches);
    }
    let valid: Vec<f64> = predicted.iter().copied().flatten().collect();
    if valid.is_empty() {
        return Some(0.0);
    }
    let predicted_mean = valid.iter().sum::<f64>() / valid.len() as f64;
    let gold_mean = gold.iter().sum::<f64>() / num_switches;
    let agreement = match form {
        EntropyForm::TaskGapExp => (-(predicted_mean - gold_mean).abs() / scale).exp(),
        _ => relative_agreement(predicted_mean, gold_mean),
    };
    Some(valid.len() as f64 / num_switches * agreement)
}

fn relative_agreement(predicted: f64, gold: f64) -> f64 {
    (1.0 - (predicted - gold).abs() / gold).max(0.0)
}

/// The entropy of every switch between some skills, looked up once from an entropy table.
#[derive(Debug, Clone)]
pub struct SwitchEntropies {
    rows: HashMap<SkillKey, usize>,
    /// Row-major, from × to.
    values: Vec<f64>,
}

impl SwitchEntropies {
    /// The switches between all `skills`, a skill and itself included.
    ///
    /// # Errors
    /// A cell that the table has not measured, by name.
    pub fn new(table: &EntropyTable, skills: &[SkillKey]) -> Result<Self, EntropyError> {
        table.check_complete(skills)?;
        let rows: HashMap<SkillKey, usize> = skills.iter().cloned().zip(0..).collect();
        let pairs = skills.iter().flat_map(|from| skills.iter().map(move |to| (from, to)));
        let values = pairs.map(|(from, to)| table.switch(from, to)).collect::<Result<_, _>>()?;
        Ok(Self { rows, values })
    }

    /// SkE(from, to); none when either skill is not among those the table was asked for.
    pub fn switch(&self, from: &SkillKey, to: &SkillKey) -> Option<f64> {
        Some(self.values[self.rows.get(from)? * self.rows.len() + self.rows.get(to)?])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sums and quotients of a few doubles.
    const TOLERANCE: f64 = 1e-12;

    const FORMS: [EntropyForm; 3] = [EntropyForm::TaskGap, EntropyForm::TaskGapExp, EntropyForm::SwitchProfile];

    fn reward(form: EntropyForm, predicted: &[Option<f64>], gold: &[f64]) -> f64 {
        entropy_reward(form, 1.0, predicted, gold).unwrap()
    }

    #[test]
    fn hand_computed() {
        // Means 1.5 and 2.0, gap 0.5, all three switches valid.
        let (predicted, gold) = ([Some(1.0), Some(2.0), Some(1.5)], [2.0, 3.0, 1.0]);
        assert!((reward(EntropyForm::TaskGap, &predicted, &gold) - 0.75).abs() < TOLERANCE);
        assert!((reward(EntropyForm::TaskGapExp, &predicted, &gold) - (-0.5f64).exp()).abs() < TOLERANCE);
        // 1 − 1/2, 1 − 1/3, 1 − 0.5/1.
        let profile = (0.5 + 2.0 / 3.0 + 0.5) / 3.0;
        assert!((reward(EntropyForm::SwitchProfile, &predicted, &gold) - profile).abs() < TOLERANCE);
        let double_scale = entropy_reward(EntropyForm::TaskGapExp, 2.0, &predicted, &gold).unwrap();
        assert!((double_scale - (-0.25f64).exp()).abs() < TOLERANCE);

        // The last two switches are out of the bank: v = 1 of 3, ŜkE = 1, gap 1.
        let predicted = [Some(1.0), None, None];
        assert!((reward(EntropyForm::TaskGap, &predicted, &gold) - 0.5 / 3.0).abs() < TOLERANCE);
        assert!((reward(EntropyForm::TaskGapExp, &predicted, &gold) - (-1.0f64).exp() / 3.0).abs() < TOLERANCE);
        assert!((reward(EntropyForm::SwitchProfile, &predicted, &gold) - 0.5 / 3.0).abs() < TOLERANCE);

        // A gap over 100 % earns nothing, in the relative forms.
        assert_eq!(reward(EntropyForm::TaskGap, &[Some(5.0)], &[2.0]), 0.0);
        assert_eq!(reward(EntropyForm::SwitchProfile, &[Some(5.0)], &[2.0]), 0.0);
    }

    #[test]
    fn no_switch_has_no_reward_and_no_valid_switch_earns_none() {
        for form in FORMS {
            assert_eq!(entropy_reward(form, 1.0, &[], &[]), None);
            assert_eq!(reward(form, &[None, None], &[1.0, 2.0]), 0.0);
        }
    }

    proptest! {
        #[test]
        fn stays_in_range_and_is_one_at_a_perfect_match(
            switches in proptest::collection::vec((proptest::option::of(0.05f64..11.0), 0.05f64..11.0), 1..9),
            scale in 0.1f64..5.0,
        ) {
            let (predicted, gold): (Vec<_>, Vec<_>) = switches.into_iter().unzip();
            let perfect: Vec<_> = gold.iter().copied().map(Some).collect();
            for form in FORMS {
                let value = entropy_reward(form, scale, &predicted, &gold).unwrap();
                prop_assert!((0.0..=1.0).contains(&value), "{form:?} {value}");
                prop_assert_eq!(entropy_reward(form, scale, &perfect, &gold), Some(1.0));
            }
        }

        #[test]
        fn switch_profile_never_rises_when_a_label_leaves_the_bank(
            switches in proptest::collection::vec((proptest::option::of(0.05f64..11.0), 0.05f64..11.0), 1..9),
            label in 0usize..10,
        ) {
            let (predicted, gold): (Vec<_>, Vec<_>) = switches.into_iter().unzip();
            let label = label % (gold.len() + 1);
            let mut without = predicted.clone();
            // Label i belongs to switches i − 1 and i.
            for switch in [label.checked_sub(1), Some(label)].into_iter().flatten().filter(|&s| s < gold.len()) {
                without[switch] = None;
            }
            let reward = |predicted: &[Option<f64>]| entropy_reward(EntropyForm::SwitchProfile, 1.0, predicted, &gold);
            prop_assert!(reward(&without) <= reward(&predicted));
        }
    }
}
