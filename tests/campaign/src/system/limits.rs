//! Commands with little memory, few files or processes, and workers of the tuner that stop.
//!
//! A command ends well, with an error, or as the allocator ends a process; it does not hang, and nothing
//! that was recorded is lost.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::errand::Errand;
use super::ledger::Ledger;
use super::place::{self, Place};
use super::{processes, shell, template};
use crate::case::Case;
use crate::section::{Kind, Problem, Section, Verdict};

/// The section.
pub struct Limits;

/// What there is little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Memory,
    Files,
    StoppedWorker,
}

/// Commands that do not ask cargo, which may hang where it has no memory.
const WITHOUT_CARGO: [Errand; 6] = [
    Errand::Session,
    Errand::Session,
    Errand::Script,
    Errand::Merge,
    Errand::MergeInto,
    Errand::Doctor,
];

/// What the allocator and the standard library say when memory ends.
const OUT_OF_MEMORY: [&str; 4] = [
    "memory allocation of",
    "failed to allocate an alternative stack",
    "failed to set up alternative stack guard page",
    "Cannot allocate memory",
];

/// The budget of a session whose worker stops.
const BUDGET: Duration = Duration::from_secs(3);

/// The time it may go on for: it gives up whoever does not answer some seconds after the budget, and
/// compares what it has, on a machine with other work.
const OVERRUN: Duration = Duration::from_secs(25);

impl Section for Limits {
    fn name(&self) -> &'static str {
        "limits"
    }

    fn about(&self) -> &'static str {
        "little memory, few files, stopped workers: an error in time, nothing lost"
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(200)
    }

    fn cases_of_a_test(&self) -> u64 {
        2
    }

    fn check(&self, case: &mut Case) -> Result<Verdict, Problem> {
        let folder = case.folder().to_owned();
        let place = template::tuned(&folder)?;
        // By number: a worker that stops costs seconds, which the few cases of a test do not have.
        let limit = match case.number % 10 {
            9 => Limit::StoppedWorker,
            n if n % 3 == 1 => Limit::Files,
            _ => Limit::Memory,
        };
        case.count(format!("{limit:?}"));
        let before = Ledger::of(&place)?;
        let verdict = match limit {
            Limit::StoppedWorker => stop_worker(case, &place),
            _ => run_with_little(case, &place, limit),
        }?;
        processes::are_gone(&folder)?;
        before.is_kept_in(&Ledger::of(&place)?, |_| true)?;
        Errand::Status.run(&place)?.is_done("status afterwards")?;
        Ok(verdict)
    }
}

/// Runs a command with little of something.
fn run_with_little(case: &mut Case, place: &Place, limit: Limit) -> Result<Verdict, Problem> {
    let (errand, script) = match limit {
        Limit::Memory => {
            // From too little for a start to more than enough: 18 to 576 MB.
            let kib = 18_000.0 * 2_f64.powf(5.0 * case.random.unit());
            (*case.pick(&WITHOUT_CARGO), format!("ulimit -v {}", kib as u64))
        }
        _ => (*case.pick(&Errand::ALL), format!("ulimit -n {}", 3 + case.random.below(40))),
    };
    case.input("limit.txt", format!("{script}: {errand:?}\n"));
    errand.prepare(place)?;
    let (command, input) = errand.command(place);
    let mut command = shell::around(place, &command, &script, "", &[]);
    let said = place::run_with(&mut command, &input)?;
    let all = format!("{}\n{}", said.err, said.out);
    // Where memory ends, so does a process of Rust: by its allocator, or as a thread starts.
    if !said.status.success() && OUT_OF_MEMORY.iter().any(|it| all.contains(it)) {
        case.count("out of memory");
        return Ok(Verdict::Rejected);
    }
    let did_not_start = ["error while loading shared libraries", "annot fork", "Cannot open"];
    // Cargo is another program, and has its own way to end.
    let is_cargos = all.contains("`cargo metadata` exited with an error");
    if is_cargos || did_not_start.iter().any(|it| all.contains(it)) {
        case.count("did not start, or cargo did not");
        return Ok(Verdict::Rejected);
    }
    said.is_clear()?;
    if said.status.code().is_some_and(|it| it > 128) {
        let message = format!("{errand:?} died of a signal\n{script}\n{}\n{all}", said.status);
        return Err(Problem { kind: Kind::Death, message });
    }
    Ok(if said.status.success() { Verdict::Accepted } else { Verdict::Rejected })
}

/// Stops the worker of a session for good.
fn stop_worker(case: &mut Case, place: &Place) -> Result<Verdict, Problem> {
    let delay = Duration::from_micros(case.random.below(600_000) as u64);
    case.input("limit.txt", format!("the worker stops {delay:?} after it starts\n"));
    let budget = format!("{}s", BUDGET.as_secs());
    let mut command =
        place.tvmtune(["tune", "--again", "--trials", "50", "--budget", budget.as_str()]);
    let started = place::start(&mut command, "")?;
    let since = Instant::now();
    let folder = place.cache.parent().unwrap_or(&place.cache).to_owned();
    let worker = loop {
        if let Some(worker) = processes::of(&folder).into_iter().find(|it| it.is_worker) {
            break Some(worker);
        }
        if since.elapsed() > Duration::from_secs(5) {
            break None;
        }
        thread::sleep(Duration::from_millis(2));
    };
    thread::sleep(delay);
    if let Some(worker) = &worker {
        processes::send(worker, Signal::STOP);
        case.count("worker stopped");
    }
    match started.wait(BUDGET + OVERRUN)? {
        Ok(said) => said.is_clear().map(|()| Verdict::Accepted),
        Err(said) => {
            let (overrun, budget) = (OVERRUN.as_secs(), BUDGET.as_secs());
            let message = format!(
                "a session of {budget} s goes on {overrun} s later, for a worker that stopped\n{said}"
            );
            Err(Problem { kind: Kind::Hang, message })
        }
    }
}
