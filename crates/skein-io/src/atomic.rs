//! Files that are either whole or not there: written beside their name, made durable, then renamed.
//!
//! A reader never sees half a file, and a full disk or a killed process leaves an older file of that name as it was.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Puts `contents` into the file at `path`, replacing an older one.
///
/// # Errors
/// Whatever the operating system says, for instance when the folder does not exist; the older file is then unharmed.
pub fn write_atomically(path: &Path, contents: &[u8]) -> io::Result<()> {
    let temporary = beside(path)?;
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(contents)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    });
    if written.is_err() {
        // The first error is the one to report; a leftover that can't be removed is only a leftover.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    Ok(path.with_file_name(format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_the_file_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.txt");
        write_atomically(&path, b"old").expect("writable");
        write_atomically(&path, b"new").expect("writable");
        assert_eq!(fs::read(&path).expect("written"), b"new");
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_no_file_behind() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let missing = folder.path().join("nowhere").join("a.txt");
        assert_eq!(write_atomically(&missing, b"x").expect_err("no folder").kind(), io::ErrorKind::NotFound);
        let occupied = folder.path().join("folder");
        fs::create_dir(&occupied).expect("writable");
        write_atomically(&occupied, b"x").expect_err("a folder stands there");
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1);
        assert_eq!(write_atomically(Path::new("/"), b"x").expect_err("no name").kind(), io::ErrorKind::InvalidInput);
    }
}
