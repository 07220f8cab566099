//! One run of a scorer's program, and its end.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How long a program that closed its output may take to end by itself, so that its exit status can be told.
const GRACE: Duration = Duration::from_millis(200);

const POLL: Duration = Duration::from_millis(5);

/// A program under way, in a process group of its own.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// Lines for its standard input; the thread that writes them ends with this.
    pub(super) lines: mpsc::Sender<Vec<u8>>,
}

/// The other ends of what a new process reads and writes.
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) lines: mpsc::Receiver<Vec<u8>>,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

impl Process {
    /// Starts `command`, a program and its arguments.
    ///
    /// # Errors
    /// When the program can't be started.
    pub(super) fn start(command: &[String]) -> io::Result<(Self, Pipes)> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let (sender, lines) = mpsc::channel();
        let pipes = Pipes {
            stdin: child.stdin.take().expect("it was asked for"),
            lines,
            stdout: child.stdout.take().expect("it was asked for"),
            stderr: child.stderr.take().expect("it was asked for"),
        };
        Ok((Self { child, lines: sender }, pipes))
    }

    /// Kills the program with all it started in its group; what became of it. It has [`GRACE`] to end by itself if
    /// `has_ended` says that it is about to.
    pub(super) fn end(mut self, has_ended: bool) -> String {
        let pid = Pid::from_child(&self.child);
        let deadline = Instant::now() + if has_ended { GRACE } else { Duration::ZERO };
        // The status is left for later: while the process is not waited for, its id is no other's.
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        while matches!(waitid(WaitId::Pid(pid), peek), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
        // A group without members is what is wanted.
        let _ = kill_process_group(pid, Signal::KILL);
        self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string())
    }
}

/// Writes lines until there are no more, or the program reads no more.
///
/// # Errors
/// When the program closed its input.
pub(super) fn feed(mut stdin: ChildStdin, lines: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    lines.iter().try_for_each(|line| stdin.write_all(&line))
}
