//! Where keys and values lie: blocks of sixteen tokens, one pair of tensors per layer.
//!
//! A block holds, for each kv head, the keys transposed (`[K, E, 16]`: sixteen tokens are one vector, so scores need
//! no horizontal sums) and the values by token (`[K, 16, E']`, `E'` being `E` rounded up to whole vectors). What lies
//! past a segment's last token is never read as a number that counts.

use super::simd::LANES;
use super::tensors::Rows;

/// Tokens in a block.
pub const BLOCK_TOKENS: usize = LANES;

/// Heads and head size of one layer's attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heads {
    /// Query heads, `H`.
    pub num_heads: usize,
    /// Key and value heads, `K`; divides `H`.
    pub num_kv_heads: usize,
    /// Head size, `E`.
    pub head_dim: usize,
}

impl Heads {
    /// Query heads that share a kv head.
    pub fn queries_per_kv(self) -> usize {
        self.num_heads / self.num_kv_heads
    }

    /// `E` rounded up to whole vectors: the row length of stored values.
    pub fn padded_dim(self) -> usize {
        self.head_dim.next_multiple_of(LANES)
    }

    /// Values that a block's keys take.
    pub fn key_block(self) -> usize {
        self.num_kv_heads * self.head_dim * BLOCK_TOKENS
    }

    /// Values that a block's values take.
    pub fn value_block(self) -> usize {
        self.num_kv_heads * self.padded_dim() * BLOCK_TOKENS
    }
}

/// One token's place in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Index of the block.
    pub block: u32,
    /// Token within the block.
    pub offset: u32,
}

/// Tokens per part when the copy is split over threads.
const GRAIN: usize = 16;

/// Copies each token's keys and values (`k`, `v`: `[N, K * E]`) into its slot of one layer's cache.
///
/// # Panics
/// When a slot lies outside the cache, or the shapes disagree.
pub fn append(heads: Heads, slots: &[Slot], k: Rows, v: Rows, keys: &mut [f32], values: &mut [f32]) {
    let width = heads.num_kv_heads * heads.head_dim;
    assert!(k.len == slots.len() && v.len == slots.len() && k.width == width && v.width == width);
    let blocks = (keys.len() / heads.key_block()).min(values.len() / heads.value_block());
    assert!(slots.iter().all(|slot| (slot.block as usize) < blocks && (slot.offset as usize) < BLOCK_TOKENS));
    let (keys, values) = (Shared(keys.as_mut_ptr()), Shared(values.as_mut_ptr()));
    let (head_dim, padded) = (heads.head_dim, heads.padded_dim());
    super::for_parts(slots.len(), GRAIN, |part| {
        for token in part {
            let slot = slots[token];
            let (block, offset) = (slot.block as usize, slot.offset as usize);
            let (k, v) = (k.row(token), v.row(token));
            for head in 0..heads.num_kv_heads {
                // SAFETY: block and offset are in range (asserted above), and no two tokens share a slot.
                unsafe {
                    let to = keys.get().add(block * heads.key_block() + head * head_dim * BLOCK_TOKENS + offset);
                    for (e, x) in k[head * head_dim..][..head_dim].iter().enumerate() {
                        *to.add(e * BLOCK_TOKENS) = *x;
                    }
                    let to = values.get().add(block * heads.value_block() + (head * BLOCK_TOKENS + offset) * padded);
                    to.copy_from_nonoverlapping(v[head * head_dim..].as_ptr(), head_dim);
                }
            }
        }
    });
}

/// A pointer that several threads write through, each to places of its own.
#[derive(Clone, Copy)]
pub(super) struct Shared(pub *mut f32);

// SAFETY: whoever shares one promises disjoint writes.
unsafe impl Send for Shared {}
unsafe impl Sync for Shared {}

impl Shared {
    pub fn get(&self) -> *mut f32 {
        self.0
    }
}
