//! A chat model in this process, for whoever needs replies and no log-probabilities: a judge that needs no server.
//!
//! It can be asked from any thread. The weights are its own: a policy in training is not reached from here.

use std::time::Instant;

use anyhow::Result;
use skein_core::chat::{ChatError, ChatModel, ChatReply, ChatRequest};

use super::engine_chat::EngineChat;
use super::loaded::LoadedModel;
use super::model_thread::{ModelThread, Unanswered};
use crate::cli::UsageError;

/// A chat model on a thread of its own, which ends with it.
pub struct LocalChat {
    thread: ModelThread<Asked, Replies>,
}

type Replies = Vec<Result<ChatReply, ChatError>>;

/// Conversations and until when their replies are waited for.
type Asked = (Vec<ChatRequest>, Instant);

impl LocalChat {
    /// Loads the model of a Hugging Face directory or hub id.
    ///
    /// # Errors
    /// When a file is missing or does not fit, or there is no chat template.
    pub fn load(model: &str) -> Result<Self> {
        let name = model.to_owned();
        let thread = ModelThread::start("chat model", move |server| {
            let model = LoadedModel::load(&name)?;
            let Some(template) = &model.template else {
                return Err(
                    UsageError(format!("{name} has no chat template, and a judge is asked in chat form")).into()
                );
            };
            let mut engine = model.engine()?;
            let chat = EngineChat::new(&mut engine, &model.tokenizer, template);
            server.serve(|(requests, deadline): Asked| chat.complete(&requests, deadline));
            Ok(())
        })?;
        Ok(Self { thread })
    }
}

impl ChatModel for LocalChat {
    fn complete(&self, requests: &[ChatRequest], deadline: Instant) -> Replies {
        self.thread.ask((requests.to_vec(), deadline), Some(deadline)).unwrap_or_else(|reason| {
            let message = reason.to_string();
            let error = match reason {
                Unanswered::Late => ChatError::Deadline { message },
                Unanswered::Ended => ChatError::Failed { message },
            };
            vec![Err(error); requests.len()]
        })
    }
}
