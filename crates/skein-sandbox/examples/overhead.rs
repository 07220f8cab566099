//! What a sandboxed run costs over starting Python alone, and what two threads get through.
//!
//! `cargo run --release -p skein-sandbox --example overhead` after the worker has been built in the same profile.
#![expect(clippy::print_stdout, reason = "results are what it is for")]

use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use skein_core::reward::scorers::coding::runner::{AssertTests, RunCode};
use skein_core::reward::scorers::coding::value::PlainValue;
use skein_sandbox::{Limits, Policy, Sandbox};

const RUNS: u32 = 100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Measured at the caller's priority, like bare Python.
    let limits = Limits { nice: 0, ..Limits::default() };
    let sandbox = Sandbox::start(&Policy { limits, ..Policy::default() })?;
    let tests = AssertTests {
        code: "assert f(2) == 4\nassert f(3) == 9\nassert f(4) == 16".into(),
        entry_point: None,
        reference: None,
    };
    let square = "def f(x): return x * x";
    let python = sandbox.python();
    let bare = || Command::new(python).args(["-c", "pass"]).stdin(Stdio::null()).status().map(drop);
    let program = || sandbox.run_program("print(input())", "1").map(drop);
    let call = || sandbox.call(square, "f", &[PlainValue::Int(2.into())]).map(drop);
    let asserts = || sandbox.check_asserts(square, &tests).map(drop);
    let base = measure("bare python3", 0.0, bare)?;
    measure("program", base, program)?;
    measure("call", base, call)?;
    measure("asserts", base, asserts)?;
    Ok(())
}

/// Milliseconds for one run, alone; prints that, the difference to `base` and the rate of two threads.
fn measure<E: std::error::Error + Send + 'static>(
    name: &str,
    base: f64,
    run: impl Fn() -> Result<(), E> + Sync,
) -> Result<f64, E> {
    let repeat = || (0..RUNS).try_for_each(|_| run());
    let start = Instant::now();
    repeat()?;
    let alone = start.elapsed().as_secs_f64() * 1000.0 / f64::from(RUNS);
    let start = Instant::now();
    thread::scope(|scope| {
        let other = scope.spawn(repeat);
        repeat()?;
        other.join().expect("a run does not panic")
    })?;
    let rate = f64::from(2 * RUNS) / start.elapsed().as_secs_f64();
    println!(
        "{name}: {alone:.1} ms a run, {:.1} ms over bare python3, {rate:.1} runs/s from two threads",
        alone - base
    );
    Ok(alone)
}
