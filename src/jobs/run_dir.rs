//! The directory of one run: who owns it, its resolved config and the environment it ran in.
//!
//! A directory belongs to one run. It is never shared, and never taken over silently: another run's
//! directory is refused, and resuming with a config that would change the training is refused too.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde_json::json;
use skein_core::config::{Config, Stage};
use skein_core::excerpt::{MESSAGE_CHARS, excerpt};
use skein_io::atomic::write_atomically;

use super::eval::has_been_made;
use super::state::RunState;
use crate::cli::UsageError;

/// Settings that may differ when a run goes on: they say how long, how often and where to look, not what is learned.
const MAY_CHANGE: &[&str] = &[
    "rl.steps",
    "rl.save_every",
    "rl.eval_every",
    "rl.patience",
    "sft.max_skipped_steps",
    "sft.save_every",
    "sft.log_every",
    "rl.max_skipped_steps",
    "checkpoint",
    "logging",
    "rollout",
    "eval",
];

/// Settings that say how long SFT takes.
const LENGTH_OF_SFT: &[&str] = &["sft.max_steps", "sft.epochs"];

/// What `--resume` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resume {
    /// Start anew; a directory that holds a run is refused.
    Off,
    /// Go on from the newest whole checkpoint of the run, or start if there is none.
    Auto,
    /// Go on from this checkpoint directory.
    Path(PathBuf),
}

impl std::str::FromStr for Resume {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "off" => Self::Off,
            "auto" => Self::Auto,
            path => Self::Path(path.into()),
        })
    }
}

/// An opened run directory. While it lives, no other process can open it.
#[derive(Debug)]
pub struct RunDir {
    root: PathBuf,
    /// The directory itself, locked; the system lets go of it when the process ends, however it ends.
    lock: Option<File>,
}

impl RunDir {
    /// The directory for a run with this resolved config, checked and left as it is.
    ///
    /// # Errors
    /// [`UsageError`] when the directory holds another run or something that is not a run; I/O errors with the path.
    pub fn check(root: &Path, config: &str, resume: &Resume) -> Result<Self> {
        let config_path = root.join("config.toml");
        if config_path.is_file() {
            if *resume == Resume::Off {
                return Err(UsageError(format!(
                    "{} already holds a run: pass --resume auto to go on with it, or choose another --out",
                    root.display()
                ))
                .into());
            }
            let before = fs::read(&config_path).with_context(|| format!("reading {}", config_path.display()))?;
            refuse_other_training(&before, config, &config_path)?;
        } else if root.exists() && !root.is_dir() {
            return Err(UsageError(format!("{} is a file, --out takes a directory", root.display())).into());
        } else if root.join("latest").is_symlink() {
            return Err(DamagedConfig {
                path: config_path,
                problem: "it is not there, but the run's checkpoints are".into(),
            }
            .into());
        } else if root.is_dir() && !is_hardly_begun(root)? {
            return Err(UsageError(format!(
                "{} is not empty and holds no run (no config.toml): choose another --out",
                root.display()
            ))
            .into());
        }
        let lock = root.is_dir().then(|| lock(root)).transpose()?;
        Ok(Self { root: root.to_owned(), lock })
    }

    /// Creates the directory and records the config and what produced the run: command, versions, host, seed.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn create(&mut self, config: &str, seed: u64) -> Result<()> {
        let create =
            |folder: &Path| fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()));
        create(&self.root)?;
        if self.lock.is_none() {
            self.lock = Some(lock(&self.root)?);
        }
        // First and whole: it is what makes the directory this run's.
        let path = self.root.join("config.toml");
        write_atomically(&path, config.as_bytes()).with_context(|| format!("writing {}", path.display()))?;
        for folder in ["rollouts", "eval", "skipped"] {
            create(&self.root.join(folder))?;
        }
        self.write_environment(seed)
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Sampled rollouts of one step.
    pub fn rollouts_path(&self, step: u64) -> PathBuf {
        self.root.join(format!("rollouts/step_{step:06}.jsonl"))
    }

    /// The batch of an update that was skipped.
    pub fn skipped_path(&self, step: u64) -> PathBuf {
        self.root.join(format!("skipped/step_{step:06}.json"))
    }

    /// Where the evaluation that `stage` makes after `step` goes, without its extension.
    pub fn evaluation_stem(&self, stage: usize, step: u64) -> PathBuf {
        self.root.join(format!("eval/{stage:02}_step_{step:06}"))
    }

    /// Where the evaluations after `step` go, by each stage of `config`, without their extension.
    pub fn evaluation_stems(&self, config: &Config, step: u64) -> impl Iterator<Item = PathBuf> {
        (0..config.stages.len()).map(move |stage| self.evaluation_stem(stage, step))
    }

    /// Whether nothing is left to do for a run of `config` that stands at `state`: no training, and its weights are
    /// evaluated.
    ///
    /// # Errors
    /// When the settings of an evaluation cannot be compared.
    pub fn is_finished(&self, config: &Config, state: &RunState) -> Result<bool> {
        let mut left = config.stages.iter().skip(state.stage);
        Ok(left.all(|stage| *stage == Stage::Eval)
            && (state.stage >= config.stages.len() || has_been_made(self, config, state)?))
    }

    fn write_environment(&self, seed: u64) -> Result<()> {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
        let environment = json!({
            "skein": env!("CARGO_PKG_VERSION"),
            "git_revision": env!("SKEIN_GIT_REVISION"),
            "libtorch": env!("SKEIN_LIBTORCH_VERSION"),
            "command": std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect::<Vec<_>>(),
            "host": fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim(),
            "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
            "threads": tch::get_num_threads(),
            "cuda": tch::Cuda::is_available(),
            "seed": seed,
            "started_unix_s": started,
        });
        let path = self.root.join("environment.json");
        write_atomically(&path, format!("{environment:#}\n").as_bytes())
            .with_context(|| format!("writing {}", path.display()))
    }
}

/// Takes the directory for this process.
///
/// # Errors
/// [`UsageError`] when another process has it.
fn lock(root: &Path) -> Result<File> {
    let directory = File::open(root).with_context(|| format!("opening {}", root.display()))?;
    match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(directory),
        Err(Errno::WOULDBLOCK) => Err(UsageError(format!(
            "another process is running in {}: wait for it, or choose another --out",
            root.display()
        ))
        .into()),
        Err(error) => {
            // Some network file systems have no locks; a run is better than none.
            tracing::warn!("{} can't be locked against other processes: {error}", root.display());
            Ok(directory)
        }
    }
}

/// Whether a directory holds nothing but what a run that was killed while it began leaves: its config, half-written.
fn is_hardly_begun(root: &Path) -> Result<bool> {
    let entries = fs::read_dir(root).with_context(|| format!("reading {}", root.display()))?;
    for entry in entries {
        let name = entry.with_context(|| format!("reading {}", root.display()))?.file_name();
        let name = name.to_string_lossy();
        if !(name.starts_with(".config.toml.") && name.ends_with(".tmp")) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A run's own config that is not what the run wrote.
#[derive(Debug, thiserror::Error)]
#[error(
    "{file} is damaged, or another version's: {problem}. Put it back, or write it again from what the run was started with: skein config show \
     CONFIG --set … > {file}",
    file = .path.display()
)]
struct DamagedConfig {
    path: PathBuf,
    problem: String,
}

fn refuse_other_training(before: &[u8], now: &str, path: &Path) -> Result<()> {
    let damaged = |problem: String| DamagedConfig { path: path.to_owned(), problem };
    let before = str::from_utf8(before).map_err(|_| damaged("it is not text".into()))?;
    let before: toml::Table = before.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| before[..span.start].matches('\n').count() + 1);
        damaged(format!("line {line} is not TOML: {}", excerpt(error.message(), MESSAGE_CHARS)))
    })?;
    let now: toml::Table = now.parse().context("reading the config of this run")?;
    // A run writes all of them; a file that was cut short must not look like one with other settings.
    let missing: Vec<&str> = now.keys().filter(|key| !before.contains_key(*key)).map(String::as_str).collect();
    if !missing.is_empty() {
        return Err(damaged(format!("it lacks {}", missing.join(", "))).into());
    }
    let differences = differing_keys("", &toml::Value::Table(before), &toml::Value::Table(now));
    let training: Vec<_> = differences.into_iter().filter(|key| !may_change(key)).collect();
    if training.is_empty() {
        return Ok(());
    }
    let is_sft_length = |key: &String| LENGTH_OF_SFT.contains(&key.as_str());
    let why = if training.iter().any(is_sft_length) {
        " SFT can't be made longer or shorter afterwards: its learning rate follows its length, and later stages build on \
         its weights."
    } else {
        ""
    };
    Err(UsageError(format!(
        "{} was made with other settings for: {}.{why} A run goes on with its own config; use another --out for a new one",
        path.display(),
        training.join(", ")
    ))
    .into())
}

fn may_change(key: &str) -> bool {
    MAY_CHANGE.iter().any(|open| key == *open || key.strip_prefix(open).is_some_and(|rest| rest.starts_with('.')))
}

fn differing_keys(prefix: &str, before: &toml::Value, now: &toml::Value) -> Vec<String> {
    let (toml::Value::Table(before), toml::Value::Table(now)) = (before, now) else {
        return if before == now { Vec::new() } else { vec![prefix.to_owned()] };
    };
    let keys: std::collections::BTreeSet<_> = before.keys().chain(now.keys()).collect();
    keys.into_iter()
        .flat_map(|key| {
            let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            match (before.get(key), now.get(key)) {
                (Some(before), Some(now)) => differing_keys(&path, before, now),
                _ => vec![path],
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(root: &Path, config: &str, resume: &Resume) -> Result<()> {
        RunDir::check(root, config, resume)?.create(config, 0)
    }

    #[test]
    fn another_runs_directory_is_refused_unless_resuming() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("run");
        open(&root, "seed = 1\n", &Resume::Off).unwrap();
        let refused = open(&root, "seed = 1\n", &Resume::Off).unwrap_err();
        assert!(refused.is::<UsageError>() && refused.to_string().contains("--resume auto"), "{refused}");
        open(&root, "seed = 1\n", &Resume::Auto).unwrap();
        let other = open(&root, "seed = 2\n", &Resume::Auto).unwrap_err().to_string();
        assert!(other.contains("seed"), "{other}");
    }

    #[test]
    fn a_longer_run_may_go_on_but_not_a_different_one() {
        let before = "seed = 1\n[rl]\nsteps = 5\nlr = 1e-6\n";
        let path = Path::new("config.toml");
        refuse_other_training(before.as_bytes(), "seed = 1\n[rl]\nsteps = 9\nlr = 1e-6\n", path).unwrap();
        let error =
            refuse_other_training(before.as_bytes(), "seed = 1\n[rl]\nsteps = 5\nlr = 2e-6\n", path).unwrap_err();
        assert!(error.to_string().contains("rl.lr"), "{error}");
        let sft = |steps: usize| format!("[sft]\nmax_steps = {steps}\n");
        let error = refuse_other_training(sft(5).as_bytes(), &sft(9), path).unwrap_err();
        assert!(error.is::<UsageError>() && error.to_string().contains("SFT can't be made longer"), "{error}");
    }

    #[test]
    fn a_damaged_config_is_said_to_be_and_not_taken_for_other_settings() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        let now = "seed = 1\nname = \"a\"\n[rl]\nsteps = 5\n";
        for (damaged, expected) in [
            (&b""[..], "it lacks seed, name, rl"),
            (b"seed = 1\nname = \"a\"\n", "it lacks rl"),
            (b"seed = 1\nname = \"a", "line 2 is not TOML"),
            (b"\x00\xff\xfe", "it is not text"),
        ] {
            fs::write(&path, damaged).unwrap();
            let error = RunDir::check(folder.path(), now, &Resume::Auto).unwrap_err().to_string();
            assert!(
                error.contains("config.toml is damaged, or another version's: ") && error.contains(expected),
                "{error}"
            );
        }
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("step_000001", folder.path().join("latest")).unwrap();
        let error = RunDir::check(folder.path(), now, &Resume::Auto).unwrap_err().to_string();
        assert!(error.contains("it is not there, but the run's checkpoints are"), "{error}");
    }

    #[test]
    fn a_directory_is_one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("run");
        let mut first = RunDir::check(&root, "seed = 1\n", &Resume::Auto).unwrap();
        first.create("seed = 1\n", 0).unwrap();
        let second = open(&root, "seed = 1\n", &Resume::Auto).unwrap_err();
        assert!(second.is::<UsageError>() && second.to_string().contains("another process"), "{second}");
        drop(first);
        open(&root, "seed = 1\n", &Resume::Auto).unwrap();
    }

    #[test]
    fn a_directory_of_something_else_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.txt"), "do not touch").unwrap();
        let refused = open(folder.path(), "seed = 1\n", &Resume::Auto).unwrap_err();
        assert!(refused.to_string().contains("not empty"), "{refused}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_run_killed_while_it_began_begins_again() {
        let begun = tempfile::tempdir().unwrap();
        fs::write(begun.path().join(".config.toml.77.tmp"), "seed").unwrap();
        open(begun.path(), "seed = 1\n", &Resume::Auto).unwrap();
        assert_eq!(fs::read_to_string(begun.path().join("config.toml")).unwrap(), "seed = 1\n");
    }
}
