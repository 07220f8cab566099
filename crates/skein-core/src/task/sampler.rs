//! The order in which a run visits its prompts: a pure function of (seed, number of prompts, position).
//!
//! A position is all the state there is, so a resumed run continues exactly where it stopped, whatever the batch sizes
//! were. Which rank takes which prompt is not decided here.

use crate::random::Stream;

/// A sampler needs at least one prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the data set is empty: there is no prompt to sample")]
pub struct EmptyDataSet;

/// Yields prompt indices, each exactly once per epoch, in an order that changes from epoch to epoch.
#[derive(Debug, Clone)]
pub struct PromptSampler {
    seed: u64,
    position: u64,
    epoch: u64,
    order: Vec<usize>,
    /// One per prompt; empty where all are alike.
    weights: Vec<f64>,
}

impl PromptSampler {
    /// A sampler over prompts 0 to `num_prompts` − 1 that has already yielded `position` of them (0 for a fresh run).
    ///
    /// # Errors
    /// When `num_prompts` is 0.
    pub fn new(num_prompts: usize, seed: u64, position: u64) -> Result<Self, EmptyDataSet> {
        if num_prompts == 0 {
            return Err(EmptyDataSet);
        }
        let epoch = position / num_prompts as u64;
        Ok(Self { seed, position, epoch, order: epoch_order(num_prompts, seed, epoch), weights: Vec::new() })
    }

    /// The same with a weight per prompt: the heavier, the earlier in its epoch, as if drawn without replacement in
    /// proportion to the weights. A prompt that weighs 0 is never yielded, and an epoch is that much shorter.
    ///
    /// # Errors
    /// When no weight is above 0.
    pub fn weighted(weights: Vec<f64>, seed: u64, position: u64) -> Result<Self, EmptyDataSet> {
        let num_prompts = weights.iter().filter(|&&weight| weight > 0.0).count();
        if num_prompts == 0 {
            return Err(EmptyDataSet);
        }
        let epoch = position / num_prompts as u64;
        Ok(Self { seed, position, epoch, order: weighted_order(&weights, seed, epoch), weights })
    }

    /// How many prompts have been yielded so far; hand it to [`PromptSampler::new`] to go on from here.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// How many times every prompt has been yielded.
    pub fn epoch(&self) -> u64 {
        self.position / self.order.len() as u64
    }

    /// The next `count` prompt indices. A batch that crosses the end of an epoch goes on with the next one, so a prompt
    /// can occur twice in it.
    pub fn next_batch(&mut self, count: usize) -> Vec<usize> {
        (0..count).map(|_| self.next_prompt()).collect()
    }

    fn next_prompt(&mut self) -> usize {
        let num_prompts = self.order.len();
        if self.epoch() != self.epoch {
            self.epoch = self.epoch();
            self.order = if self.weights.is_empty() {
                epoch_order(num_prompts, self.seed, self.epoch)
            } else {
                weighted_order(&self.weights, self.seed, self.epoch)
            };
        }
        let prompt = self.order[(self.position % num_prompts as u64) as usize];
        self.position += 1;
        prompt
    }
}

fn epoch_order(num_prompts: usize, seed: u64, epoch: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..num_prompts).collect();
    Stream::new(seed, "prompt order", epoch).shuffle(&mut order);
    order
}

/// By exponential clocks of the weights' rates: who rings first comes first.
fn weighted_order(weights: &[f64], seed: u64, epoch: u64) -> Vec<usize> {
    let mut stream = Stream::new(seed, "weighted prompt order", epoch);
    // Every prompt draws, whatever it weighs, so that one weight does not change the others' draws.
    let rings = weights.iter().map(|weight| -(1.0 - stream.uniform()).ln() / weight);
    let mut order: Vec<(f64, usize)> =
        rings.enumerate().filter(|&(index, _)| weights[index] > 0.0).map(|(index, time)| (time, index)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    order.into_iter().map(|(_, index)| index).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_epoch_yields_every_prompt_once(num_prompts in 1usize..60, seed: u64, batch in 1usize..9) {
            let mut sampler = PromptSampler::new(num_prompts, seed, 0).expect("not empty");
            let drawn: Vec<usize> = (0..num_prompts).flat_map(|_| sampler.next_batch(batch)).collect();
            for epoch in drawn.chunks(num_prompts) {
                let mut sorted = epoch.to_vec();
                sorted.sort_unstable();
                prop_assert_eq!(sorted, (0..num_prompts).collect::<Vec<_>>());
            }
            prop_assert_eq!(sampler.epoch(), batch as u64);
        }

        #[test]
        fn a_resumed_sampler_goes_on_as_if_never_stopped(num_prompts in 1usize..40, seed: u64, before in 0usize..100) {
            let mut whole = PromptSampler::new(num_prompts, seed, 0).expect("not empty");
            whole.next_batch(before);
            let mut resumed = PromptSampler::new(num_prompts, seed, whole.position()).expect("not empty");
            prop_assert_eq!(whole.next_batch(100), resumed.next_batch(100));
        }
    }

    proptest! {
        #[test]
        fn weights_change_the_order_and_not_what_an_epoch_holds(
            weights in proptest::collection::vec(0u8..4, 1..40),
            seed: u64,
            before in 0usize..60,
        ) {
            let weights: Vec<f64> = weights.into_iter().map(f64::from).collect();
            let held: Vec<usize> = (0..weights.len()).filter(|&prompt| weights[prompt] > 0.0).collect();
            let Ok(mut sampler) = PromptSampler::weighted(weights.clone(), seed, 0) else {
                prop_assert!(held.is_empty());
                return Ok(());
            };
            for _ in 0..2 {
                let mut epoch = sampler.next_batch(held.len());
                epoch.sort_unstable();
                prop_assert_eq!(&epoch, &held);
            }
            let mut whole = PromptSampler::weighted(weights.clone(), seed, 0).unwrap();
            whole.next_batch(before);
            let mut resumed = PromptSampler::weighted(weights, seed, whole.position()).unwrap();
            prop_assert_eq!(whole.next_batch(70), resumed.next_batch(70));
        }
    }

    #[test]
    fn heavier_prompts_come_earlier_in_proportion() {
        let weights = [3.0, 1.0];
        let first_is_heavy = |seed| PromptSampler::weighted(weights.to_vec(), seed, 0).unwrap().next_batch(1) == [0];
        let heavy = (0..2000).filter(|&seed| first_is_heavy(seed)).count();
        // 1500 expected; five standard deviations of a binomial of 2000 at 3/4 are 97.
        assert!((1403..1597).contains(&heavy), "{heavy}");
    }

    #[test]
    fn order_changes_with_epoch_and_seed() {
        let mut sampler = PromptSampler::new(50, 1, 0).expect("not empty");
        let (first, second) = (sampler.next_batch(50), sampler.next_batch(50));
        assert_ne!(first, second);
        assert_ne!(first, PromptSampler::new(50, 2, 0).expect("not empty").next_batch(50));
        assert_eq!(PromptSampler::new(0, 1, 0).err(), Some(EmptyDataSet));
    }
}
