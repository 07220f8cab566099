//! The worker: one job, one or two jails, one reply.
//!
//! It is a process of its own so that a jail can be built by a single thread with little memory, and so that it can be
//! killed when it fails to end in time; its jails die with it. It passes bytes on and judges nothing.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::jail::{self, Builder, Jail, Launch, close_on_exec_pipe, memory_file};
use crate::protocol::{self, Ending, Job, Reply, Task};
use crate::scripts::loader;

/// Standard error that is kept; the rest is read and dropped.
const ERROR_BYTES: usize = 4096;
/// A verdict, or the byte that says that the answer's process has started.
const SIGNAL_BYTES: usize = 1 << 16;
/// A job that has not ended after its wall-clock time this often, waiting for processors included, is given up: on such
/// a machine nobody can be judged.
const PATIENCE: u32 = 10;
/// What a worker may take beyond that before it is taken for stuck.
const GRACE_SECONDS: u32 = 5;

/// What the worker binary does: reads a job from standard input, runs it, writes a reply to standard output.
pub fn run() -> ExitCode {
    // Should the caller be gone already, reading the job ends this process instead.
    if jail::die_with_parent().is_err() {
        return ExitCode::FAILURE;
    }
    let mut input = io::stdin().lock();
    let Ok((job, sections)) = protocol::receive::<Job>(&mut input) else { return ExitCode::FAILURE };
    let longest = job.limits.wall.saturating_mul(PATIENCE).as_secs();
    jail::set_alarm(u32::try_from(longest).unwrap_or(u32::MAX).saturating_add(GRACE_SECONDS));
    let (reply, outputs) = match perform(&job, &sections) {
        Ok((ending, outputs)) => (Reply::Ended(ending), outputs),
        Err(error) => (Reply::Broken(error.to_string()), Vec::new()),
    };
    let outputs: Vec<&[u8]> = outputs.iter().map(Vec::as_slice).collect();
    match protocol::send(&mut io::stdout().lock(), reply, &outputs) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn perform(job: &Job, sections: &[Vec<u8>]) -> io::Result<(Ending, Vec<Vec<u8>>)> {
    let [first, second, candidate, examiner] = sections else {
        return Err(io::Error::other("a job has four sections"));
    };
    let clock = Clock { start: Instant::now(), wall: job.limits.wall };
    let builder = Builder { walls: job.walls, limits: job.limits, interpreter: &job.interpreter };
    let output_bytes = job.limits.output_bytes;
    let (errors, errors_end) = Stream::pipe(ERROR_BYTES, false)?;
    let start = |mut descriptors: Vec<OwnedFd>, script: &[u8], mode: &str, index: u32| {
        let load = loader(descriptors.len());
        descriptors.push(memory_file(script)?);
        builder.start(Launch { arguments: &["-c", &load, mode], descriptors, index })
    };
    let (watched, mut streams, others) = match job.task {
        Task::Program => {
            let (output, output_end) = Stream::pipe(output_bytes, true)?;
            let (started, started_end) = Stream::pipe(SIGNAL_BYTES, false)?;
            let descriptors =
                vec![memory_file(second)?, output_end, errors_end, memory_file(first)?, null()?, started_end];
            (start(descriptors, candidate, "program", 0)?, vec![output, errors, started], Vec::new())
        }
        Task::Call => {
            let (replies, replies_end) = Stream::pipe(output_bytes, true)?;
            let descriptors =
                vec![null()?, null()?, errors_end, memory_file(first)?, memory_file(second)?, replies_end];
            (start(descriptors, candidate, "serve", 0)?, vec![replies, errors], Vec::new())
        }
        Task::Check => {
            let (requests, requests_end) = close_on_exec_pipe()?;
            let (replies, replies_end) = close_on_exec_pipe()?;
            let (verdict, verdict_end) = Stream::pipe(SIGNAL_BYTES, true)?;
            let descriptors = vec![null()?, null()?, null()?, memory_file(first)?, requests.into(), replies_end.into()];
            let answer = start(descriptors, candidate, "serve", 0)?;
            let tests = memory_file(second)?;
            let descriptors =
                vec![null()?, null()?, errors_end, tests, replies.into(), requests_end.into(), verdict_end];
            (start(descriptors, examiner, "examine", 1)?, vec![verdict, errors], vec![answer])
        }
    };
    let ending = watch(watched, &others, &mut streams, &clock)?;
    drop(others);
    Ok((ending, streams.into_iter().map(|stream| stream.held).collect()))
}

fn null() -> io::Result<OwnedFd> {
    Ok(File::options().read(true).write(true).open("/dev/null")?.into())
}

/// What a process writes to one pipe, up to a limit.
struct Stream {
    pipe: File,
    held: Vec<u8>,
    limit: usize,
    /// Whether more than the limit ends the process; it is dropped otherwise.
    strict: bool,
    open: bool,
}

impl Stream {
    fn pipe(limit: usize, strict: bool) -> io::Result<(Self, OwnedFd)> {
        let (pipe, end) = close_on_exec_pipe()?;
        jail::set_nonblocking(&pipe)?;
        Ok((Self { pipe, held: Vec::new(), limit, strict, open: true }, end.into()))
    }

    /// Takes what is there; false when it is too much.
    fn drain(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 1 << 16];
        loop {
            match self.pipe.read(&mut chunk) {
                Ok(0) => {
                    self.open = false;
                    return Ok(true);
                }
                Ok(count) => {
                    let room = self.limit - self.held.len();
                    self.held.extend_from_slice(&chunk[..count.min(room)]);
                    if count > room && self.strict {
                        return Ok(false);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A job's wall-clock time, without the time that its processes stood in line for a processor: a loaded machine is no
/// answer's fault.
struct Clock {
    start: Instant,
    wall: Duration,
}

impl Clock {
    fn left<'a>(&self, jails: impl Iterator<Item = &'a Jail>) -> io::Result<Duration> {
        let elapsed = self.start.elapsed();
        if elapsed < self.wall {
            return Ok(self.wall - elapsed);
        }
        if elapsed > self.wall * PATIENCE {
            return Err(io::Error::other("the machine is too busy to run it"));
        }
        let waited: Duration = jails.map(Jail::waited).sum();
        Ok((self.wall + waited).saturating_sub(elapsed))
    }
}

/// Follows a process to its end, or ends it at a limit.
fn watch(jail: Jail, others: &[Jail], streams: &mut [Stream], clock: &Clock) -> io::Result<Ending> {
    let exceeded = loop {
        let left = clock.left(others.iter().chain([&jail]))?;
        if left.is_zero() {
            break Some(Ending::TimeLimit);
        }
        let open: Vec<usize> = (0..streams.len()).filter(|&index| streams[index].open).collect();
        let handles =
            std::iter::once(jail.handle().as_fd()).chain(open.iter().map(|&index| streams[index].pipe.as_fd()));
        let ready = jail::wait_readable(&handles.map(|fd| fd.as_raw_fd()).collect::<Vec<_>>(), left)?;
        let mut within = true;
        for index in open {
            within &= streams[index].drain()?;
        }
        if !within {
            break Some(Ending::OutputLimit);
        }
        // What the process wrote before it ended was there before its end was seen.
        if ready.first() == Some(&true) {
            for stream in streams.iter_mut() {
                if stream.open && !stream.drain()? {
                    return Ok(Ending::OutputLimit);
                }
            }
            break None;
        }
    };
    if let Some(exceeded) = exceeded {
        return Ok(exceeded);
    }
    Ok(match jail.wait()? {
        Ok(status) => Ending::Exited(status),
        Err(libc::SIGXCPU | libc::SIGKILL) => Ending::TimeLimit,
        Err(signal) => Ending::Signaled(signal),
    })
}
