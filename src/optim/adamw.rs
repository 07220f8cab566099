//! AdamW (arXiv:1711.05101) as torch computes it, through libtorch's fused step: one pass over memory.

use std::collections::HashMap;

use tch::Tensor;
use thiserror::Error;
use torch_ext_sys::{AdamWOptions, AdamWTensors};

use crate::models::Weights;

/// Constants of the optimizer; the learning rate comes with each step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamWParams {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay, on every parameter.
    pub weight_decay: f64,
}

impl Default for AdamWParams {
    /// torch's constants, with the paper's weight decay.
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01 }
    }
}

/// What must be saved to go on later with the same steps.
#[derive(Debug)]
pub struct AdamWState {
    /// Steps taken.
    pub step: i64,
    /// `exp_avg.<leaf>` and `exp_avg_sq.<leaf>` for every leaf, sharing the optimizer's memory.
    pub tensors: Vec<(String, Tensor)>,
}

/// A state that does not belong to the model.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum OptimizerError {
    /// A moment is not there.
    #[error("optimizer state: `{name}` is missing; it was saved from another model")]
    Missing {
        /// The tensor's name.
        name: String,
    },
    /// A moment has another shape than its parameter.
    #[error("optimizer state: `{name}` has shape {found:?}, the parameter has {expected:?}")]
    Shape {
        /// The tensor's name.
        name: String,
        /// The parameter's shape.
        expected: Vec<i64>,
        /// The state's shape.
        found: Vec<i64>,
    },
}

/// The optimizer of one model's leaves, whose tensors it shares and steps on in place.
#[derive(Debug)]
pub struct AdamW {
    params: AdamWParams,
    names: Vec<String>,
    leaves: Vec<Tensor>,
    exp_avgs: Vec<Tensor>,
    exp_avg_sqs: Vec<Tensor>,
    step: i64,
}

impl AdamW {
    /// An optimizer of all leaves of `weights`, with zero moments.
    pub fn new(weights: &Weights, params: AdamWParams) -> Self {
        let leaves: Vec<Tensor> = weights.leaves.iter().map(|leaf| leaf.tensor.shallow_clone()).collect();
        let zeros = || leaves.iter().map(|leaf| leaf.detach().zeros_like()).collect();
        Self {
            params,
            names: weights.leaves.iter().map(|leaf| leaf.name.clone()).collect(),
            exp_avgs: zeros(),
            exp_avg_sqs: zeros(),
            leaves,
            step: 0,
        }
    }

    /// Clears all gradients and frees their memory.
    pub fn zero_grad(&self) {
        for leaf in &self.leaves {
            torch_ext_sys::set_grad(leaf, None).expect("clearing a leaf's gradient cannot fail");
        }
    }

    /// L2 norm over all gradients together; NaN or infinite if any element is.
    pub fn grad_norm(&self) -> f64 {
        let gradients = self.leaves.iter().map(Tensor::grad).filter(Tensor::defined);
        let norms: Vec<Tensor> = gradients.map(|gradient| gradient.norm()).collect();
        if norms.is_empty() { 0.0 } else { Tensor::stack(&norms, 0).norm().double_value(&[]) }
    }

    /// One step with rate `lr` on the accumulated gradients divided by `grad_divisor` (1 leaves them as they are).
    ///
    /// Leaves without a gradient stay as they are, as in torch. Gradients are not cleared.
    pub fn step(&mut self, lr: f64, grad_divisor: f64) {
        self.step += 1;
        let with_gradient: Vec<usize> = (0..self.leaves.len()).filter(|&i| self.leaves[i].grad().defined()).collect();
        let pick = |list: &[Tensor]| -> Vec<Tensor> { with_gradient.iter().map(|&i| list[i].detach()).collect() };
        let gradients: Vec<Tensor> = with_gradient.iter().map(|&i| self.leaves[i].grad()).collect();
        let AdamWParams { beta1, beta2, eps, weight_decay } = self.params;
        let options = AdamWOptions { lr, beta1, beta2, weight_decay, eps, step: self.step };
        let divisor =
            (grad_divisor != 1.0).then(|| Tensor::from(grad_divisor as f32).to_device(self.leaves[0].device()));
        let tensors = AdamWTensors {
            parameters: &pick(&self.leaves),
            gradients: &gradients,
            exp_avgs: &pick(&self.exp_avgs),
            exp_avg_sqs: &pick(&self.exp_avg_sqs),
        };
        torch_ext_sys::fused_adamw_(tensors, &options, divisor.as_ref())
            .expect("moments and gradients have their parameter's shape, type and device");
    }

    /// The state, sharing memory with the optimizer: save it before the next step.
    pub fn state(&self) -> AdamWState {
        let named = self.moment_names().zip(self.moments().map(Tensor::shallow_clone));
        AdamWState { step: self.step, tensors: named.collect() }
    }

    /// Replaces the state by one that [`AdamW::state`] gave.
    ///
    /// # Errors
    /// A missing or mis-shaped tensor; the optimizer is unchanged then.
    pub fn load_state(&mut self, state: &AdamWState) -> Result<(), OptimizerError> {
        let saved: HashMap<&str, &Tensor> =
            state.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        let mut matched = Vec::new();
        for (name, moment) in self.moment_names().zip(self.moments()) {
            let Some(&tensor) = saved.get(name.as_str()) else { return Err(OptimizerError::Missing { name }) };
            if tensor.size() != moment.size() {
                return Err(OptimizerError::Shape { name, expected: moment.size(), found: tensor.size() });
            }
            matched.push((moment.shallow_clone(), tensor));
        }
        for (mut moment, tensor) in matched {
            moment.copy_(tensor);
        }
        self.step = state.step;
        Ok(())
    }

    fn moment_names(&self) -> impl Iterator<Item = String> {
        ["exp_avg", "exp_avg_sq"]
            .into_iter()
            .flat_map(|kind| self.names.iter().map(move |name| format!("{kind}.{name}")))
    }

    fn moments(&self) -> impl Iterator<Item = &Tensor> {
        self.exp_avgs.iter().chain(&self.exp_avg_sqs)
    }
}
