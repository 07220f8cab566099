//! Runs untrusted Python programs, so that answers of the coding domain can be scored by tests.
//!
//! [`Sandbox`] implements core's `RunCode`. Every run starts the binary `skein-sandbox-worker`, which is never linked to
//! libtorch; the worker builds a jail around each Python process, watches it, and reports what came out. Nothing that an
//! answer's process says is taken for a verdict: outputs and values are compared in core, and assertions run in a second
//! jailed process that holds the expected results while the answer's holds none.
//!
//! A jail is one process. It can't make others, reach a network, signal or trace anything, see any file but the
//! interpreter's, or write outside a small scratch directory of its own; memory, processor and wall-clock time, output,
//! descriptors and threads are bounded, and killing the one process ends everything that it started. [`Protection`] lists
//! what that rests on. What the kernel does not offer is named at start, and untrusted code is then refused unless the
//! policy says otherwise.
#![cfg(target_os = "linux")]

mod codec;
mod interpreter;
mod jail;
mod policy;
mod protocol;
mod sandbox;
mod scripts;
mod worker;

pub use policy::{Limits, Policy, Protection};
pub use sandbox::{Sandbox, SandboxError};
pub use worker::run as run_worker;
