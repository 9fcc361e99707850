//! The learned function from prefixes to values.

use serde::{Deserialize, Serialize};
use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::Target;

use super::prefix::Prefix;
use super::samples::Sample;
use crate::cost::features::{self, slog};
use crate::cost::gbdt::{Gbdt, Objective, Program};
use crate::cost::learned;
use crate::parallel::on_threads;
use crate::space::Space;

/// The numbers of a prefix beside those of its completion, see [`Features::of`].
const N_OWN: usize = 9;
/// The position among them of the analytic cost relative to the least of all sketches.
const RELATIVE_COST: usize = 3;
/// Numbers in a row.
const WIDTH: usize = features::WIDTH + N_OWN;

/// The program and target that prefixes are of.
#[derive(Clone, Debug)]
pub struct Features<'a> {
    /// The program.
    pub dag: &'a Dag,
    /// The device.
    pub target: &'a Target,
    /// The space.
    pub space: &'a Space,
    /// The smallest analytic cost among the sketches' own choices, as [`slog`] has it.
    least_cost: f32,
    /// The device's numbers, as [`slog`] has them.
    device: [f32; 4],
}

impl<'a> Features<'a> {
    /// Computes what all prefixes of a program have in common.
    pub fn new(dag: &'a Dag, target: &'a Target, space: &'a Space) -> Self {
        let cost = |it: &Prefix| {
            let features =
                learned::features(dag, target, &space.instructions(&it.completed(space)));
            features.map(|it| it.analytic_cost())
        };
        let roots = Prefix::roots(space);
        let least_cost = roots.iter().filter_map(cost).reduce(f32::min).unwrap_or(0.0);
        let numbers = match target {
            Target::Cpu(it) => [
                f64::from(it.isa.lanes()),
                f64::from(it.threads),
                it.l1_bytes as f64,
                it.l2_bytes as f64,
            ],
            Target::Gpu(it) => [
                0.0,
                f64::from(it.multiprocessors),
                f64::from(it.bandwidth_gbps),
                it.l2_bytes as f64,
            ],
        };
        Self { dag, target, space, least_cost, device: numbers.map(slog) }
    }

    /// Returns the numbers of a prefix: rows of its completion by analysis, each with
    ///
    /// - its open decisions: the share that is taken, how many are open, the logarithm of the number of
    ///   completions;
    /// - analysis: the logarithm of its analytic cost relative to the least of all sketches, and how many
    ///   decisions are taken against it;
    /// - the device: vector lanes, threads, and caches.
    ///
    /// `None` if the completion does not run.
    pub fn of(&self, prefix: &Prefix) -> Option<Vec<f32>> {
        let point = prefix.completed(self.space);
        let trace = self.space.instructions(&point);
        let features = learned::features(self.dag, self.target, &trace)?;
        let (n, n_taken) = (point.choices.len(), prefix.choices.len());
        let share = if n == 0 { 1.0 } else { n_taken as f32 / n as f32 };
        let preferred = &self.space.sketch(&point).default;
        let n_against =
            prefix.choices.iter().zip(preferred).filter(|(it, best)| it != best).count();
        let [lanes, threads, l1, l2] = self.device;
        let own: [f32; N_OWN] = [
            share,
            (n - n_taken) as f32,
            prefix.freedom(self.space) as f32,
            features.analytic_cost() - self.least_cost,
            n_against as f32,
            lanes,
            threads,
            l1,
            l2,
        ];
        Some(features.rows().flat_map(|row| row.iter().copied().chain(own)).collect())
    }
}

/// The use of the analytic cost of a completion beside the trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Analysis {
    /// It is a feature, and no more.
    Feature,
    /// Values are the product of both, as scores of the search are.
    Factor,
}

/// The exponent of the analytic cost, as in the score of the search.
const ANALYTIC_EXPONENT: f32 = 0.5;
/// The smallest predicted share that is multiplied: smaller ones are noise.
const MIN_SHARE: f64 = 1e-3;

/// Predicts the share of a program's best speed that the best completion of a prefix reaches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueFunction {
    analysis: Analysis,
    ensemble: Gbdt,
}

impl ValueFunction {
    /// Trains on samples; the result does not depend on the number of threads.
    pub fn train(
        samples: &[Sample],
        objective: Objective,
        analysis: Analysis,
        n_threads: usize,
    ) -> Self {
        let programs: Vec<Program<'_>> = samples.iter().map(Sample::program).collect();
        Self { analysis, ensemble: Gbdt::train(&programs, WIDTH, objective, n_threads) }
    }

    /// Tells if it reads rows as [`Features::of`] makes them.
    pub(super) fn is_sound(&self) -> bool {
        self.ensemble.width() == WIDTH
    }

    /// Returns the values of prefixes; minus infinity where the completion by analysis does not run.
    pub fn values(&self, of: &Features<'_>, prefixes: &[Prefix], n_threads: usize) -> Vec<f64> {
        let value = |rows: Vec<f32>| {
            let share = self.ensemble.predict(&rows);
            match self.analysis {
                Analysis::Feature => share,
                Analysis::Factor => share.max(MIN_SHARE) * factor(&rows),
            }
        };
        on_threads(n_threads, prefixes, |it| of.of(it).map_or(f64::NEG_INFINITY, value))
    }
}

/// Returns the factor that analysis contributes to the value of a prefix with these rows: 1 for the least
/// cost.
fn factor(rows: &[f32]) -> f64 {
    // Costs are logarithms with base two.
    let relative_cost = rows.get(features::WIDTH + RELATIVE_COST).copied().unwrap_or(0.0);
    f64::from((-ANALYTIC_EXPONENT * relative_cost).exp2())
}
