//! Skein: everything that holds a tensor, and the command line over it.
//!
//! Imports point down only: `cli` → `jobs` → {`trainer`, `engine`} → {`models`, `optim`} → `nn` → `kernels`.
//! `engine` and `trainer` never import each other; both run the model code of [`models`] on the same weights.
#![warn(clippy::print_stderr)]

/// Says a line to the person who started the program. Where nobody can hear it any more (a closed pipe, a full disk) the work
/// goes on.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _nobody_hears = writeln!(std::io::stderr(), $($text)*);
    }};
}

mod allocator;
pub mod checkpoint;
pub mod cli;
pub mod engine;
pub mod jobs;
pub mod kernels;
pub mod models;
pub mod nn;
pub mod optim;
mod priority;
pub mod report;
pub mod trainer;
