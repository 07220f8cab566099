//! Trains small byte-level BPE tokenizers for models that start from nothing.

use std::path::PathBuf;

use anyhow::Result;
use skein_core::config::TaskSource;
use skein_core::reward::prompt::{PromptStyle, PromptTemplate};
use skein_io::tokenizer::{BpeSpec, Tokenizer, train_bpe};

use super::UsageError;
use crate::jobs::data::{TaskSet, domains_of};

/// Arguments of `skein tokenizer`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Train on the prompts and traces of a task file and write a Hugging Face tokenizer directory
    Train(TrainArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  skein synth --procedural --n 4000 --steps 1..4 --level tiny --traces --out tasks.jsonl
  skein tokenizer train --tasks tasks.jsonl --prompt compact --vocab-size 512 --out my-tokenizer")]
struct TrainArgs {
    /// Tasks with traces, as `skein synth --traces` writes them
    #[arg(long, value_name = "FILE")]
    tasks: PathBuf,
    /// Prompt wording the model will read: standard or compact
    #[arg(long, default_value = "standard", value_parser = PromptStyle::from_name)]
    prompt: PromptStyle,
    /// Tokens in all, the 256 bytes and special tokens included
    #[arg(long, default_value_t = 512)]
    vocab_size: usize,
    /// Let frequent numbers be single tokens instead of splitting every digit
    #[arg(long)]
    whole_numbers: bool,
    /// Directory to write
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<()> {
    let Command::Train(args) = args.command;
    let tasks = TaskSet::load(&TaskSource::File(args.tasks))?.tasks;
    let wording = PromptTemplate::new(args.prompt, domains_of(&tasks));
    let texts: Vec<String> =
        tasks.iter().flat_map(|task| [Some(wording.task(task)), task.trace.clone()]).flatten().collect();
    train_bpe(
        texts.iter().map(String::as_str),
        &BpeSpec { vocab_size: args.vocab_size, split_digits: !args.whole_numbers },
        &args.out,
    )
    .map_err(|error| UsageError(error.to_string()))?;
    let tokenizer = Tokenizer::load(&args.out)?;
    tracing::info!("{} tokens in {}", tokenizer.vocab_size(), args.out.display());
    Ok(())
}
