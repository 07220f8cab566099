//! Streams completions of one prompt to the terminal or of a file of prompts to JSONL.

use std::io::{IsTerminal, stdout};
use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;
use skein_core::types::{Completion, SamplingParams};
use skein_io::jsonl::JsonlWriter;
use skein_io::tokenizer::{StreamDecoder, Tokenizer};

use super::UsageError;
use super::prompts::{Prompt, Prompts};
use super::stdout::{print, print_line};
use crate::engine::{DrawOrigin, Engine, EngineConfig, Event, Hooks, Request};
use crate::jobs::LoadedModel;

/// Arguments of `skein generate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example, scoring what a model answers to prompts with the ids of tasks:
  skein generate --model DIR --prompts prompts.jsonl --n 4 --out responses.jsonl
  skein reward --tasks tasks.jsonl --responses responses.jsonl")]
pub struct Args {
    /// Hugging Face model directory, or a hub id such as owner/name.
    #[arg(long)]
    model: String,
    #[command(flatten)]
    source: Source,
    /// Wrap plain prompts with the model's chat template.
    #[arg(long)]
    chat: bool,
    /// Completions per prompt.
    #[arg(long, short, default_value_t = 1, value_parser = at_most_a_million)]
    n: usize,
    /// Softmax temperature; 0 is greedy.
    #[arg(long, default_value_t = 1.0)]
    temperature: f64,
    /// Keep the TOP_K likeliest tokens; 0 keeps all.
    #[arg(long, default_value_t = 0)]
    top_k: usize,
    /// Keep the smallest set of likeliest tokens whose probability reaches TOP_P.
    #[arg(long, default_value_t = 1.0)]
    top_p: f64,
    /// Drop tokens less likely than MIN_P times the likeliest.
    #[arg(long, default_value_t = 0.0)]
    min_p: f64,
    /// Tokens per completion at most.
    #[arg(long, default_value_t = 256)]
    max_new: usize,
    /// End a completion whose text holds this; may be given several times.
    #[arg(long)]
    stop: Vec<String>,
    /// Seed of the draws: the same seed gives the same completions.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Tokens the key/value cache holds.
    #[arg(long, default_value_t = EngineConfig::default().cache_tokens)]
    cache_tokens: usize,
    /// Write JSONL here instead of to stdout, once all completions are there: the prompt's "id", "prompt_index", "sample",
    /// "prompt", "response", "finish_reason", "token_ids" and "logprobs" a line.
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Source {
    /// One prompt.
    #[arg(long)]
    prompt: Option<String>,
    /// JSONL file of prompts: {"prompt": "…"} or {"messages": […]} a line. An "id" beside it is copied to the output, so
    /// that `skein reward --responses` finds the task it answers.
    #[arg(long)]
    prompts: Option<PathBuf>,
}

/// A number that more would be a slip of the keyboard.
fn at_most_a_million(text: &str) -> Result<usize, String> {
    let number: usize = text.parse().map_err(|_| format!("`{text}` is no whole number"))?;
    if number <= 1_000_000 { Ok(number) } else { Err("expected at most 1000000".to_owned()) }
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<()> {
    let LoadedModel { model, tokenizer, dir, .. } = LoadedModel::load(&args.model)?;
    let mut reader = Prompts::new(&dir, &tokenizer, args.chat);
    let prompts = match (&args.source.prompt, &args.source.prompts) {
        (Some(text), _) => vec![reader.text(text)?],
        (None, Some(path)) => reader.file(path)?,
        (None, None) => unreachable!("clap demands one of them"),
    };
    let config = EngineConfig { cache_tokens: args.cache_tokens, ..EngineConfig::default() };
    let mut engine = Engine::new(&*model, config).map_err(|error| UsageError(error.to_string()))?;
    let requests = requests(&args, &prompts, &tokenizer);
    // One completion of one prompt reads best as it comes; anything more would interleave.
    if args.out.is_none() && prompts.len() == 1 && args.n == 1 && stdout().is_terminal() {
        return stream(&mut engine, &requests, &tokenizer);
    }
    let Some(path) = &args.out else {
        return Ok(write_lines(&mut engine, &requests, &prompts, &tokenizer, |line| Ok(print_line(line)?))??);
    };
    let mut file = JsonlWriter::create(path)?;
    let refused = write_lines(&mut engine, &requests, &prompts, &tokenizer, |line| Ok(file.write(&line)?))?;
    file.finish()?;
    Ok(refused?)
}

fn requests(args: &Args, prompts: &[Prompt], tokenizer: &Tokenizer) -> Vec<Request> {
    let params = SamplingParams {
        temperature: args.temperature,
        top_k: args.top_k,
        top_p: args.top_p,
        min_p: args.min_p,
        max_new_tokens: args.max_new,
        stop_token_ids: tokenizer.special().stop_ids.clone(),
        stop_strings: args.stop.clone(),
    };
    let request = |(index, prompt): (usize, &Prompt)| Request {
        prompt_ids: prompt.ids.clone(),
        num_samples: args.n,
        params: params.clone(),
        origin: DrawOrigin { seed: args.seed, step: 0, prompt: index as u32 },
    };
    prompts.iter().enumerate().map(request).collect()
}

/// Prints the one completion's text as its tokens come.
fn stream(engine: &mut Engine, requests: &[Request], tokenizer: &Tokenizer) -> Result<()> {
    let mut decoder: StreamDecoder = tokenizer.stream(true);
    let mut failure: Option<anyhow::Error> = None;
    let mut on_event = |event: Event<'_>| {
        if let (Event::Token { token_id, .. }, None) = (event, &failure) {
            let printed = decoder.push(token_id).map_err(anyhow::Error::from).and_then(|text| Ok(print(text)?));
            failure = printed.err();
        }
    };
    let decode = |ids: &[u32]| text_of(tokenizer, ids);
    let outcome = engine.generate(requests, &mut Hooks { decode: Some(&decode), on_event: &mut on_event });
    if let Some(failure) = failure {
        return Err(failure);
    }
    print_line(decoder.finish()?)?;
    match outcome.into_iter().find_map(Result::err) {
        Some(refused) => Err(UsageError(refused.to_string()).into()),
        None => Ok(()),
    }
}

/// Writes one line per completion as soon as it is whole; comes back with the prompts that were refused.
fn write_lines(
    engine: &mut Engine,
    requests: &[Request],
    prompts: &[Prompt],
    tokenizer: &Tokenizer,
    mut write: impl FnMut(serde_json::Value) -> Result<()>,
) -> Result<Result<(), UsageError>> {
    let mut failure: Option<anyhow::Error> = None;
    let mut on_event = |event: Event<'_>| {
        if let (Event::Finished { request, sample, completion }, None) = (event, &failure) {
            let line = completion_line(request, sample, &prompts[request], completion, tokenizer);
            failure = write(line).err();
        }
    };
    let decode = |ids: &[u32]| text_of(tokenizer, ids);
    let outcomes = engine.generate(requests, &mut Hooks { decode: Some(&decode), on_event: &mut on_event });
    if let Some(failure) = failure {
        return Err(failure);
    }
    let refused = outcomes.into_iter().enumerate().filter_map(|(index, outcome)| Some((index, outcome.err()?)));
    let refused: Vec<String> = refused.map(|(index, error)| format!("prompt {}: {error}", index + 1)).collect();
    Ok(if refused.is_empty() { Ok(()) } else { Err(UsageError(refused.join("\n"))) })
}

fn completion_line(
    request: usize,
    sample: usize,
    prompt: &Prompt,
    completion: &Completion,
    tokenizer: &Tokenizer,
) -> serde_json::Value {
    let mut line = json!({
        "prompt_index": request,
        "sample": sample,
        "prompt": prompt.text,
        "response": text_of(tokenizer, &completion.token_ids),
        "finish_reason": completion.finish_reason,
        "token_ids": completion.token_ids,
        "logprobs": completion.logprobs,
    });
    if let Some(id) = &prompt.id {
        line["id"] = json!(id);
    }
    line
}

/// The text of sampled ids; ids the tokenizer does not know (an embedding may have more rows) have none.
fn text_of(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    tokenizer.decode_visible(ids).unwrap_or_default()
}
