//! Every weight of a model once, under two views: leaves to step on, entries to save and compare.
//!
//! Projections that share an input are stored fused (`qkv_proj`, `gate_up_proj`): one leaf, one product; their
//! checkpoint names are row ranges of the leaf. A tied head has no entry of its own.

use tch::{Device, Kind, Tensor};

/// Leaves and their checkpoint names. Modules hold shallow clones of the leaves, so a step in place is seen by all.
#[derive(Debug)]
pub struct Weights {
    /// What the optimizer steps on; each requires a gradient while training.
    pub leaves: Vec<Leaf>,
    /// Checkpoint names, in checkpoint order.
    pub entries: Vec<Entry>,
}

/// One stored tensor.
#[derive(Debug)]
pub struct Leaf {
    /// The checkpoint name, or the fused name.
    pub name: String,
    /// The tensor.
    pub tensor: Tensor,
}

/// One checkpoint tensor: rows `start..start + len` of a leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name Hugging Face uses.
    pub name: String,
    /// Index into `leaves`.
    pub leaf: usize,
    /// First row.
    pub start: i64,
    /// Number of rows.
    pub len: i64,
}

impl Weights {
    /// The rows of `entry` as a view of its leaf, cut off from the graph: writing to it changes the weight.
    pub fn rows(&self, entry: &Entry) -> Tensor {
        entry.rows_of(&self.leaves[entry.leaf].tensor)
    }

    /// The rows of `entry` in its leaf's gradient, or `None` before the first backward pass.
    pub fn grad_rows(&self, entry: &Entry) -> Option<Tensor> {
        let grad = self.leaves[entry.leaf].tensor.grad();
        grad.defined().then(|| entry.rows_of(&grad))
    }

    /// Turns gradients of all leaves on or off.
    pub fn set_requires_grad(&self, requires_grad: bool) {
        for leaf in &self.leaves {
            let _same_tensor = leaf.tensor.set_requires_grad(requires_grad);
        }
    }

    /// Number of scalars over all leaves; a tied head counts once.
    pub fn num_parameters(&self) -> usize {
        self.leaves.iter().map(|leaf| leaf.tensor.numel()).sum()
    }
}

impl Entry {
    /// This entry's rows of a tensor shaped like its leaf (the leaf, its gradient, a moment), detached.
    pub fn rows_of(&self, leaf: &Tensor) -> Tensor {
        leaf.detach().narrow(0, self.start, self.len)
    }
}

/// Allocates leaves while a model is put together.
#[derive(Debug)]
pub(super) struct WeightsBuilder {
    weights: Weights,
    options: (Kind, Device),
}

impl WeightsBuilder {
    pub(super) fn new(kind: Kind, device: Device) -> Self {
        Self { weights: Weights { leaves: Vec::new(), entries: Vec::new() }, options: (kind, device) }
    }

    /// A `[rows, columns]` leaf under its checkpoint name.
    pub(super) fn matrix(&mut self, name: String, rows: i64, columns: i64) -> Tensor {
        self.leaf(name.clone(), &[(name, rows)], &[columns])
    }

    /// A `[len]` leaf under its checkpoint name.
    pub(super) fn vector(&mut self, name: String, len: i64) -> Tensor {
        self.leaf(name.clone(), &[(name, len)], &[])
    }

    /// A leaf named `name` that stacks the rows of `parts`, each a checkpoint name and a number of rows.
    pub(super) fn fused(&mut self, name: String, parts: &[(String, i64)], columns: i64) -> Tensor {
        self.leaf(name, parts, &[columns])
    }

    pub(super) fn finish(self) -> Weights {
        self.weights
    }

    fn leaf(&mut self, name: String, parts: &[(String, i64)], rest: &[i64]) -> Tensor {
        let leaf = self.weights.leaves.len();
        let mut start = 0;
        for (name, len) in parts {
            self.weights.entries.push(Entry { name: name.clone(), leaf, start, len: *len });
            start += len;
        }
        let tensor = Tensor::empty([&[start], rest].concat(), self.options);
        let clone = tensor.shallow_clone();
        self.weights.leaves.push(Leaf { name, tensor });
        clone
    }
}
