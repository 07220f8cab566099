//! Looking at the checkpoints of a run from outside, while a trainer may be writing there.
//!
//! Nothing here cleans up or moves `latest`; the trainer's own [`super::CheckpointManager`] does that.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::CheckpointError;
use super::manager::{
    MANIFEST, TEMPORARY_PREFIX, TRAINER_DIR, entries, file_name, relative_files, remove, step_of, sync,
    verify_checkpoint,
};

/// One `step_NNNNNN` directory as it is found.
#[derive(Debug)]
pub struct FoundCheckpoint {
    /// The step in its name.
    pub step: u64,
    /// The directory.
    pub dir: PathBuf,
    /// Bytes of all its files.
    pub size: u64,
    /// The links that name it: `latest`, and the names of stages whose end it is.
    pub links: Vec<String>,
}

/// The checkpoints of `run_dir`, by step.
///
/// # Errors
/// When a directory cannot be read.
pub fn list_checkpoints(run_dir: &Path) -> Result<Vec<FoundCheckpoint>, CheckpointError> {
    let all = entries(run_dir)?;
    let mut found = Vec::new();
    for dir in all.iter().filter(|path| !path.is_symlink() && path.is_dir()) {
        let Some(step) = step_of(dir) else { continue };
        let mut size = 0;
        for name in relative_files(dir)? {
            let path = dir.join(name);
            size += fs::metadata(&path).map_err(CheckpointError::io("read", &path))?.len();
        }
        let names_it = |path: &&PathBuf| fs::read_link(path).is_ok_and(|target| file_name(&target) == file_name(dir));
        let mut links: Vec<String> = all.iter().filter(names_it).map(|path| file_name(path).to_owned()).collect();
        links.sort_unstable();
        found.push(FoundCheckpoint { step, dir: dir.clone(), size, links });
    }
    found.sort_unstable_by_key(|checkpoint| checkpoint.step);
    Ok(found)
}

/// Whether `dir` is a checkpoint, be it a damaged one: by its name, or by its manifest under any other.
pub fn is_checkpoint(dir: &Path) -> bool {
    dir.canonicalize().is_ok_and(|dir| step_of(&dir).is_some()) || dir.join(MANIFEST).is_file()
}

/// Copies the model of a checkpoint, and nothing of the trainer's, to the new directory `out`: whole or not at all.
///
/// # Errors
/// When the checkpoint is damaged, `out` exists, or a file cannot be written.
pub fn export_checkpoint(dir: &Path, out: &Path) -> Result<(), CheckpointError> {
    verify_checkpoint(dir)?;
    if out.exists() {
        let problem = "is there already; choose another place".to_owned();
        return Err(CheckpointError::Damaged { path: out.to_path_buf(), problem });
    }
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(CheckpointError::io("create", parent))?;
    let temporary = parent.join(format!("{TEMPORARY_PREFIX}export-{}", file_name(out)));
    if temporary.exists() {
        remove(&temporary)?;
    }
    let copied = copy_model(dir, &temporary)
        .and_then(|()| fs::rename(&temporary, out).map_err(CheckpointError::io("create", out)))
        .and_then(|()| sync(parent));
    if copied.is_err() && temporary.exists() {
        // The first failure is the one to report.
        drop(remove(&temporary));
    }
    copied
}

fn copy_model(dir: &Path, to: &Path) -> Result<(), CheckpointError> {
    fs::create_dir_all(to).map_err(CheckpointError::io("create", to))?;
    for name in relative_files(dir)? {
        if name == MANIFEST || Path::new(&name).starts_with(TRAINER_DIR) {
            continue;
        }
        let target = to.join(&name);
        let parent = target.parent().expect("a file in a directory has a parent");
        fs::create_dir_all(parent).map_err(CheckpointError::io("create", parent))?;
        fs::copy(dir.join(&name), &target).map_err(CheckpointError::io("write", &target))?;
        sync(&target)?;
    }
    sync(to)
}

/// Removes all but the `keep_last` newest checkpoints of `run_dir` and those that a link names; returns what it removed.
///
/// # Errors
/// When a directory cannot be read or removed; what was removed before stays removed.
pub fn prune_checkpoints(run_dir: &Path, keep_last: usize) -> Result<Vec<PathBuf>, CheckpointError> {
    let mut removed = Vec::new();
    for checkpoint in list_checkpoints(run_dir)?.into_iter().rev().skip(keep_last) {
        if checkpoint.links.is_empty() {
            remove_checkpoint(run_dir, &checkpoint.dir)?;
            removed.push(checkpoint.dir);
        }
    }
    removed.reverse();
    Ok(removed)
}

/// Renamed first, so that a half-removed checkpoint never looks like one.
pub(super) fn remove_checkpoint(run_dir: &Path, dir: &Path) -> Result<(), CheckpointError> {
    let doomed = run_dir.join(format!("{TEMPORARY_PREFIX}pruned-{}", file_name(dir)));
    fs::rename(dir, &doomed).map_err(CheckpointError::io("move", dir))?;
    remove(&doomed)
}
