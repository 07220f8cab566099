//! What becomes of every prompt that a run draws.
//!
//! A draw ends in exactly one way: its group is trained on, filtered out, or dropped as too old; until then it waits.
//! The ledger is part of a checkpoint, so a resumed run neither loses a group it has paid for nor draws a prompt twice.
//! It decides by draw order alone, never by when something finished.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::group::{FilterMetric, ScoredGroup};
use crate::types::Completion;

/// A group with something to teach: what training needs of it, and nothing of how it was judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AcceptedGroup {
    /// The number of its draw, counted from 0 over all epochs.
    pub draw: u64,
    /// The step whose policy sampled it.
    pub step: u64,
    /// The prompt's index in its data set.
    pub prompt: usize,
    /// In sample order, with the sampling policy's log-probabilities.
    pub completions: Vec<Completion>,
    /// The total reward of each completion.
    pub rewards: Vec<f64>,
}

/// Accepted groups that wait for a batch, and how many draws ended in which way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptLedger {
    waiting: VecDeque<AcceptedGroup>,
    /// Groups trained on.
    pub trained: u64,
    /// Groups whose rewards were all equal, or that no grader could judge.
    pub filtered: u64,
    /// Groups dropped because the policy had moved on too far.
    pub stale: u64,
}

impl PromptLedger {
    /// Draws entered so far, whatever became of them.
    pub fn num_drawn(&self) -> u64 {
        self.trained + self.filtered + self.stale + self.waiting.len() as u64
    }

    /// Groups that wait.
    pub fn num_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Drops the groups sampled more than `max_staleness` steps before `step`.
    pub fn expire(&mut self, step: u64, max_staleness: u64) {
        let before = self.waiting.len();
        self.waiting.retain(|group| step.saturating_sub(group.step) <= max_staleness);
        self.stale += (before - self.waiting.len()) as u64;
    }

    /// Enters the groups of the next draws, in draw order, sampled at `step`. Under a filter a group whose values of
    /// the metric are all equal is turned away; one without a judged completion always is.
    pub fn enter(&mut self, groups: Vec<ScoredGroup>, step: u64, filter: Option<FilterMetric>) {
        for group in groups {
            let is_useless = group.rollouts.is_empty() || filter.is_some_and(|metric| group.is_degenerate(metric));
            if is_useless {
                self.filtered += 1;
                continue;
            }
            let draw = self.num_drawn();
            let rewards = group.values(|reward| reward.total);
            let completions = group.rollouts.into_iter().map(|rollout| rollout.completion).collect();
            self.waiting.push_back(AcceptedGroup { draw, step, prompt: group.prompt, completions, rewards });
        }
    }

    /// Takes up to `count` groups to train on, the oldest first.
    pub fn take(&mut self, count: usize) -> Vec<AcceptedGroup> {
        let batch: Vec<AcceptedGroup> = self.waiting.drain(..count.min(self.waiting.len())).collect();
        self.trained += batch.len() as u64;
        batch
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::reward::Reward;
    use crate::rl::ScoredRollout;
    use crate::types::FinishReason;

    fn group(prompt: usize, rewards: &[f64]) -> ScoredGroup {
        let rollout = |&total: &f64| ScoredRollout {
            completion: Completion { token_ids: vec![1], logprobs: vec![-0.1], finish_reason: FinishReason::Stop },
            reward: Reward {
                total,
                answer: total,
                entropy: None,
                steps: Vec::new(),
                malformed: None,
                num_out_of_bank: None,
            },
        };
        ScoredGroup { prompt, rollouts: rewards.iter().map(rollout).collect() }
    }

    const FILTER: Option<FilterMetric> = Some(FilterMetric::Total);

    #[test]
    fn surplus_waits_and_comes_first() {
        let mut ledger = PromptLedger::default();
        ledger.enter((0..5).map(|prompt| group(prompt, &[0.0, 1.0])).collect(), 0, FILTER);
        let prompts = |groups: Vec<AcceptedGroup>| groups.iter().map(|group| group.prompt).collect::<Vec<_>>();
        assert_eq!(prompts(ledger.take(3)), [0, 1, 2]);
        ledger.enter(vec![group(9, &[0.0, 1.0])], 1, FILTER);
        assert_eq!(prompts(ledger.take(9)), [3, 4, 9]);
        assert_eq!((ledger.trained, ledger.num_waiting(), ledger.num_drawn()), (6, 0, 6));
    }

    #[test]
    fn useless_groups_are_counted_and_old_ones_dropped() {
        let mut ledger = PromptLedger::default();
        ledger.enter(vec![group(0, &[0.5, 0.5]), group(1, &[]), group(2, &[0.5, 0.6])], 0, FILTER);
        assert_eq!((ledger.filtered, ledger.num_waiting()), (2, 1));
        ledger.expire(2, 2);
        assert_eq!(ledger.stale, 0);
        ledger.expire(3, 2);
        assert_eq!((ledger.stale, ledger.num_waiting()), (1, 0));
        ledger.enter(vec![group(3, &[0.5, 0.5]), group(4, &[])], 3, None);
        assert_eq!((ledger.filtered, ledger.num_waiting()), (3, 1), "without a filter only what nobody judged goes");
    }

    proptest! {
        #[test]
        fn every_draw_ends_in_exactly_one_way(
            rounds in proptest::collection::vec((proptest::collection::vec(any::<bool>(), 0..6), 0usize..5), 1..20),
            max_staleness in 0u64..3,
        ) {
            let mut ledger = PromptLedger::default();
            let mut drawn = 0u64;
            let mut trained = Vec::new();
            for (step, (useful, count)) in rounds.iter().enumerate() {
                let step = step as u64;
                ledger.expire(step, max_staleness);
                let groups = useful.iter().enumerate().map(|(index, &useful)| {
                    group(drawn as usize + index, if useful { &[0.0, 1.0] } else { &[1.0, 1.0] })
                });
                ledger.enter(groups.collect(), step, FILTER);
                drawn += useful.len() as u64;
                let text = serde_json::to_string(&ledger).unwrap();
                prop_assert_eq!(&serde_json::from_str::<PromptLedger>(&text).unwrap(), &ledger);
                for group in ledger.take(*count) {
                    prop_assert_eq!(group.draw, group.prompt as u64);
                    prop_assert!(step - group.step <= max_staleness);
                    trained.push(group.draw);
                }
                prop_assert_eq!(ledger.num_drawn(), drawn);
            }
            prop_assert!(trained.is_sorted() && trained.windows(2).all(|pair| pair[0] != pair[1]));
            prop_assert_eq!(ledger.trained, trained.len() as u64);
        }
    }
}
