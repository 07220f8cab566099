//! What a sandboxed process may use, and which protections must stand before anything runs.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How the sandbox is set up.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Policy {
    /// What each process may use.
    pub limits: Limits,
    /// The Python interpreter; `python3` on the search path where none is given.
    pub python: Option<PathBuf>,
    /// The worker binary. Where none is given: the one that `SKEIN_SANDBOX_WORKER` names, else `skein-sandbox-worker`
    /// beside the running executable or one directory above it.
    pub worker: Option<PathBuf>,
    /// Protections whose absence is put up with. Some can't be done without whatever stands here; see [`Protection`].
    pub allow_missing: Vec<Protection>,
}

/// What one process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processor time of one process; the kernel counts it in whole seconds.
    pub cpu: Duration,
    /// Wall-clock time of one run, start included, without the time that it waited for a processor.
    pub wall: Duration,
    /// Address space of one process, in bytes: all the memory that it can have, since it is alone.
    pub memory_bytes: u64,
    /// Output of one process, in bytes.
    pub output_bytes: usize,
    /// Scratch directory of one process, in bytes; it counts as memory of the machine.
    pub scratch_bytes: u64,
    /// Threads of one process.
    pub threads: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Scheduling priority added to the caller's, 0 to 19. At 19 a training process beside it loses nothing.
    pub nice: i32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cpu: Duration::from_secs(6),
            wall: Duration::from_secs(10),
            memory_bytes: 1 << 30,
            output_bytes: 1 << 20,
            scratch_bytes: 16 << 20,
            threads: 32,
            open_files: 64,
            nice: 19,
        }
    }
}

/// Something the kernel does that the sandbox rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protection {
    /// A system-call filter: no other processes, sockets, signals, tracing or kernel interfaces. Never done without.
    Seccomp,
    /// Rules on files, TCP and signals that hold even for a process that finds its way around the others. Can be done
    /// without only where there are namespaces.
    Landlock,
    /// A file system, process table, network and IPC space of its own. Without it files are guarded by Landlock alone,
    /// and there is no scratch directory.
    Namespaces,
    /// A bound on threads, which needs namespaces or root.
    ThreadLimit,
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seccomp => "seccomp",
            Self::Landlock => "Landlock",
            Self::Namespaces => "namespaces",
            Self::ThreadLimit => "thread limit",
        })
    }
}
