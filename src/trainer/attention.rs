//! Attention over packed prompt groups, differentiable.
//!
//! Every completion attends to its group's prompt and to itself, so a prompt is projected once whatever the number of
//! its completions; autograd adds up what they send back into its keys and values. On CPU in f32 a kernel reads the packed
//! tokens where they lie. Elsewhere libtorch attends, and there, among the completions of one group, lengths are padded;
//! padded keys lie behind every real query and padded queries are dropped, so neither reaches a result.
//!
//! Shapes: `N` packed tokens, `H` query heads, `K` key/value heads, `E` head size; in one group `P` prompt tokens, `C`
//! completions, `L` tokens of the longest.

use std::collections::HashMap;

use skein_core::batching::packing::PackedGroup;
use tch::{Device, Kind, Tensor};

use crate::nn::{Attend, AttentionSpec, Run, packed_attention};

/// The attention of one micro-batch's layout.
#[derive(Debug)]
pub struct PackedAttention {
    runs: Vec<Vec<Run>>,
    groups: Vec<Layout>,
    segment_lens: Vec<i64>, // the packed order, empty segments left out
    masks: HashMap<(i64, i64, Option<i64>), Tensor>,
    device: Device,
}

/// Segments of one group that attention treats alike.
#[derive(Debug)]
enum Layout {
    /// A prompt and its only completion: one causal sequence.
    Sequence,
    /// A prompt, then completions of these lengths.
    Shared { completion_lens: Vec<i64> },
}

impl PackedAttention {
    /// Attention for `groups`, packed in this order, on `device`.
    pub fn new(groups: &[PackedGroup], device: Device) -> Self {
        let mut segment_lens = Vec::new();
        let layouts = groups.iter().map(|group| {
            let prompt_len = group.prompt_len as i64;
            let lens = group.completion_lens.iter().map(|&len| len as i64).filter(|&len| len > 0);
            let completion_lens: Vec<i64> = lens.collect();
            if let [] | [_] = completion_lens[..] {
                segment_lens.push(prompt_len + completion_lens.iter().sum::<i64>());
                Layout::Sequence
            } else {
                segment_lens.push(prompt_len);
                segment_lens.extend(&completion_lens);
                Layout::Shared { completion_lens }
            }
        });
        Self { runs: runs(groups), groups: layouts.collect(), segment_lens, masks: HashMap::new(), device }
    }

    /// By libtorch's attention.
    fn padded(&mut self, spec: AttentionSpec, q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
        // One split, not many narrows: its backward is one concatenation.
        let [q, k, v] = [q, k, v].map(|x| x.split_with_sizes(&self.segment_lens[..], 0));
        let groups = std::mem::take(&mut self.groups);
        let mut outputs = Vec::with_capacity(2 * groups.len());
        let mut segment = 0;
        for group in &groups {
            outputs.push(self.sequence(spec, [&q[segment], &k[segment], &v[segment]]));
            segment += 1;
            if let Layout::Shared { completion_lens } = group {
                let own = segment..segment + completion_lens.len();
                let prompt_kv = [&k[segment - 1], &v[segment - 1]];
                let qkv = [&q[own.clone()], &k[own.clone()], &v[own.clone()]];
                outputs.push(self.completions(spec, completion_lens, prompt_kv, qkv));
                segment = own.end;
            }
        }
        self.groups = groups;
        Tensor::cat(&outputs, 0)
    }

    /// What is added to the scores of `queries` positions that follow `prefix` ones, over all of them:
    /// `[queries, prefix + queries]`, -∞ where a query does not see a key.
    fn mask(&mut self, prefix: i64, queries: i64, window: Option<i64>, kind: Kind) -> Tensor {
        let device = self.device;
        let build = || {
            let query = Tensor::arange(queries, (Kind::Int64, device)).unsqueeze(1) + prefix;
            let key = Tensor::arange(prefix + queries, (Kind::Int64, device)).unsqueeze(0);
            let distance = query - key;
            let mut hidden = distance.lt(0);
            if let Some(window) = window {
                hidden = hidden.logical_or(&distance.ge(window));
            }
            Tensor::zeros([queries, prefix + queries], (kind, device)).masked_fill(&hidden, f64::NEG_INFINITY)
        };
        self.masks.entry((prefix, queries, window)).or_insert_with(build).shallow_clone()
    }

    /// One causal sequence: `[T, H, E]` from q, k, v of `T` tokens.
    fn sequence(&mut self, spec: AttentionSpec, [q, k, v]: [&Tensor; 3]) -> Tensor {
        let len = q.size()[0];
        // A window no shorter than the sequence hides nothing.
        let window = spec.window.filter(|&window| window < len);
        let mask = window.map(|_| self.mask(0, len, window, q.kind()));
        let batched = [q, k, v].map(|x| x.unsqueeze(0).transpose(1, 2)); // [1, H, T, E]
        attention(spec, &batched, mask).transpose(1, 2).squeeze_dim(0)
    }

    /// The completions of one group, one after another: `[Σ len, H, E]`.
    fn completions(
        &mut self,
        spec: AttentionSpec,
        lens: &[i64],
        prompt_kv: [&Tensor; 2],
        qkv: [&[Tensor]; 3],
    ) -> Tensor {
        let longest = lens.iter().copied().max().expect("a shared layout has completions");
        let prompt_len = prompt_kv[0].size()[0];
        let num_completions = lens.len() as i64;
        let window = spec.window.filter(|&window| window < prompt_len + longest);
        let mask = self.mask(prompt_len, longest, window, qkv[0][0].kind());
        let padded = |segments: &[Tensor], prefix: Option<&Tensor>| {
            let (_, heads, head_dim) = segments[0].size3().expect("projections are [N, heads, E]");
            let padding = Tensor::zeros([longest, heads, head_dim], (segments[0].kind(), segments[0].device()));
            let pieces = segments.iter().zip(lens).flat_map(|(segment, &len)| {
                let prefix = prefix.map(Tensor::shallow_clone);
                let fill = (len < longest).then(|| padding.narrow(0, 0, longest - len));
                prefix.into_iter().chain([segment.shallow_clone()]).chain(fill)
            });
            let rows = Tensor::cat(&pieces.collect::<Vec<_>>(), 0);
            rows.unflatten(0, [num_completions, -1]).transpose(1, 2) // [C, H, (P +) L, E]
        };
        let [q, k, v] = qkv;
        let batched = [padded(q, None), padded(k, Some(prompt_kv[0])), padded(v, Some(prompt_kv[1]))];
        let out = attention(spec, &batched, Some(mask)).transpose(1, 2).flatten(0, 1); // [C L, H, E]
        let cuts: Vec<i64> = lens.iter().flat_map(|&len| [len, longest - len]).collect();
        let kept: Vec<Tensor> = out.split_with_sizes(cuts, 0).into_iter().step_by(2).collect();
        Tensor::cat(&kept, 0)
    }
}

/// Each group's runs of tokens in the packed order.
fn runs(groups: &[PackedGroup]) -> Vec<Vec<Run>> {
    let mut end = 0;
    let mut take = |len: usize| {
        end += len;
        end - len..end
    };
    let runs = |group: &PackedGroup| {
        let prompt = take(group.prompt_len);
        let completions: Vec<Run> =
            group.completion_lens.iter().map(|&len| Run { prefix: prompt.clone(), own: take(len) }).collect();
        [vec![Run { prefix: prompt.start..prompt.start, own: prompt }], completions].concat()
    };
    groups.iter().map(runs).collect()
}

fn attention(spec: AttentionSpec, [q, k, v]: &[Tensor; 3], mask: Option<Tensor>) -> Tensor {
    let is_causal = mask.is_none();
    Tensor::scaled_dot_product_attention(q, k, v, mask, 0.0, is_causal, spec.scale, true)
}

impl Attend for PackedAttention {
    fn attend(&mut self, spec: AttentionSpec, q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
        packed_attention(spec, &self.runs, [q, k, v]).unwrap_or_else(|| self.padded(spec, q, k, v))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// f32 sums of a few hundred terms, relative to the largest value or to the terms, which are of order one.
    const TOLERANCE: f64 = 4e-6;

    fn largest(x: &Tensor) -> f64 {
        if x.numel() == 0 { 0.0 } else { x.abs().max().double_value(&[]) }
    }

    /// The kernel in f32 against libtorch in f64: values, and derivatives by queries, keys and values.
    fn compare(groups: &[PackedGroup], [num_heads, num_kv_heads, head_dim]: [i64; 3], window: Option<i64>) {
        tch::manual_seed(7);
        let tokens = groups.iter().map(|group| group.prompt_len + group.completion_lens.iter().sum::<usize>());
        let tokens = tokens.sum::<usize>() as i64;
        let values = [num_heads, num_kv_heads, num_kv_heads]
            .map(|heads| Tensor::randn([tokens, heads, head_dim], (Kind::Float, Device::Cpu)));
        let d_out = Tensor::randn([tokens, num_heads, head_dim], (Kind::Float, Device::Cpu));
        let spec = AttentionSpec { layer: 0, scale: (head_dim as f64).powf(-0.5), window };
        let run = |kind: Kind, attend: fn(&mut PackedAttention, AttentionSpec, &[Tensor; 3]) -> Tensor| {
            let leaves = values.each_ref().map(|x| x.to_kind(kind).detach().copy().set_requires_grad(true));
            let out = attend(&mut PackedAttention::new(groups, Device::Cpu), spec, &leaves);
            torch_ext_sys::backward(&out, &d_out.to_kind(kind)).unwrap();
            let [q, k, v] = leaves.map(|leaf| leaf.grad());
            [out.detach(), q, k, v]
        };
        let found = run(Kind::Float, |attention, spec, [q, k, v]| attention.attend(spec, q, k, v));
        let expected = run(Kind::Double, |attention, spec, [q, k, v]| attention.padded(spec, q, k, v));
        for (name, (found, expected)) in ["out", "q", "k", "v"].iter().zip(found.iter().zip(&expected)) {
            let difference = largest(&(found - expected));
            assert!(
                difference <= TOLERANCE * largest(expected).max(1.0),
                "{name} {groups:?} {window:?}: {difference:e}"
            );
        }
    }

    #[test]
    fn the_kernel_is_libtorchs_attention() {
        let group = |prompt_len, completion_lens: &[usize]| PackedGroup {
            prompt_len,
            completion_lens: completion_lens.to_vec(),
        };
        let layouts = [
            vec![group(1, &[1])],
            vec![group(5, &[3, 0, 9]), group(40, &[64, 1, 33]), group(7, &[]), group(90, &[70, 120])],
            vec![group(300, &[17]), group(2, &[130, 5])],
        ];
        for groups in layouts {
            for heads in [[4, 2, 32], [9, 3, 64], [3, 3, 8], [5, 1, 80]] {
                for window in [None, Some(1), Some(6), Some(50), Some(1000)] {
                    compare(&groups, heads, window);
                }
            }
        }
    }
}
