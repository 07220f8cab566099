//! Token ids of short texts to one unit vector each: an encoder and how its hidden states are pooled.
//!
//! Knows neither tokenizers nor prompts; whoever calls it has put the special tokens where the model wants them.
//!
//! Shapes: `B` texts, `T` tokens of the longest, `N` tokens of all, `D` model.

use tch::{Kind, Tensor};

use super::{Bert, CausalLm, Weights};
use crate::nn::DenseAttention;

/// Which hidden states make a text's vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// The mean over the text's tokens.
    Mean,
    /// The first token.
    First,
    /// The last token.
    Last,
}

/// A model that embeds texts.
pub enum TextEncoder {
    /// A causal decoder without its head, as in Qwen3-Embedding.
    Decoder(Box<dyn CausalLm>),
    /// A bidirectional encoder.
    Bert(Bert),
}

impl TextEncoder {
    /// All weights, by checkpoint name.
    pub fn weights(&self) -> &Weights {
        match self {
            Self::Decoder(model) => model.weights(),
            Self::Bert(model) => model.weights(),
        }
    }

    /// Tokens of a text at most.
    pub fn max_length(&self) -> usize {
        match self {
            Self::Decoder(model) => model.config().max_position_embeddings,
            Self::Bert(model) => model.config().max_position_embeddings as usize,
        }
    }

    /// Rows of the token embedding.
    pub fn vocab_size(&self) -> i64 {
        match self {
            Self::Decoder(model) => model.config().vocab_size,
            Self::Bert(model) => model.config().vocab_size,
        }
    }

    /// `[B, D]` f32, rows of unit length.
    ///
    /// # Panics
    /// When a text is empty or longer than [`TextEncoder::max_length`], or an id is not below [`TextEncoder::vocab_size`].
    pub fn embed(&self, texts: &[Vec<u32>], pooling: Pooling) -> Tensor {
        let longest = texts.iter().map(Vec::len).max().unwrap_or(0);
        assert!(
            texts.iter().all(|ids| !ids.is_empty()) && longest <= self.max_length(),
            "1 to max_length tokens a text"
        );
        let (count, width) = (texts.len() as i64, longest as i64);
        let mut padded = vec![0i64; texts.len() * longest];
        for (row, ids) in padded.chunks_mut(longest.max(1)).zip(texts) {
            row.iter_mut().zip(ids).for_each(|(slot, &id)| *slot = i64::from(id));
        }
        let ids = Tensor::from_slice(&padded).reshape([count, width]);
        let lengths = Tensor::from_slice(&texts.iter().map(|ids| ids.len() as i64).collect::<Vec<_>>()); // [B]
        let mask = Tensor::arange(width, (Kind::Int64, ids.device())).less_tensor(&lengths.unsqueeze(1)); // [B, T]
        let hidden = tch::no_grad(|| match self {
            Self::Bert(model) => model.forward(&ids, &mask),
            Self::Decoder(model) => {
                let mut attention = DenseAttention::new(&mask);
                let positions = attention.positions();
                model.forward(&ids.flatten(0, 1), &positions, &mut attention).unflatten(0, [count, width])
            }
        })
        .to_kind(Kind::Float); // [B, T, D]
        let pooled = match pooling {
            Pooling::First => hidden.select(1, 0),
            Pooling::Last => {
                let last = (&lengths - 1).view([count, 1, 1]).expand([count, 1, hidden.size()[2]], false);
                hidden.gather(1, &last, false).squeeze_dim(1)
            }
            Pooling::Mean => {
                let mask = mask.unsqueeze(-1).to_kind(Kind::Float);
                (hidden * mask).sum_dim_intlist(1, false, Kind::Float) / lengths.unsqueeze(1)
            }
        }; // [B, D]
        pooled.divide(&pooled.norm_scalaropt_dim(2.0, 1, true).clamp_min(1e-12))
    }
}
