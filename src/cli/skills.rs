//! Looks up which bank skill a label names, and measures how well that works.

use std::path::PathBuf;

use anyhow::Result;
use serde::Deserialize;
use serde_json::json;
use skein_core::eval::render_table;
use skein_core::jsonl::read_jsonl;
use skein_core::reward::format::SkillLabel;
use skein_core::reward::matcher::{DEFAULT_MIN_COSINE, SkillMatcher};
use skein_core::skill::{Bank, SkillKey};

use super::UsageError;
use super::stdout::{print, print_line};
use crate::jobs::Embedder;

/// Arguments of `skein skills`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the bank skills nearest to labels, and which one each label resolves to
    Match(MatchArgs),
    /// Measure how often an embedder resolves labels whose skill is known, by threshold
    Evaluate(EvaluateArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  skein skills match --embedder models/all-MiniLM-L6-v2 \"math, finding percentages\" \"cross_row_comparison\"")]
struct MatchArgs {
    /// A sentence embedder: a Hugging Face directory or hub id. Without one only exact names match
    #[arg(long, value_name = "MODEL")]
    embedder: Option<String>,
    /// The skill bank [default: the embedded one]
    #[arg(long, value_name = "FILE")]
    bank: Option<PathBuf>,
    /// Below this cosine a label is out of the bank
    #[arg(long, value_name = "COSINE", default_value_t = DEFAULT_MIN_COSINE)]
    min_cosine: f32,
    /// How many of the nearest keys to show
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    top: usize,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// Labels as a model writes them: `Domain, Skill` or a skill alone
    #[arg(required = true)]
    labels: Vec<String>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  skein skills evaluate --embedder models/all-MiniLM-L6-v2 --cases benches/skill_paraphrases.jsonl")]
struct EvaluateArgs {
    /// A sentence embedder: a Hugging Face directory or hub id
    #[arg(long, value_name = "MODEL")]
    embedder: String,
    /// The skill bank [default: the embedded one]
    #[arg(long, value_name = "FILE")]
    bank: Option<PathBuf>,
    /// Labels with their keys, one JSON object a line: {"label": "math, percents", "key": "Math, Percentages", "kind": "…"}
    #[arg(long, value_name = "FILE")]
    cases: PathBuf,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// A label whose skill is known.
#[derive(Deserialize)]
struct LabelledCase {
    label: String,
    key: String,
    /// How the label was made: lower case, synonym, …
    kind: String,
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Match(args) => match_labels(&args),
        Command::Evaluate(args) => evaluate(&args),
    }
}

fn load_bank(path: Option<&PathBuf>) -> Result<Bank, UsageError> {
    path.map_or_else(|| Ok(Bank::embedded()), |path| Bank::load(path).map_err(|error| UsageError(error.to_string())))
}

fn match_labels(args: &MatchArgs) -> Result<()> {
    let bank = load_bank(args.bank.as_ref())?;
    let matcher = match &args.embedder {
        Some(model) => SkillMatcher::nearest(bank, Box::new(Embedder::load(model)?), args.min_cosine)?,
        None => SkillMatcher::exact(bank),
    };
    let mut has_missed = false;
    for text in &args.labels {
        let label = SkillLabel::split(text);
        let found = matcher.resolve(&label)?;
        let nearest = if label.skill.is_empty() { Vec::new() } else { matcher.nearest_keys(&label, args.top)? };
        if args.json {
            let nearest: Vec<_> =
                nearest.iter().map(|(key, cosine)| json!({"key": key.to_string(), "cosine": cosine})).collect();
            let exact = matcher.exact_key(&label).is_some();
            let key = found.map(SkillKey::to_string);
            print_line(json!({"label": text, "key": key, "exact": exact, "nearest": nearest}))?;
            continue;
        }
        let how = if matcher.exact_key(&label).is_some() { "by name" } else { "nearest" };
        match found {
            Some(key) => print_line(format_args!("{text}: {key} ({how})"))?,
            None => print_line(format_args!("{text}: out of the bank"))?,
        }
        has_missed |= found.is_none();
        for (key, cosine) in nearest {
            print_line(format_args!("    {cosine:.3}  {key}"))?;
        }
    }
    if has_missed && args.embedder.is_none() {
        say!(
            "Only exact names were looked up. To see the nearest skills, fetch a sentence embedder and name it: \
             scripts/get-model minilm, then --embedder models/all-MiniLM-L6-v2"
        );
    }
    Ok(())
}

/// Thresholds of the curve.
const THRESHOLDS: [f32; 9] = [0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// What a label came to, before any threshold.
struct Outcome {
    kind: String,
    right: bool,
    /// Infinite where the name itself matched.
    cosine: f32,
}

fn evaluate(args: &EvaluateArgs) -> Result<()> {
    let cases: Vec<(usize, LabelledCase)> = read_jsonl(&args.cases).map_err(|error| UsageError(error.to_string()))?;
    let bank = load_bank(args.bank.as_ref())?;
    let matcher = SkillMatcher::nearest(bank, Box::new(Embedder::load(&args.embedder)?), -1.0)?;
    let mut outcomes = Vec::with_capacity(cases.len());
    for (line, case) in &cases {
        let gold = matcher
            .exact_key(&SkillLabel::split(&case.key))
            .ok_or_else(|| UsageError(format!("{}:{line}: the bank has no `{}`", args.cases.display(), case.key)))?;
        let label = SkillLabel::split(&case.label);
        let (found, cosine) = match matcher.exact_key(&label) {
            Some(key) => (Some(key), f32::INFINITY),
            None => match matcher.nearest_keys(&label, 1)?.first() {
                Some(&(key, cosine)) => (Some(key), cosine),
                None => (None, f32::NEG_INFINITY),
            },
        };
        outcomes.push(Outcome { kind: case.kind.clone(), right: found == Some(gold), cosine });
    }
    let mut kinds: Vec<&str> = outcomes.iter().map(|outcome| outcome.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut rows = Vec::new();
    for kind in kinds.iter().copied().chain(["all"]) {
        let some: Vec<&Outcome> = outcomes.iter().filter(|outcome| kind == "all" || outcome.kind == kind).collect();
        for threshold in THRESHOLDS {
            let share = |counts: &dyn Fn(&Outcome) -> bool| {
                some.iter().filter(|outcome| counts(outcome)).count() as f64 / some.len().max(1) as f64
            };
            let right = share(&|outcome| outcome.cosine >= threshold && outcome.right);
            let wrong = share(&|outcome| outcome.cosine >= threshold && !outcome.right);
            let out = share(&|outcome| outcome.cosine < threshold);
            if args.json {
                print_line(json!({"kind": kind, "labels": some.len(), "min_cosine": threshold, "right": right,
                                  "wrong": wrong, "out_of_bank": out}))?;
            }
            let cells = [right, wrong, out].map(|share| format!("{share:.3}"));
            rows.push(
                [kind.to_owned(), some.len().to_string(), format!("{threshold}")].into_iter().chain(cells).collect(),
            );
        }
    }
    if !args.json {
        print(render_table(&["kind", "labels", "min cosine", "right", "wrong", "out of bank"], &rows))?;
    }
    Ok(())
}
