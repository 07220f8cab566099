//! Feeds the parsers of untrusted text with millions of odd inputs.
//!
//! `cargo run --release -p skein-core --example fuzz -- [--inputs N] [--target NAME]… [--seed S] [--seconds S]`
//!
//! `--inputs` and `--seconds` are totals, shared evenly by the targets. `--first I` takes a campaign up at input `I`,
//! `--seeds FOLDER` adds the texts of a folder's JSON Lines files to the seeds, `--out FOLDER` says where findings are
//! saved, and `--replay FILE` gives one of those to one target again.
//!
//! Inputs come from a generator of our own rather than from an engine: coverage-guided engines need a nightly compiler
//! or instrumented builds, and property-test engines spend their time on shrinking, while findings here are short by
//! nature and named by (seed, target, index).

mod campaign;
mod generator;
mod memory;
mod targets;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use campaign::{Campaign, replay};
use targets::{ALL, Target};

struct Args {
    targets: Vec<&'static Target>,
    seed: u64,
    first: u64,
    inputs: u64,
    seconds: Option<u64>,
    seeds: Option<PathBuf>,
    out: PathBuf,
    replay: Option<PathBuf>,
}

fn main() -> ExitCode {
    let outcome = parse(std::env::args().skip(1)).and_then(|args| run(&args));
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
    let out = std::env::temp_dir().join("skein-fuzz");
    let (targets, inputs) = (Vec::new(), 1_000_000);
    let mut args = Args { targets, seed: 0, first: 0, inputs, seconds: None, seeds: None, out, replay: None };
    while let Some(option) = words.next() {
        let value = words.next().ok_or_else(|| format!("{option} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{option} {value}: expected a whole number"));
        match option.as_str() {
            "--target" => {
                let names: Vec<&str> = ALL.iter().map(|target| target.name).collect();
                let target = ALL.iter().find(|target| target.name == value);
                args.targets.push(target.ok_or_else(|| format!("no target {value}: there are {}", names.join(", ")))?);
            }
            "--seed" => args.seed = number()?,
            "--first" => args.first = number()?,
            "--inputs" => args.inputs = number()?,
            "--seconds" => args.seconds = Some(number()?),
            "--seeds" => args.seeds = Some(value.into()),
            "--out" => args.out = value.into(),
            "--replay" => args.replay = Some(value.into()),
            _ => return Err(format!("unknown option {option}")),
        }
    }
    if args.targets.is_empty() {
        args.targets = ALL.iter().collect();
    }
    Ok(args)
}

/// Whether nothing was found.
fn run(args: &Args) -> Result<bool, String> {
    let mut stdout = std::io::stdout().lock();
    let mut say = |line: String| writeln!(stdout, "{line}").map_err(|error| format!("cannot write to stdout: {error}"));
    if let Some(path) = &args.replay {
        let [target] = args.targets[..] else { return Err("--replay needs one --target".into()) };
        let replayed = replay(target, path).map_err(|error| format!("{}: {error}", path.display()))?;
        let (fault, time, bytes) = replayed;
        let verdict = fault.as_ref().map_or_else(|| "nothing is wrong".to_owned(), ToString::to_string);
        say(format!("{}: {verdict}; {time:?}, {bytes} bytes", target.name))?;
        return Ok(fault.is_none());
    }
    let share = args.targets.len() as u64;
    let campaign = Campaign {
        seed: args.seed,
        first: args.first,
        inputs: args.inputs.div_ceil(share),
        limit: args.seconds.map(|seconds| Duration::from_secs_f64(seconds as f64 / share as f64)),
        extra_seeds: args.seeds.as_deref().map_or_else(|| Ok(Vec::new()), seeds)?,
        folder: args.out.clone(),
    };
    let (mut found, mut inputs, mut seconds) = (false, 0, 0.0);
    for target in &args.targets {
        let outcome = campaign.run(target);
        say(format!("{}: {outcome}", target.name))?;
        for (fault, (count, saved)) in &outcome.faults {
            found = true;
            say(format!("    {count} × {fault}; inputs {saved:?}"))?;
        }
        inputs += outcome.inputs;
        seconds += outcome.elapsed.as_secs_f64();
    }
    say(format!(
        "{inputs} inputs in {seconds:.1} s, {:.0}/s; findings in {}",
        inputs as f64 / seconds,
        args.out.display()
    ))?;
    Ok(!found)
}

/// Every text in the JSON Lines files of `folder`.
fn seeds(folder: &Path) -> Result<Vec<String>, String> {
    let at_fault = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| at_fault(folder, &error))? {
        let path = entry.map_err(|error| at_fault(folder, &error))?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let lines = skein_core::jsonl::read_jsonl(&path).map_err(|error| error.to_string())?;
            lines.iter().for_each(|(_, value)| collect(value, &mut texts));
        }
    }
    texts.sort();
    texts.dedup();
    Ok(texts)
}

fn collect(value: &serde_json::Value, texts: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => texts.push(text.clone()),
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        serde_json::Value::Object(fields) => fields.values().for_each(|field| collect(field, texts)),
        _ => {}
    }
}
