//! Ctrl-C, SIGTERM and a closed terminal as a flag that loops look at between steps.
//!
//! The first signal asks for a clean stop (a checkpoint, then exit); a second Ctrl-C or SIGTERM ends the process at once. A
//! terminal that closes sends its SIGHUP more than once, so that one only ever asks; where it is ignored, as `nohup` wants
//! it, it stays ignored. Nothing is done inside the handler itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// The shell's convention for a process ended by SIGINT.
pub const EXIT_INTERRUPTED: u8 = 130;

/// Whether someone asked the run to stop.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs the handlers.
    ///
    /// # Errors
    /// When the system refuses a signal handler.
    pub fn install() -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // Order matters: the shutdown looks at the flag before this signal sets it.
            flag::register_conditional_shutdown(signal, EXIT_INTERRUPTED.into(), stop.clone())
                .and_then(|_| flag::register(signal, stop.clone()))
                .context("installing the handler of Ctrl-C and SIGTERM")?;
        }
        if !is_ignored(SIGHUP) {
            flag::register(SIGHUP, stop.clone()).context("installing the handler of a closed terminal")?;
        }
        Ok(Self(stop))
    }

    /// True once a stop was asked for.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether this process was started with `signal` ignored, as the system reports it.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ignored & (1 << (signal - 1)) != 0
}
