//! A chat model in this process, for whoever needs replies and no log-probabilities: a judge that needs no server.
//!
//! A tensor stays on its thread, so the model lives on one of its own and requests travel over a channel. Conversations
//! that arrive together are generated together. The weights are its own: a policy in training is not reached from here.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Instant;

use anyhow::{Context, Result};
use skein_core::chat::{ChatError, ChatModel, ChatReply, ChatRequest};
use skein_core::types::SamplingParams;
use skein_io::chat::ChatOptions;

use super::loaded::LoadedModel;
use super::rollout::with_stops;
use crate::cli::UsageError;
use crate::engine::{DrawOrigin, Engine, Hooks, Request};

/// A chat model on a thread of its own, which ends with it.
pub struct LocalChat {
    jobs: Mutex<SyncSender<Job>>,
}

type Replies = Vec<Result<ChatReply, ChatError>>;

struct Job {
    requests: Vec<ChatRequest>,
    reply: SyncSender<Replies>,
}

impl LocalChat {
    /// Loads the model of a Hugging Face directory or hub id.
    ///
    /// # Errors
    /// When a file is missing or does not fit, or there is no chat template.
    pub fn load(model: &str) -> Result<Self> {
        let (jobs, inbox) = sync_channel(1);
        let (loaded, outcome) = sync_channel(1);
        let name = model.to_owned();
        std::thread::Builder::new()
            .name("chat model".to_owned())
            .spawn(move || {
                let model = match load(&name) {
                    Ok(model) => model,
                    Err(error) => return drop(loaded.send(Err(error))),
                };
                match model.engine() {
                    // A failed send means that whoever asked has gone: there is nobody to serve.
                    Ok(mut engine) => {
                        if loaded.send(Ok(())).is_ok() {
                            serve(&model, &mut engine, &inbox);
                        }
                    }
                    Err(error) => drop(loaded.send(Err(error))),
                }
            })
            .context("starting the chat model's thread")?;
        outcome.recv().context("the chat model's thread ended while loading")??;
        Ok(Self { jobs: Mutex::new(jobs) })
    }
}

impl ChatModel for LocalChat {
    fn complete(&self, requests: &[ChatRequest], deadline: Instant) -> Replies {
        let failed =
            |message: &str| requests.iter().map(|_| Err(ChatError::Failed { message: message.into() })).collect();
        let (reply, answer) = sync_channel(1);
        let Ok(jobs) = self.jobs.lock().map(|jobs| jobs.clone()) else { return failed("its thread has ended") };
        if jobs.send(Job { requests: requests.to_vec(), reply }).is_err() {
            return failed("its thread has ended");
        }
        match answer.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(replies) => replies,
            Err(RecvTimeoutError::Timeout) => {
                let late = || Err(ChatError::Deadline { message: "the local model is still generating".into() });
                requests.iter().map(|_| late()).collect()
            }
            Err(RecvTimeoutError::Disconnected) => failed("its thread has ended"),
        }
    }
}

fn load(model: &str) -> Result<LoadedModel> {
    let loaded = LoadedModel::load(model)?;
    if loaded.template.is_none() {
        return Err(UsageError(format!("{model} has no chat template, and a judge is asked in chat form")).into());
    }
    Ok(loaded)
}

fn serve(model: &LoadedModel, engine: &mut Engine<'_>, inbox: &Receiver<Job>) {
    for job in inbox {
        // The asker may have given up; its replies are then nobody's.
        drop(job.reply.send(complete(model, engine, &job.requests)));
    }
}

fn complete(model: &LoadedModel, engine: &mut Engine<'_>, chats: &[ChatRequest]) -> Replies {
    let mut requests = Vec::with_capacity(chats.len());
    let mut encoded: Vec<Result<(), ChatError>> = Vec::with_capacity(chats.len());
    for chat in chats {
        encoded.push(request(model, chat).map(|request| requests.push(request)));
    }
    let decode = |ids: &[u32]| model.tokenizer.decode_visible(ids).unwrap_or_default();
    let mut generated =
        engine.generate(&requests, &mut Hooks { decode: Some(&decode), on_event: &mut |_| {} }).into_iter();
    let reply = |encoded: Result<(), ChatError>| {
        encoded?;
        let refused = |message: String| ChatError::Refused { message };
        let completions =
            generated.next().expect("one outcome per request").map_err(|error| refused(error.to_string()))?;
        let completion = &completions[0];
        Ok(ChatReply { text: decode(&completion.token_ids), finish_reason: completion.finish_reason })
    };
    encoded.into_iter().map(reply).collect()
}

fn request(model: &LoadedModel, chat: &ChatRequest) -> Result<Request, ChatError> {
    let refused = |error: &dyn std::fmt::Display| ChatError::Refused { message: error.to_string() };
    let template = model.template.as_ref().expect("a chat model without a template is refused at loading");
    let options = ChatOptions { add_generation_prompt: true, ..ChatOptions::default() };
    let text = template.render(&chat.messages, &options).map_err(|error| refused(&error))?;
    let prompt_ids = model.tokenizer.encode(&text).map_err(|error| refused(&error))?;
    let params = SamplingParams {
        temperature: chat.temperature,
        max_new_tokens: chat.max_new_tokens,
        ..SamplingParams::default()
    };
    Ok(Request {
        prompt_ids,
        num_samples: 1,
        params: with_stops(&params, &model.tokenizer),
        origin: DrawOrigin { seed: chat.seed, step: 0, prompt: 0 },
    })
}
