//! Training from logs: on all programs, and on all but those that a function is judged on.

use super::beam::beam_search;
use super::function::{Analysis, Features, ValueFunction};
use super::prefix::Prefix;
use super::samples::{Label, Measured, Sample, samples};
use crate::cost::gbdt::Objective;
use crate::parallel::on_threads;
use crate::random::Random;
use crate::space::Point;

/// Samples of a program, at most: more of them take longer, and hardly improve a function.
const N_SAMPLES: usize = 400;
/// The seed of the draw of samples.
const SEED: u64 = 1;
/// The deviation of the noise on values while a function explores: as large as its errors.
const NOISE: f64 = 0.1;
/// The number of prefixes that are followed while it explores.
const EXPLORING_WIDTH: usize = 4;

/// A program with its measured trials.
#[derive(Clone, Debug)]
pub struct TrainingProgram<'a> {
    /// The numbers of its prefixes.
    pub features: Features<'a>,
    /// Its trials.
    pub trials: Vec<Measured>,
}

/// Trains on the best that was seen under each prefix. The result does not depend on the number of
/// threads.
pub fn train<'a, 'b: 'a>(
    programs: impl Iterator<Item = &'a TrainingProgram<'b>>,
    analysis: Analysis,
    n_threads: usize,
) -> ValueFunction {
    let samples = training_samples(programs, Label::Best, n_threads);
    ValueFunction::train(&samples, Objective::Mean, analysis, n_threads)
}

/// Returns the samples of programs.
pub fn training_samples<'a, 'b: 'a>(
    programs: impl Iterator<Item = &'a TrainingProgram<'b>>,
    label: Label,
    n_threads: usize,
) -> Vec<Sample> {
    let programs: Vec<&TrainingProgram<'_>> = programs.collect();
    let of = |it: &&TrainingProgram<'_>| -> Vec<Sample> {
        samples(&it.features, &it.trials, label, N_SAMPLES, SEED)
    };
    on_threads(n_threads, &programs, of).into_iter().flatten().collect()
}

/// Returns up to `n` distinct points that beam searches with noise on the values choose, of which none was
/// tried before: their latencies say where a function is wrong.
pub fn explore(
    value: &ValueFunction,
    program: &TrainingProgram<'_>,
    n: usize,
    seed: u64,
    n_threads: usize,
) -> Vec<Point> {
    let numbers: Vec<u64> = (0..n as u64).collect();
    let features = &program.features;
    let search = |number: &u64| {
        let mut random = Random::new(seed).fork(*number);
        // The sum of twelve uniform numbers is nearly normal, with deviation 1.
        let mut noise = || NOISE * ((0..12).map(|_| random.unit()).sum::<f64>() - 6.0);
        let values = |it: &[Prefix]| -> Vec<f64> {
            value.values(features, it, 1).into_iter().map(|it| it + noise()).collect()
        };
        beam_search(features.space, EXPLORING_WIDTH, values).into_iter().next()
    };
    let found = on_threads(n_threads, &numbers, search).into_iter().flatten();
    let is_new = |it: &Point| program.trials.iter().all(|(tried, _)| tried != it);
    let mut points: Vec<Point> = found.filter(is_new).collect();
    points.sort();
    points.dedup();
    points
}
