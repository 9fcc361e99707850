//! The analytic cost model of CPUs.
//!
//! In: a [`Nest`]. Out: an estimate of its cycles: those of the innermost blocks (`block.rs`), and the
//! traffic between the caches that the loops around them cause (`traffic.rs`).
//!
//! # Source
//!
//! An analytic model before a learned one: Pruner (2024; its "draft"). Traffic from footprints: Yotov
//! et al., "Is Search Really Necessary to Generate High-Performance BLAS?" (2005), and Roller (OSDI
//! 2022).

mod block;
mod loops;
mod traffic;

use tvmtune_ir::dag::Dag;
use tvmtune_ir::poly::{DimId, Facts};
use tvmtune_ir::target::CpuTarget;
use tvmtune_schedule::nest::{self, Nest, Stmt};
use tvmtune_schedule::{LoopKind, Schedule, Threads};
use tvmtune_space::fits::cpu::fits;

use crate::parallel::{n_cores, on_threads};
use crate::search::Score;
use crate::space::{Point, Space};
use loops::{OpenLoop, max_extent};

/// Scores points by [`cycles`].
#[derive(Debug)]
pub struct AnalyticModel {
    dag: Dag,
    target: CpuTarget,
    n_threads: usize,
}

impl AnalyticModel {
    /// Creates the model of a program on a target.
    pub fn new(dag: &Dag, target: CpuTarget) -> Self {
        Self { dag: dag.clone(), target, n_threads: n_cores() }
    }

    /// Sets the number of threads that score.
    pub fn with_threads(self, n_threads: usize) -> Self {
        Self { n_threads, ..self }
    }
}

impl Score for AnalyticModel {
    fn score(&self, space: &Space, points: &[Point]) -> Vec<f64> {
        let cycles = |point: &Point| {
            let schedule = Schedule::replay(&self.dag, &space.instructions(point)).ok()?;
            let nest = nest::lower(&schedule);
            fits(&nest, &self.target).ok()?;
            Some(cycles(&nest, &self.target))
        };
        on_threads(self.n_threads, points, |it| cycles(it).unwrap_or(f64::INFINITY))
    }
}

/// Cycles to start all threads and wait for them, and to schedule one task; estimates.
const BARRIER: f64 = 2500.0;
const TASK: f64 = 60.0;
/// The part of the shorter of computing and moving that does not overlap with the longer, with and
/// without software prefetching; estimates.
const EXPOSED_PIPELINED: f64 = 0.1;
const EXPOSED: f64 = 0.3;

/// Estimates the cycles of a nest on a target, at the largest extents of its dimensions.
pub fn cycles(nest: &Nest, target: &CpuTarget) -> f64 {
    let mut facts = Facts::default();
    for (n, dim) in nest.dims.iter().enumerate() {
        facts.bound_dim(DimId(n as u32), dim.range);
    }
    let threads = match nest.threads {
        Threads::One => 1.0,
        Threads::All => f64::from(target.threads.max(1)),
    };
    let mut total = 0.0;
    for stmt in &nest.body {
        let mut blocks =
            BlockVisitor { nest, target, facts: facts.clone(), loops: Vec::new(), cycles: 0.0 };
        blocks.visit(stmt);
        let n_tasks = tasks(stmt, &facts);
        // The last round of tasks leaves threads idle.
        let rounds = (n_tasks / threads).ceil() * threads / n_tasks;
        let moved = traffic::cycles(nest, stmt, target, &facts);
        // Prefetched data arrives while other iterations are computed.
        let exposed = if is_pipelined(stmt) { EXPOSED_PIPELINED } else { EXPOSED };
        let busy = blocks.cycles.max(moved) + exposed * blocks.cycles.min(moved);
        total += busy * rounds / threads + n_tasks * TASK / threads;
        total += if threads > 1.0 { BARRIER } else { 0.0 };
    }
    total
}

/// Returns the number of tasks of a top-level statement.
fn tasks(stmt: &Stmt, facts: &Facts) -> f64 {
    match stmt {
        Stmt::For { extent, kind, body, .. } if kind.is_parallel() => {
            let inner = body.first().map_or(1.0, |it| tasks(it, facts));
            max_extent(extent, facts) as f64 * inner
        }
        _ => 1.0,
    }
}

/// Tells if some loop of a statement prefetches.
fn is_pipelined(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::For { kind: LoopKind::Pipelined(_), .. } => true,
        Stmt::For { body, .. } | Stmt::If { body, .. } => body.iter().any(is_pipelined),
        Stmt::Store { .. } | Stmt::Update { .. } => false,
    }
}

/// Adds up the cycles of the innermost blocks of a statement.
struct BlockVisitor<'a> {
    nest: &'a Nest,
    target: &'a CpuTarget,
    facts: Facts,
    loops: Vec<OpenLoop>,
    cycles: f64,
}

impl BlockVisitor<'_> {
    fn visit(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For { var, extent, kind, body, .. } => {
                self.facts.bound_var(*var, extent.clone());
                let open =
                    OpenLoop { var: *var, extent: max_extent(extent, &self.facts), kind: *kind };
                self.loops.push(open);
                body.iter().for_each(|it| self.visit(it));
                self.loops.pop();
            }
            Stmt::If { body, .. } => body.iter().for_each(|it| self.visit(it)),
            Stmt::Store { .. } | Stmt::Update { .. } => {
                let is_counted = |it: &OpenLoop| {
                    matches!(it.kind, LoopKind::Serial | LoopKind::Pipelined(_))
                        || it.kind.is_parallel()
                };
                let inner = self.loops.iter().rposition(is_counted).map_or(0, |it| it + 1);
                let (outer, copies) = self.loops.split_at(inner);
                let times: f64 = outer.iter().map(|it| it.extent as f64).product();
                self.cycles += times * block::cycles(self.nest, stmt, copies, self.target);
            }
        }
    }
}
