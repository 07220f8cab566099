//! The checkpoints of a run: whole or not there, verified before they replace anything.
//!
//! A checkpoint is a `step_NNNNNN` directory: a Hugging Face model directory, plus `trainer/` with the optimizer's
//! tensors and the trainer's state, plus `MANIFEST.json` with every file's size and BLAKE3 hash. It is written beside as
//! `.tmp-step_NNNNNN`, synced and renamed; the symbolic links that name it move after that, `latest` as the last of
//! them, and older checkpoints go at the very end.
//! Whatever dies on the way leaves the previous checkpoint and `latest` as they were.
//!
//! What it never does: judge what the state means, or count a checkpoint it has not verified.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tch::Tensor;

use super::error::CheckpointError;
use super::inventory::remove_checkpoint;
use super::reader::read_tensors;
use super::writer::{write_json, write_safetensors};

pub(super) const MANIFEST: &str = "MANIFEST.json";
const LATEST: &str = "latest";
const STEP_PREFIX: &str = "step_";
/// Whatever begins like this is unfinished or already given up.
pub(super) const TEMPORARY_PREFIX: &str = ".tmp-";
const REPLACED_PREFIX: &str = ".tmp-replaced-";
pub(super) const TRAINER_DIR: &str = "trainer";
const OPTIMIZER_FILE: &str = "trainer/optimizer.safetensors";
const STATE_FILE: &str = "trainer/state.json";

/// What training needs besides the weights to continue as if it had never stopped.
#[derive(Debug)]
pub struct TrainState {
    /// The optimizer's tensors under names of its own, for example a moment of each leaf.
    pub tensors: Vec<(String, Tensor)>,
    /// Everything else: schedule, data position, counters.
    pub state: Value,
}

/// A verified checkpoint, read back. The weights are in `dir`, for [`super::load_model`].
#[derive(Debug)]
pub struct Loaded {
    /// The step it was saved at.
    pub step: u64,
    /// The checkpoint's directory.
    pub dir: PathBuf,
    /// What was saved beside the weights; tensors are on CPU.
    pub train_state: TrainState,
}

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    step: u64,
    files: BTreeMap<String, FileRecord>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileRecord {
    size: u64,
    blake3: String,
}

/// Writes, finds and prunes the checkpoints of one run directory.
#[derive(Debug, Clone)]
pub struct CheckpointManager {
    run_dir: PathBuf,
    keep_last: usize,
}

impl CheckpointManager {
    /// Takes charge of `run_dir`, creating it if need be, and removes what a killed run left unfinished there, names
    /// without their checkpoint included.
    /// `keep_last` checkpoints are kept, 0 keeps all.
    ///
    /// # Errors
    /// When the directory cannot be made, read or cleaned, or another stands in the way.
    pub fn new(run_dir: &Path, keep_last: usize) -> Result<Self, CheckpointError> {
        fs::create_dir_all(run_dir).map_err(CheckpointError::io("create", run_dir))?;
        let latest = run_dir.join(LATEST);
        if fs::symlink_metadata(&latest).is_ok_and(|found| found.is_dir()) {
            let problem = "a directory stands where the link to the newest checkpoint goes; remove it".into();
            return Err(CheckpointError::Damaged { path: latest, problem });
        }
        for path in entries(run_dir)? {
            let name = file_name(&path);
            if let Some(finished) = name.strip_prefix(REPLACED_PREFIX).map(|name| run_dir.join(name))
                && !finished.exists()
            {
                // Killed between moving the old checkpoint away and the new one in.
                fs::rename(&path, &finished).map_err(CheckpointError::io("move", &path))?;
            } else if name.starts_with(TEMPORARY_PREFIX) {
                tracing::info!(path = %path.display(), "removing what an interrupted run left");
                remove(&path)?;
            }
        }
        // `latest` still says how far the run had come; the next checkpoint moves it.
        for link in entries(run_dir)?.iter().filter(|path| file_name(path) != LATEST && !path.exists()) {
            // A link to elsewhere is the user's own.
            let target = fs::read_link(link).ok().filter(|target| target.parent() == Some(Path::new("")));
            if let Some(step) = target.and_then(|target| step_of(&target)) {
                tracing::warn!("{} named step {step}, which is not there: the name is removed", link.display());
                remove(link)?;
            }
        }
        Ok(Self { run_dir: run_dir.into(), keep_last })
    }

    /// Saves a checkpoint of `step` and prunes old ones; returns its directory.
    ///
    /// `write_model` writes the model's files into the directory it is given. A checkpoint of the same step is replaced.
    /// Once it is whole, links called `names` keep it for good, in place of what they named before: pruning passes over
    /// what a link names.
    ///
    /// # Errors
    /// Whatever failed while writing; then nothing of the new checkpoint remains and everything older is untouched.
    pub fn save(
        &self,
        step: u64,
        names: &[&str],
        write_model: impl FnOnce(&Path) -> Result<(), CheckpointError>,
        train_state: &TrainState,
    ) -> Result<PathBuf, CheckpointError> {
        let temporary = self.run_dir.join(format!("{TEMPORARY_PREFIX}{}", step_name(step)));
        let finished = self.run_dir.join(step_name(step));
        if temporary.exists() {
            remove(&temporary)?;
        }
        let outcome = self
            .write(&temporary, step, write_model, train_state)
            .and_then(|()| self.put_in_place(&temporary, &finished))
            // Before `latest`: a run that is killed in between goes on from the checkpoint before and names this one anew.
            .and_then(|()| names.iter().chain([&LATEST]).try_for_each(|name| self.link(name, &finished)));
        if outcome.is_err()
            && temporary.exists()
            && let Err(error) = remove(&temporary)
        {
            tracing::warn!("an unfinished checkpoint stays: {error}");
        }
        outcome?;
        self.prune(step);
        Ok(finished)
    }

    fn write(
        &self,
        dir: &Path,
        step: u64,
        write_model: impl FnOnce(&Path) -> Result<(), CheckpointError>,
        train_state: &TrainState,
    ) -> Result<(), CheckpointError> {
        let trainer_dir = dir.join(TRAINER_DIR);
        fs::create_dir_all(&trainer_dir).map_err(CheckpointError::io("create", &trainer_dir))?;
        write_model(dir)?;
        write_safetensors(&dir.join(OPTIMIZER_FILE), &train_state.tensors, None)?;
        write_json(&dir.join(STATE_FILE), &train_state.state)?;
        let mut files = BTreeMap::new();
        for name in relative_files(dir)? {
            let path = dir.join(&name);
            sync(&path)?;
            files.insert(name, record(&path)?);
        }
        let manifest = serde_json::to_value(Manifest { step, files })
            .map_err(|source| CheckpointError::Json { path: dir.join(MANIFEST), source })?;
        write_json(&dir.join(MANIFEST), &manifest)?;
        for path in [&dir.join(MANIFEST), &trainer_dir, dir] {
            sync(path)?;
        }
        Ok(())
    }

    /// Renames a complete directory to its final name, out of whose way an older one of the same step is moved first.
    fn put_in_place(&self, temporary: &Path, finished: &Path) -> Result<(), CheckpointError> {
        let replaced = self.run_dir.join(format!("{REPLACED_PREFIX}{}", file_name(finished)));
        let replaces = finished.exists();
        if replaces {
            fs::rename(finished, &replaced).map_err(CheckpointError::io("move", finished))?;
        }
        fs::rename(temporary, finished).map_err(CheckpointError::io("create", finished))?;
        sync(&self.run_dir)?;
        if replaces { remove(&replaced) } else { Ok(()) }
    }

    /// Where the checkpoint of `step` is or would be.
    pub fn step_dir(&self, step: u64) -> PathBuf {
        self.run_dir.join(step_name(step))
    }

    /// Calls the checkpoint of `step` `name` from now on and keeps it for good, in place of what the name named before.
    ///
    /// # Errors
    /// When the link cannot be moved.
    pub fn name(&self, step: u64, name: &str) -> Result<(), CheckpointError> {
        self.link(name, &self.step_dir(step))
    }

    fn pinned_steps(&self) -> Result<Vec<u64>, CheckpointError> {
        let targets = entries(&self.run_dir)?.into_iter().filter(|path| file_name(path) != LATEST);
        Ok(targets.filter_map(|path| step_of(&fs::read_link(path).ok()?)).collect())
    }

    fn link(&self, name: &str, finished: &Path) -> Result<(), CheckpointError> {
        let (link, temporary) = (self.run_dir.join(name), self.run_dir.join(format!("{TEMPORARY_PREFIX}{name}")));
        if temporary.is_symlink() {
            remove(&temporary)?;
        }
        std::os::unix::fs::symlink(file_name(finished), &temporary)
            .and_then(|()| fs::rename(&temporary, &link))
            .map_err(CheckpointError::io("move", &link))?;
        sync(&self.run_dir)
    }

    /// Removes checkpoints older than the `keep_last` newest up to `step`, which has just been verified and synced.
    /// Later steps belong to a continuation that was given up; they are not counted and stay until they are replaced.
    ///
    /// Failing to remove is a warning: the run is saved.
    fn prune(&self, step: u64) {
        if self.keep_last == 0 {
            return;
        }
        let older = |steps: Vec<u64>, pinned: Vec<u64>| {
            let candidates = steps.into_iter().filter(|&other| other <= step).rev().skip(self.keep_last);
            candidates.filter(|other| !pinned.contains(other)).collect()
        };
        let surplus: Vec<u64> = match self.steps().and_then(|steps| Ok(older(steps, self.pinned_steps()?))) {
            Ok(surplus) => surplus,
            Err(error) => return tracing::warn!("old checkpoints are not pruned: {error}"),
        };
        for old in surplus {
            if let Err(error) = remove_checkpoint(&self.run_dir, &self.step_dir(old)) {
                tracing::warn!("old checkpoint stays: {error}");
            }
        }
    }

    /// The steps that have a directory, ascending, whoever wrote them.
    ///
    /// # Errors
    /// When the run directory cannot be read.
    pub fn steps(&self) -> Result<Vec<u64>, CheckpointError> {
        let mut steps: Vec<u64> = entries(&self.run_dir)?.iter().filter_map(|path| step_of(path)).collect();
        steps.sort_unstable();
        Ok(steps)
    }

    /// The newest checkpoint that is whole, with its step: what `latest` points at, else the nearest before it.
    /// Each that is passed over is named in a warning with what is wrong with it.
    ///
    /// # Errors
    /// When the run directory cannot be read.
    pub fn latest_valid(&self) -> Result<Option<(u64, PathBuf)>, CheckpointError> {
        let pointed_at = fs::read_link(self.run_dir.join(LATEST)).ok().and_then(|target| step_of(&target));
        let newest = pointed_at.unwrap_or(u64::MAX);
        for step in self.steps()?.into_iter().rev().filter(|&step| step <= newest) {
            let dir = self.run_dir.join(step_name(step));
            match verify_checkpoint(&dir) {
                Ok(()) => return Ok(Some((step, dir))),
                Err(error) => tracing::warn!("checkpoint {} is damaged, trying the one before: {error}", dir.display()),
            }
        }
        Ok(None)
    }

    /// Reads the checkpoint that [`Self::latest_valid`] finds.
    ///
    /// # Errors
    /// When it cannot be read although its hashes are right.
    pub fn load_latest(&self) -> Result<Option<Loaded>, CheckpointError> {
        self.latest_valid()?.map(|(_, dir)| read(&dir)).transpose()
    }
}

/// Verifies and reads the checkpoint directory `dir`.
///
/// # Errors
/// What is missing, damaged or unreadable.
pub fn load_checkpoint(dir: &Path) -> Result<Loaded, CheckpointError> {
    verify_checkpoint(dir)?;
    read(dir)
}

fn read(dir: &Path) -> Result<Loaded, CheckpointError> {
    let manifest = read_manifest(dir)?;
    let tensors = read_tensors(&dir.join(OPTIMIZER_FILE))?;
    let state = read_json(&dir.join(STATE_FILE))?;
    Ok(Loaded { step: manifest.step, dir: dir.into(), train_state: TrainState { tensors, state } })
}

/// Checks every file of the checkpoint directory `dir` against its manifest, by size and hash.
///
/// # Errors
/// The first file that is missing or not what was written.
pub fn verify_checkpoint(dir: &Path) -> Result<(), CheckpointError> {
    for (name, expected) in read_manifest(dir)?.files {
        let path = dir.join(name);
        let size = fs::metadata(&path).map_err(CheckpointError::io("read", &path))?.len();
        if size != expected.size {
            let problem = format!("{size} bytes, {} were written", expected.size);
            return Err(CheckpointError::Damaged { path, problem });
        }
        if record(&path)? != expected {
            return Err(CheckpointError::Damaged { path, problem: "contents do not match their hash".into() });
        }
    }
    Ok(())
}

fn read_manifest(dir: &Path) -> Result<Manifest, CheckpointError> {
    read_json(&dir.join(MANIFEST))
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, CheckpointError> {
    let text = fs::read_to_string(path).map_err(CheckpointError::io("read", path))?;
    serde_json::from_str(&text).map_err(|source| CheckpointError::Json { path: path.into(), source })
}

fn record(path: &Path) -> Result<FileRecord, CheckpointError> {
    let hash = || -> io::Result<FileRecord> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(path)?)?;
        Ok(FileRecord { size: hasher.count(), blake3: hasher.finalize().to_hex().to_string() })
    };
    hash().map_err(CheckpointError::io("read", path))
}

/// Makes a file or directory survive a power cut.
pub(super) fn sync(path: &Path) -> Result<(), CheckpointError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(CheckpointError::io("sync", path))
}

pub(super) fn remove(path: &Path) -> Result<(), CheckpointError> {
    let is_dir = fs::symlink_metadata(path).map_err(CheckpointError::io("remove", path))?.is_dir();
    if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) }.map_err(CheckpointError::io("remove", path))
}

pub(super) fn entries(dir: &Path) -> Result<Vec<PathBuf>, CheckpointError> {
    let list = || fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>();
    list().map_err(CheckpointError::io("read", dir))
}

/// Files of `dir` and its subdirectories, by path relative to `dir`.
pub(super) fn relative_files(dir: &Path) -> Result<Vec<String>, CheckpointError> {
    let mut files = Vec::new();
    for path in entries(dir)? {
        let name = file_name(&path);
        if path.is_dir() {
            files.extend(relative_files(&path)?.into_iter().map(|inner| format!("{name}/{inner}")));
        } else {
            files.push(name.to_string());
        }
    }
    Ok(files)
}

fn step_name(step: u64) -> String {
    format!("{STEP_PREFIX}{step:06}")
}

pub(super) fn step_of(path: &Path) -> Option<u64> {
    file_name(path).strip_prefix(STEP_PREFIX)?.parse().ok()
}

/// The last component; a name that is not UTF-8 is none of ours and reads as empty.
pub(super) fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}
