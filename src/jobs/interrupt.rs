//! Ctrl-C and SIGTERM as a flag that loops look at between steps.
//!
//! The first signal asks for a clean stop (a checkpoint, then exit); the second ends the process at once.
//! Nothing is done inside the handler itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
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
                .context("installing the Ctrl-C handler")?;
            flag::register(signal, stop.clone()).context("installing the Ctrl-C handler")?;
        }
        Ok(Self(stop))
    }

    /// True once a stop was asked for.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
