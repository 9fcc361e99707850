//! The learned function from prefixes to values.

use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::Target;

use super::prefix::Prefix;
use super::samples::Sample;
use crate::cost::features;
use crate::cost::gbdt::{Gbdt, Objective, Program};
use crate::cost::learned;
use crate::parallel::on_threads;
use crate::space::Space;

/// The numbers of a prefix beside those of its completion: the share of decisions that are taken, the number
/// of open ones, and the logarithm of the number of completions.
const N_OPEN: usize = 3;
/// Numbers in a row.
const WIDTH: usize = features::WIDTH + N_OPEN;

/// The program and target that prefixes are of.
#[derive(Clone, Copy, Debug)]
pub struct Features<'a> {
    /// The program.
    pub dag: &'a Dag,
    /// The device.
    pub target: &'a Target,
    /// The space.
    pub space: &'a Space,
}

impl Features<'_> {
    /// Returns the numbers of a prefix: those of its completion by analysis, each row with what is open;
    /// `None` if that does not run.
    pub fn of(&self, prefix: &Prefix) -> Option<Vec<f32>> {
        let Self { dag, target, space } = self;
        let point = prefix.completed(space);
        let features = learned::features(dag, target, &space.instructions(&point))?;
        let (n, n_taken) = (point.choices.len(), prefix.choices.len());
        let share = if n == 0 { 1.0 } else { n_taken as f32 / n as f32 };
        let open = [share, (n - n_taken) as f32, prefix.freedom(space) as f32];
        Some(features.rows().flat_map(|row| row.iter().copied().chain(open)).collect())
    }
}

/// Predicts the share of a program's best speed that the best completion of a prefix reaches.
#[derive(Clone, Debug)]
pub struct ValueFunction {
    ensemble: Gbdt,
}

impl ValueFunction {
    /// Trains on samples; the result does not depend on the number of threads.
    pub fn train(samples: &[Sample], objective: Objective, n_threads: usize) -> Self {
        let programs: Vec<Program<'_>> = samples.iter().map(Sample::program).collect();
        Self { ensemble: Gbdt::train(&programs, WIDTH, objective, n_threads) }
    }

    /// Returns the values of prefixes; minus infinity where the completion by analysis does not run.
    pub fn values(&self, of: &Features<'_>, prefixes: &[Prefix], n_threads: usize) -> Vec<f64> {
        on_threads(n_threads, prefixes, |it| {
            of.of(it).map_or(f64::NEG_INFINITY, |rows| self.ensemble.predict(&rows))
        })
    }
}
