//! The attention contract between models and their callers, and the dense reference that meets it.
//!
//! Models project, norm and rotate; which tokens see which is the caller's to know. The reference is for parity and
//! tests: it pads, and builds a `[T, T]` mask. Nothing that must be fast uses it.
//!
//! Shapes: `B` rows, `T` tokens a row, `N = B T`, `H` query heads, `K` key/value heads, `E` head size.

use tch::{Kind, Tensor};

/// What one layer's attention needs besides the projected tensors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionSpec {
    /// Which layer is asking; caches are kept per layer.
    pub layer: usize,
    /// Factor on `q · k`.
    pub scale: f64,
    /// Each query sees at most this many latest positions, itself included; `None` is all of them.
    pub window: Option<i64>,
}

/// Causal attention over whatever layout the caller has packed its tokens in.
///
/// `q`: `[N, H, E]`, `k` and `v`: `[N, K, E]`, rotary embedding already applied; any of the three may be a strided
/// view. Returns `[N, H, E]`.
pub trait Attend {
    /// Attends once for one layer.
    fn attend(&mut self, spec: AttentionSpec, q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor;
}

/// Causal attention over equally long rows, optionally padded.
#[derive(Debug)]
pub struct DenseAttention {
    attention_mask: Tensor, // [B, T] bool, true at tokens
}

impl DenseAttention {
    /// Rows of which `attention_mask` (`[B, T]`, any integer or bool type) is nonzero at tokens, zero at padding.
    pub fn new(attention_mask: &Tensor) -> Self {
        Self { attention_mask: attention_mask.to_kind(Kind::Bool) }
    }

    /// Positions that count tokens and not padding: `[B T]` i64, zero at left padding.
    pub fn positions(&self) -> Tensor {
        (self.attention_mask.cumsum(1, Kind::Int64) - 1).clamp_min(0).flatten(0, 1)
    }

    /// Which key (last) each query sees: `[B, 1, T, T]` bool. Padding queries see themselves, so no row is empty.
    fn visible(&self, window: Option<i64>) -> Tensor {
        let len = self.attention_mask.size()[1];
        let index = Tensor::arange(len, (Kind::Int64, self.attention_mask.device()));
        let distance = index.unsqueeze(1) - index.unsqueeze(0); // [T, T], query minus key
        let mut causal = distance.ge(0);
        if let Some(window) = window {
            causal = causal.logical_and(&distance.lt(window));
        }
        let key_is_token = self.attention_mask.unsqueeze(1).unsqueeze(1); // [B, 1, 1, T]
        key_is_token.logical_and(&causal).logical_or(&distance.eq(0))
    }
}

impl Attend for DenseAttention {
    fn attend(&mut self, spec: AttentionSpec, q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
        let (batch, len) = self.attention_mask.size2().expect("the mask is [B, T]");
        let rows = |x: &Tensor| x.unflatten(0, [batch, len]).transpose(1, 2); // [B, H, T, E]
        let visible = self.visible(spec.window);
        let out = Tensor::scaled_dot_product_attention(
            &rows(q),
            &rows(k),
            &rows(v),
            Some(visible),
            0.0,
            false,
            spec.scale,
            true,
        );
        out.transpose(1, 2).flatten(0, 1) // [N, H, E]
    }
}
