//! Builds of cargo that are killed: cargo alone, or with all that it started.
//!
//! The first case compiles what crates depend on, which takes a minute or two.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::ledger::Ledger;
use super::place::{self, Place};
use super::processes;
use super::template::{self, io_problem};
use crate::case::Case;
use crate::section::{Kind, Problem, Section, Verdict};

/// The section.
pub struct Builds;

/// How long a build may take: the first one compiles all dependencies.
const PATIENCE: Duration = Duration::from_secs(900);

/// How long a build takes whose dependencies are compiled, roughly.
const TAKES: Duration = Duration::from_secs(8);

impl Section for Builds {
    fn name(&self) -> &'static str {
        "builds"
    }

    fn about(&self) -> &'static str {
        "builds that tune and are killed lose nothing, and their processes end"
    }

    fn limit(&self) -> Duration {
        PATIENCE * 2
    }

    /// None: each compiles for minutes where nothing is compiled yet.
    fn cases_of_a_test(&self) -> u64 {
        0
    }

    fn n_processes(&self) -> Option<usize> {
        Some(1)
    }

    /// The compiler takes what it takes.
    fn memory_bytes(&self) -> Option<u64> {
        None
    }

    fn check(&self, case: &mut Case) -> Result<Verdict, Problem> {
        let folder = case.folder().to_owned();
        let place = template::tuned(&folder)?;
        build(&place)?;
        let before = Ledger::of(&place)?;
        // A kernel that nobody has tuned: the build does.
        let by = 2 + case.random.below(1000);
        let another = place::SOURCE_OF_ANOTHER.replace("3.0", &format!("{by}.0"));
        let source = format!("{}{another}", place::SOURCE);
        fs::write(place.package.join("src/lib.rs"), source).map_err(io_problem)?;
        let delay = TAKES.mul_f64(case.random.unit());
        let all = case.random.chance(0.5);
        case.input("build.txt", format!("killed after {delay:?}, its group: {all}\n"));
        let mut started = place::start(&mut cargo(&place), "")?;
        thread::sleep(delay);
        if started.child.try_wait().map_err(io_problem)?.is_none() {
            case.count(if all { "group killed" } else { "cargo killed" });
        } else {
            case.count("ended before");
        }
        match all {
            true => processes::kill_group(&started.child),
            false => started.child.kill().map_err(io_problem)?,
        }
        processes::are_gone(&folder)?;
        // Whatever held its output open is gone, too.
        let _ = started.wait(place::PATIENCE)?;
        before.is_kept_in(&Ledger::of(&place)?, |_| true)?;
        build(&place)?;
        let after = Ledger::of(&place)?;
        before.is_kept_in(&after, |_| true)?;
        if after.n_schedules() <= before.n_schedules() {
            return Err(Problem::lost("a build after a kill recorded nothing"));
        }
        Ok(Verdict::Accepted)
    }
}

/// Builds a place to the end.
fn build(place: &Place) -> Result<(), Problem> {
    let said = place::start(&mut cargo(place), "")?.wait(PATIENCE)?;
    let hangs = |it| Problem { kind: Kind::Hang, message: format!("a build hangs\n{it}") };
    said.map_err(hangs)?.is_done("cargo build")
}

/// Returns `cargo build` of a place, with the dependencies of all places in one folder.
fn cargo(place: &Place) -> Command {
    let campaign = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lock = campaign.ancestors().nth(2).unwrap_or(campaign).join("Cargo.lock");
    // Without a lock file cargo would ask a registry.
    let _ = fs::copy(lock, place.package.join("Cargo.lock"));
    let program = env::current_exe().unwrap_or_default();
    let target: PathBuf = program.with_file_name("campaign-builds");
    let mut command = place.command("cargo");
    command.arg("build").env("CARGO_TARGET_DIR", target);
    command
}
