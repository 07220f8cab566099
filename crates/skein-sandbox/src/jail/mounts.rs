//! A jail's file system: the interpreter's files read-only, a few devices, and a scratch directory in memory.
//!
//! Paths keep their names, so that the interpreter finds its library. Nothing else of the machine is mounted, `/proc`
//! included.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::{SCRATCH, syscalls};

/// An existing directory that hides nothing the jail needs when the new root is mounted over it.
const NEW_ROOT: &str = "/proc";

/// Devices that programs open by name.
const DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/urandom"];

/// Files in the scratch directory; each costs the machine memory beyond its content.
const SCRATCH_FILES: u32 = 512;

/// Makes the calling process, in a mount namespace of its own, see `paths` and a scratch directory that `owner` owns.
pub fn enter(paths: &[PathBuf], scratch_bytes: u64, owner: u32) -> io::Result<()> {
    syscalls::make_mounts_private()?;
    syscalls::mount_tmpfs(Path::new(NEW_ROOT), "size=1m,mode=755")?;
    for path in paths {
        bind(path, true)?;
    }
    for device in DEVICES {
        bind(Path::new(device), false)?;
    }
    let scratch = inside(Path::new(SCRATCH));
    make_directory(&scratch)?;
    let options = format!("size={scratch_bytes},nr_inodes={SCRATCH_FILES},mode=700,uid={owner},gid={owner}");
    syscalls::mount_tmpfs(&scratch, &options)?;
    syscalls::set_read_only(&c_path(Path::new(NEW_ROOT))?, false)?;
    syscalls::change_root(&c_path(Path::new(NEW_ROOT))?)?;
    std::env::set_current_dir(SCRATCH)
}

fn bind(path: &Path, read_only: bool) -> io::Result<()> {
    let target = inside(path);
    if path.is_dir() {
        make_directory(&target)?;
    } else {
        make_directory(target.parent().ok_or(io::ErrorKind::InvalidInput)?)?;
        File::create(&target)?;
    }
    let (source, target) = (c_path(&fs::canonicalize(path)?)?, c_path(&target)?);
    syscalls::bind(&source, &target)?;
    if read_only { syscalls::set_read_only(&target, true) } else { Ok(()) }
}

fn inside(path: &Path) -> PathBuf {
    Path::new(NEW_ROOT).join(path.strip_prefix("/").unwrap_or(path))
}

fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}
