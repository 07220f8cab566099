//! Writes cross-skill task files.
//!
//! The file goes to `--out`, a summary of what it holds to stderr; nothing goes to stdout.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use anyhow::Result;
use skein_core::synth::{Level, Split, Synthesizer};
use skein_core::task::CrossSkillTask;
use skein_io::jsonl::write_jsonl;

use super::UsageError;

/// The longest task that can be asked for.
const MAX_STEPS: usize = 10;

/// Arguments of `skein synth`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Make tasks from generators with known answers; no language model is involved.
    #[arg(long, required = true)]
    procedural: bool,
    /// How many tasks to make.
    #[arg(long, value_name = "COUNT")]
    n: u64,
    /// Fewest and most steps of a task, both included; the length is drawn uniformly.
    #[arg(long, value_name = "FEWEST..MOST", default_value = "2..5", value_parser = parse_steps)]
    steps: RangeInclusive<usize>,
    /// Make single questions, one step each.
    #[arg(long, conflicts_with = "steps")]
    single: bool,
    /// Other seeds give other tasks.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The file to write, one JSON object a line; an older one is replaced.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// `train` or `test`; the two share no numbers, tables, entities or wordings, whatever the seeds.
    #[arg(long, default_value = "train")]
    split: Split,
    /// `tiny` for models of a few million parameters, `standard` for pretrained ones.
    #[arg(long, default_value = "standard")]
    level: Level,
    /// Add a right response in the response format to each task, for SFT.
    #[arg(long)]
    traces: bool,
}

fn parse_steps(text: &str) -> Result<RangeInclusive<usize>, String> {
    let number = |part: &str| part.trim().parse::<usize>().map_err(|_| format!("`{part}` is no number of steps"));
    let (fewest, most) = match text.split_once("..") {
        Some((fewest, most)) => (number(fewest)?, number(most.trim_start_matches('='))?),
        None => (number(text)?, number(text)?),
    };
    if fewest == 0 {
        return Err("a task has at least 1 step".to_owned());
    }
    if fewest > most {
        return Err(format!("the range is empty: {fewest} is more than {most}"));
    }
    if most > MAX_STEPS {
        return Err(format!("a task has at most {MAX_STEPS} steps"));
    }
    Ok(fewest..=most)
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<()> {
    if args.n == 0 {
        return Err(UsageError("--n is 0; ask for at least one task".to_owned()).into());
    }
    let num_steps = if args.single { 1..=1 } else { args.steps };
    let mut tasks = Synthesizer::new(args.level, args.split, args.seed).tasks(args.n, num_steps)?;
    if !args.traces {
        tasks.iter_mut().for_each(|task| task.trace = None);
    }
    write_jsonl(&args.out, &tasks)?;
    say!("wrote {} tasks to {}", tasks.len(), args.out.display());
    say!("{}", summary(&tasks).trim_end());
    Ok(())
}

/// Counts of tasks by length, and of steps by domain and skill.
fn summary(tasks: &[CrossSkillTask]) -> String {
    let steps = || tasks.iter().flat_map(|task| &task.steps);
    [
        ("steps per task", count(tasks.iter().map(|task| task.steps.len()))),
        ("steps by domain", count(steps().map(|step| step.domain))),
        ("steps by skill", count(steps().map(|step| step.key()))),
    ]
    .iter()
    .map(|(title, lines)| format!("{title}\n{lines}"))
    .collect()
}

fn count<T: Ord + Display>(items: impl Iterator<Item = T>) -> String {
    let mut counts = BTreeMap::new();
    for item in items {
        *counts.entry(item).or_insert(0u64) += 1;
    }
    counts.iter().map(|(item, count)| format!("{count:8}  {item}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_ranges_read_as_written() {
        assert_eq!(parse_steps("2..5"), Ok(2..=5));
        assert_eq!(parse_steps("2..=5"), Ok(2..=5));
        assert_eq!(parse_steps("3"), Ok(3..=3));
        for (text, expected) in [
            ("5..2", "the range is empty: 5 is more than 2"),
            ("0..2", "at least 1 step"),
            ("2..11", "at most 10 steps"),
            ("2..", "`` is no number of steps"),
            ("two", "`two` is no number of steps"),
            ("-1..2", "`-1` is no number of steps"),
        ] {
            let message = parse_steps(text).expect_err("a bad range");
            assert!(message.contains(expected), "{message} lacks {expected}");
        }
    }
}
