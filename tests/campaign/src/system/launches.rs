//! Launches from many threads at once, under all circumstances that a process may bring.

use std::time::Duration;

use super::launcher::Happening;
use super::place::{self, Place};
use super::roles::{Role, VARIABLE};
use super::template::io_problem;
use crate::case::Case;
use crate::section::{Kind, Problem, Section, Verdict};

/// The section.
pub struct Launches;

/// Values of `TVMTUNE_THREADS`; nothing stands for no value.
const THREADS: [&str; 9] = ["", "1", "2", "3", "7", "64", "1000", "0", "many"];

/// Numbers of threads that launch.
const CALLERS: [usize; 5] = [1, 2, 3, 8, 40];

/// Launches of all threads together.
const LAUNCHES: usize = 2000;

impl Section for Launches {
    fn name(&self) -> &'static str {
        "launches"
    }

    fn about(&self) -> &'static str {
        "launches from threads, forked processes, odd modes of arithmetic: the same bits"
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(150)
    }

    fn cases_of_a_test(&self) -> u64 {
        12
    }

    /// A thousand threads have stacks.
    fn memory_bytes(&self) -> Option<u64> {
        None
    }

    fn check(&self, case: &mut Case) -> Result<Verdict, Problem> {
        let happening = *case.pick(&Happening::ALL);
        let callers = *case.pick(&CALLERS);
        let threads = *case.pick(&THREADS);
        // Each takes as many turns of a core as there are threads.
        let share = if threads == "1000" { 20 } else { 1 };
        let (launches, seed) = (LAUNCHES / callers / share, case.random.bits());
        let arguments =
            [happening.name(), callers.to_string(), launches.to_string(), seed.to_string()];
        case.count(format!("{happening:?}"));
        case.input("launches.txt", format!("TVMTUNE_THREADS={threads:?} {arguments:?}\n"));
        let place = Place::new(case.folder()).map_err(io_problem)?;
        let mut command = place.command(place::this_program());
        command.env(VARIABLE, Role::Application.name()).args(arguments);
        if !threads.is_empty() {
            command.env("TVMTUNE_THREADS", threads);
        }
        let said = place::run(&mut command)?;
        said.is_clear_of_panics()?;
        let why = said.err.lines().next_back().unwrap_or_default();
        match said.status.success() {
            true => Ok(Verdict::Accepted),
            false if why.contains("hangs") => {
                Err(Problem { kind: Kind::Hang, message: format!("{why}\n{happening:?}") })
            }
            false => Err(Problem::wrong(format!("{happening:?}: {why}\n{}", said.err))),
        }
    }
}
