//! The Python interpreter: which one, and which files it needs.
//!
//! A jail shows these files and no others. Installed packages are left out of the import path: answers have the standard
//! library.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

/// An interpreter and what a jail must show of the file system for it to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interpreter {
    /// The executable itself, not a link or a shim.
    pub executable: PathBuf,
    /// Files and directories, read-only.
    pub paths: Vec<PathBuf>,
}

/// Names the executable, the standard library, the directories of every shared library that common extension modules
/// load, and the dynamic loader.
const SURVEY: &str = r#"
import os, sys
for name in ("bz2", "ctypes", "decimal", "hashlib", "lzma", "sqlite3", "ssl", "zlib"):
    try:
        __import__(name)
    except ImportError:
        pass
executable = os.path.realpath(sys.executable)
paths = {executable, os.path.dirname(os.__file__), "/etc/ld.so.cache"}
with open("/proc/self/maps") as maps:
    for line in maps:
        fields = line.rstrip("\n").split(None, 5)
        if len(fields) == 6 and ".so" in fields[5]:
            directory = os.path.dirname(fields[5])
            paths.add(directory)
            if directory.startswith("/usr/"):
                paths.add(directory[4:])
paths.update(("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"))
paths = sorted(path for path in paths if os.path.exists(path) and path != "/")
inner = [path for path in paths if any(path.startswith(other + "/") for other in paths)]
print("\n".join([executable] + [path for path in paths if path not in inner]))
"#;

impl Interpreter {
    /// Asks an interpreter what it consists of.
    pub fn survey(python: Option<&Path>) -> Result<Self, String> {
        let python = python.unwrap_or(Path::new("python3"));
        let output = Command::new(python)
            .args(["-s", "-S", "-B", "-c", SURVEY])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("`{}` can't be started: {error}", python.display()))?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr);
            return Err(format!("`{}` does not run: {}", python.display(), reason.trim()));
        }
        let text = String::from_utf8(output.stdout).map_err(|_| "the interpreter's paths are not UTF-8".to_owned())?;
        let mut lines = text.lines().map(PathBuf::from);
        let executable = lines.next().ok_or("the interpreter named no executable")?;
        Ok(Self { executable, paths: lines.collect() })
    }
}
