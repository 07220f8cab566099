//! The memory for keys and values: two tensors per layer, made once, never moved or copied.

use tch::{Device, Kind, Tensor};

use crate::kernels::attention::Attention;
use crate::kernels::cache::{Heads, append};
use crate::kernels::tensors::{Rows, slice, slice_mut};
use crate::models::AttentionSpec;

use super::runner::Batch;

/// Keys and values of every layer, in blocks (layout: [`crate::kernels::cache`]).
#[derive(Debug)]
pub(super) struct KvCache {
    heads: Heads,
    layers: Vec<Layer>,
}

#[derive(Debug)]
struct Layer {
    keys: Tensor,   // [blocks, K, E, 16]
    values: Tensor, // [blocks, K, 16, E']
}

impl KvCache {
    /// Uninitialised memory for `num_blocks` blocks in each of `num_layers` layers; none where there is not so much.
    pub(super) fn new(heads: Heads, num_layers: usize, num_blocks: usize) -> Option<Self> {
        let memory = |block: usize| {
            let len = i64::try_from(num_blocks.checked_mul(block)?).ok()?;
            Tensor::f_empty([len], (Kind::Float, Device::Cpu)).ok()
        };
        let layer = |_| Some(Layer { keys: memory(heads.key_block())?, values: memory(heads.value_block())? });
        Some(Self { heads, layers: (0..num_layers).map(layer).collect::<Option<_>>()? })
    }

    pub(super) fn heads(&self) -> Heads {
        self.heads
    }

    /// Stores the batch's keys and values (`k`, `v`: `[N, K, E]`) and attends to all that is cached: `[N, H, E]`.
    pub(super) fn attend(&mut self, batch: &Batch, spec: AttentionSpec, q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
        let layer = &mut self.layers[spec.layer];
        with_rows(k, |k| {
            with_rows(v, |v| {
                let (keys, values) = (slice_mut(&mut layer.keys), slice_mut(&mut layer.values));
                append(self.heads, &batch.slots, k, v, keys, values);
            });
        });
        let mut out = Tensor::empty(q.size(), (Kind::Float, Device::Cpu));
        with_rows(q, |q| {
            let attention = Attention {
                plan: &batch.plan,
                heads: self.heads,
                scale: spec.scale as f32,
                window: spec.window.map(|window| window as usize),
                q,
                keys: slice(&layer.keys),
                values: slice(&layer.values),
            };
            attention.run(slice_mut(&mut out));
        });
        out
    }
}

/// Hands `tensor`'s rows over as they are, or those of a contiguous copy where they are not whole.
fn with_rows(tensor: &Tensor, work: impl FnOnce(Rows)) {
    match Rows::of(tensor) {
        Some(rows) => work(rows),
        None => {
            let copy = tensor.contiguous();
            work(Rows::of(&copy).expect("a contiguous tensor has whole rows"));
        }
    }
}
