//! Runs the domain scorers over a file of cases.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use rayon::prelude::*;
use serde_json::json;
use skein_core::config::{Config, RewardConfig};
use skein_core::eval::render_table;
use skein_core::jsonl::read_jsonl;
use skein_core::reward::scorers::Graders;
use skein_core::reward::scorers::case::{Case, CaseError};

use super::UsageError;
use super::stdout::{print, print_line};
use super::unscored::Unscored;
use crate::jobs::{GraderCounts, GraderNeeds, build_graders};

/// A case agrees when its score is this close to the expected one, which files print with six decimals.
const TOLERANCE: f64 = 1e-5;

/// Arguments of `skein score`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Cases, one JSON object a line: `{"domain", "gold", "pred"}`, where known `id`, `options`, `kind` and `expected`.
    #[arg(long, value_name = "FILE")]
    cases: PathBuf,
    /// Take the sandbox and the judge from this config's [reward] section; by default code runs in a sandbox of the
    /// usual limits, and there is no judge.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON object a line and no summary.
    #[arg(long)]
    json: bool,
}

/// What became of the cases of one group.
#[derive(Default)]
struct Tally {
    cases: usize,
    failed: usize,
    agree: usize,
    expected: usize,
    sum: f64,
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<()> {
    let cases: Vec<(usize, Case)> = read_jsonl(&args.cases).map_err(|error| UsageError(error.to_string()))?;
    let graders = graders(&args, &cases)?;
    let outcomes: Vec<Result<f64, CaseError>> = cases.par_iter().map(|(_, case)| case.score(&graders)).collect();
    let mut tallies: BTreeMap<Vec<String>, Tally> = BTreeMap::new();
    let mut unscored = Unscored::default();
    for ((number, case), outcome) in cases.iter().zip(outcomes) {
        if args.json {
            print_line(line(*number, case, &outcome))?;
        }
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".to_owned());
        let group = vec![case.domain.to_string(), or_dash(&case.kind), or_dash(&case.tier)];
        let tally = tallies.entry(group).or_default();
        tally.cases += 1;
        match outcome {
            Err(error) => {
                tally.failed += 1;
                unscored.note(&error.to_string());
            }
            Ok(score) => {
                tally.sum += score;
                tally.expected += usize::from(case.expected.is_some());
                tally.agree += usize::from(case.expected.is_some_and(|expected| (score - expected).abs() < TOLERANCE));
            }
        }
    }
    if !args.json {
        let rows: Vec<Vec<String>> = tallies.iter().map(|(group, tally)| row(group, tally)).collect();
        let header = ["domain", "kind", "tier", "cases", "errors", "mean score", "agree", "of"];
        print(render_table(&header, &rows))?;
    }
    Ok(unscored.refuse(cases.len(), "cases")?)
}

fn graders(args: &Args, cases: &[(usize, Case)]) -> Result<Graders> {
    let config = match &args.config {
        Some(path) => Config::load(path, &[]).map_err(|error| UsageError(error.to_string()))?.reward,
        None => RewardConfig::default(),
    };
    let needs = GraderNeeds {
        code: cases.iter().any(|(_, case)| case.runs_code()),
        judge: cases.iter().any(|(_, case)| !case.domain.is_verifiable()),
    };
    build_graders(&config, needs, GraderCounts::default(), None)
}

fn line(number: usize, case: &Case, outcome: &Result<f64, CaseError>) -> serde_json::Value {
    let id = case.id.clone().unwrap_or_else(|| number.to_string());
    let mut line = json!({"id": id, "domain": case.domain, "score": outcome.as_ref().ok()});
    if let Some(expected) = case.expected {
        line["expected"] = json!(expected);
    }
    if let Err(error) = outcome {
        line["error"] = json!(error.to_string());
    }
    line
}

fn row(group: &[String], tally: &Tally) -> Vec<String> {
    let scored = tally.cases - tally.failed;
    let mean = if scored > 0 { format!("{:.4}", tally.sum / scored as f64) } else { "–".to_owned() };
    let counts = [tally.cases.to_string(), tally.failed.to_string(), mean, tally.agree.to_string()];
    group.iter().cloned().chain(counts).chain([tally.expected.to_string()]).collect()
}
