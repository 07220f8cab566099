//! The pool of cache blocks: who holds a block owns it alone, and the last freed is the first given out again, so a
//! light load stays in few, warm blocks.

/// Free blocks, by index.
#[derive(Debug)]
pub(super) struct BlockPool {
    free: Vec<u32>,
}

impl BlockPool {
    /// Blocks `0..num_blocks`, all free.
    pub(super) fn new(num_blocks: usize) -> Self {
        let num_blocks = u32::try_from(num_blocks).expect("a cache of 2³² blocks does not fit in any memory");
        Self { free: (0..num_blocks).rev().collect() }
    }

    pub(super) fn num_free(&self) -> usize {
        self.free.len()
    }

    /// Moves `count` free blocks to the end of `owned`.
    ///
    /// # Panics
    /// When there are not so many.
    pub(super) fn take(&mut self, count: usize, owned: &mut Vec<u32>) {
        let first = self.free.len().checked_sub(count).expect("the caller has made sure of free blocks");
        owned.extend(self.free.drain(first..).rev());
    }

    /// Takes all of `owned` back.
    pub(super) fn free(&mut self, owned: &mut Vec<u32>) {
        self.free.extend(owned.drain(..).rev());
    }
}
