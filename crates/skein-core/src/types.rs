//! The words that engine, trainer, rewards and jobs share.
//!
//! Plain data only: no behaviour beyond small accessors, nothing that reads a file or a clock.

use serde::{Deserialize, Serialize};

/// One turn of a conversation, as chat templates see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// The turn's text.
    pub content: String,
}

/// How completions are drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SamplingParams {
    /// Softmax temperature; 0 is greedy. Log-probs are of `softmax(logits / temperature)`
    /// (of `softmax(logits)` when greedy), before top-k, top-p and min-p.
    pub temperature: f64,
    /// Keep the `top_k` likeliest tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep the smallest set of likeliest tokens whose probability reaches `top_p`; 1 keeps all.
    pub top_p: f64,
    /// Drop tokens less likely than `min_p` times the likeliest; 0 keeps all.
    pub min_p: f64,
    /// Tokens generated at most per completion.
    pub max_new_tokens: usize,
    /// A completion ends with the first of these ids (the id is kept).
    pub stop_token_ids: Vec<u32>,
    /// A completion ends when its text holds one of these.
    pub stop_strings: Vec<String>,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            max_new_tokens: 256,
            stop_token_ids: Vec::new(),
            stop_strings: Vec::new(),
        }
    }
}

/// Why a completion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// A stop token or a stop string.
    Stop,
    /// `max_new_tokens`, or the model's context, was reached.
    Length,
}

/// One sampled continuation of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// The sampled ids, the stop id included. Training uses exactly these.
    pub token_ids: Vec<u32>,
    /// For each id, its log-probability under the sampling policy at the sampling temperature.
    pub logprobs: Vec<f32>,
    /// Why generation ended.
    pub finish_reason: FinishReason,
}
