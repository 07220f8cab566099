//! Stdout, where results go: the one way to print them.
//!
//! `println!` ends the program with a panic where stdout takes no more. Here that is an error like any other, and a reader
//! that has gone is not even one to talk about: `skein … | head` ends as a shell expects of a command before `head`.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// What shells report of a process ended by SIGPIPE.
pub const EXIT_NO_READER: u8 = 141;

/// Why results could not be printed.
#[derive(Debug, thiserror::Error)]
pub enum PrintError {
    /// Whoever read them has gone.
    #[error("nobody reads stdout any more")]
    NoReader,
    /// The system refused.
    #[error("cannot write to stdout: {0}")]
    Io(io::Error),
}

/// Prints `text` at once.
///
/// # Errors
/// When stdout does not take it.
pub fn print(text: impl Display) -> Result<(), PrintError> {
    let mut stdout = io::stdout().lock();
    write!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => PrintError::NoReader,
        _ => PrintError::Io(error),
    })
}

/// [`print()`] with a line break.
///
/// # Errors
/// When stdout does not take it.
pub fn print_line(text: impl Display) -> Result<(), PrintError> {
    print(format_args!("{text}\n"))
}
