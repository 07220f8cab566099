//! Writes JSON Lines files that are whole or absent. Reading is `skein_core::jsonl`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::atomic::{AtomicFile, parent};

/// A JSONL file could not be written; what was at its place before is there still.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot write the file: {source}", path.display())]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// The system's answer.
    pub source: io::Error,
}

/// A JSONL file in the making. Dropped before [`JsonlWriter::finish`], it leaves nothing behind.
pub struct JsonlWriter {
    path: PathBuf,
    file: AtomicFile,
}

impl JsonlWriter {
    /// Begins the file, making its folder where there is none.
    pub fn create(path: &Path) -> Result<Self, WriteError> {
        let file = fs::create_dir_all(parent(path)).and_then(|()| AtomicFile::create(path));
        let file = file.map_err(|source| WriteError { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Appends one record.
    pub fn write<T: Serialize + ?Sized>(&mut self, record: &T) -> Result<(), WriteError> {
        let written = serde_json::to_writer(&mut self.file, record).map_err(io::Error::from);
        let written = written.and_then(|()| self.file.write_all(b"\n"));
        written.map_err(|source| WriteError { path: self.path.clone(), source })
    }

    /// Puts the complete file in its place.
    pub fn finish(self) -> Result<(), WriteError> {
        self.file.commit().map_err(|source| WriteError { path: self.path, source })
    }
}

/// Writes all of `records` as one file.
pub fn write_jsonl<T: Serialize>(path: &Path, records: impl IntoIterator<Item = T>) -> Result<(), WriteError> {
    let mut writer = JsonlWriter::create(path)?;
    for record in records {
        writer.write(&record)?;
    }
    writer.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use skein_core::jsonl::read_jsonl;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn records_read_back_and_directories_are_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rollouts/step_000010.jsonl");
        write_jsonl(&path, [json!({ "a": "line\nbreak" }), json!({ "b": 0.1 })]).unwrap();
        let read: Vec<(usize, Value)> = read_jsonl(&path).unwrap();
        assert_eq!(read, [(1, json!({ "a": "line\nbreak" })), (2, json!({ "b": 0.1 }))]);
    }

    #[test]
    fn an_unfinished_file_leaves_the_old_one_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.jsonl");
        write_jsonl(&path, [1]).unwrap();
        let mut writer = JsonlWriter::create(&path).unwrap();
        writer.write(&2).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
        drop(writer);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
        assert_eq!(names(dir.path()), ["out.jsonl"]);
    }

    #[test]
    fn failures_name_the_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let error = write_jsonl(&dir.path().join("file/out.jsonl"), [1]).unwrap_err().to_string();
        assert!(error.contains("file/out.jsonl: cannot write the file: "), "{error}");
        fs::create_dir(dir.path().join("taken.jsonl")).unwrap();
        let error = write_jsonl(&dir.path().join("taken.jsonl"), [1]).unwrap_err().to_string();
        assert!(error.contains("taken.jsonl: cannot write the file: "), "{error}");
        let mut left = names(dir.path());
        left.sort();
        assert_eq!(left, ["file", "taken.jsonl"], "nothing is left beside them");
    }
}
