//! The acceptance of GPUs: correctness and speed of kernels on a GPU.
//!
//! One program that needs a driver and nothing else. Where kernels are made, it writes a *bundle*:
//! itself, compiled candidates, the predictions of the analytic cost model, and a script that
//! measures peers. Where a GPU is, it checks every candidate against the interpreter, times
//! benchmarks, and tunes them within a budget. Every result is stored as soon as it is known.
//!
//! Candidates are launched by the tuner's workers, as in a user's program, in a process that may
//! crash.

#![forbid(unsafe_code)]

pub mod benchmark;
pub mod bundle;
pub mod candidate;
pub mod case;
mod cli;
pub mod curves;
pub mod evaluation;
pub mod evaluator;
pub mod machine;
pub mod predictions;
pub mod problem;
pub mod results;
pub mod roofline;
pub mod run;
mod table;
pub mod tune;

use std::process::ExitCode;

use clap::Parser;

/// The status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything is right.
    Done,
    /// Something is wrong, or was left undone.
    Refused,
    /// There is no GPU.
    NoDevice,
}

/// The exit code of a command that could not begin.
const USAGE: u8 = 2;

/// Runs the command of this process's arguments.
pub fn main() -> ExitCode {
    // The workers that launch candidates are processes of this program.
    tvmtune_tuner::measure::worker::maybe_run();
    match cli::dispatch(cli::Cli::parse()) {
        Ok(Exit::Done) => ExitCode::SUCCESS,
        Ok(Exit::Refused) => ExitCode::FAILURE,
        Ok(Exit::NoDevice) => ExitCode::from(3),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(USAGE)
        }
    }
}
