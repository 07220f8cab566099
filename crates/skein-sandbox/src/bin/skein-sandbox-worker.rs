//! Reads one job from standard input, runs it in jails and writes what became of it to standard output.

use std::process::ExitCode;

fn main() -> ExitCode {
    skein_sandbox::run_worker()
}
