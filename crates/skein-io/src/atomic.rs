//! Files that are either whole or not there: written beside their name, made durable, then renamed.
//!
//! A reader never sees half a file, and a full disk or a killed process leaves an older file of that name as it was. What
//! is no file (a device, a pipe) can't be replaced and is written to as it stands.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file in the making. Dropped before [`AtomicFile::commit`], it leaves nothing behind.
pub struct AtomicFile {
    file: BufWriter<File>,
    /// None once the file is in its place, and where a device or a pipe is written to.
    place: Option<Place>,
}

/// Where a file is written and where it will stand.
struct Place {
    temporary: PathBuf,
    path: PathBuf,
}

impl AtomicFile {
    /// Begins a file that will stand at `path`.
    ///
    /// # Errors
    /// Whatever the operating system says, for instance when the folder does not exist.
    pub fn create(path: &Path) -> io::Result<Self> {
        let found = path.metadata().ok();
        if found.as_ref().is_some_and(|found| found.is_dir()) {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "a directory stands where a file should go"));
        }
        if found.is_some_and(|found| !found.is_file()) {
            let file = BufWriter::new(File::options().write(true).open(path)?);
            return Ok(Self { file, place: None });
        }
        // A link is followed, not replaced: whoever made it wants the file where it points.
        let path = &if path.is_symlink() { fs::canonicalize(path)? } else { path.to_owned() };
        let name =
            path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
        let temporary = path.with_file_name(format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id()));
        let file = BufWriter::new(File::create(&temporary)?);
        Ok(Self { file, place: Some(Place { temporary, path: path.to_owned() }) })
    }

    /// Puts what was written into its place, replacing an older file.
    ///
    /// # Errors
    /// Whatever the operating system says; the older file is then unharmed.
    pub fn commit(mut self) -> io::Result<()> {
        self.file.flush()?;
        let Some(place) = &self.place else { return Ok(()) };
        self.file.get_ref().sync_all()?;
        fs::rename(&place.temporary, &place.path)?;
        let folder = File::open(parent(&place.path));
        self.place = None;
        folder?.sync_all()
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some(place) = &self.place {
            // A leftover that can't be removed is only a leftover.
            let _ = fs::remove_file(&place.temporary);
        }
    }
}

/// Puts `contents` into the file at `path`, replacing an older one.
///
/// # Errors
/// Whatever the operating system says, for instance when the folder does not exist; the older file is then unharmed.
pub fn write_atomically(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(contents)?;
    file.commit()
}

/// The folder that holds `path`, `.` for a bare name.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
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
        let (file, link) = (occupied.join("b.txt"), folder.path().join("link"));
        fs::write(&file, b"old").expect("writable");
        std::os::unix::fs::symlink(&file, &link).expect("links are possible");
        write_atomically(&link, b"new").expect("writable");
        assert!(link.is_symlink() && fs::read(&file).expect("there") == b"new", "a link is followed");
        for nameless in ["/", ".."] {
            let error = write_atomically(Path::new(nameless), b"x").expect_err("no file's name");
            assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        }
        assert_eq!(write_atomically(Path::new(""), b"x").expect_err("no name").kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_pipe_is_written_to_and_stays() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (pipe, link) = (folder.path().join("pipe"), folder.path().join("link"));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("coreutils are there");
        assert!(made.success());
        std::os::unix::fs::symlink(&pipe, &link).expect("links are possible");
        for name in [&pipe, &link] {
            let pipe = pipe.clone();
            let reader = std::thread::spawn(move || fs::read(pipe).expect("readable"));
            write_atomically(name, b"through").expect("someone reads");
            assert_eq!(reader.join().expect("no panic"), b"through");
        }
        assert!(pipe.exists() && !pipe.is_file() && link.is_symlink());
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 2, "nothing is left beside them");
    }
}
