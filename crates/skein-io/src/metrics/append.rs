//! A file that grows by whole records.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::MetricsError;

/// A file opened for appending.
pub(super) struct AppendFile {
    path: PathBuf,
    file: File,
    len: u64,
}

impl AppendFile {
    /// A file that holds exactly `content`, replaced at once if it was there, ready for more.
    pub fn replace(path: &Path, content: &[u8]) -> Result<Self, MetricsError> {
        let beside = path.with_added_extension("tmp");
        fs::write(&beside, content).map_err(MetricsError::io(&beside))?;
        fs::rename(&beside, path).map_err(MetricsError::io(path))?;
        let file = OpenOptions::new().append(true).open(path).map_err(MetricsError::io(path))?;
        Ok(Self { path: path.to_owned(), file, len: content.len() as u64 })
    }

    /// Appends `record` in one piece: if the system takes only part of it, that part is taken back.
    pub fn append(&mut self, record: &[u8]) -> Result<(), MetricsError> {
        if let Err(source) = self.file.write_all(record) {
            // If this fails too, the file ends in a torn record, which resuming tolerates.
            let _ = self.file.set_len(self.len);
            return Err(MetricsError::Io { path: self.path.clone(), source });
        }
        self.len += record.len() as u64;
        Ok(())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
impl AppendFile {
    /// The file at `path` as it is, for devices that cannot be replaced.
    pub fn at_device(path: &Path) -> Self {
        let file = OpenOptions::new().append(true).open(path).unwrap();
        Self { path: path.to_owned(), file, len: 0 }
    }
}
