//! A generation engine as a chat model: conversations in, replies out, in the words of the model's chat template.
//!
//! Conversations that arrive together are generated together. A reply is bounded in tokens; a clock is looked at before
//! a generation and never within one, so that equal requests get equal replies however busy the machine is.

use std::cell::RefCell;
use std::time::Instant;

use skein_core::chat::{ChatError, ChatModel, ChatReply, ChatRequest};
use skein_core::types::SamplingParams;
use skein_io::chat::{ChatOptions, ChatTemplate};
use skein_io::tokenizer::Tokenizer;

use super::rollout::with_stops;
use crate::engine::{DrawOrigin, Engine, Hooks, Request};

/// An engine, and what turns conversations into ids and back.
pub(super) struct EngineChat<'e, 'm> {
    engine: RefCell<&'e mut Engine<'m>>,
    tokenizer: &'e Tokenizer,
    template: &'e ChatTemplate,
}

impl<'e, 'm> EngineChat<'e, 'm> {
    /// Talks to the model that `engine` runs; tokenizer and template are that model's.
    pub(super) fn new(engine: &'e mut Engine<'m>, tokenizer: &'e Tokenizer, template: &'e ChatTemplate) -> Self {
        Self { engine: RefCell::new(engine), tokenizer, template }
    }

    fn request(&self, chat: &ChatRequest) -> Result<Request, ChatError> {
        let options = ChatOptions { add_generation_prompt: true, ..ChatOptions::default() };
        let text = self.template.render(&chat.messages, &options).map_err(refused)?;
        let params = SamplingParams {
            temperature: chat.temperature,
            max_new_tokens: chat.max_new_tokens,
            ..SamplingParams::default()
        };
        Ok(Request {
            prompt_ids: self.tokenizer.encode(&text).map_err(refused)?,
            num_samples: 1,
            params: with_stops(&params, self.tokenizer),
            origin: DrawOrigin { seed: chat.seed, step: 0, prompt: 0 },
        })
    }
}

impl ChatModel for EngineChat<'_, '_> {
    fn complete(&self, chats: &[ChatRequest], deadline: Instant) -> Vec<Result<ChatReply, ChatError>> {
        if Instant::now() >= deadline {
            let late = || Err(ChatError::Deadline { message: "generation has not begun".into() });
            return chats.iter().map(|_| late()).collect();
        }
        let mut requests = Vec::with_capacity(chats.len());
        let encoded: Vec<Result<(), ChatError>> =
            chats.iter().map(|chat| self.request(chat).map(|request| requests.push(request))).collect();
        let decode = |ids: &[u32]| self.tokenizer.decode_visible(ids).unwrap_or_default();
        let mut hooks = Hooks { decode: Some(&decode), on_event: &mut |_| {} };
        let mut generated = self.engine.borrow_mut().generate(&requests, &mut hooks).into_iter();
        let reply = |encoded: Result<(), ChatError>| {
            encoded?;
            let completions = generated.next().expect("one outcome per request").map_err(refused)?;
            let completion = &completions[0];
            Ok(ChatReply { text: decode(&completion.token_ids), finish_reason: completion.finish_reason })
        };
        encoded.into_iter().map(reply).collect()
    }
}

fn refused(error: impl std::fmt::Display) -> ChatError {
    ChatError::Refused { message: error.to_string() }
}
