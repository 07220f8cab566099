//! The frozen model that a policy is held close to.

use super::{PromptCompletions, TrainerError, TrainerParams, TrainingGroup, logprobs};
use crate::models::{CausalLm, build_model};

/// A model that is never trained, with weights of its own.
pub struct ReferenceModel {
    model: Box<dyn CausalLm>,
    params: TrainerParams,
}

impl ReferenceModel {
    /// Freezes `model`. On a resumed run load it from the checkpoint that training started from, not from the latest.
    pub fn new(model: Box<dyn CausalLm>, params: TrainerParams) -> Self {
        model.weights().set_requires_grad(false);
        Self { model, params }
    }

    /// A copy of `model` as it is now; later steps on `model` do not reach it.
    pub fn copy_of(model: &dyn CausalLm, params: TrainerParams) -> Self {
        let head = model.head_weight();
        let copy = build_model(model.config().clone(), head.kind(), head.device());
        for (to, from) in copy.weights().leaves.iter().zip(&model.weights().leaves) {
            to.tensor.shallow_clone().copy_(&from.tensor.detach());
        }
        Self::new(copy, params)
    }

    /// Sets `ref_logprobs` of every completion.
    ///
    /// # Errors
    /// What [`logprobs`] refuses.
    pub fn score(&self, groups: &mut [TrainingGroup]) -> Result<(), TrainerError> {
        let ids: Vec<Vec<&[u32]>> = groups
            .iter()
            .map(|group| group.completions.iter().map(|completion| completion.token_ids.as_slice()).collect())
            .collect();
        let prompts: Vec<PromptCompletions<'_>> = groups
            .iter()
            .zip(&ids)
            .map(|(group, completions)| PromptCompletions { prompt_ids: &group.prompt_ids, completions })
            .collect();
        let scored = logprobs(self.model.as_ref(), &self.params, &prompts)?;
        for (group, scored) in groups.iter_mut().zip(scored) {
            for (completion, logprobs) in group.completions.iter_mut().zip(scored) {
                completion.ref_logprobs = Some(logprobs);
            }
        }
        Ok(())
    }
}
