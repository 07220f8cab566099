//! The sandbox against real Python: what gets out, what fakes a pass, and what honest answers get.

mod documented;
mod escapes;
mod fakes;
mod honest;
mod protections;
mod vectors;

use std::path::PathBuf;
use std::time::Duration;

use skein_sandbox::{Limits, Policy, Sandbox};

/// Processor and wall-clock time for answers that are meant to run out of it.
const SHORT: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];

/// The default policy with this crate's own worker, at the tests' own priority.
fn policy() -> Policy {
    Policy {
        limits: Limits { nice: 0, ..Limits::default() },
        worker: Some(PathBuf::from(env!("CARGO_BIN_EXE_skein-sandbox-worker"))),
        ..Policy::default()
    }
}

fn sandbox() -> Sandbox {
    Sandbox::start(&policy()).expect("a sandbox on this machine")
}

fn impatient_sandbox() -> Sandbox {
    let [cpu, wall] = SHORT;
    Sandbox::start(&Policy { limits: Limits { cpu, wall, ..policy().limits }, ..policy() })
        .expect("a sandbox on this machine")
}
