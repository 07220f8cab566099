//! What the method needs of a chat model: messages in, text out.
//!
//! The engine on the weights in training, and a server somewhere else, look the same through [`ChatModel`], so that a
//! judge can be either. Nothing here knows a tokenizer, a prompt template or a connection, and nothing reads a clock: a
//! deadline is the implementation's to keep. A model is asked for one reply per request; whoever wants several asks
//! with several seeds.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::types::{FinishReason, Message};

/// One conversation to be continued by one reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatRequest {
    /// The conversation so far, at least one message. Contents are text: an implementation that turns them into tokens
    /// must not read control tokens out of them where it can avoid it.
    pub messages: Vec<Message>,
    /// Softmax temperature; 0 is greedy.
    pub temperature: f64,
    /// Tokens the reply may have at most.
    pub max_new_tokens: usize,
    /// Where the reply's random draws come from; equal requests with equal seeds should get equal replies.
    pub seed: u64,
}

/// A model's reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatReply {
    /// Its text; may be empty.
    pub text: String,
    /// Why it ended.
    pub finish_reason: FinishReason,
}

/// Why there is no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChatError {
    /// Time ran out.
    #[error("no reply came before the deadline: {message}")]
    Deadline {
        /// What was being waited for.
        message: String,
    },
    /// The model can't or won't reply to this request; asking again is no use.
    #[error("the request was refused: {message}")]
    Refused {
        /// Why.
        message: String,
    },
    /// No reply could be had, and what can be done about it by asking again was done.
    #[error("no reply could be had: {message}")]
    Failed {
        /// The last thing that went wrong.
        message: String,
    },
}

/// Continues conversations.
pub trait ChatModel {
    /// One reply, or the reason why there is none, for each request and in their order.
    ///
    /// Returns soon after `deadline` at the latest, with [`ChatError::Deadline`] for requests that have no reply by then.
    /// A request's failure touches no other one.
    fn complete(&self, requests: &[ChatRequest], deadline: Instant) -> Vec<Result<ChatReply, ChatError>>;
}

impl<M: ChatModel + ?Sized> ChatModel for &M {
    fn complete(&self, requests: &[ChatRequest], deadline: Instant) -> Vec<Result<ChatReply, ChatError>> {
        (**self).complete(requests, deadline)
    }
}

impl<M: ChatModel + ?Sized> ChatModel for Box<M> {
    fn complete(&self, requests: &[ChatRequest], deadline: Instant) -> Vec<Result<ChatReply, ChatError>> {
        (**self).complete(requests, deadline)
    }
}

impl<M: ChatModel + ?Sized> ChatModel for std::sync::Arc<M> {
    fn complete(&self, requests: &[ChatRequest], deadline: Instant) -> Vec<Result<ChatReply, ChatError>> {
        (**self).complete(requests, deadline)
    }
}
