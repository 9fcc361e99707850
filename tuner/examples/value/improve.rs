//! Value functions that improve on themselves: V0 from recorded trials, V1 and V2 also from measured
//! completions of prefixes that the function before chose, with noise.

use tvmtune_schedule::Instruction;
use tvmtune_tuner::executor::MachineLock;
use tvmtune_tuner::measure::WorkerCommand;
use tvmtune_tuner::parallel::n_cores;
use tvmtune_tuner::space::Point;
use tvmtune_tuner::tune::{self, Bench, Bucket};
use tvmtune_tuner::value::{Analysis, Measured, TrainingProgram, ValueFunction, explore, train};

use crate::Result;
use crate::data::Layer;

/// Schedules that are timed side by side.
const BATCH: usize = 8;
/// Timings of each.
const ROUNDS: usize = 3;

/// Rounds of improvement, as in the paper.
const N_IMPROVEMENTS: usize = 2;

/// Returns V0, and unless `n_schedules` is 0 its improvements, each from so many more schedules of each layer.
pub(crate) fn functions<'a>(
    layers: &[&'a Layer],
    n_schedules: usize,
    analysis: Analysis,
    lock: &MachineLock,
) -> Result<Vec<ValueFunction>> {
    let program =
        |it: &&'a Layer| TrainingProgram { features: it.features(), trials: it.trials.clone() };
    let mut programs: Vec<TrainingProgram<'_>> = layers.iter().map(program).collect();
    let mut functions = vec![train(programs.iter(), analysis, n_cores())];
    let n_improvements = if n_schedules > 0 { N_IMPROVEMENTS } else { 0 };
    for round in 0..n_improvements {
        for (layer, program) in layers.iter().zip(&mut programs) {
            let points = explore(&functions[round], program, n_schedules, round as u64, n_cores());
            program.trials.extend(measured(layer, points, lock)?);
        }
        functions.push(train(programs.iter(), analysis, n_cores()));
    }
    Ok(functions)
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
