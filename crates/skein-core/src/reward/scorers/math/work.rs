//! A counter of work, so that no answer can ask for more than its share.
//!
//! Steps are about one operation on a machine word each, one to two nanoseconds: a node that is visited costs as many as
//! its allocations take, arithmetic of large numbers as many as their digits make it. They are taken off before the work
//! is done. Whoever runs out has no result, and the answer is wrong; time is never measured, so that a verdict does not
//! depend on the machine.

use std::cell::Cell;

/// Steps that reading a gold answer and a prediction and comparing them may take together: some ten milliseconds.
pub const MAX_STEPS: u64 = 10_000_000;

/// What is left of an answer's steps.
#[derive(Debug)]
pub struct Work(Cell<u64>);

impl Work {
    /// All the steps of one answer.
    pub fn new() -> Self {
        Self::of(MAX_STEPS)
    }

    /// This many steps.
    pub fn of(steps: u64) -> Self {
        Self(Cell::new(steps))
    }

    /// Takes steps off; none once there are too few, and from then on.
    pub fn spend(&self, steps: u64) -> Option<()> {
        let left = self.0.get().checked_sub(steps);
        self.0.set(left.unwrap_or(0));
        left.map(drop)
    }

    /// Whether nothing is left, so that what was found since may lack a result.
    pub fn is_spent(&self) -> bool {
        self.0.get() == 0
    }

    /// Steps left.
    #[cfg(test)]
    pub fn left(&self) -> u64 {
        self.0.get()
    }
}
