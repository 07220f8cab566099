//! Estimates skill-entropy tables with a reference model and shows them.

use std::path::PathBuf;

use anyhow::Result;
use skein_core::config::PromptConfig;
use skein_core::eval::render_table;
use skein_core::reward::prompt::PromptStyle;
use skein_core::skill::{Cell, Domain, EntropyTable, Reference, SkillKey};
use skein_core::synth::{Level, Split, Synthesizer, skills};

use super::stdout::{print, print_line};
use super::{Interrupted, UsageError};
use crate::jobs::data::PromptEncoder;
use crate::jobs::entropy::Estimator;
use crate::jobs::{Interrupt, LoadedModel, StageEnd};

/// Arguments of `skein entropy`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Ask a reference model and write the table; goes on with a table that is there
    Estimate(EstimateArgs),
    /// Print a table's accuracies, its spread and its levels
    Show(ShowArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  skein entropy estimate --model checkpoints/reference/latest --level tiny --prompt compact --out table.json")]
struct EstimateArgs {
    /// The reference model: a Hugging Face directory or hub id
    #[arg(long)]
    model: String,
    /// The table to write; one that is there goes on where it stopped
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Size of the questions: tiny or standard
    #[arg(long, default_value = "standard")]
    level: Level,
    /// Side of the content split the questions come from: train or test
    #[arg(long, default_value = "train")]
    split: Split,
    /// Prompt wording: standard or compact
    #[arg(long, default_value = "standard", value_parser = PromptStyle::from_name)]
    prompt: PromptStyle,
    /// Wrap prompts in the model's chat template
    #[arg(long)]
    chat: bool,
    /// Questions per skill and domain alone (paper: 5)
    #[arg(long, default_value_t = 5)]
    single_instances: usize,
    /// Pairs per switch (paper: 5)
    #[arg(long, default_value_t = 5)]
    pair_instances: usize,
    /// Tokens of an answer at most
    #[arg(long, default_value_t = 256)]
    max_new_tokens: usize,
    /// Seed of the questions
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// The table [default: the embedded one]
    #[arg(value_name = "FILE")]
    table: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Estimate(args) => estimate(args),
        Command::Show(args) => show(args),
    }
}

fn estimate(args: EstimateArgs) -> Result<()> {
    for (flag, count) in [("--single-instances", args.single_instances), ("--pair-instances", args.pair_instances)] {
        if count < 2 {
            return Err(UsageError(format!("{flag} is {count}, a standard error needs at least 2")).into());
        }
    }
    let loaded = LoadedModel::load(&args.model)?;
    let command: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    let reference = Reference { model: args.model.clone(), command: format!("skein {}", command.join(" ")) };
    let mut table = match args.out.is_file() {
        false => EntropyTable::new(reference),
        true => go_on(&args, &reference)?,
    };
    let prompt = PromptConfig { style: args.prompt, chat: args.chat, ..PromptConfig::default() };
    let skills = skills();
    let mut domains: Vec<Domain> = skills.iter().map(SkillKey::domain).collect();
    domains.sort_unstable();
    domains.dedup();
    let mut engine = loaded.engine()?;
    let mut estimator = Estimator {
        engine: &mut engine,
        tokenizer: &loaded.tokenizer,
        encoder: PromptEncoder::new(&loaded.tokenizer, loaded.template.as_ref(), &prompt, domains)?,
        synthesizer: Synthesizer::new(args.level, args.split, args.seed),
        single_instances: args.single_instances,
        pair_instances: args.pair_instances,
        max_new_tokens: args.max_new_tokens,
    };
    match estimator.run(&mut table, &skills, &args.out, &Interrupt::install()?)? {
        StageEnd::Interrupted => Err(Interrupted(args.out).into()),
        StageEnd::Finished => print_table(&table),
    }
}

/// The table that the very same command began; with other flags its cells would not be comparable.
fn go_on(args: &EstimateArgs, reference: &Reference) -> Result<EntropyTable> {
    let table = EntropyTable::load(&args.out).map_err(|error| UsageError(error.to_string()))?;
    if table.reference() != reference {
        return Err(UsageError(format!(
            "{} was begun by another command (`{}`); choose another --out",
            args.out.display(),
            table.reference().command
        ))
        .into());
    }
    Ok(table)
}

fn show(args: ShowArgs) -> Result<()> {
    let table = match args.table {
        Some(path) => EntropyTable::load(&path).map_err(|error| UsageError(error.to_string()))?,
        None => EntropyTable::embedded(),
    };
    print_table(&table)
}

fn print_table(table: &EntropyTable) -> Result<()> {
    let skills = table.skills();
    let mut domains: Vec<Domain> = skills.iter().map(SkillKey::domain).collect();
    domains.sort_unstable();
    domains.dedup();
    print_line(format_args!("made with {} by `{}`", table.reference().model, table.reference().command))?;
    for &domain in &domains {
        let accuracy = table.tally(&Cell::Domain(domain)).accuracy().unwrap_or(f64::NAN);
        print_line(format_args!("{}: accuracy {accuracy:.2}", domain.title()))?;
    }
    let names: Vec<String> = domains
        .iter()
        .flat_map(|domain| [format!("to {}", domain.title()), format!("from {}", domain.title())])
        .collect();
    let header: Vec<&str> = ["skill", "accuracy"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut rows = Vec::with_capacity(skills.len());
    for skill in &skills {
        let accuracy = table.tally(&Cell::Skill(skill.clone())).accuracy().unwrap_or(f64::NAN);
        let mut row = vec![skill.to_string(), format!("{accuracy:.2}")];
        for &domain in &domains {
            row.push(format!("{:.2}", table.leaving(skill, domain)?));
            row.push(format!("{:.2}", table.entering(domain, skill)?));
        }
        rows.push(row);
    }
    print(render_table(&header, &rows))?;
    let spread = table.spread()?;
    Ok(print_line(format_args!(
        "cells: p10 {:.2}, p90 {:.2}; median standard error {:.3}{}",
        spread.p10,
        spread.p90,
        spread.median_standard_error,
        if spread.is_flat() { "; flat: r_ent would teach nothing" } else { "" }
    ))?)
}
