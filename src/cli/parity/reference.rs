//! Reference numbers: `reference.safetensors` and `reference.json`, checked for what the comparisons need.
//!
//! Shapes: `B` rows, `T` positions, `V` vocabulary, `D` model.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::path::Path;

use serde::Deserialize;
use tch::{Kind, Tensor};

use super::comparison::{LOGPROB_TOLERANCE, RELATIVE_LOGIT_TOLERANCE, max_abs};
use crate::checkpoint::read_tensors;
use crate::cli::UsageError;
use crate::models::ModelConfig;

/// AdamW as the reference ran it.
pub(super) const ADAMW_LR: f64 = 1e-3;

/// What the reference computed. Rows are left-padded where `attention_mask` is zero.
pub(super) struct Reference {
    /// `[B, T]` i64.
    pub(super) input_ids: Tensor,
    /// `[B, T]` i64.
    pub(super) attention_mask: Tensor,
    /// `[B, T, V]`.
    pub(super) logits: Tensor,
    /// `[B, T - 1]`, of the next token.
    pub(super) token_logprobs: Tensor,
    /// `[B, new tokens]` i64.
    pub(super) greedy: Tensor,
    /// `[B, D]`, of length one.
    pub(super) embedding: Tensor,
    /// Losses and norms.
    pub(super) scalars: Scalars,
}

/// `reference.json`.
#[derive(Deserialize)]
pub(super) struct Scalars {
    /// Mean next-token cross-entropy over neighbouring pairs of tokens.
    pub(super) sft_loss: f64,
    /// Gradient norm of the loss, per checkpoint name.
    pub(super) grad_norms: BTreeMap<String, f64>,
    /// The loss before each AdamW step.
    pub(super) adamw_losses: Vec<f64>,
    /// Norm of each parameter after the steps.
    pub(super) adamw_param_norms: BTreeMap<String, f64>,
}

impl Reference {
    /// Reads the directory and checks that its tensors fit together.
    ///
    /// # Errors
    /// Names the file and the tensor.
    pub(super) fn load(dir: &Path) -> Result<Self, UsageError> {
        let path = dir.join("reference.safetensors");
        let tensors = read_tensors(&path).map_err(|error| UsageError(error.to_string()))?;
        let mut tensors: HashMap<String, Tensor> = tensors.into_iter().collect();
        let mut take = |name: &str| {
            let absent = || UsageError(format!("{}: no tensor `{name}`", path.display()));
            tensors.remove(name).ok_or_else(absent)
        };
        let reference = Self {
            input_ids: take("input_ids")?,
            attention_mask: take("attention_mask")?,
            logits: take("logits")?,
            token_logprobs: take("token_logprobs")?,
            greedy: take("greedy")?,
            embedding: take("embedding")?,
            scalars: read_scalars(&dir.join("reference.json"))?,
        };
        let problem = |problem: String| UsageError(format!("{}: {problem}", path.display()));
        reference.check_shapes().map_err(problem)?;
        reference.check_mask().map_err(problem)?;
        Ok(reference)
    }

    fn check_shapes(&self) -> Result<(), String> {
        let Ok((rows, len)) = self.input_ids.size2() else { return Err("`input_ids` must have two dimensions".into()) };
        let last = |tensor: &Tensor| tensor.size().last().copied().unwrap_or_default();
        for (name, tensor, expected) in [
            ("attention_mask", &self.attention_mask, vec![rows, len]),
            ("logits", &self.logits, vec![rows, len, last(&self.logits)]),
            ("token_logprobs", &self.token_logprobs, vec![rows, len - 1]),
            ("greedy", &self.greedy, vec![rows, last(&self.greedy)]),
            ("embedding", &self.embedding, vec![rows, last(&self.embedding)]),
        ] {
            if tensor.size() != expected {
                return Err(format!("`{name}` has shape {:?}, expected {expected:?}", tensor.size()));
            }
        }
        Ok(())
    }

    fn check_mask(&self) -> Result<(), String> {
        let ends = self.attention_mask.diff(1, 1, None::<Tensor>, None::<Tensor>).lt(0).any();
        if ends.int64_value(&[]) != 0 {
            return Err("`attention_mask` has padding after a token; rows must be padded on the left".into());
        }
        if (0..self.num_rows()).any(|row| self.len() - self.start(row) < 2) {
            return Err("every row needs two tokens: one to predict from and one to predict".into());
        }
        Ok(())
    }

    /// Checks that `config` describes a model that can be compared with these numbers.
    ///
    /// # Errors
    /// What does not fit.
    pub(super) fn check_fits(&self, config: &ModelConfig) -> Result<(), UsageError> {
        let needed = self.len() + self.greedy.size()[1];
        let largest = self.input_ids.max().int64_value(&[]);
        for (what, reference, model) in [
            ("vocabulary", self.logits.size()[2], config.vocab_size),
            ("hidden size", self.embedding.size()[1], config.hidden_size),
        ] {
            if reference != model {
                return Err(UsageError(format!("the reference is another model's: {what} {reference}, not {model}")));
            }
        }
        if largest >= config.vocab_size {
            return Err(UsageError(format!("`input_ids` holds {largest}, past the vocabulary")));
        }
        if needed > config.max_position_embeddings as i64 {
            let limit = config.max_position_embeddings;
            return Err(UsageError(format!("the reference needs {needed} positions, the model has {limit}")));
        }
        Ok(())
    }

    /// Number of rows, `B`.
    pub(super) fn num_rows(&self) -> i64 {
        self.input_ids.size()[0]
    }

    /// How far logits may be off.
    pub(super) fn logit_tolerance(&self) -> f64 {
        let is_token = self.attention_mask.to_kind(Kind::Bool);
        let largest = max_abs(&self.logits.index(&[Some(is_token)]));
        LOGPROB_TOLERANCE.max(RELATIVE_LOGIT_TOLERANCE * largest)
    }

    /// First position of row `row` that is a token.
    pub(super) fn start(&self, row: i64) -> i64 {
        let is_padding = self.attention_mask.get(row).eq(0);
        is_padding.sum(Kind::Int64).int64_value(&[])
    }

    /// Length of the padded rows, `T`.
    pub(super) fn len(&self) -> i64 {
        self.input_ids.size()[1]
    }

    /// The tokens of row `row` without padding.
    pub(super) fn ids(&self, row: i64) -> Tensor {
        let start = self.start(row);
        self.input_ids.get(row).narrow(0, start, self.len() - start)
    }

    /// [`Self::ids`] on the host.
    pub(super) fn ids_vec(&self, row: i64) -> Vec<u32> {
        let ids = Vec::<i64>::try_from(self.ids(row)).expect("a flat i64 tensor is a vector");
        ids.into_iter().map(|id| id as u32).collect()
    }

    /// The logits that predict the last `count` tokens of row `row`: `[count, V]`.
    pub(super) fn last_logits(&self, row: i64, count: usize) -> Tensor {
        let count = count as i64;
        self.logits.get(row).narrow(0, self.len() - 1 - count, count)
    }

    /// The log-probabilities of the last `count` tokens of row `row`.
    pub(super) fn last_logprobs(&self, row: i64, count: usize) -> Vec<f32> {
        let logprobs = self.token_logprobs.get(row);
        let count = count as i64;
        let last = logprobs.narrow(0, logprobs.size()[0] - count, count).to_kind(Kind::Float);
        Vec::try_from(last).expect("a flat f32 tensor is a vector")
    }
}

fn read_scalars(path: &Path) -> Result<Scalars, UsageError> {
    let problem = |error: &dyn Display| UsageError(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| problem(&error))?;
    serde_json::from_str(&text).map_err(|error| problem(&error))
}
