//! Standard output and standard error of commands, of which either may be closed or full.
//!
//! Output is the lesser part of a command: `cargo tvmtune accept | head -1` accepts every
//! record. So printing never fails and never panics. A reader that is gone is nobody to print for; any
//! other error is kept, and ends the command with an error once its work is done.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::{Mutex, PoisonError};

/// The first error of standard output.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints to standard output.
pub(crate) fn to_stdout(text: fmt::Arguments<'_>) {
    note(anstream::stdout().lock().write_fmt(text));
}

/// Prints to standard error; nobody can be told where that fails.
pub(crate) fn to_stderr(text: fmt::Arguments<'_>) {
    let _ = io::stderr().lock().write_fmt(text);
}

/// Shows what was printed so far; tells if anybody can read it.
pub(crate) fn flush() -> bool {
    note(io::stdout().flush());
    FAILED.lock().unwrap_or_else(PoisonError::into_inner).is_none()
}

/// Ends printing; returns the error for which output was lost, unless its reader is gone.
pub(crate) fn finish() -> Option<io::Error> {
    flush();
    let failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner).take();
    failed.filter(|it| it.kind() != ErrorKind::BrokenPipe)
}

fn note(result: io::Result<()>) {
    if let Err(error) = result {
        FAILED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

macro_rules! print {
    ($($arg:tt)*) => { $crate::output::to_stdout(format_args!($($arg)*)) };
}

macro_rules! println {
    ($($arg:tt)*) => { $crate::output::to_stdout(format_args!("{}\n", format_args!($($arg)*))) };
}

macro_rules! eprintln {
    ($($arg:tt)*) => { $crate::output::to_stderr(format_args!("{}\n", format_args!($($arg)*))) };
}

pub(crate) use {eprintln, print, println};
