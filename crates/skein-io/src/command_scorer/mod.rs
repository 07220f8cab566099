//! Scorers that users bring: a supervised command that reads and writes JSON lines.
//!
//! The command runs once and is asked many things at once; [`protocol`] says how. Every request has a deadline of its
//! own. A command that ends, hangs, or writes what is no reply is killed with everything in its process group, its
//! requests become errors, and the next request starts it again after a wait that grows, until it failed too often in a
//! row. A score is never made up: whatever goes wrong is an error. The command is the user's own and trusted as such:
//! this is supervision, not a sandbox, and it is killed only as far as it stays in its group.

mod complaints;
mod process;
mod protocol;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::process::ChildStdout;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use protocol::ScoreRequest;
use skein_core::config::CommandScorerConfig;

use process::{Pipes, Process, feed};
use protocol::{parse_reply, request_line};

/// Why there is no score. None of these is a wrong answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandScorerError {
    /// Fields of the config, one problem a line.
    #[error("{}", .0.join("\n"))]
    Config(Vec<String>),
    /// Time ran out.
    #[error("the scorer gave no score before the deadline")]
    Deadline,
    /// The scorer says why it can't.
    #[error("the scorer reports: {0}")]
    Reported(String),
    /// The score is not in [0, 1].
    #[error("the scorer's score is {0}, expected a number from 0 to 1")]
    BadScore(String),
    /// The process ended, or was ended, while the request was under way.
    #[error("the scorer ended: {0}")]
    Ended(String),
    /// The process failed too often in a row and is not started again.
    #[error("the scorer failed {failures} times in a row and is given up; the last time: {reason}")]
    GivenUp {
        /// Failures in a row.
        failures: u32,
        /// The last one.
        reason: String,
    },
}

type Outcome = Result<f64, CommandScorerError>;

/// A user's scorer. Dropped, it kills its command.
#[derive(Debug)]
pub struct CommandScorer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: CommandScorerConfig,
    state: Mutex<State>,
    /// Told whenever a request ends or a process does.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    process: Option<Process>,
    /// Counts processes, so that threads of an old one touch nothing of a new one.
    generation: u64,
    next_id: u64,
    /// Requests the process has not answered; none for those whose callers no longer wait.
    pending: HashMap<u64, Option<mpsc::Sender<Outcome>>>,
    /// When the process last replied, or was first asked after it had answered everything.
    heard: Instant,
    /// Processes in a row that ended without a reply since.
    failures: u32,
    reason: String,
    not_before: Instant,
}

impl CommandScorer {
    /// A scorer as `config` says; its command starts with the first request.
    ///
    /// # Errors
    /// When the config has impossible values.
    pub fn new(config: CommandScorerConfig) -> Result<Self, CommandScorerError> {
        let problems = config.problems();
        if !problems.is_empty() {
            return Err(CommandScorerError::Config(problems));
        }
        let now = Instant::now();
        let state = State {
            process: None,
            generation: 0,
            next_id: 0,
            pending: HashMap::new(),
            heard: now,
            failures: 0,
            reason: String::new(),
            not_before: now,
        };
        Ok(Self { shared: Arc::new(Shared { config, state: Mutex::new(state), changed: Condvar::new() }) })
    }

    /// The command's score for an answer; many threads may ask at once.
    ///
    /// # Errors
    /// See [`CommandScorerError`]; soon after `deadline` at the latest.
    pub fn score(&self, request: ScoreRequest<'_>, deadline: Instant) -> Result<f64, CommandScorerError> {
        let shared = &self.shared;
        let (id, outcome) = shared.submit(request, deadline)?;
        match outcome.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => {
                // The request stays, without its caller: the process still has to answer it.
                if let Some(waiting) = shared.lock().pending.get_mut(&id) {
                    *waiting = None;
                }
                shared.end_if_hanging();
                outcome.try_recv().unwrap_or(Err(CommandScorerError::Deadline))
            }
            Err(RecvTimeoutError::Disconnected) => Err(CommandScorerError::Ended("without a reason".into())),
        }
    }
}

impl Drop for CommandScorer {
    fn drop(&mut self) {
        let process = self.shared.lock().process.take();
        if let Some(process) = process {
            process.end(false);
        }
    }
}

impl Shared {
    /// A panicking thread leaves the state whole: every change under the lock is finished before anything can fail.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a request to the process, which is started where there is none; the request's id, and where its outcome comes.
    fn submit(
        self: &Arc<Self>,
        request: ScoreRequest<'_>,
        deadline: Instant,
    ) -> Result<(u64, mpsc::Receiver<Outcome>), CommandScorerError> {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            if now >= deadline {
                drop(state);
                self.end_if_hanging();
                return Err(CommandScorerError::Deadline);
            }
            let until = if state.failures > self.config.max_restarts {
                let (failures, reason) = (state.failures, state.reason.clone());
                return Err(CommandScorerError::GivenUp { failures, reason });
            } else if state.process.is_some() && state.pending.len() < self.config.max_in_flight {
                break;
            } else if state.process.is_some() {
                deadline
            } else if state.not_before > now {
                deadline.min(state.not_before)
            } else {
                self.start(&mut state);
                continue;
            };
            let waited = self.changed.wait_timeout(state, until.saturating_duration_since(now));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let (id, (sender, outcome)) = (state.next_id, mpsc::channel());
        state.next_id += 1;
        if state.pending.is_empty() {
            state.heard = Instant::now();
        }
        state.pending.insert(id, Some(sender));
        if let Some(process) = &state.process {
            // A process that reads no more is ended by the thread that writes to it.
            let _ = process.lines.send(request_line(id, request));
        }
        Ok((id, outcome))
    }

    /// Starts the process and the threads around it.
    fn start(self: &Arc<Self>, state: &mut State) {
        let (process, pipes) = match Process::start(&self.config.command) {
            Ok(started) => started,
            Err(error) => return self.note_failure(state, format!("it can't be started: {error}")),
        };
        state.generation += 1;
        state.process = Some(process);
        let (generation, Pipes { stdin, lines, stdout, stderr }) = (state.generation, pipes);
        let shared = Arc::clone(self);
        std::thread::spawn(move || {
            if feed(stdin, lines).is_err() {
                shared.end(generation, "it closed its input", true);
            }
        });
        let shared = Arc::clone(self);
        std::thread::spawn(move || {
            let reason = shared.listen(stdout, generation);
            shared.end(generation, &reason, true);
        });
        let name = self.config.command[0].clone();
        std::thread::spawn(move || complaints::forward(stderr, &name));
    }

    fn note_failure(&self, state: &mut State, reason: String) {
        let wait =
            Duration::from_secs_f64(self.config.backoff_secs).saturating_mul(2_u32.saturating_pow(state.failures));
        state.not_before = Instant::now() + wait.min(Duration::from_secs_f64(self.config.max_backoff_secs));
        state.failures += 1;
        tracing::warn!("scorer `{}`, failure {}: {reason}", self.config.command[0], state.failures);
        state.reason = reason;
    }

    /// Takes replies from the process; why there are no more.
    fn listen(&self, stdout: ChildStdout, generation: u64) -> String {
        let (mut reader, mut line, most) = (BufReader::new(stdout), Vec::new(), self.config.max_reply_bytes);
        loop {
            line.clear();
            match reader.by_ref().take(most as u64 + 1).read_until(b'\n', &mut line) {
                Ok(0) => return "it ended its output".to_owned(),
                Ok(_) if line.last() != Some(&b'\n') && line.len() > most => {
                    return format!("it wrote a line of more than {most} bytes");
                }
                Ok(_) if line.last() != Some(&b'\n') => {
                    return "it ended its output in the middle of a line".to_owned();
                }
                Ok(_) => {}
                Err(error) => return format!("its output can't be read: {error}"),
            }
            if let Err(reason) = self.take_reply(&line, generation) {
                return reason;
            }
        }
    }

    fn take_reply(&self, line: &[u8], generation: u64) -> Result<(), String> {
        let (id, outcome) = parse_reply(line)?;
        let mut state = self.lock();
        if state.generation != generation || state.process.is_none() {
            return Err("it was ended before".to_owned());
        }
        let waiting = state.pending.remove(&id).ok_or_else(|| format!("it answered {id}, which is not under way"))?;
        (state.heard, state.failures) = (Instant::now(), 0);
        self.changed.notify_all();
        if let Some(waiting) = waiting {
            // Whoever waited may just have left.
            let _ = waiting.send(outcome);
        }
        Ok(())
    }

    /// Ends the process if it left its requests without any reply for too long.
    fn end_if_hanging(&self) {
        let state = self.lock();
        let (generation, silent) = (state.generation, state.heard.elapsed());
        let hangs = !state.pending.is_empty() && silent >= Duration::from_secs_f64(self.config.silence_secs);
        drop(state);
        if hangs {
            self.end(generation, &format!("it was silent for {silent:.1?}"), false);
        }
    }

    /// Ends the process of that generation, if it is the present one; its requests become errors.
    fn end(&self, generation: u64, reason: &str, has_ended: bool) {
        let mut state = self.lock();
        if state.generation != generation {
            return;
        }
        let Some(process) = state.process.take() else { return };
        let pending = std::mem::take(&mut state.pending);
        self.note_failure(&mut state, reason.to_owned());
        drop(state);
        let reason = format!("{reason} ({})", process.end(has_ended));
        let mut state = self.lock();
        if state.generation == generation {
            state.reason.clone_from(&reason);
        }
        self.changed.notify_all();
        drop(state);
        for waiting in pending.into_values().flatten() {
            let _ = waiting.send(Err(CommandScorerError::Ended(reason.clone())));
        }
    }
}

#[cfg(test)]
mod tests;
