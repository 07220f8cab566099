//! Proves on a user's own config and machine that a killed and resumed run ends in the same bits as an undisturbed one.
//!
//! Runs the config once straight, then under SIGKILL at random instants, resuming after each and starting over where a run
//! came to its end, and compares the hash of every file of the last checkpoints: weights, moments, counters. Runs are child processes, since only a
//! real kill shows what a kill does.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use skein_core::config::{Config, Stage};
use skein_core::random::Stream;

use super::UsageError;
use super::stdout::print_line;

/// How often a child is asked whether it has ended.
const POLL: Duration = Duration::from_millis(5);

/// Arguments of `skein verify-resume`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  skein verify-resume --config configs/tiny/1-skill-entropy.toml --steps 4 --kills 5 --set rl.filter=false")]
pub struct Args {
    /// The run's TOML config
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Override one config value; may be given many times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Updates of each training stage
    #[arg(long, default_value_t = 4)]
    steps: usize,
    /// How often a running process is killed
    #[arg(long, default_value_t = 3)]
    kills: usize,
    /// Updates between checkpoints
    #[arg(long, default_value_t = 1)]
    save_every: usize,
    /// Seed of the instants of the kills
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where the runs go [default: a temporary directory, removed afterwards]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<()> {
    if args.steps == 0 {
        return Err(UsageError("--steps is 0: there would be nothing to compare".into()).into());
    }
    let mut overrides = args.overrides.clone();
    overrides.extend([
        format!("sft.max_steps={}", args.steps),
        format!("rl.steps={}", args.steps),
        format!("sft.save_every={}", args.save_every),
        format!("rl.save_every={}", args.save_every),
    ]);
    let config = Config::load(&args.config, &overrides).map_err(|error| UsageError(error.to_string()))?;
    if !config.stages.iter().any(|stage| matches!(stage, Stage::Sft | Stage::Rl)) {
        return Err(UsageError("the config has no training stage: there is nothing to resume".into()).into());
    }
    let temporary = tempfile::tempdir().context("making a temporary directory")?;
    let root = args.out.clone().unwrap_or_else(|| temporary.path().to_owned());
    if args.out.is_some() && root.exists() {
        return Err(UsageError(format!("{} is there already: choose another --out", root.display())).into());
    }
    let runner = Runner { config: &args.config, overrides: &overrides };

    let straight = root.join("straight");
    tracing::info!("running straight");
    let Timing { first_checkpoint, whole } = runner.time(&straight)?;
    // Kills spread over the run, and late enough that some segments reach a checkpoint and the run moves on.
    let span = (whole * 2 / (args.kills as u32 + 1)).max(first_checkpoint * 3 / 2);
    let mut instants = Stream::new(args.seed, "verify-resume", 0);
    let (mut landed, mut finished) = (0, 0);
    let mut differing = Vec::new();
    while landed < args.kills && differing.is_empty() {
        let killed = root.join(format!("killed-{finished}"));
        let after = span.mul_f64(instants.uniform());
        match runner.kill_after(&killed, after)? {
            Killed::Running => {
                landed += 1;
                tracing::info!("kill {landed} of {}: after {:.2} s", args.kills, after.as_secs_f64());
            }
            Killed::AlreadyDone => {
                differing = differing_files(&straight, &killed)?;
                finished += 1;
                if differing.is_empty() {
                    std::fs::remove_dir_all(&killed).context("removing a run that has shown what it can")?;
                }
            }
        }
    }
    if differing.is_empty() {
        let killed = root.join(format!("killed-{finished}"));
        runner.finish(&killed)?;
        differing = differing_files(&straight, &killed)?;
        finished += 1;
    }
    if !differing.is_empty() {
        if args.out.is_none() {
            let kept = temporary.keep();
            tracing::warn!("the runs are kept in {}", kept.display());
        }
        bail!("a resumed run differs from the straight one in: {}", differing.join(", "));
    }
    let verdict = format!("bitwise equal after {landed} kills over {finished} runs: every file of the last checkpoint");
    Ok(print_line(verdict)?)
}

/// How long an undisturbed run takes.
struct Timing {
    first_checkpoint: Duration,
    whole: Duration,
}

/// What a kill met.
enum Killed {
    Running,
    AlreadyDone,
}

struct Runner<'a> {
    config: &'a Path,
    overrides: &'a [String],
}

impl Runner<'_> {
    fn start(&self, out: &Path) -> Result<Child> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = Command::new(program);
        command.arg("train").arg("--config").arg(self.config).arg("--out").arg(out).args(["--resume", "auto"]);
        for value in self.overrides {
            command.args(["--set", value]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().context("starting a run")
    }

    /// Runs to the end, undisturbed, on a clock.
    fn time(&self, out: &Path) -> Result<Timing> {
        let started = Instant::now();
        let latest = out.join("latest");
        let first_checkpoint = std::thread::scope(|scope| {
            let run = scope.spawn(|| self.finish(out));
            let mut first = None;
            while !run.is_finished() {
                if first.is_none() && latest.is_symlink() {
                    first = Some(started.elapsed());
                }
                std::thread::sleep(POLL);
            }
            run.join().expect("a thread that only waits does not panic").map(|()| first)
        })?;
        let whole = started.elapsed();
        Ok(Timing { first_checkpoint: first_checkpoint.unwrap_or(whole), whole })
    }

    fn finish(&self, out: &Path) -> Result<()> {
        let output = self.start(out)?.wait_with_output().context("waiting for a run")?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or_default();
        bail!("the run in {} ended with {}: {last}", out.display(), output.status);
    }

    /// Starts or resumes the run and kills it after `wait`, unless it ends before.
    fn kill_after(&self, out: &Path, wait: Duration) -> Result<Killed> {
        let mut child = self.start(out)?;
        // Read as it comes: a full pipe would stop the run.
        let mut stderr = child.stderr.take().expect("the run's stderr is a pipe");
        let drain = std::thread::spawn(move || {
            let mut said = String::new();
            // What is not UTF-8 or can't be read is lost; the exit status counts.
            let _ = std::io::Read::read_to_string(&mut stderr, &mut said);
            said
        });
        let deadline = Instant::now() + wait;
        let ended = loop {
            if let Some(status) = child.try_wait().context("waiting for a run")? {
                break Some(status);
            }
            if Instant::now() >= deadline {
                child.kill().context("killing a run")?;
                child.wait().context("waiting for a killed run")?;
                break None;
            }
            std::thread::sleep(POLL);
        };
        let said = drain.join().unwrap_or_default();
        match ended {
            None => Ok(Killed::Running),
            Some(status) if status.success() => Ok(Killed::AlreadyDone),
            Some(status) => {
                let last = said.lines().last().unwrap_or_default();
                bail!("the run in {} ended by itself with {status}: {last}", out.display())
            }
        }
    }
}

/// Files whose hashes differ between the last checkpoints of two runs.
fn differing_files(one: &Path, other: &Path) -> Result<Vec<String>> {
    let [one, other] = [one, other].map(|run| -> Result<(PathBuf, Value)> {
        let dir = run.join("latest");
        let target = std::fs::read_link(&dir).with_context(|| format!("{} has no checkpoint", run.display()))?;
        let path = dir.join("MANIFEST.json");
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok((target, serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))?))
    });
    let ((one_step, one), (other_step, other)) = (one?, other?);
    if one_step != other_step {
        return Ok(vec![format!("{} against {}", one_step.display(), other_step.display())]);
    }
    let empty = serde_json::Map::new();
    let files = |manifest: &Value| manifest["files"].as_object().unwrap_or(&empty).clone();
    let (one, other) = (files(&one), files(&other));
    let names: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    Ok(names.into_iter().filter(|name| one.get(*name) != other.get(*name)).cloned().collect())
}
