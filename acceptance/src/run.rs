//! Checks and times the candidates of a bundle, on the GPU of this machine.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use tvmtune_tuner::measure::WorkerCommand;

use crate::candidate::{Candidate, Goal, Manifest};
use crate::evaluation::Evaluation;
use crate::evaluator::Evaluator;
use crate::machine::{self, GpuMonitor};
use crate::results::{Line, Results, unix_ms};
use crate::{Exit, table};

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions<'a> {
    /// Selects cases whose name contains this.
    pub only: &'a str,
    /// Checks only, without timing.
    pub checks: bool,
    /// Repeats candidates that earlier runs evaluated.
    pub again: bool,
    /// Begins no candidate after this.
    pub budget: Option<Duration>,
    /// Gives up a candidate after this.
    pub limit: Duration,
    /// The number of candidates that are checked at the same time. Nothing else runs while one is
    /// timed.
    pub jobs: usize,
}

/// Evaluates candidates of the bundle in a folder; results go to another one.
///
/// # Errors
///
/// If the bundle can't be read, or results can't be written.
pub fn run(folder: &Path, out: &Path, options: &RunOptions<'_>) -> Result<Exit> {
    let began = Instant::now();
    let manifest = Manifest::read(folder)?;
    let Some((evaluator, results, _monitor)) = begin(folder, out)? else {
        return Ok(Exit::NoDevice);
    };
    let is_wanted = |it: &&Candidate| {
        it.case.contains(options.only) && (it.goal == Goal::Check || !options.checks)
    };
    let wanted: Vec<&Candidate> = manifest.candidates.iter().filter(is_wanted).collect();
    let is_new = |it: &&Candidate| options.again || results.evaluation(it).is_none();
    let new = wanted.iter().copied().filter(is_new);
    let (checks, timings): (Vec<_>, Vec<_>) = new.partition(|it| it.goal == Goal::Check);
    let session = Session {
        folder,
        limit: options.limit,
        end: options.budget.map(|it| began + it),
        results: Mutex::new(results),
    };
    let (mut left, mut evaluators) =
        session.evaluate(&checks, vec![evaluator.with_limit(options.limit)], options.jobs)?;
    evaluators.truncate(1);
    left.extend(session.evaluate(&timings, evaluators, 1)?.0);
    let results = session.results.into_inner().unwrap_or_else(PoisonError::into_inner);
    print!("\n{}", table(&results, options.only));
    Ok(summary(&wanted, &left, &results))
}

/// Prints how many candidates are right, and what is wrong with others.
fn summary(wanted: &[&Candidate], left: &[&Candidate], results: &Results) -> Exit {
    let (mut n_right, mut n_skipped, mut wrong) = (0, 0, Vec::new());
    for candidate in wanted.iter().filter(|it| !left.contains(it)) {
        match results.evaluation(candidate) {
            Some(Evaluation::Skipped(_)) => n_skipped += 1,
            Some(evaluation) if evaluation.is_fine() => n_right += 1,
            evaluation => {
                let evaluation = evaluation.map(ToString::to_string).unwrap_or_default();
                wrong.push(format!("{}: {evaluation}", candidate.title()));
            }
        }
    }
    let (n_wrong, n_left) = (wrong.len(), left.len());
    println!(
        "\n{n_right} right, {n_wrong} wrong, {n_skipped} skipped, {n_left} left for lack of time"
    );
    wrong.iter().for_each(|it| println!("{it}"));
    let is_done = n_right > 0 && n_wrong == 0 && n_left == 0;
    if is_done { Exit::Done } else { Exit::Refused }
}

/// The evaluation of candidates by several evaluators, each with a worker of its own.
struct Session<'a> {
    /// The folder of the bundle.
    folder: &'a Path,
    /// The time limit of a candidate.
    limit: Duration,
    /// No candidate begins after this.
    end: Option<Instant>,
    results: Mutex<Results>,
}

impl Session<'_> {
    /// Evaluates candidates, `jobs` at a time, by these evaluators and new ones; returns the candidates that
    /// were left for lack of time, and all evaluators.
    ///
    /// # Errors
    ///
    /// If no worker can be started, or results can't be written.
    fn evaluate<'c>(
        &self,
        candidates: &[&'c Candidate],
        mut evaluators: Vec<Evaluator>,
        jobs: usize,
    ) -> Result<(Vec<&'c Candidate>, Vec<Evaluator>)> {
        while evaluators.len() < jobs.min(candidates.len()) {
            match Evaluator::new(self.folder, WorkerCommand::this_executable()?)? {
                Ok(evaluator) => evaluators.push(evaluator.with_limit(self.limit)),
                // The device has no room for another process.
                Err(_) => break,
            }
        }
        let next = AtomicUsize::new(0);
        let left = thread::scope(|scope| {
            let work = |evaluator| scope.spawn(|| self.work(candidates, &next, evaluator));
            let threads: Vec<_> = evaluators.iter_mut().map(work).collect();
            let join = |it: thread::ScopedJoinHandle<'_, Result<_>>| {
                it.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect::<Result<Vec<_>>>()
        });
        Ok((left?.concat(), evaluators))
    }

    /// Evaluates candidates from the next one on, until none is left; returns those for which there is
    /// no time.
    fn work<'c>(
        &self,
        candidates: &[&'c Candidate],
        next: &AtomicUsize,
        evaluator: &mut Evaluator,
    ) -> Result<Vec<&'c Candidate>> {
        let mut left = Vec::new();
        while let Some(candidate) = candidates.get(next.fetch_add(1, Ordering::Relaxed)) {
            if self.end.is_some_and(|it| Instant::now() > it) {
                left.push(*candidate);
                continue;
            }
            let evaluation = evaluator.evaluate(candidate)?;
            println!("{}: {evaluation}", candidate.title());
            let candidate = Box::new((*candidate).clone());
            let line = Line::Tried { unix_ms: unix_ms(), candidate, evaluation };
            self.results.lock().unwrap_or_else(PoisonError::into_inner).add(line)?;
        }
        Ok(left)
    }
}

/// Returns the evaluator of the bundle, the file of results with a line about the GPU, and the
/// monitor that writes its state beside; `None`, and a line on standard error, if there is no GPU.
///
/// # Errors
///
/// If no worker can be started, or results can't be written.
pub fn begin(folder: &Path, out: &Path) -> Result<Option<(Evaluator, Results, GpuMonitor)>> {
    let evaluator = match Evaluator::new(folder, WorkerCommand::this_executable()?)? {
        Ok(evaluator) => evaluator,
        Err(why) => {
            eprintln!("no GPU to run on: {why}");
            return Ok(None);
        }
    };
    let device = evaluator.gpu();
    let mut results = Results::open(out)?;
    let (facts, others) = (machine::facts(), machine::other_processes());
    println!("{}, {}, {} multiprocessors", device.name, evaluator.arch(), device.multiprocessors);
    for other in &others {
        println!("also on this GPU: {other}");
    }
    let line = Line::Began { unix_ms: unix_ms(), device: device.clone(), facts, others };
    results.add(line)?;
    let monitor = GpuMonitor::start(&out.join("state.csv"));
    Ok(Some((evaluator, results, monitor)))
}

/// Returns a table of measured times, beside the predicted ones.
fn table(results: &Results, only: &str) -> String {
    let head = ["case", "extents", "schedule", "median", "spread", "predicted"];
    let head = [&head[..], &["TFLOP/s", "GB/s", "of copy"]].concat();
    let mut rows = vec![head.into_iter().map(str::to_owned).collect()];
    for (candidate, evaluation) in results.tried() {
        let Some(times) = evaluation.times().filter(|_| candidate.goal == Goal::Time) else {
            continue;
        };
        if !candidate.case.contains(only) {
            continue;
        }
        let (ns, (low, high)) = (times.median_ns(), times.quartiles_ns());
        let copy = tvmtune_tuner::statistics::median(&times.copy_gbps);
        let predicted = candidate.predicted.as_ref().map_or(f64::NAN, |it| it.ns);
        rows.push(vec![
            candidate.case.clone(),
            candidate.dims.clone(),
            candidate.source.to_string(),
            format!("{:.2} us", ns / 1e3),
            format!("{:.1} %", 100.0 * (high - low) / ns),
            format!("{:.2} us", predicted / 1e3),
            format!("{:.2}", candidate.flops / ns / 1e3),
            format!("{:.0}", candidate.bytes / ns),
            format!("{:.0} %", 100.0 * candidate.bytes / ns / copy),
        ]);
    }
    table::aligned(&rows)
}
