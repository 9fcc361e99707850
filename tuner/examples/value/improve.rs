//! Value functions that improve on themselves: V0 from recorded trials, V1 and V2 also from measured
//! completions of prefixes that the function before chose, with noise.

use tvmtune_schedule::Instruction;
use tvmtune_tuner::cost::gbdt::Objective;
use tvmtune_tuner::executor::MachineLock;
use tvmtune_tuner::measure::WorkerCommand;
use tvmtune_tuner::parallel::{n_cores, on_threads};
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::Point;
use tvmtune_tuner::tune::{self, Bench, Bucket};
use tvmtune_tuner::value::{Label, Measured, Prefix, ValueFunction, beam_search, samples};

use crate::Result;
use crate::data::Layer;
use crate::model::N_SAMPLES;

/// The width of the beams that complete a schedule.
const WIDTH: usize = 4;
/// The deviation of the noise on values: as large as their errors.
const NOISE: f64 = 0.1;
/// Schedules that are timed side by side.
const BATCH: usize = 8;
/// Timings of each.
const ROUNDS: usize = 3;

/// Returns V0 and so many improvements on it, each from `n_schedules` more schedules of each layer.
pub(crate) fn functions(
    layers: &[&Layer],
    n_improvements: usize,
    n_schedules: usize,
    lock: &MachineLock,
) -> Result<Vec<ValueFunction>> {
    let mut trials: Vec<Vec<Measured>> = layers.iter().map(|it| it.trials.clone()).collect();
    let mut functions = vec![train(layers, &trials)];
    for round in 0..n_improvements {
        for (layer, trials) in layers.iter().zip(&mut trials) {
            let seen: Vec<&Point> = trials.iter().map(|it| &it.0).collect();
            let mut points = noisy(layer, &functions[round], n_schedules, round as u64);
            points.retain(|it| !seen.contains(&it));
            trials.extend(measured(layer, points, lock)?);
        }
        functions.push(train(layers, &trials));
    }
    Ok(functions)
}

fn train(layers: &[&Layer], trials: &[Vec<Measured>]) -> ValueFunction {
    let all: Vec<(&Layer, &Vec<Measured>)> = layers.iter().copied().zip(trials).collect();
    let of = |(layer, trials): &(&Layer, &Vec<Measured>)| {
        samples(&layer.features(), trials, Label::Best, N_SAMPLES, 1)
    };
    let samples: Vec<_> = on_threads(n_cores(), &all, of).into_iter().flatten().collect();
    ValueFunction::train(&samples, Objective::Mean, n_cores())
}

/// Returns the distinct schedules that beam searches with noise on the values choose.
fn noisy(layer: &Layer, value: &ValueFunction, n: usize, seed: u64) -> Vec<Point> {
    let numbers: Vec<u64> = (0..n as u64).collect();
    let features = layer.features();
    let search = |number: &u64| {
        let mut random = Random::new(seed).fork(*number);
        // The sum of twelve uniform numbers is nearly normal, with deviation 1.
        let mut noise = || NOISE * ((0..12).map(|_| random.unit()).sum::<f64>() - 6.0);
        let values = |it: &[Prefix]| -> Vec<f64> {
            value.values(&features, it, 1).into_iter().map(|it| it + noise()).collect()
        };
        beam_search(&layer.space, WIDTH, values).into_iter().next()
    };
    let mut points: Vec<Point> =
        on_threads(n_cores(), &numbers, search).into_iter().flatten().collect();
    points.sort();
    points.dedup();
    points
}

/// Measures points of a layer.
fn measured(layer: &Layer, points: Vec<Point>, lock: &MachineLock) -> Result<Vec<Measured>> {
    let bucket = Bucket { workload: &layer.workload, ranges: &[] };
    let bench = Bench { bucket, dims: None, target: layer.target, rounds: ROUNDS };
    let mut measured = Vec::new();
    for batch in points.chunks(BATCH) {
        let traces: Vec<Vec<Instruction>> =
            batch.iter().map(|it| layer.space.instructions(it)).collect();
        let outcomes = tune::bench(&bench, &traces, WorkerCommand::this_executable()?, lock)??;
        let ns = outcomes.iter().map(|it| it.timing().map(|it| it.min_ns()));
        measured.extend(batch.iter().cloned().zip(ns));
    }
    Ok(measured)
}
