//! The analytic cost model of a program, on CPUs and on GPUs.

use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::Target;
use tvmtune_schedule::nest::{self, Nest};
use tvmtune_schedule::{Instruction, Schedule};
use tvmtune_space::cost::cycles;
use tvmtune_space::fits::cpu::fits;

use crate::parallel::on_threads;
use crate::search::Score;
use crate::space::{Point, Space};

/// Scores points by their analytic cost.
#[derive(Debug)]
pub struct AnalyticModel {
    dag: Dag,
    target: Target,
    n_threads: usize,
}

impl AnalyticModel {
    /// Creates the model of a program on a target; so many threads score.
    pub fn new(dag: &Dag, target: Target, n_threads: usize) -> Self {
        Self { dag: dag.clone(), target, n_threads }
    }
}

impl Score for AnalyticModel {
    fn score(&self, space: &Space, points: &[Point]) -> Vec<f64> {
        let cost = |it: &Point| cost(&nest(&self.dag, &space.instructions(it))?, &self.target);
        on_threads(self.n_threads, points, |it| cost(it).unwrap_or(f64::INFINITY))
    }
}

/// Returns the analytic cost: cycles on CPUs, ns on GPUs; `None` if the nest doesn't fit the target.
pub(super) fn cost(nest: &Nest, target: &Target) -> Option<f64> {
    match target {
        Target::Cpu(cpu) => fits(nest, cpu).is_ok().then(|| cycles(nest, cpu)),
        Target::Gpu(gpu) => super::gpu::time_ns(nest, gpu),
    }
}

/// Lowers a trace; `None` if it does not replay.
pub(super) fn nest(dag: &Dag, trace: &[Instruction]) -> Option<Nest> {
    Some(nest::lower(&Schedule::replay(dag, trace).ok()?))
}
