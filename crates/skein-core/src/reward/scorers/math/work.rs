//! A counter of work, so that no answer can ask for more than its share.
//!
//! Steps are about one operation on a machine word each: a node that is visited costs a few, arithmetic of large numbers
//! as much as their digits make it. Whoever runs out has no result, and the answer is wrong; time is never measured, so
//! that a verdict does not depend on the machine.

use std::cell::Cell;

/// Steps that reading or comparing one answer may take: a fraction of a second.
pub const MAX_STEPS: u64 = 200_000_000;

/// Bits of a machine word.
const WORD_BITS: u64 = 64;

/// What is left of an answer's steps.
#[derive(Debug)]
pub struct Work(Cell<u64>);

impl Work {
    /// All the steps of one answer.
    pub fn new() -> Self {
        Self(Cell::new(MAX_STEPS))
    }

    /// Takes steps off; none once there are too few.
    pub fn spend(&self, steps: u64) -> Option<()> {
        let left = self.0.get().checked_sub(steps);
        self.0.set(left.unwrap_or(0));
        left.map(drop)
    }

    /// Takes off what multiplying or reducing numbers of so many bits costs.
    pub fn spend_on_bits(&self, bits: u64) -> Option<()> {
        self.spend(bits.saturating_mul(bits) / WORD_BITS)
    }

    /// Steps taken so far.
    #[cfg(test)]
    pub fn spent(&self) -> u64 {
        MAX_STEPS - self.0.get()
    }
}
