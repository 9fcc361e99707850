//! The command line of tvmtune, as a cargo subcommand: `cargo tvmtune tune`.
//!
//! In: arguments. Out: text for people on standard output, or JSON, and an [`Exit`]. Everything it
//! knows about packages comes from `tvmtune-build`, so that a command and a build never disagree;
//! everything it measures goes through `tvmtune-tuner`.

#![forbid(unsafe_code)]

mod cli;
mod command;
mod cycles;
mod device_plan;
pub mod emulate;
mod needed_glibc;
mod output;
mod prediction;
mod profile;
mod progress;
mod records;
mod render;
mod roofline;
mod study;
mod training;
mod workspace;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Parser;
use tvmtune_tuner::measure::worker;

use cli::{Cli, Command};

use crate::output::eprintln;

/// The exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    /// The command succeeded.
    Done,
    /// A check failed.
    Refused,
    /// There is no usable device.
    NoDevice,
}

/// The exit code of an invalid command line.
const USAGE: u8 = 2;

/// Runs the command of this process's arguments, or a worker if the process was started as one.
pub fn main() -> ExitCode {
    worker::maybe_run();
    #[cfg(feature = "templates")]
    if tvmtune_build::bindings::serve_if_asked() {
        return ExitCode::SUCCESS;
    }
    let cli = Cli::parse_from(arguments(std::env::args_os()));
    let exit = run(cli.command);
    let lost = output::finish().map(|it| anyhow!("cannot write to standard output: {it}"));
    match lost.map_or(exit, Err) {
        Ok(Exit::Done) => ExitCode::SUCCESS,
        Ok(Exit::Refused) => ExitCode::FAILURE,
        Ok(Exit::NoDevice) => ExitCode::from(3),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(USAGE)
        }
    }
}

/// Removes the name that cargo passes to its subcommands.
fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = given.collect();
    if arguments.get(1).is_some_and(|it| it == "tvmtune") {
        arguments.remove(1);
    }
    arguments
}

fn run(command: Command) -> Result<Exit> {
    match command {
        Command::Tune(it) => command::tune::run(&it),
        Command::Status(it) => command::status::run(&it),
        Command::Watch(it) => command::watch::run(&it),
        Command::Bench(it) => command::bench::run(&it),
        Command::Buckets(it) => command::buckets::run(&it),
        Command::Profile(it) => command::profile::run(&it),
        Command::Compile(it) if it.record => command::record::run(&it),
        Command::Compile(it) => command::compile::run(&it),
        Command::Emulate(it) => command::emulate::run(&it),
        Command::Accept(it) => command::accept::run(&it),
        Command::Check(it) => command::check::run(&it),
        Command::Verify(it) => command::verify::run(&it),
        Command::Show(it) => command::show::run(&it),
        Command::Merge(it) => command::merge::run(&it),
        Command::Train(it) => command::train::run(&it),
        Command::Predict(it) => command::predict::run(&it),
        Command::Upgrade(it) => command::upgrade::run(&it),
        Command::Gc(it) => command::gc::run(&it),
        Command::Study(it) => command::study::run(&it),
        Command::Worker(it) => command::worker::run(&it),
        Command::Fleet(it) => command::fleet::run(&it),
        Command::Doctor => command::doctor::run(),
        Command::Job => command::job::run(),
        Command::Serve(it) => command::serve::run(&it),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_may_pass_the_name_of_the_subcommand() {
        let check = |given: &[&str], expected: &[&str]| {
            assert_eq!(arguments(given.iter().map(OsString::from)), expected);
        };
        check(&["cargo-tvmtune", "tvmtune", "status"], &["cargo-tvmtune", "status"]);
        check(&["cargo-tvmtune", "status"], &["cargo-tvmtune", "status"]);
        check(&["cargo-tvmtune", "show", "tvmtune"], &["cargo-tvmtune", "show", "tvmtune"]);
    }
}
