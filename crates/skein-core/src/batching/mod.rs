//! How sequences become batches: token ids, positions and lengths, never tensors.

mod blocks;
pub mod packing;
pub mod scheduler;
