//! A chat model behind an OpenAI-compatible HTTP API.
//!
//! Requests run on threads of their own, as many at once as the config allows, and each ends by its deadline: every wait
//! (for a place, for a turn, before a repetition, for the server) is cut to what is left. Failures that may pass are
//! repeated with growing, varied waits, or after the time the server asks for; others are reported at once. Replies can
//! be kept on disk. The API key comes from the environment and appears in no message, log line or `Debug` text. Which
//! answers are judged and what a reply means is not decided here.

mod cache;
mod key;
mod limits;
mod reply;
mod retry;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use skein_core::chat::{ChatError, ChatModel, ChatReply, ChatRequest};
use skein_core::config::ApiConfig;
use skein_core::random::Stream;
use ureq::Agent;
use ureq::http::Response;

use cache::{Asked, ReplyCache};
use key::ApiKey;
use limits::{Pace, Slots};
use reply::{Metered, ReplyError, read_events, read_object};

// The client logs what goes over the wire, the key included, at the trace level and only there.
const _: () = assert!(log::STATIC_MAX_LEVEL as usize <= log::LevelFilter::Debug as usize, "the key would be logged");

const MINUTE: Duration = Duration::from_secs(60);

/// Most of an error's body that is read, in bytes.
const MAX_COMPLAINT_BYTES: u64 = 2000;

/// Most of an error's body that is shown, in characters.
const MAX_COMPLAINT_CHARS: usize = 300;

/// Why a client can't be made.
#[derive(Debug, thiserror::Error)]
pub enum ApiSetupError {
    /// Fields of the config, one problem a line.
    #[error("{}", .0.join("\n"))]
    Config(Vec<String>),
    /// The variable that should hold the key does not.
    #[error("the environment variable `{variable}` should hold the API key, but {problem}")]
    Key {
        /// The variable.
        variable: String,
        /// What is wrong; never what it holds.
        problem: &'static str,
    },
    /// The cache's folder can't be made.
    #[error("{}: cannot make the folder of replies: {source}", path.display())]
    Cache {
        /// The folder.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// What a client did so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ApiUsage {
    /// Requests sent, repetitions included.
    pub requests: u64,
    /// Of `requests`: repetitions.
    pub retries: u64,
    /// Replies that came over the network.
    pub replies: u64,
    /// Replies that were on disk.
    pub cache_hits: u64,
    /// Tokens of the prompts of `replies`.
    pub prompt_tokens: u64,
    /// Tokens of `replies`.
    pub completion_tokens: u64,
    /// Of `replies`: those whose tokens the server did not count, so that `cost` lacks them.
    pub unmetered: u64,
    /// What the counted tokens cost, in the currency of the config's prices.
    pub cost: f64,
}

/// A model on a server.
#[derive(Debug)]
pub struct ApiModel {
    config: ApiConfig,
    url: String,
    key: Option<ApiKey>,
    agent: Agent,
    slots: Slots,
    pace: Option<Pace>,
    cache: Option<ReplyCache>,
    usage: Mutex<ApiUsage>,
    /// Differs between clients, so that they do not come back together after a common failure.
    jitter: Mutex<Stream>,
}

/// Why an attempt gave no reply.
enum Setback {
    /// It is not worth repeating.
    Final(String),
    /// It may pass, at the earliest after the time the server names.
    Passing { message: String, wait: Option<Duration> },
}

impl ApiModel {
    /// A client as `config` says, with the key that the environment holds.
    ///
    /// # Errors
    /// When the config has impossible values, the key is not there, or the cache's folder can't be made.
    pub fn new(config: ApiConfig) -> Result<Self, ApiSetupError> {
        Self::with_variables(config, |name| std::env::var(name).ok())
    }

    fn with_variables(config: ApiConfig, variable: impl Fn(&str) -> Option<String>) -> Result<Self, ApiSetupError> {
        let problems = config.problems();
        if !problems.is_empty() {
            return Err(ApiSetupError::Config(problems));
        }
        let key = config.api_key_env.as_ref().map(|name| {
            let fail = |problem| ApiSetupError::Key { variable: name.clone(), problem };
            let secret = variable(name).filter(|value| !value.trim().is_empty()).ok_or(fail("it is not set"))?;
            ApiKey::new(&secret).ok_or(fail("its value has characters that no key has"))
        });
        let cache = config.cache.as_ref().map(|path| {
            ReplyCache::open(path, config.max_reply_bytes)
                .map_err(|source| ApiSetupError::Cache { path: path.clone(), source })
        });
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(Duration::from_secs_f64(config.connect_timeout_secs)))
            .timeout_per_read(Some(Duration::from_secs_f64(config.read_timeout_secs)))
            .user_agent(concat!("skein/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        Ok(Self {
            url: format!("{}/chat/completions", config.base_url.trim_end_matches('/')),
            key: key.transpose()?,
            agent,
            slots: Slots::new(config.max_concurrent),
            pace: (config.requests_per_minute > 0).then(|| Pace::new(config.requests_per_minute, MINUTE)),
            cache: cache.transpose()?,
            usage: Mutex::default(),
            jitter: Mutex::new(Stream::new(RandomState::new().build_hasher().finish(), "backoff", 0)),
            config,
        })
    }

    /// What this client did so far.
    pub fn usage(&self) -> ApiUsage {
        let usage = *self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let price = |tokens: u64, million: f64| tokens as f64 / 1e6 * million;
        let prompt = price(usage.prompt_tokens, self.config.prompt_price);
        ApiUsage { cost: prompt + price(usage.completion_tokens, self.config.completion_price), ..usage }
    }

    fn count(&self, change: impl FnOnce(&mut ApiUsage)) {
        change(&mut self.usage.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn complete_one(&self, request: &ChatRequest, deadline: Instant) -> Result<ChatReply, ChatError> {
        let body = self.body(request);
        let asked = Asked { url: &self.url, body: &body };
        if let Some(reply) = self.cache.as_ref().and_then(|cache| cache.get(&asked)) {
            self.count(|usage| usage.cache_hits += 1);
            return Ok(reply);
        }
        let reply = self.ask(&self.wire(&body), deadline)?;
        if let Some(Err(error)) = self.cache.as_ref().map(|cache| cache.put(&asked, &reply)) {
            tracing::warn!("a reply could not be kept: {error}");
        }
        Ok(reply)
    }

    /// The request's fields, but for those that only say how the reply is sent.
    fn body(&self, request: &ChatRequest) -> Value {
        let mut body = json!({
            "model": self.config.model,
            "messages": request.messages,
            "temperature": request.temperature,
            "max_tokens": request.max_new_tokens,
            "seed": request.seed,
        });
        for (name, value) in &self.config.extra {
            body[name] = value.clone();
        }
        // `null` takes a field out, for servers that refuse one.
        body.as_object_mut().expect("it was made one").retain(|_, value| !value.is_null());
        body
    }

    fn wire(&self, body: &Value) -> Vec<u8> {
        let mut body = body.clone();
        if self.config.stream {
            body["stream"] = json!(true);
            body["stream_options"] = json!({ "include_usage": true });
        }
        serde_json::to_vec(&body).expect("plain data with string keys")
    }

    /// Sends the request until there is a reply, a final failure, or no time.
    fn ask(&self, wire: &[u8], deadline: Instant) -> Result<ChatReply, ChatError> {
        let late = |message: &str| ChatError::Deadline { message: message.to_owned() };
        let mut retry = 0;
        loop {
            let slot = self.slots.take(deadline).ok_or_else(|| late("waiting for other requests to end"))?;
            if self.pace.as_ref().is_some_and(|pace| !pace.wait_turn(deadline)) {
                return Err(late("waiting for a turn under the limit of requests per minute"));
            }
            if deadline <= Instant::now() {
                return Err(late("the request was not sent"));
            }
            self.count(|usage| {
                usage.requests += 1;
                usage.retries += u64::from(retry > 0);
            });
            let outcome = self.attempt(wire, deadline);
            drop(slot);
            let (message, wait) = match outcome {
                Ok(metered) => return Ok(self.metered(metered)),
                Err(Setback::Final(message)) => return Err(ChatError::Refused { message: self.hidden(&message) }),
                Err(Setback::Passing { message, wait }) => (self.hidden(&message), wait),
            };
            if deadline <= Instant::now() {
                return Err(ChatError::Deadline { message });
            }
            if retry >= self.config.max_retries {
                return Err(ChatError::Failed { message: format!("{message} (attempt {})", retry + 1) });
            }
            let wait = wait.unwrap_or_default().max(self.backoff(retry));
            if deadline.saturating_duration_since(Instant::now()) <= wait {
                return Err(ChatError::Deadline { message: format!("{message}; to be repeated after {wait:.1?}") });
            }
            tracing::debug!("a request is repeated in {wait:.1?}: {message}");
            std::thread::sleep(wait);
            retry += 1;
        }
    }

    fn attempt(&self, wire: &[u8], deadline: Instant) -> Result<Metered, Setback> {
        let passing = |message: String| Setback::Passing { message, wait: None };
        let left = deadline.saturating_duration_since(Instant::now());
        let whole = Duration::from_secs_f64(self.config.request_timeout_secs).min(left);
        let mut call = self
            .agent
            .post(&self.url)
            .config()
            .timeout_global(Some(whole))
            .build()
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some(key) = &self.key {
            call = call.header("authorization", key.header());
        }
        let response = call.send(wire).map_err(|error| match error {
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => Setback::Final(error.to_string()),
            error => passing(error.to_string()),
        })?;
        let status = response.status().as_u16();
        if status != 200 {
            let header = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
            let wait = header.and_then(|value| retry::retry_after(value, SystemTime::now()));
            let message = format!("the server answered {status}: {}", complaint(response, |text| self.hidden(text)));
            return Err(if retry::may_pass(status) {
                Setback::Passing { message, wait }
            } else {
                Setback::Final(message)
            });
        }
        let kind = response.body().mime_type().unwrap_or_default().to_ascii_lowercase();
        let (body, max_bytes) = (response.into_body().into_reader(), self.config.max_reply_bytes);
        let read = match kind.as_str() {
            "application/json" => read_object(body, max_bytes),
            "text/event-stream" => read_events(BufReader::new(body), max_bytes),
            _ => Err(ReplyError::Broken(format!("its content type is `{kind}`"))),
        };
        read.map_err(|error| match error {
            ReplyError::Declined(_) | ReplyError::TooLarge(_) => Setback::Final(error.to_string()),
            error => passing(error.to_string()),
        })
    }

    fn metered(&self, Metered { reply, tokens }: Metered) -> ChatReply {
        self.count(|usage| {
            usage.replies += 1;
            match tokens {
                Some(tokens) => {
                    usage.prompt_tokens = usage.prompt_tokens.saturating_add(tokens.prompt_tokens);
                    usage.completion_tokens = usage.completion_tokens.saturating_add(tokens.completion_tokens);
                }
                None => usage.unmetered += 1,
            }
        });
        reply
    }

    fn backoff(&self, retry: u32) -> Duration {
        let draw = self.jitter.lock().unwrap_or_else(PoisonError::into_inner).uniform();
        let secs = Duration::from_secs_f64;
        retry::backoff(secs(self.config.backoff_secs), secs(self.config.max_backoff_secs), retry, draw)
    }

    fn hidden(&self, text: &str) -> String {
        self.key.as_ref().map_or_else(|| text.to_owned(), |key| key.hidden_in(text))
    }
}

impl ChatModel for ApiModel {
    fn complete(&self, requests: &[ChatRequest], deadline: Instant) -> Vec<Result<ChatReply, ChatError>> {
        let num_threads = requests.len().min(self.config.max_concurrent);
        if num_threads <= 1 {
            return requests.iter().map(|request| self.complete_one(request, deadline)).collect();
        }
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|index| *index < requests.len()) {
                done.push((index, self.complete_one(&requests[index], deadline)));
            }
            done
        };
        let mut replies: Vec<(usize, Result<ChatReply, ChatError>)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..num_threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("requests do not panic")).collect()
        });
        replies.sort_by_key(|(index, _)| *index);
        replies.into_iter().map(|(_, reply)| reply).collect()
    }
}

/// The beginning of what a server says about a failure, on one line and without what `hide` hides.
fn complaint(response: Response<ureq::Body>, hide: impl Fn(&str) -> String) -> String {
    let mut bytes = Vec::new();
    // What was read before a failure is as good as it gets.
    let _ = response.into_body().into_reader().take(MAX_COMPLAINT_BYTES).read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let mut words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    if bytes.len() as u64 == MAX_COMPLAINT_BYTES {
        // The last word may be a part of one, and a part of the key is not recognised.
        words.pop();
    }
    words.retain(|word| !word.is_empty());
    hide(&words.join(" ")).chars().take(MAX_COMPLAINT_CHARS).collect()
}

#[cfg(test)]
mod tests;
