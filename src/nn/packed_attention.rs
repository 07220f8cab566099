//! Causal attention over packed runs of tokens, known to autograd: what training on CPU in f32 uses in place of libtorch's,
//! which copies and pads. It takes no other type or device; its test, against libtorch, is in [`crate::trainer`].

use tch::Tensor;

use super::AttentionSpec;
use super::recorded::{empty, record};
use crate::kernels::cache::Heads;
pub use crate::kernels::packed_attention::Run;
use crate::kernels::packed_attention::{Gradients, PackedAttention};
use crate::kernels::tensors::{Rows, slice, slice_mut};

/// `[N, H, E]` from `q` (`[N, H, E]`), `k` and `v` (`[N, K, E]`), where each run of `groups` sees its prefix and itself;
/// `None` where the tensors are not for the kernels.
pub fn packed_attention(spec: AttentionSpec, groups: &[Vec<Run>], qkv: [&Tensor; 3]) -> Option<Tensor> {
    let [q, k, v] = qkv;
    let _for_kernels = (Rows::of(q)?, Rows::of(k)?, Rows::of(v)?);
    let ((tokens, num_heads, head_dim), num_kv_heads) = (q.size3().ok()?, k.size()[1] as usize);
    let heads = Heads { num_heads: num_heads as usize, num_kv_heads, head_dim: head_dim as usize };
    let mut out = empty(&[tokens, num_heads, head_dim]);
    let mut log_sums = vec![0.0; (tokens * num_heads) as usize];
    let k_transposed = transposed(k);
    attention(spec, groups, heads, qkv, &k_transposed)?.forward(slice_mut(&mut out), &mut log_sums);
    record([&out], qkv, |qkv| {
        let groups = groups.to_vec();
        move |d_out| {
            let [q, k, v] = &qkv;
            let (k_transposed, v_transposed) = (transposed(k), transposed(v));
            let attention = attention(spec, &groups, heads, [q, k, v], &k_transposed);
            let [mut d_q, mut d_k, mut d_v] = [empty(&q.size()), k.zeros_like(), v.zeros_like()];
            let gradients = Gradients { q: slice_mut(&mut d_q), k: slice_mut(&mut d_k), v: slice_mut(&mut d_v) };
            let attention = attention.expect("the forward pass read these tensors");
            attention.backward(slice(&v_transposed), &log_sums, slice(&d_out[0]), gradients);
            [d_q, d_k, d_v]
        }
    });
    Some(out)
}

fn attention<'a>(
    spec: AttentionSpec,
    groups: &'a [Vec<Run>],
    heads: Heads,
    [q, k, v]: [&'a Tensor; 3],
    k_transposed: &'a Tensor,
) -> Option<PackedAttention<'a>> {
    Some(PackedAttention {
        groups,
        heads,
        scale: spec.scale as f32,
        window: spec.window.map(|window| window as usize),
        q: Rows::of(q)?,
        k: Rows::of(k)?,
        v: Rows::of(v)?,
        k_transposed: slice(k_transposed),
    })
}

/// `[N, K, E]` to `[K, E, N]`.
fn transposed(x: &Tensor) -> Tensor {
    tch::no_grad(|| x.permute([1, 2, 0]).contiguous())
}
