//! What is asked of the engine, what it reports meanwhile, and why it may refuse.

use skein_core::batching::scheduler::GroupTooLarge;
use skein_core::types::{Completion, SamplingParams};

use crate::models::ModelConfig;

/// Where a request's random draws come from: with the sample's and the token's index, the whole key of a draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrawOrigin {
    /// The run's seed.
    pub seed: u64,
    /// Training step, or any other count that separates repeated visits to a prompt.
    pub step: u32,
    /// Index of the prompt in its data set.
    pub prompt: u32,
}

/// One prompt and the completions wanted of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The prompt, at least one id.
    pub prompt_ids: Vec<u32>,
    /// Completions, at least one.
    pub num_samples: usize,
    /// How they are drawn.
    pub params: SamplingParams,
    /// Key of the draws.
    pub origin: DrawOrigin,
}

/// What happened, as soon as it did. Requests are named by their index in the call.
#[derive(Debug)]
pub enum Event<'a> {
    /// A token was sampled.
    Token {
        /// The request.
        request: usize,
        /// The sample of the request.
        sample: usize,
        /// The token.
        token_id: u32,
        /// Its log-probability.
        logprob: f32,
    },
    /// A completion is whole.
    Finished {
        /// The request.
        request: usize,
        /// The sample of the request.
        sample: usize,
        /// The completion.
        completion: &'a Completion,
    },
}

/// Text of token ids.
pub type Decode<'a> = dyn Fn(&[u32]) -> String + 'a;

/// What a caller of [`super::Engine::generate`] brings.
pub struct Hooks<'a> {
    /// Text of token ids; only stop strings need it.
    pub decode: Option<&'a Decode<'a>>,
    /// Told of every token and every end, on the calling thread: what it does here delays the next step.
    pub on_event: &'a mut dyn FnMut(Event<'_>),
}

impl std::fmt::Debug for Hooks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks").field("decode", &self.decode.is_some()).finish_non_exhaustive()
    }
}

/// Why one request has no completions.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RequestError {
    /// No prompt.
    #[error("the prompt is empty: give at least one token (a beginning-of-text token will do)")]
    EmptyPrompt,
    /// The prompt leaves no room in the model's context.
    #[error("the prompt takes {tokens} tokens and the model's context holds {context}, with at least one to generate")]
    PromptTooLong {
        /// Tokens asked for.
        tokens: usize,
        /// Tokens the model was made for.
        context: usize,
    },
    /// No samples.
    #[error("`num_samples` is 0: ask for at least one completion")]
    NoSamples,
    /// No tokens.
    #[error("`max_new_tokens` is 0: ask for at least one token")]
    NoNewTokens,
    /// A sampling parameter is out of its range.
    #[error("`{name}` is {value} but must be {expected}")]
    BadParameter {
        /// Its name.
        name: &'static str,
        /// What it is.
        value: f64,
        /// What it may be.
        expected: &'static str,
    },
    /// Stop strings, and nothing to turn ids into text.
    #[error("stop strings need the model's tokenizer, which was not given")]
    NoDecoder,
    /// An id the embedding has no row for.
    #[error("token id {id} lies outside the model's vocabulary of {vocab_size}: does this tokenizer belong to it?")]
    UnknownToken {
        /// The id.
        id: u32,
        /// Rows of the embedding.
        vocab_size: i64,
    },
    /// The cache cannot hold one sequence.
    #[error("{0}. Raise the cache size, or lower `max_new_tokens`")]
    CacheTooSmall(#[from] GroupTooLarge),
    /// The model's output was NaN or infinite.
    #[error("the model's logits for token {token} of sample {sample} were not finite: its weights are broken")]
    BrokenLogits {
        /// The sample.
        sample: usize,
        /// Index of the token in the completion.
        token: usize,
    },
}

impl Request {
    /// Checks everything that does not depend on other requests.
    pub(super) fn check(&self, config: &ModelConfig, has_decoder: bool) -> Result<(), RequestError> {
        check_ids(&self.prompt_ids, config)?;
        let (tokens, context) = (self.prompt_ids.len(), config.max_position_embeddings);
        if tokens >= context {
            return Err(RequestError::PromptTooLong { tokens, context });
        }
        if self.num_samples == 0 {
            return Err(RequestError::NoSamples);
        }
        let params = &self.params;
        if params.max_new_tokens == 0 {
            return Err(RequestError::NoNewTokens);
        }
        let ranges = [
            ("temperature", params.temperature, params.temperature >= 0.0, "0 (greedy) or a positive number"),
            ("top_p", params.top_p, params.top_p > 0.0 && params.top_p <= 1.0, "above 0 and at most 1"),
            ("min_p", params.min_p, (0.0..=1.0).contains(&params.min_p), "from 0 to 1"),
        ];
        for (name, value, within, expected) in ranges {
            if !within || !value.is_finite() {
                return Err(RequestError::BadParameter { name, value, expected });
            }
        }
        if !params.stop_strings.is_empty() && !has_decoder {
            return Err(RequestError::NoDecoder);
        }
        Ok(())
    }
}

/// Refuses an empty list and ids outside the vocabulary.
pub(super) fn check_ids(ids: &[u32], config: &ModelConfig) -> Result<(), RequestError> {
    if ids.is_empty() {
        return Err(RequestError::EmptyPrompt);
    }
    match ids.iter().find(|id| i64::from(**id) >= config.vocab_size) {
        Some(id) => Err(RequestError::UnknownToken { id: *id, vocab_size: config.vocab_size }),
        None => Ok(()),
    }
}
