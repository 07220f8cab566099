//! A jail around one process: what the kernel is told before untrusted code gets control.
//!
//! The worker is single-threaded, so a child that shares nothing with it may run ordinary code between `clone` and
//! `execve`. Walls go up in the child from the outside in: namespaces and mounts while it may still make them, then limits
//! and identity, then Landlock, then the system-call filter, which is the last thing before the interpreter. A wall that
//! can't be raised ends the child with a message; nothing runs behind fewer walls than were asked for.

mod limits;
mod mounts;
mod seccomp;
mod syscalls;

use std::convert::Infallible;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};

use crate::interpreter::Interpreter;
use crate::policy::Limits;
use crate::protocol::{Ground, Walls};

pub use syscalls::{close_on_exec_pipe, die_with_parent, memory_file, set_alarm, set_nonblocking, wait_readable};

/// Where a jail with a file system of its own lets its process write.
const SCRATCH: &str = "/scratch";

/// The newest Landlock whose rights are asked for; an older kernel enforces those that it knows.
const LANDLOCK_ABI: ABI = ABI::V6;

/// One process to start.
pub struct Launch<'a> {
    /// What follows the executable on its command line.
    pub arguments: &'a [&'a str],
    /// The process's descriptors 0, 1, 2, …; it gets no others.
    pub descriptors: Vec<OwnedFd>,
    /// Tells apart the processes of one worker.
    pub index: u32,
}

/// How jails of one job are built.
pub struct Builder<'a> {
    pub walls: Walls,
    pub limits: Limits,
    pub interpreter: &'a Interpreter,
}

/// A process in its jail; killed when dropped.
pub struct Jail {
    pid: libc::pid_t,
    handle: OwnedFd,
    reaped: bool,
}

impl Builder<'_> {
    /// Starts a process, which runs the interpreter when this returns.
    pub fn start(&self, launch: Launch<'_>) -> io::Result<Jail> {
        let (mut problems, report) = close_on_exec_pipe()?;
        let arguments = self.command_line(launch.arguments)?;
        let uid = syscalls::own_uid(launch.index);
        let outer = syscalls::identity();
        let (pid, handle) = match syscalls::fork_into(self.walls.ground)? {
            None => {
                let step = self.enter(&launch.descriptors, report, (uid, outer), &arguments);
                syscalls::exit_now(step)
            }
            Some(child) => child,
        };
        drop(report);
        let jail = Jail { pid, handle, reaped: false };
        let mut problem = String::new();
        problems.read_to_string(&mut problem)?;
        if problem.is_empty() { Ok(jail) } else { Err(io::Error::other(problem)) }
    }

    fn command_line(&self, arguments: &[&str]) -> io::Result<Vec<CString>> {
        let executable = self.interpreter.executable.as_os_str().as_bytes();
        let options = ["-s", "-S", "-B"];
        let rest = options.iter().chain(arguments).map(|argument| argument.as_bytes());
        std::iter::once(executable).chain(rest).map(|word| CString::new(word).map_err(io::Error::other)).collect()
    }

    /// In the child: builds the walls and becomes the interpreter. Returns only when that fails.
    fn enter(&self, descriptors: &[OwnedFd], mut report: File, ids: (u32, (u32, u32)), arguments: &[CString]) -> i32 {
        let (step, error) = match self.enter_or_fail(descriptors, &mut report, ids, arguments) {
            Ok(never) => match never {},
            Err(failure) => failure,
        };
        // The reader takes any text for a failure; if even this fails, it sees a process that ended early.
        let _ = write!(report, "{step}: {error}");
        127
    }

    fn enter_or_fail(
        &self,
        descriptors: &[OwnedFd],
        report: &mut File,
        (uid, outer): (u32, (u32, u32)),
        arguments: &[CString],
    ) -> Result<Infallible, (&'static str, io::Error)> {
        let ground = self.walls.ground;
        let at = |step: &'static str| move |error: io::Error| (step, error);
        syscalls::new_session().map_err(at("session"))?;
        if ground == Ground::UserNamespaces {
            syscalls::map_user(outer).map_err(at("user namespace"))?;
        }
        if ground.has_namespaces() {
            let owner = if ground == Ground::RootNamespaces { uid } else { syscalls::INNER_ID };
            syscalls::set_open_umask();
            mounts::enter(&self.interpreter.paths, self.limits.scratch_bytes, owner).map_err(at("file system"))?;
        }
        syscalls::arrange_descriptors(descriptors, report).map_err(at("descriptors"))?;
        limits::apply(&self.limits).map_err(at("limits"))?;
        if matches!(ground, Ground::RootNamespaces | Ground::OwnUid) {
            syscalls::become_uid(uid).map_err(at("uid"))?;
        }
        // Changing identity clears this, so it comes after.
        die_with_parent().map_err(at("parent's death"))?;
        if self.walls.landlock {
            self.landlock().map_err(at("Landlock"))?;
        }
        let environment = self.environment().map_err(at("environment"))?;
        let filters = seccomp::filters().map_err(at("seccomp"))?;
        filters.install().map_err(at("seccomp"))?;
        Err(("interpreter", syscalls::execute(arguments, &environment)))
    }

    fn landlock(&self) -> io::Result<()> {
        let own_root = self.walls.ground.has_namespaces();
        let read = AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir;
        let rule = |path: &Path, access: landlock::BitFlags<AccessFs>| -> io::Result<PathBeneath<PathFd>> {
            let access = if path.is_dir() { access } else { access & AccessFs::from_file(LANDLOCK_ABI) };
            Ok(PathBeneath::new(PathFd::new(path).map_err(io::Error::other)?, access))
        };
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(LANDLOCK_ABI))
            .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(LANDLOCK_ABI)))
            .and_then(|ruleset| ruleset.scope(Scope::from_all(LANDLOCK_ABI)))
            .and_then(Ruleset::create)
            .map_err(io::Error::other)?;
        let roots = if own_root { vec![Path::new("/").to_owned()] } else { self.interpreter.paths.clone() };
        for path in &roots {
            ruleset = ruleset.add_rule(rule(path, read)?).map_err(io::Error::other)?;
        }
        let null = rule(Path::new("/dev/null"), AccessFs::ReadFile | AccessFs::WriteFile)?;
        ruleset = ruleset.add_rule(null).map_err(io::Error::other)?;
        if own_root {
            let scratch = rule(Path::new(SCRATCH), AccessFs::from_all(LANDLOCK_ABI))?;
            ruleset = ruleset.add_rule(scratch).map_err(io::Error::other)?;
        }
        match ruleset.restrict_self().map_err(io::Error::other)?.ruleset {
            RulesetStatus::NotEnforced => Err(io::Error::other("the kernel does not enforce it")),
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        }
    }

    /// The same for every run, so that what a program prints depends on nothing outside it.
    fn environment(&self) -> io::Result<Vec<CString>> {
        let home = if self.walls.ground.has_namespaces() { SCRATCH } else { "/" };
        let home_dir = format!("HOME={home}");
        let scratch = format!("TMPDIR={home}");
        let fixed = ["PATH=/nonexistent", "LC_ALL=C.UTF-8", "PYTHONUTF8=1", "PYTHONHASHSEED=0", &home_dir, &scratch];
        fixed.iter().map(|entry| CString::new(*entry).map_err(io::Error::other)).collect()
    }
}

impl Jail {
    /// Readable once the process has ended.
    pub fn handle(&self) -> &OwnedFd {
        &self.handle
    }

    /// How long the process's threads have been ready to run without a processor to run on; zero where the kernel does
    /// not tell.
    pub fn waited(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten().flatten();
        let waited = threads.filter_map(|thread| {
            let statistics = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            statistics.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
        });
        waited.sum()
    }

    /// Ends the process and with it all that it started.
    pub fn kill(&self) {
        syscalls::kill(self.handle.as_raw_fd());
    }

    /// Waits for the end: the exit status, or the signal as an error.
    pub fn wait(mut self) -> io::Result<Result<i32, i32>> {
        self.reaped = true;
        syscalls::wait_for(self.pid)
    }
}

impl Drop for Jail {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill();
            // Nothing is left to do about a child that can't be waited for.
            let _ = syscalls::wait_for(self.pid);
        }
    }
}
