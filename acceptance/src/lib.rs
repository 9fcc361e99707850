//! The acceptance of GPUs: whether kernels work on one, and how fast they are.
//!
//! One program that needs a driver and nothing else. Where kernels are made, it writes a *bundle*:
//! itself, compiled candidates, what the model of the GPU predicts of them, and a script that
//! measures peers. Where a GPU is, it checks every candidate against the interpreter, times what is
//! worth timing, and tunes for as long as it may. Every result is kept as it comes.
//!
//! Candidates are launched by the tuner's workers: as in a user's program, in a process that may be
//! lost.

#![forbid(unsafe_code)]

pub mod bundle;
pub mod case;
mod cli;
pub mod curves;
pub mod item;
pub mod judge;
pub mod machine;
pub mod outcome;
pub mod predictions;
pub mod problem;
pub mod results;
pub mod roofline;
pub mod run;
pub mod subject;
mod table;
pub mod tune;

use std::process::ExitCode;

use clap::Parser;

/// How a command went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is as it should be.
    Done,
    /// Something is wrong, or was left undone.
    Refused,
    /// There is no GPU.
    NoDevice,
}

/// What a shell sees of a command that could not even begin.
const USAGE: u8 = 2;

/// Runs the command of this process's arguments.
pub fn main() -> ExitCode {
    // What candidates are launched by is this program again.
    tvmtune_tuner::measure::worker::maybe_run();
    match cli::run(cli::Cli::parse()) {
        Ok(Exit::Done) => ExitCode::SUCCESS,
        Ok(Exit::Refused) => ExitCode::FAILURE,
        Ok(Exit::NoDevice) => ExitCode::from(3),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(USAGE)
        }
    }
}
