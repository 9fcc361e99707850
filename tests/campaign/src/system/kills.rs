//! Commands and builds that are killed at random moments.
//!
//! After each kill all records read, nothing that was recorded is lost, no process stays, and the same
//! command succeeds when it is run again; then nothing is left of the killed one.

use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use super::errand::Errand;
use super::ledger::{Ledger, temporary_files};
use super::place::{self, Place};
use super::{processes, template};
use crate::case::Case;
use crate::section::{Problem, Section, Verdict};

/// The section.
pub struct Kills;

/// What is killed, and how long it takes, roughly.
const VICTIMS: [(Errand, Duration); 8] = [
    (Errand::Tune, Duration::from_millis(450)),
    (Errand::Script, Duration::from_millis(30)),
    (Errand::Session, Duration::from_millis(300)),
    (Errand::Accept, Duration::from_millis(120)),
    (Errand::MergeInto, Duration::from_millis(30)),
    (Errand::Merge, Duration::from_millis(30)),
    (Errand::Gc, Duration::from_millis(100)),
    (Errand::Upgrade, Duration::from_millis(450)),
];

/// The age from which temporary files of processes that are gone are removed, and more.
const AGE: Duration = Duration::from_secs(300);

impl Section for Kills {
    fn name(&self) -> &'static str {
        "kills"
    }

    fn about(&self) -> &'static str {
        "commands and build scripts that are killed lose nothing and leave nothing"
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(200)
    }

    fn cases_of_a_test(&self) -> u64 {
        3
    }

    fn check(&self, case: &mut Case) -> Result<Verdict, Problem> {
        let folder = case.folder().to_owned();
        let place = template::tuned(&folder)?;
        let (victim, takes) = *case.pick(&VICTIMS);
        // Short delays are as likely as long ones: files are written within a few ms.
        let longest = if case.random.chance(0.5) { takes } else { takes / 8 };
        let delay = longest.mul_f64(case.random.unit());
        let all = case.random.chance(0.3);
        case.input("kill.txt", format!("{victim:?} after {delay:?}, its group: {all}\n"));
        victim.prepare(&place)?;
        let before = Ledger::of(&place)?;
        if kill(&place, &folder, victim, delay, all)? {
            case.count(format!("{victim:?} killed"));
        } else {
            case.count("ended before");
        }
        check_records(&place, &before, victim)?;
        for path in temporary_files(&folder) {
            case.count("temporary file left by the kill");
            // Young ones may still be written, as far as others can tell: this one is not.
            let old = SystemTime::now() - AGE;
            let dated =
                File::options().append(true).open(&path).and_then(|it| it.set_modified(old));
            dated.map_err(template::io_problem)?;
        }
        victim.run(&place)?.is_done(&format!("{victim:?} after a kill"))?;
        check_records(&place, &before, victim)?;
        check_rest(&place, &folder)?;
        Ok(Verdict::Accepted)
    }
}

/// Starts a victim and kills it after a while, alone or with its group; returns whether it ran.
///
/// # Errors
///
/// If a process stays.
fn kill(
    place: &Place,
    folder: &Path,
    victim: Errand,
    delay: Duration,
    all: bool,
) -> Result<bool, Problem> {
    let (mut command, input) = victim.command(place);
    let mut started = place::start(&mut command, &input)?;
    thread::sleep(delay);
    let ran = started.child.try_wait().map_err(template::io_problem)?.is_none();
    if all {
        processes::kill_group(&started.child);
    } else {
        started.child.kill().map_err(template::io_problem)?;
    }
    processes::are_gone(folder).map_err(|it| of(victim, it))?;
    let said = started.wait(place::PATIENCE)?;
    if let (false, Ok(said)) = (ran, said) {
        said.is_done(&format!("{victim:?}"))?;
    }
    Ok(ran)
}

/// Checks that all records read, and that those of before are there.
fn check_records(place: &Place, before: &Ledger, victim: Errand) -> Result<(), Problem> {
    let after = Ledger::of(place).map_err(|it| of(victim, it))?;
    before.is_kept_in(&after, |_| true).map_err(|it| of(victim, it))
}

/// Says in a problem what was killed.
fn of(victim: Errand, problem: Problem) -> Problem {
    Problem { message: format!("{victim:?}: {}", problem.message), ..problem }
}

/// Checks that records verify, and that after `gc` no temporary file is left.
fn check_rest(place: &Place, folder: &Path) -> Result<(), Problem> {
    Errand::Verify.run(place)?.is_done("verify")?;
    Errand::Gc.run(place)?.is_done("gc")?;
    let left = temporary_files(folder);
    if left.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = left.iter().map(|it| it.display().to_string()).collect();
    Err(Problem::wrong(format!("temporary files of killed processes stay\n{}", names.join("\n"))))
}
