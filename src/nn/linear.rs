//! A linear map without bias; the supported architectures have none.

use tch::Tensor;

/// `y = x Wᵀ`.
#[derive(Debug)]
pub struct Linear {
    weight: Tensor, // [out, in]
}

impl Linear {
    /// A map with `weight` of shape `[out, in]`.
    pub fn new(weight: Tensor) -> Self {
        Self { weight }
    }

    /// `[.., in]` to `[.., out]`.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.linear(&self.weight, None::<Tensor>)
    }

    /// The weight, `[out, in]`.
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }
}
