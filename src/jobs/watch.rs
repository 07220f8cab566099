//! Watches an RL stage for the ways it usually goes wrong, and says each once with what to try.
//!
//! It only warns: what a warning is worth, the person who reads it decides. Nothing here changes a run, so a resumed run
//! may compare with a later first step and still ends in the same bits.

use std::collections::{HashMap, HashSet, VecDeque};

/// Steps averaged on each side of a comparison of rewards.
const WINDOW: usize = 20;
/// A mean reward that rose by less than this over a window stands still.
const PLATEAU_GAIN: f64 = 1e-3;
/// An entropy below this share of the first step's has collapsed.
const ENTROPY_SHARE: f64 = 0.1;
/// Responses shorter than this share of the first step's have collapsed.
const LENGTH_SHARE: f64 = 0.25;
/// More cut responses than this share leave little to learn from.
const TRUNCATED_SHARE: f64 = 0.5;
/// A mean divergence from the reference above this, in nats a token, has left it behind.
const MAX_KL: f64 = 0.5;
/// Rewards whose mean variance within groups is below this are equal but for rounding.
const MIN_VARIANCE: f64 = 1e-9;

/// What has been seen of one stage.
#[derive(Debug, Default)]
pub(super) struct Watch {
    first: HashMap<&'static str, f64>,
    rewards: VecDeque<f64>,
    said: HashSet<&'static str>,
}

impl Watch {
    /// Looks at one step's metrics; returns the warnings it has not given before.
    pub(super) fn look(&mut self, metrics: &[(&'static str, f64)]) -> Vec<String> {
        let value = |name: &str| metrics.iter().find(|(found, _)| *found == name).map(|&(_, value)| value);
        let mut warnings = Vec::new();
        let mut warn = |said: &mut HashSet<&'static str>, kind: &'static str, text: String| {
            if said.insert(kind) {
                warnings.push(text);
            }
        };
        for name in ["actor/entropy", "response_length/mean"] {
            if let Some(value) = value(name) {
                self.first.entry(name).or_insert(value);
            }
        }
        let share_of_first = |name: &'static str| {
            let (now, first) = (value(name)?, *self.first.get(name)?);
            (first > 0.0).then(|| (now, first, now / first))
        };
        if let Some((now, first, share)) = share_of_first("actor/entropy")
            && share < ENTROPY_SHARE
        {
            let text = format!(
                "entropy fell from {first:.3} to {now:.3} nats a token: the policy hardly explores any more. Lower rl.lr, \
                 raise rl.clip_ratio_high or rl.entropy_coef, or sample at a higher temperature"
            );
            warn(&mut self.said, "entropy", text);
        }
        if let Some((now, first, share)) = share_of_first("response_length/mean")
            && share < LENGTH_SHARE
        {
            let text = format!(
                "responses shrank from {first:.0} to {now:.0} tokens: see whether short ones earn a reward they should not \
                 (rollouts/ has samples)"
            );
            warn(&mut self.said, "length", text);
        }
        if let Some(truncated) = value("response_length/truncated").filter(|&share| share > TRUNCATED_SHARE) {
            let text = format!(
                "{:.0} % of the responses are cut at rl.sampling.max_new_tokens: raise it, set rl.overlong_buffer_tokens, \
                 or rl.mask_truncated = true",
                100.0 * truncated
            );
            warn(&mut self.said, "truncated", text);
        }
        if let Some(kl) = value("actor/kl").filter(|&kl| kl > MAX_KL) {
            let text =
                format!("the policy is {kl:.2} nats a token away from its reference: raise rl.kl_coef or lower rl.lr");
            warn(&mut self.said, "kl", text);
        }
        if value("reward/group_variance").is_some_and(|variance| variance < MIN_VARIANCE) {
            let text = "all rewards within every group are equal: there is nothing to learn. The tasks are too easy or \
                        too hard, or sampling is too cold";
            warn(&mut self.said, "variance", text.to_owned());
        }
        if let Some(reward) = value("reward/mean") {
            self.rewards.push_back(reward);
            if self.rewards.len() > 2 * WINDOW {
                self.rewards.pop_front();
            }
            if self.rewards.len() == 2 * WINDOW {
                let mean = |values: &mut dyn Iterator<Item = &f64>| values.sum::<f64>() / WINDOW as f64;
                let before = mean(&mut self.rewards.iter().take(WINDOW));
                let now = mean(&mut self.rewards.iter().skip(WINDOW));
                if now - before < PLATEAU_GAIN {
                    let text = format!(
                        "the mean reward stands still: {before:.3} over {WINDOW} steps, then {now:.3}. If it is not at its \
                         ceiling, look at reward/group_variance and actor/grad_norm, then raise rl.lr or rl.group_size"
                    );
                    warn(&mut self.said, "plateau", text);
                }
            }
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(entropy: f64, length: f64, reward: f64) -> Vec<(&'static str, f64)> {
        vec![
            ("actor/entropy", entropy),
            ("response_length/mean", length),
            ("response_length/truncated", 0.0),
            ("actor/kl", 0.01),
            ("reward/group_variance", 0.1),
            ("reward/mean", reward),
        ]
    }

    #[test]
    fn a_healthy_stage_is_left_alone() {
        let mut watch = Watch::default();
        for index in 0..60 {
            let warnings = watch.look(&step(1.0 - 0.005 * f64::from(index), 50.0, 0.01 * f64::from(index)));
            assert!(warnings.is_empty(), "{warnings:?}");
        }
    }

    #[test]
    fn each_way_of_going_wrong_is_said_once() {
        let mut watch = Watch::default();
        assert!(watch.look(&step(1.0, 50.0, 0.1)).is_empty());
        let fallen = watch.look(&step(0.05, 5.0, 0.1));
        assert!(fallen[0].contains("entropy fell from 1.000 to 0.050") && fallen[1].contains("from 50 to 5 tokens"));
        assert!(watch.look(&step(0.05, 5.0, 0.1)).is_empty());
        let mut bad = step(1.0, 50.0, 0.1);
        bad.iter_mut().for_each(|(name, value)| match *name {
            "actor/kl" => *value = 0.9,
            "response_length/truncated" => *value = 0.6,
            "reward/group_variance" => *value = 0.0,
            _ => {}
        });
        assert_eq!(watch.look(&bad).len(), 3);
    }

    #[test]
    fn a_reward_that_stands_still_is_noticed_after_two_windows() {
        let mut watch = Watch::default();
        let warned: Vec<usize> = (0..60).filter(|_| !watch.look(&step(1.0, 50.0, 0.3)).is_empty()).collect();
        assert_eq!(warned, [2 * WINDOW - 1]);
    }
}
