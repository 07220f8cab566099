//! The layers of a model over one micro-batch, forward and backward, up to the states the head reads.
//!
//! With `checkpoint_layers` the forward pass keeps each layer's input only, and the backward pass runs each layer
//! again before going through it: gradients are the same bits, peak memory is one layer's.

use skein_core::batching::packing::MicroBatch;
use tch::Tensor;

use super::attention::PackedAttention;
use crate::models::{CausalLm, Rotary};

/// One micro-batch's tokens on their way through the layers.
pub(super) struct Body<'m> {
    model: &'m dyn CausalLm,
    token_ids: Tensor, // [N]
    rotary: Vec<Rotary>,
    attention: PackedAttention,
}

/// What the backward pass needs of a forward pass.
enum Record {
    Graph(Tensor),
    LayerInputs(Vec<Tensor>),
}

/// A finished forward pass.
pub(super) struct ForwardPass<'m> {
    body: Body<'m>,
    record: Record,
    /// `[N, D]`, detached.
    pub(super) hidden: Tensor,
}

impl<'m> Body<'m> {
    pub(super) fn new(model: &'m dyn CausalLm, batch: &MicroBatch) -> Self {
        let device = model.head_weight().device();
        let token_ids = Tensor::from_slice(&batch.token_ids).to_device(device);
        let rotary = model.rotary(&Tensor::from_slice(&batch.positions).to_device(device));
        Self { model, token_ids, rotary, attention: PackedAttention::new(&batch.groups, device) }
    }

    fn layer(&mut self, index: usize, hidden: &Tensor) -> Tensor {
        self.model.layer(index, hidden, &self.rotary, &mut self.attention)
    }

    fn num_layers(&self) -> usize {
        self.model.config().num_hidden_layers
    }

    /// The last layer's output, `[N, D]`, in the caller's autograd mode.
    pub(super) fn hidden(&mut self) -> Tensor {
        let mut hidden = self.model.embed(&self.token_ids);
        for index in 0..self.num_layers() {
            hidden = self.layer(index, &hidden);
        }
        hidden
    }

    /// A forward pass that can be gone back through.
    pub(super) fn forward(mut self, checkpoint_layers: bool) -> ForwardPass<'m> {
        if !checkpoint_layers {
            let hidden = self.hidden();
            return ForwardPass { body: self, hidden: hidden.detach(), record: Record::Graph(hidden) };
        }
        tch::no_grad(|| {
            let mut inputs = Vec::with_capacity(self.num_layers());
            let mut hidden = self.model.embed(&self.token_ids);
            for index in 0..self.num_layers() {
                let output = self.layer(index, &hidden);
                inputs.push(std::mem::replace(&mut hidden, output));
            }
            ForwardPass { body: self, hidden, record: Record::LayerInputs(inputs) }
        })
    }
}

impl ForwardPass<'_> {
    /// Accumulates every weight's gradient, given the loss's derivative by `hidden` (`[N, D]`).
    pub(super) fn backward(self, gradient: Tensor) {
        let Self { mut body, record, .. } = self;
        match record {
            Record::Graph(hidden) => backward(&hidden, &gradient),
            Record::LayerInputs(inputs) => {
                let mut gradient = gradient;
                for (index, input) in inputs.into_iter().enumerate().rev() {
                    let input = input.set_requires_grad(true);
                    backward(&body.layer(index, &input), &gradient);
                    gradient = input.grad();
                }
                backward(&body.model.embed(&body.token_ids), &gradient);
            }
        }
    }
}

/// Backward from `output` given its gradient.
pub(super) fn backward(output: &Tensor, gradient: &Tensor) {
    torch_ext_sys::backward(output, gradient).expect("the output has a graph and its gradient the same shape");
}
