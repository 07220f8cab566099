//! Attention over packed prompt groups, differentiable.
//!
//! Every completion attends to its group's prompt and to itself, so a prompt is projected once whatever the number of
//! its completions; autograd adds up what they send back into its keys and values. Only inside attention, and only
//! among the completions of one group, are lengths padded; padded keys lie behind every real query and padded queries
//! are dropped, so neither reaches a result.
//!
//! Shapes: `N` packed tokens, `H` query heads, `K` key/value heads, `E` head size; in one group `P` prompt tokens, `C`
//! completions, `L` tokens of the longest.

use std::collections::HashMap;

use skein_core::batching::packing::PackedGroup;
use tch::{Device, Kind, Tensor};

use crate::nn::{Attend, AttentionSpec};

/// The attention of one micro-batch's layout.
#[derive(Debug)]
pub struct PackedAttention {
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
        Self { groups: layouts.collect(), segment_lens, masks: HashMap::new(), device }
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

fn attention(spec: AttentionSpec, [q, k, v]: &[Tensor; 3], mask: Option<Tensor>) -> Tensor {
    let is_causal = mask.is_none();
    Tensor::scaled_dot_product_attention(q, k, v, mask, 0.0, is_causal, spec.scale, true)
}

impl Attend for PackedAttention {
    fn attend(&mut self, spec: AttentionSpec, q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
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
}
