//! Checks and times the candidates of a bundle, on the GPU of this machine.

use std::path::Path;
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
}

/// Evaluates candidates of the bundle in a folder; results go to another one.
///
/// # Errors
///
/// If the bundle can't be read, or results can't be written.
pub fn run(folder: &Path, out: &Path, options: &RunOptions<'_>) -> Result<Exit> {
    let began = Instant::now();
    let manifest = Manifest::read(folder)?;
    let Some((mut evaluator, mut results, _monitor)) = begin(folder, out)? else {
        return Ok(Exit::NoDevice);
    };
    let is_wanted = |it: &&Candidate| {
        it.case.contains(options.only) && (it.goal == Goal::Check || !options.checks)
    };
    let candidates = manifest.candidates.iter().filter(is_wanted);
    let is_known =
        |results: &Results, it: &Candidate| !options.again && results.evaluation(it).is_some();
    let (mut n_right, mut n_skipped, mut n_left, mut wrong) = (0, 0, 0, Vec::new());
    for candidate in candidates {
        if !is_known(&results, candidate) {
            if options.budget.is_some_and(|it| began.elapsed() > it) {
                n_left += 1;
                continue;
            }
            let evaluation = evaluator.evaluate(candidate)?;
            println!("{}: {evaluation}", candidate.title());
            let candidate = Box::new(candidate.clone());
            results.add(Line::Tried { unix_ms: unix_ms(), candidate, evaluation })?;
        }
        match results.evaluation(candidate) {
            Some(Evaluation::Skipped(_)) => n_skipped += 1,
            Some(evaluation) if evaluation.is_fine() => n_right += 1,
            evaluation => {
                let evaluation = evaluation.map(ToString::to_string).unwrap_or_default();
                wrong.push(format!("{}: {evaluation}", candidate.title()));
            }
        }
    }
    print!("\n{}", table(&results, options.only));
    let n_wrong = wrong.len();
    println!(
        "\n{n_right} right, {n_wrong} wrong, {n_skipped} skipped, {n_left} left for lack of time"
    );
    wrong.iter().for_each(|it| println!("{it}"));
    let is_done = n_right > 0 && n_wrong == 0 && n_left == 0;
    Ok(if is_done { Exit::Done } else { Exit::Refused })
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
