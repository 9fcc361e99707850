//! Checks and times what a bundle holds, on the GPU of this machine.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use tvmtune_tuner::measure::WorkerCommand;

use crate::item::{Goal, Item, Manifest};
use crate::judge::Judge;
use crate::machine::{self, Watch};
use crate::outcome::Outcome;
use crate::results::{Line, Results, unix_ms};
use crate::{Exit, table};

/// What is asked of a run.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Cases whose name contains this.
    pub only: &'a str,
    /// Nothing is timed.
    pub checks: bool,
    /// Also what earlier runs found out.
    pub again: bool,
    /// Nothing is begun after this.
    pub budget: Option<Duration>,
}

/// Runs what is wanted of the bundle in a folder; results go to another one.
///
/// # Errors
///
/// If the bundle can't be read, or results can't be written.
pub fn run(folder: &Path, out: &Path, wanted: &Wanted<'_>) -> Result<Exit> {
    let began = Instant::now();
    let manifest = Manifest::read(folder)?;
    let Some((mut judge, mut results, _watch)) = begin(folder, out)? else {
        return Ok(Exit::NoDevice);
    };
    let is_wanted =
        |it: &&Item| it.case.contains(wanted.only) && (it.goal == Goal::Check || !wanted.checks);
    let items = manifest.items.iter().filter(is_wanted);
    let is_known = |results: &Results, it: &Item| !wanted.again && results.outcome(it).is_some();
    let (mut n_right, mut n_skipped, mut n_left, mut wrong) = (0, 0, 0, Vec::new());
    for item in items {
        if !is_known(&results, item) {
            if wanted.budget.is_some_and(|it| began.elapsed() > it) {
                n_left += 1;
                continue;
            }
            let outcome = judge.attempt(item)?;
            println!("{}: {outcome}", item.title());
            let item = Box::new(item.clone());
            results.add(Line::Tried { unix_ms: unix_ms(), item, outcome })?;
        }
        match results.outcome(item) {
            Some(Outcome::Skipped(_)) => n_skipped += 1,
            Some(outcome) if outcome.is_fine() => n_right += 1,
            outcome => {
                let outcome = outcome.map(ToString::to_string).unwrap_or_default();
                wrong.push(format!("{}: {outcome}", item.title()));
            }
        }
    }
    print!("\n{}", table(&results, wanted.only));
    let n_wrong = wrong.len();
    println!(
        "\n{n_right} right, {n_wrong} wrong, {n_skipped} skipped, {n_left} left for lack of time"
    );
    wrong.iter().for_each(|it| println!("{it}"));
    let is_done = n_right > 0 && n_wrong == 0 && n_left == 0;
    Ok(if is_done { Exit::Done } else { Exit::Refused })
}

/// Who judges what is in the bundle, the file of results with a line about the GPU, and what writes
/// its state beside; `None`, and a line on standard error, if there is no GPU.
///
/// # Errors
///
/// If no worker can be started, or results can't be written.
pub fn begin(folder: &Path, out: &Path) -> Result<Option<(Judge, Results, Watch)>> {
    let judge = match Judge::new(folder, WorkerCommand::this_executable()?)? {
        Ok(judge) => judge,
        Err(why) => {
            eprintln!("no GPU to run on: {why}");
            return Ok(None);
        }
    };
    let device = judge.gpu();
    let mut results = Results::open(out)?;
    let (facts, others) = (machine::facts(), machine::others());
    println!("{}, {}, {} multiprocessors", device.name, judge.arch(), device.multiprocessors);
    for other in &others {
        println!("also on this GPU: {other}");
    }
    let line = Line::Began { unix_ms: unix_ms(), device: device.clone(), facts, others };
    results.add(line)?;
    let watch = Watch::start(&out.join("state.csv"));
    Ok(Some((judge, results, watch)))
}

/// What was timed, beside what was predicted.
fn table(results: &Results, only: &str) -> String {
    let head = [
        "case",
        "extents",
        "schedule",
        "median",
        "spread",
        "predicted",
        "TFLOP/s",
        "GB/s",
        "of copy",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for (item, outcome) in results.tried() {
        let Some(times) = outcome.times().filter(|_| item.goal == Goal::Time) else { continue };
        if !item.case.contains(only) {
            continue;
        }
        let (ns, (low, high)) = (times.median_ns(), times.quartiles_ns());
        let copy = tvmtune_tuner::statistics::median(&times.copy_gbps);
        let predicted = item.predicted.as_ref().map_or(f64::NAN, |it| it.ns);
        rows.push([
            item.case.clone(),
            item.dims.clone(),
            item.source.to_string(),
            format!("{:.2} us", ns / 1e3),
            format!("{:.1} %", 100.0 * (high - low) / ns),
            format!("{:.2} us", predicted / 1e3),
            format!("{:.2}", item.flops / ns / 1e3),
            format!("{:.0}", item.bytes / ns),
            format!("{:.0} %", 100.0 * item.bytes / ns / copy),
        ]);
    }
    table::aligned(&rows)
}
