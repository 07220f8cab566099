//! `skein bench reward`: answers scored a second, all domains mixed and each by itself, on all cores.
//!
//! The cases are few and repeated, so caches are warm; what is measured is the scorers and, for coding, how well the
//! sandbox keeps the cores busy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use rayon::prelude::*;
use serde_json::{Value, json};
use skein_core::config::RewardConfig;
use skein_core::jsonl::{parse_jsonl, read_jsonl};
use skein_core::reward::scorers::Graders;
use skein_core::reward::scorers::case::Case;
use skein_core::skill::Domain;

use super::cost::peak_rss_bytes;
use crate::cli::UsageError;
use crate::cli::stdout::print_line;
use crate::jobs::{GraderCounts, GraderNeeds, build_graders};

/// What is scored by default: a few cases of each domain that needs no judge.
const CASES: &str = include_str!("../../../benches/reward_cases.jsonl");

/// Longest measurement.
const MAX_SECONDS: f64 = 3600.0;

/// Arguments of `skein bench reward`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Cases as `skein score` reads them [default: a few of every domain that needs no judge]
    #[arg(long, value_name = "FILE")]
    cases: Option<PathBuf>,
    /// Only this domain.
    #[arg(long)]
    domain: Option<Domain>,
    /// Seconds for each measurement.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// End with one JSON line on stdout (it always does; the flag is for scripts that say so).
    #[arg(long)]
    json: bool,
}

/// Runs the benchmark.
pub fn run(args: Args) -> Result<()> {
    let usage = |error: &dyn std::fmt::Display| UsageError(error.to_string());
    if !(args.seconds > 0.0 && args.seconds <= MAX_SECONDS) {
        let problem = format!("--seconds is {}, expected more than 0 and at most {MAX_SECONDS}", args.seconds);
        return Err(UsageError(problem).into());
    }
    let lines: Vec<(usize, Case)> = match &args.cases {
        Some(path) => read_jsonl(path).map_err(|error| usage(&error))?,
        None => {
            parse_jsonl(CASES.as_bytes(), Path::new("benches/reward_cases.jsonl")).map_err(|error| usage(&error))?
        }
    };
    let cases: Vec<Case> = lines
        .into_iter()
        .map(|(_, case)| case)
        .filter(|case| args.domain.is_none_or(|domain| case.domain == domain))
        .collect();
    if cases.is_empty() {
        return Err(UsageError("no case of that domain".into()).into());
    }
    let needs = GraderNeeds { code: cases.iter().any(Case::runs_code), judge: false };
    let graders = build_graders(&RewardConfig::default(), needs, GraderCounts::default(), None)?;
    let window = Duration::from_secs_f64(args.seconds);
    let mut by_domain: BTreeMap<Domain, Vec<&Case>> = BTreeMap::new();
    for case in &cases {
        by_domain.entry(case.domain).or_default().push(case);
    }
    let domains: serde_json::Map<String, Value> =
        by_domain.iter().map(|(domain, some)| (domain.to_string(), measure(some, &graders, window))).collect();
    let mixed = measure(&cases.iter().collect::<Vec<_>>(), &graders, window);
    Ok(print_line(json!({
        "bench": "reward",
        "threads": rayon::current_num_threads(),
        "cases": cases.len(),
        "mixed": mixed,
        "domains": domains,
        "peak_rss_bytes": peak_rss_bytes(),
    }))?)
}

/// Scores `cases` over and over for `window`.
fn measure(cases: &[&Case], graders: &Graders, window: Duration) -> Value {
    let threads = rayon::current_num_threads();
    let (started, cpu_before) = (Instant::now(), cpu_seconds());
    let scored: Vec<(u64, u64)> = (0..threads)
        .into_par_iter()
        .map(|thread| {
            let (mut count, mut errors) = (0, 0);
            let mut next = thread;
            while started.elapsed() < window {
                errors += u64::from(cases[next % cases.len()].score(graders).is_err());
                count += 1;
                next += 1;
            }
            (count, errors)
        })
        .collect();
    let wall = started.elapsed().as_secs_f64();
    let (count, errors) = scored.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    json!({
        "responses_per_second": count as f64 / wall,
        "errors": errors,
        "cpu_utilisation": (cpu_seconds() - cpu_before) / (wall * threads as f64),
    })
}

/// Processor time of this process and of its ended children so far.
fn cpu_seconds() -> f64 {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return f64::NAN };
    // The second field is a name in parentheses and may hold spaces; utime to cstime are the 12th to 15th after it.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: f64 = after_name.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks / rustix::param::clock_ticks_per_second() as f64
}
