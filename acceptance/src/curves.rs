//! Convergence curves: the time of the best schedule so far against the seconds of
//! search, beside the default schedule and the first choice of the model.
//!
//! A session searches for several programs by turns. The time between two trials, of any
//! programs, is what the second one took; longer ones than a minute are breaks between sessions.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use tvmtune_ir::workload;
use tvmtune_plan::database::Cache;
use tvmtune_tuner::tune::{Trial, trials};

use crate::benchmark::Benchmark;
use crate::candidate::{Candidate, Goal, Manifest};
use crate::results::Results;
use crate::table;
use crate::tune::FOLDER;

/// The seconds at which curves are read.
const SECONDS: [f64; 6] = [1.0, 3.0, 10.0, 30.0, 100.0, 300.0];
/// A longer time between two trials is a break.
const BREAK_MS: u64 = 60_000;

/// The best schedule of one program, as it became better.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Seconds spent on the program, and what the best schedule then took, in ns; each better than
    /// the one before.
    pub points: Vec<(f64, f64)>,
    /// Seconds spent on it in all.
    pub seconds: f64,
    /// The number of trials.
    pub n_trials: usize,
}

impl Curve {
    /// Returns the time of the best schedule after so many seconds; `None` if there was none, or if
    /// the search was over by then.
    pub fn at(&self, seconds: f64) -> Option<f64> {
        let known = self.points.iter().take_while(|it| it.0 <= seconds).last();
        known.filter(|_| seconds <= self.seconds).map(|it| it.1)
    }
}

/// Returns the curves of all workloads in some logs.
pub fn curves(mut trials: Vec<Trial>) -> BTreeMap<String, Curve> {
    trials.sort_by_key(|it| it.unix_ms);
    let mut curves: BTreeMap<String, Curve> = BTreeMap::new();
    let mut before_ms = None;
    for trial in trials {
        let passed_ms = before_ms.map_or(0, |it: u64| trial.unix_ms.saturating_sub(it));
        before_ms = Some(trial.unix_ms);
        let curve = curves.entry(trial.workload.clone()).or_default();
        curve.seconds += if passed_ms > BREAK_MS { 0.0 } else { passed_ms as f64 / 1e3 };
        curve.n_trials += 1;
        let best_ns = curve.points.last().map_or(f64::INFINITY, |it| it.1);
        if let Some(timing) = trial.outcome.timing().filter(|it| it.median_ns() < best_ns) {
            curve.points.push((curve.seconds, timing.median_ns()));
        }
    }
    curves
}

/// A table of the programs that were tuned, whose name contains that; speeds relative to the
/// default schedule.
///
/// # Errors
///
/// If there is no bundle, or no results.
pub fn page(folder: &Path, out: &Path, only: &str) -> Result<String> {
    let manifest = Manifest::read(folder)?;
    let results = Results::open(out)?;
    let benchmarks = Benchmark::all(&manifest, only)?;
    let logs = Cache::new(&out.join(FOLDER)).trials();
    let names: Vec<&str> = benchmarks.iter().map(|it| it.case.as_str()).collect();
    let is_of_benchmark = |it: &std::path::PathBuf| names.iter().any(|name| it.ends_with(name));
    let folders = std::fs::read_dir(logs).into_iter().flatten().flatten().map(|it| it.path());
    let files = folders
        .filter(is_of_benchmark)
        .filter_map(|it| std::fs::read_dir(it).ok())
        .flatten()
        .flatten();
    let curves = curves(files.flat_map(|it| trials(&it.path())).collect());
    let head = ["case", "extents", "default", "model's first"].map(str::to_owned);
    let after = SECONDS.map(|it| format!("{it} s"));
    let tail = ["end", "seconds", "trials"].map(str::to_owned);
    let mut rows = vec![[&head[..], &after, &tail].concat()];
    for benchmark in &benchmarks {
        let id = workload::id(&benchmark.problem.dag).to_string();
        rows.extend(curves.get(&id).and_then(|it| row(benchmark, it, (&manifest, &results))));
    }
    Ok(table::markdown(&rows, 2))
}

fn row(
    benchmark: &Benchmark,
    curve: &Curve,
    (manifest, results): (&Manifest, &Results),
) -> Option<Vec<String>> {
    let (_, default_ns) = *curve.points.first()?;
    let (_, best_ns) = *curve.points.last()?;
    let faster = |ns: f64| format!("{:.2}x", default_ns / ns);
    let known = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), faster);
    let head = [
        benchmark.case.clone(),
        benchmark.dims.clone(),
        format!("{:.2} us", default_ns / 1e3),
        known(first_choice(benchmark, manifest, results)),
    ];
    let after = SECONDS.map(|it| known(curve.at(it)));
    let tail = [faster(best_ns), format!("{:.1}", curve.seconds), curve.n_trials.to_string()];
    Some([&head[..], &after, &tail].concat())
}

/// Returns the time of the candidate that the model predicts to be the fastest.
fn first_choice(benchmark: &Benchmark, manifest: &Manifest, results: &Results) -> Option<f64> {
    let predicted = |it: &Candidate| it.predicted.as_ref().map_or(f64::INFINITY, |it| it.ns);
    let candidates =
        manifest.candidates.iter().filter(|it| it.goal == Goal::Time && benchmark.is_of(it));
    let first = candidates.min_by(|a, b| predicted(a).total_cmp(&predicted(b)))?;
    Some(results.evaluation(first)?.times()?.median_ns())
}

#[cfg(test)]
mod tests {
    use tvmtune_plan::record::Source;
    use tvmtune_tuner::outcome::{Outcome, Timing};
    use tvmtune_tuner::tune::Stage;

    use super::*;

    fn trial(workload: &str, at_ms: u64, ns: Option<f64>) -> Trial {
        let outcome = match ns {
            Some(ns) => Outcome::Timed(Timing::new(vec![ns]).unwrap()),
            None => Outcome::Wrong("everywhere".to_owned()),
        };
        Trial {
            workload: workload.to_owned(),
            generator: 1,
            bucket: Vec::new(),
            isa: "sm_90a".to_owned(),
            source: Source::Random,
            stage: Stage::Screen,
            sketch: String::new(),
            choices: Vec::new(),
            parent: Vec::new(),
            trace: Vec::new(),
            artifact: String::new(),
            outcome,
            cold: None,
            slowdown: 1.0,
            generate_ms: 0.0,
            measure_ms: 0.0,
            unix_ms: at_ms,
            seed: 0,
        }
    }

    #[test]
    fn programs_that_take_turns_pay_for_their_own_trials_and_nobody_for_breaks() {
        let found = curves(vec![
            trial("a", 0, Some(8.0)),
            trial("b", 1_000, Some(5.0)),
            trial("a", 3_000, None),
            trial("a", 4_000, Some(6.0)),
            // A session later.
            trial("a", 500_000, Some(7.0)),
            trial("b", 502_000, Some(4.0)),
        ]);
        let a = &found["a"];
        assert_eq!((a.points.as_slice(), a.n_trials), (&[(0.0, 8.0), (3.0, 6.0)][..], 4));
        assert_eq!(found["b"].points, [(1.0, 5.0), (3.0, 4.0)]);
        assert_eq!(
            [a.at(0.5), a.at(2.9), a.at(3.0), a.at(3.5)],
            [Some(8.0), Some(8.0), Some(6.0), None]
        );
        assert_eq!(found["b"].at(0.5), None);
    }
}
