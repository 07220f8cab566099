//! The sandbox as its callers see it: set up once, then one worker process for each run, from any thread.

use std::io::{BufReader, Cursor};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use skein_core::reward::scorers::coding::runner::{AssertTests, Evidence, Failure, RunCode, RunError};
use skein_core::reward::scorers::coding::value::PlainValue;

use crate::codec::{self, DecodeError};
use crate::interpreter::Interpreter;
use crate::policy::{Limits, Policy, Protection};
use crate::protocol::{self, Ending, Ground, Job, Reply, Task, Walls};
use crate::scripts::Scripts;

const WORKER: &str = "skein-sandbox-worker";
const WORKER_VARIABLE: &str = "SKEIN_SANDBOX_WORKER";

/// What both kinds of process write before they do anything else.
const STARTED: u8 = b'R';

/// A program that tries to get out and prints where it succeeded.
const SELF_TEST: &str = include_str!("../python/self_test.py");
/// Threads that the self-test tries to start beyond the limit.
const EXTRA_THREADS: u64 = 8;

/// Runs untrusted Python; implements [`RunCode`].
#[derive(Debug, Clone)]
pub struct Sandbox {
    worker: PathBuf,
    interpreter: Interpreter,
    scripts: Scripts,
    walls: Walls,
    limits: Limits,
}

/// Why there is no sandbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// The worker binary is nowhere.
    #[error(
        "the sandbox's worker `{WORKER}` is not at {}; build it with `cargo build --release -p skein-sandbox`, or name it \
         in the environment variable {WORKER_VARIABLE}",
        searched.iter().map(|path| format!("`{}`", path.display())).collect::<Vec<_>>().join(" or ")
    )]
    NoWorker {
        /// Where it was looked for.
        searched: Vec<PathBuf>,
    },
    /// Python can't be used.
    #[error("no Python interpreter for the sandbox: {0}")]
    NoInterpreter(String),
    /// The kernel lacks protections that the policy does not do without.
    #[error(
        "untrusted code is refused: this machine lacks {} ({reason})",
        missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Missing {
        /// What is missing.
        missing: Vec<Protection>,
        /// What the attempts to use it said.
        reason: String,
    },
}

impl Sandbox {
    /// Finds the worker and the interpreter, then the strongest walls that hold against a program that tries them.
    ///
    /// # Errors
    /// When the worker or Python is missing, or protections are that the policy insists on.
    pub fn start(policy: &Policy) -> Result<Self, SandboxError> {
        let worker = find_worker(policy.worker.as_deref())?;
        let interpreter = Interpreter::survey(policy.python.as_deref()).map_err(SandboxError::NoInterpreter)?;
        let scripts = Scripts::compile(&interpreter.executable).map_err(SandboxError::NoInterpreter)?;
        let mut reasons = Vec::new();
        for walls in candidates() {
            let sandbox = Self {
                worker: worker.clone(),
                interpreter: interpreter.clone(),
                scripts: scripts.clone(),
                walls,
                limits: policy.limits,
            };
            let problem = match sandbox.self_test() {
                Err(problem) => problem,
                Ok(()) => {
                    let mut missing = walls.missing();
                    missing.retain(|protection| !policy.allow_missing.contains(protection));
                    if missing.is_empty() {
                        return Ok(sandbox);
                    }
                    return Err(SandboxError::Missing { missing, reason: reasons.join("; ") });
                }
            };
            reasons.push(format!("{:?}: {problem}", walls.ground));
        }
        let missing = vec![Protection::Seccomp, Protection::Landlock, Protection::Namespaces];
        Err(SandboxError::Missing { missing, reason: reasons.join("; ") })
    }

    /// The protections that this sandbox does without; empty unless the policy allows it.
    pub fn missing(&self) -> Vec<Protection> {
        self.walls.missing()
    }

    /// The interpreter that runs answers.
    pub fn python(&self) -> &Path {
        &self.interpreter.executable
    }

    fn self_test(&self) -> Result<(), String> {
        let code = SELF_TEST.replace("THREADS", &(self.limits.threads + EXTRA_THREADS).to_string());
        let output = self.run_program(&code, "").map_err(|error| error.to_string())?;
        let output = output.map_err(|failure| format!("the self-test failed: {failure}"))?;
        let escapes = output.trim().strip_prefix("escapes:").ok_or("the self-test said nothing")?.trim().to_owned();
        let known = escapes == "threads" && self.walls.missing().contains(&Protection::ThreadLimit);
        if escapes.is_empty() || known { Ok(()) } else { Err(format!("the self-test got through: {escapes}")) }
    }

    /// Has a worker run one job: how the watched process ended and what its pipes held.
    fn work(&self, task: Task, [first, second]: [&[u8]; 2]) -> Result<(Ending, Vec<Vec<u8>>), RunError> {
        let broken = |what: &str, error: std::io::Error| RunError::Broken(format!("{what}: {error}"));
        let mut worker = Command::new(&self.worker)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| broken("the worker can't be started", error))?;
        let job = Job { task, limits: self.limits, interpreter: self.interpreter.clone(), walls: self.walls };
        let mut input = worker.stdin.take().expect("the worker's input is a pipe");
        let sent = protocol::send(&mut input, job, &[first, second, &self.scripts.candidate, &self.scripts.examiner]);
        drop(input);
        let output = worker.wait_with_output().map_err(|error| broken("the worker can't be read", error))?;
        sent.map_err(|error| broken("the worker took no job", error))?;
        if !output.status.success() {
            return Err(RunError::Broken(format!("the worker ended with {}", output.status)));
        }
        let reply = protocol::receive(&mut BufReader::new(Cursor::new(output.stdout)));
        match reply.map_err(|error| broken("the worker's reply is cut off", error))? {
            (Reply::Ended(ending), sections) => Ok((ending, sections)),
            (Reply::Broken(problem), _) => Err(RunError::Broken(format!("no jail: {problem}"))),
        }
    }
}

impl RunCode for Sandbox {
    fn run_program(&self, code: &str, stdin: &str) -> Result<Result<String, Failure>, RunError> {
        let (ending, sections) = self.work(Task::Program, [code.as_bytes(), stdin.as_bytes()])?;
        let [output, errors, started] = exactly(sections)?;
        if started.first() != Some(&STARTED) {
            return Err(unstarted(&ending, &errors));
        }
        Ok(match failure(&ending, &errors) {
            Some(failure) => Err(failure),
            None => Ok(String::from_utf8_lossy(&output).into_owned()),
        })
    }

    fn call(
        &self,
        code: &str,
        function: &str,
        arguments: &[PlainValue],
    ) -> Result<Result<PlainValue, Failure>, RunError> {
        let text = |text: &str| PlainValue::Str(text.to_owned());
        let request = PlainValue::Tuple(vec![
            text("solve"),
            text(function),
            PlainValue::Tuple(arguments.to_vec()),
            PlainValue::Dict(Vec::new()),
        ]);
        let (ending, sections) = self.work(Task::Call, [code.as_bytes(), &codec::frame(&request)])?;
        let [replies, errors] = exactly(sections)?;
        let Some((&STARTED, replies)) = replies.split_first() else { return Err(unstarted(&ending, &errors)) };
        if let Some(failure) = failure(&ending, &errors) {
            return Ok(Err(failure));
        }
        let stopped = |reason: &str| Ok(Err(Failure::Stopped(reason.to_owned())));
        let Some(reply) = codec::unframe(replies) else { return stopped("it ended without a result") };
        match codec::decode(reply) {
            Ok(PlainValue::Tuple(fields)) => match fields.as_slice() {
                [PlainValue::Str(kind), value, _] if kind == "value" => Ok(Ok(value.clone())),
                [_, PlainValue::List(names), PlainValue::Str(message)] => match names.first() {
                    Some(PlainValue::Str(name)) => stopped(&format!("{name}: {message}")),
                    _ => stopped("it raised"),
                },
                _ => stopped("it sent no reply"),
            },
            Err(DecodeError::Live) => Ok(Err(Failure::NotPlain)),
            Ok(_) | Err(DecodeError::Malformed) => stopped("it sent no value"),
        }
    }

    fn check_asserts(&self, code: &str, tests: &AssertTests) -> Result<Result<Evidence, Failure>, RunError> {
        let optional = |text: &Option<String>| text.clone().map_or(PlainValue::None, PlainValue::Str);
        let payload = codec::encode(&PlainValue::Tuple(vec![
            PlainValue::Str(tests.code.clone()),
            optional(&tests.entry_point),
            optional(&tests.reference),
        ]));
        let (ending, sections) = self.work(Task::Check, [code.as_bytes(), &payload])?;
        let [verdict, errors] = exactly(sections)?;
        let Some((&STARTED, verdict)) = verdict.split_first() else { return Err(unstarted(&ending, &errors)) };
        if let Some(failure) = failure(&ending, &errors) {
            return Ok(Err(failure));
        }
        let Ok(PlainValue::Tuple(fields)) = codec::decode(verdict) else {
            return Ok(Err(Failure::Rejected("the tests did not reach a verdict".into())));
        };
        match fields.as_slice() {
            [PlainValue::Str(kind), PlainValue::Bool(assisted)] if kind == "passed" => {
                Ok(Ok(if *assisted { Evidence::Assisted } else { Evidence::Values }))
            }
            [PlainValue::Str(kind), PlainValue::Str(reason)] => match kind.as_str() {
                "unusable" => Err(RunError::Tests(reason.clone())),
                "unstarted" => Err(RunError::Broken("the answer's process did not start".into())),
                _ => Ok(Err(Failure::Rejected(reason.clone()))),
            },
            _ => Err(RunError::Broken("the examiner's verdict has no known form".into())),
        }
    }
}

/// The walls to try, strongest first. Files need Landlock or namespaces, so no other pair is among them.
fn candidates() -> impl Iterator<Item = Walls> {
    let with_landlock = Ground::ALL.into_iter().map(|ground| Walls { ground, landlock: true });
    let without = Ground::ALL.into_iter().filter(|ground| ground.has_namespaces());
    with_landlock.chain(without.map(|ground| Walls { ground, landlock: false }))
}

fn find_worker(given: Option<&Path>) -> Result<PathBuf, SandboxError> {
    let named = given.map(Path::to_owned).or_else(|| std::env::var_os(WORKER_VARIABLE).map(PathBuf::from));
    let searched = match named {
        Some(path) => vec![path],
        None => {
            let executable = std::env::current_exe().unwrap_or_default();
            // Tests and examples of Cargo stand one directory below the binaries.
            executable.ancestors().skip(1).take(2).map(|directory| directory.join(WORKER)).collect()
        }
    };
    searched.iter().find(|path| path.is_file()).cloned().ok_or(SandboxError::NoWorker { searched })
}

fn exactly<const N: usize>(sections: Vec<Vec<u8>>) -> Result<[Vec<u8>; N], RunError> {
    sections.try_into().map_err(|_| RunError::Broken("the worker's reply has the wrong number of sections".into()))
}

/// What went wrong with a process that ran the answer, if anything did.
fn failure(ending: &Ending, errors: &[u8]) -> Option<Failure> {
    match ending {
        Ending::Exited(0) => None,
        Ending::TimeLimit => Some(Failure::TimeLimit),
        Ending::OutputLimit => Some(Failure::OutputLimit),
        Ending::Exited(status) => Some(Failure::Stopped(match last_line(errors) {
            line if line.is_empty() => format!("exit status {status}"),
            line => line,
        })),
        Ending::Signaled(signal) => Some(Failure::Stopped(format!("signal {signal}"))),
    }
}

/// An interpreter that did not come as far as reading the answer says nothing about it.
fn unstarted(ending: &Ending, errors: &[u8]) -> RunError {
    RunError::Broken(format!("the interpreter did not start ({ending:?}): {}", last_line(errors)))
}

fn last_line(errors: &[u8]) -> String {
    String::from_utf8_lossy(errors).trim().lines().last().unwrap_or_default().to_owned()
}
