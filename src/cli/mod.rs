//! The command line: parse, run, exit code. One file per subcommand.
//!
//! Nothing here knows an algorithm; a subcommand reads its input, calls a job or a core function and prints.
//! Results go to stdout by [`stdout`], everything else to stderr.

use std::io::IsTerminal;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::jobs::EXIT_INTERRUPTED;
use stdout::{EXIT_NO_READER, PrintError};

mod bench;
mod ckpt;
mod config;
mod entropy;
mod generate;
mod parity;
mod prompts;
mod report;
mod reward;
mod score;
mod skills;
mod stdout;
mod synth;
mod tokenizer;
mod train;
mod unscored;
mod verify_resume;

/// Trains skill-native language models: SFT warm-up, then GRPO with the skill-entropy reward.
#[derive(Debug, Parser)]
#[command(name = "skein", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train a model: the stages a config lists (sft, rl, eval).
    Train(train::Args),
    /// Sample completions from a model.
    Generate(generate::Args),
    /// Measure throughput of one part and print JSON.
    Bench(bench::Args),
    /// Compare a model with reference numbers.
    Parity(parity::Args),
    /// Make cross-skill tasks.
    Synth(synth::Args),
    /// Estimate and inspect skill-entropy tables.
    Entropy(entropy::Args),
    /// Look up which bank skill a label names.
    Skills(skills::Args),
    /// Train small tokenizers for models that start from nothing.
    Tokenizer(tokenizer::Args),
    /// Score responses to cross-skill tasks.
    Reward(reward::Args),
    /// Score answers with the domain scorers.
    Score(score::Args),
    /// List, verify, export and prune checkpoints.
    Ckpt(ckpt::Args),
    /// Show or check a config.
    Config(config::Args),
    /// Prove that a killed and resumed run ends in the same bits.
    VerifyResume(verify_resume::Args),
    /// Compare finished runs.
    Report(report::Args),
}

/// What the user gave is wrong (a flag, a config, an input file), as opposed to a run that failed: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// A run that was asked to stop and has saved its state: exit code 130, as shells report a Ctrl-C.
#[derive(Debug, thiserror::Error)]
#[error("stopped on request, the state is saved; --resume auto goes on with {}", .0.display())]
pub struct Interrupted(pub std::path::PathBuf);

/// Parses the arguments, runs the subcommand, maps its outcome to the exit code: 0, 1 for failure, 2 for usage, those of
/// shells where it was asked to stop (130) or nobody reads its results (141).
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    crate::allocator::keep_freed_memory();
    log_to_stderr();
    std::panic::set_hook(Box::new(report_fault));
    // The hook has said what happened; what is left of the program can't be trusted with more than ending.
    match catch_unwind(AssertUnwindSafe(|| run(cli.command))).unwrap_or_else(|_| Err(Fault.into())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<Fault>() => ExitCode::FAILURE,
        Err(error) if matches!(error.downcast_ref(), Some(PrintError::NoReader)) => ExitCode::from(EXIT_NO_READER),
        Err(error) if error.is::<Interrupted>() => {
            say!("{error}");
            ExitCode::from(EXIT_INTERRUPTED)
        }
        Err(error) => {
            say!("error: {}", describe(&error));
            ExitCode::from(if error.chain().any(|cause| cause.is::<UsageError>()) { 2 } else { 1 })
        }
    }
}

/// The program found itself in a state it was thought never to be in.
#[derive(Debug, thiserror::Error)]
#[error("a fault of the program")]
struct Fault;

/// What a user sees of a panic: one message that says where, and what to do with it.
fn report_fault(panic: &PanicHookInfo<'_>) {
    let message = panic.payload_as_str().unwrap_or("no message");
    // libtorch appends its own call stack to what went wrong.
    let first = message.lines().next().unwrap_or_default();
    let place = panic.location().map(|place| format!("{}:{}", place.file(), place.line())).unwrap_or_default();
    say!("error: a fault in skein itself ({place}): {first}\nPlease report it with the command and the config.");
    if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0") {
        say!("{}", std::backtrace::Backtrace::force_capture());
    }
}

/// An error with its causes, each said once: some say their cause themselves.
fn describe(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |said, cause| match () {
        () if said.is_empty() => cause,
        () if said.ends_with(&cause) => said,
        () => format!("{said}: {cause}"),
    })
}

/// `SKEIN_LOG` takes tracing's filter syntax; the default shows what a user wants to know.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_env("SKEIN_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .log_internal_errors(false)
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .without_time()
        .init();
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Train(args) => train::run(args),
        Command::Generate(args) => generate::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Parity(args) => parity::run(args),
        Command::Synth(args) => synth::run(args),
        Command::Entropy(args) => entropy::run(args),
        Command::Skills(args) => skills::run(args),
        Command::Tokenizer(args) => tokenizer::run(args),
        Command::Reward(args) => reward::run(args),
        Command::Score(args) => score::run(args),
        Command::Ckpt(args) => ckpt::run(args),
        Command::Config(args) => config::run(args),
        Command::VerifyResume(args) => verify_resume::run(args),
        Command::Report(args) => report::run(args),
    }
}
