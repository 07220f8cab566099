//! How sequences become batches: token ids, positions and lengths, never tensors.

pub mod packing;
