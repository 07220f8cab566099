//! What the library and its worker say to each other: a line of JSON, then sections of raw bytes.
//!
//! Both ends are this crate at one version, and neither passes on bytes from a jail as anything but a section.

use std::io::{self, BufRead, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::interpreter::Interpreter;
use crate::policy::{Limits, Protection};

/// What the worker is asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    pub task: Task,
    pub limits: Limits,
    pub interpreter: Interpreter,
    pub walls: Walls,
}

/// What to run. A job has two sections for it and then the two scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// Code and standard input.
    Program,
    /// Code and one request frame.
    Call,
    /// Code and the examiner's payload.
    Check,
}

/// The walls of a jail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walls {
    pub ground: Ground,
    pub landlock: bool,
}

/// What a jail stands on, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ground {
    /// Namespaces made as root, and a uid that nothing else has.
    RootNamespaces,
    /// Namespaces inside a new user namespace.
    UserNamespaces,
    /// No namespaces, but a uid that nothing else has.
    OwnUid,
    /// The caller's uid and no namespaces.
    Bare,
}

impl Ground {
    pub const ALL: [Self; 4] = [Self::RootNamespaces, Self::UserNamespaces, Self::OwnUid, Self::Bare];

    pub fn has_namespaces(self) -> bool {
        matches!(self, Self::RootNamespaces | Self::UserNamespaces)
    }
}

impl Walls {
    /// The protections that these walls lack.
    pub fn missing(&self) -> Vec<Protection> {
        let mut missing = Vec::new();
        if !self.landlock {
            missing.push(Protection::Landlock);
        }
        if !self.ground.has_namespaces() {
            missing.push(Protection::Namespaces);
        }
        if self.ground == Ground::Bare {
            missing.push(Protection::ThreadLimit);
        }
        missing
    }
}

/// What the worker answers; its sections are what the watched pipe and the standard error of the process held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The process ran; for a check, the examiner.
    Ended(Ending),
    /// No process ran.
    Broken(String),
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    Exited(i32),
    Signaled(i32),
    TimeLimit,
    OutputLimit,
}

#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    message: T,
    sections: Vec<usize>,
}

/// Writes a message and its sections.
pub fn send<T: Serialize>(to: &mut impl Write, message: T, sections: &[&[u8]]) -> io::Result<()> {
    let envelope = Envelope { message, sections: sections.iter().map(|section| section.len()).collect() };
    let mut bytes = serde_json::to_vec(&envelope)?;
    bytes.push(b'\n');
    sections.iter().for_each(|section| bytes.extend_from_slice(section));
    to.write_all(&bytes)?;
    to.flush()
}

/// Reads a message and its sections.
pub fn receive<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<(T, Vec<Vec<u8>>)> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    let envelope: Envelope<T> = serde_json::from_slice(&line)?;
    let mut sections = Vec::with_capacity(envelope.sections.len());
    for size in envelope.sections {
        let mut section = Vec::new();
        from.by_ref().take(size as u64).read_to_end(&mut section)?;
        if section.len() != size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        sections.push(section);
    }
    Ok((envelope.message, sections))
}
