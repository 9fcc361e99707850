//! Made-up networks whose curves are of the families that `DynaTune` believes in: where its belief is true.

use std::collections::BTreeMap;

use tvmtune_tuner::allocation::belief::Family;
use tvmtune_tuner::allocation::replay::{RecordedTask, RecordedTrial};
use tvmtune_tuner::random::Random;

const SEEDS: u64 = 5;
const TASKS: usize = 18;
const TRIALS: usize = 512;
/// The speed of the machine, in operations per ns.
const PEAK: f64 = 100.0;
/// The least seconds of a trial.
const SECONDS: f64 = 0.01;

/// Returns networks by their seeds.
pub(crate) fn networks() -> BTreeMap<u64, Vec<RecordedTask>> {
    let network = |seed: u64| {
        let mut random = Random::new(1000 + seed);
        (0..TASKS).map(|it| task(&mut random, it)).collect()
    };
    (1..=SEEDS).map(|seed| (seed, network(seed))).collect()
}

/// Returns the curve of a task: a family, and its parameters. They rise for tens to thousands of trials.
fn curve(random: &mut Random, n: usize) -> (Family, Vec<f64>) {
    let mut between = |low: f64, high: f64| low + (high - low) * random.unit();
    match n % 3 {
        0 => {
            let parameters = [between(0.2, 0.9), between(0.0, 5.0), -between(0.4, 2.0)];
            (Family::LogPower, parameters.to_vec())
        }
        1 => {
            let top = between(0.3, 0.9);
            (Family::Pow3, vec![top * between(0.3, 0.9), between(0.1, 1.0), top])
        }
        _ => (Family::LogLinear, vec![between(0.01, 0.1), between(0.05, 0.3)]),
    }
}

fn task(random: &mut Random, n: usize) -> RecordedTask {
    let (family, parameters) = curve(random, n);
    let flops = 1e6 * (6.0 * random.unit()).exp();
    let seconds = SECONDS * (1.0 + 4.0 * random.unit());
    let mut trial = |it: usize| {
        let speed = family.value((it as f64).ln(), &parameters).max(1e-3);
        // Most candidates are slower than the curve.
        let ns = flops / (PEAK * speed) * (1.0 + random.unit().powi(2));
        RecordedTrial { ns: (!random.chance(0.1)).then_some(ns), seconds }
    };
    RecordedTask {
        name: format!("{family:?} {n}"),
        weight: 1.0,
        flops,
        bound_ns: flops / PEAK,
        group: None,
        opening_seconds: 0.1,
        trials: (1..=TRIALS).map(&mut trial).collect(),
    }
}
