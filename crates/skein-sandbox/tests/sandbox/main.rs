//! The sandbox against real Python: what gets out, what fakes a pass, and what honest answers get.

mod escapes;
mod fakes;
mod honest;
mod protections;
mod vectors;

use std::path::PathBuf;
use std::time::Duration;

use skein_sandbox::{Limits, Policy, Sandbox};

/// Time for answers that are meant to run out of it.
const SHORT: Duration = Duration::from_secs(2);

/// The default policy with this crate's own worker.
fn policy() -> Policy {
    Policy { worker: Some(PathBuf::from(env!("CARGO_BIN_EXE_skein-sandbox-worker"))), ..Policy::default() }
}

fn sandbox() -> Sandbox {
    Sandbox::start(&policy()).expect("a sandbox on this machine")
}

fn impatient_sandbox() -> Sandbox {
    let limits = Limits { cpu: Duration::from_secs(1), wall: SHORT, ..Limits::default() };
    Sandbox::start(&Policy { limits, ..policy() }).expect("a sandbox on this machine")
}
