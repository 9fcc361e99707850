//! Guesses how schedules rank, without generating code for them.
//!
//! In: points. Out: a draft of the cycles each takes, from its loops alone: what the innermost
//! blocks compute and load (`block.rs`), and what the loops around them move between the caches
//! (`traffic.rs`). Next: search measures the most promising.
//!
//! # Source
//!
//! A draft model before a measured one: Pruner (2024). Traffic from footprints: Yotov et al., "Is
//! Search Really Necessary to Generate High-Performance BLAS?" (2005), and Roller (OSDI 2022).

mod block;
pub mod boost;
pub mod features;
pub mod gpu;
pub mod learned;
pub mod model;
pub mod rank;
mod traffic;
pub mod work;

use tvmtune_ir::dag::Dag;
use tvmtune_ir::poly::{DimId, Facts, Poly, VarId};
use tvmtune_ir::target::CpuTarget;
use tvmtune_schedule::nest::{self, Nest, Stmt};
use tvmtune_schedule::{LoopKind, Schedule, Threads};
use tvmtune_space::fits::cpu::fits;

use crate::parallel::{n_cores, on_threads};
use crate::search::Score;
use crate::space::{Point, Space};

/// Drafts of points.
#[derive(Debug)]
pub struct Draft {
    dag: Dag,
    target: CpuTarget,
    n_threads: usize,
}

impl Draft {
    /// Drafts for spaces of that dag on that target.
    pub fn new(dag: &Dag, target: CpuTarget) -> Self {
        Self { dag: dag.clone(), target, n_threads: n_cores() }
    }

    /// The same, made on that many threads.
    pub fn with_threads(self, n_threads: usize) -> Self {
        Self { n_threads, ..self }
    }
}

impl Score for Draft {
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

/// Cycles that starting all threads and waiting for them takes, and handing out one task.
const BARRIER: f64 = 2500.0;
const TASK: f64 = 60.0;

/// The cycles that a nest may take on a target, at the largest extents of its dimensions.
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
        let mut walk = Walk { nest, target, facts: facts.clone(), loops: Vec::new(), cycles: 0.0 };
        walk.stmt(stmt);
        let n_tasks = tasks(stmt, &facts);
        // The last round of tasks leaves threads idle.
        let rounds = (n_tasks / threads).ceil() * threads / n_tasks;
        let moved = traffic::cycles(nest, stmt, target, &facts);
        // What memory was asked ahead for comes while something else is computed.
        let apart = if is_pipelined(stmt) { 0.1 } else { 0.3 };
        let busy = walk.cycles.max(moved) + apart * walk.cycles.min(moved);
        total += busy * rounds / threads + n_tasks * TASK / threads;
        total += if threads > 1.0 { BARRIER } else { 0.0 };
    }
    total
}

/// How many tasks a top-level statement has.
fn tasks(stmt: &Stmt, facts: &Facts) -> f64 {
    match stmt {
        Stmt::For { extent, kind, body, .. } if kind.is_parallel() => {
            let inner = body.first().map_or(1.0, |it| tasks(it, facts));
            most(extent, facts) as f64 * inner
        }
        _ => 1.0,
    }
}

/// Whether memory is asked ahead in some loop of a statement.
fn is_pipelined(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::For { kind: LoopKind::Pipelined(_), .. } => true,
        Stmt::For { body, .. } | Stmt::If { body, .. } => body.iter().any(is_pipelined),
        Stmt::Store { .. } | Stmt::Update { .. } => false,
    }
}

/// The largest value of an extent.
fn most(extent: &Poly, facts: &Facts) -> u64 {
    extent.interval(facts).hi.clamp(1, 1 << 40) as u64
}

/// An open loop.
#[derive(Clone, Copy, Debug)]
struct Open {
    var: VarId,
    extent: u64,
    kind: LoopKind,
}

/// Adds up what the blocks of a statement take.
struct Walk<'a> {
    nest: &'a Nest,
    target: &'a CpuTarget,
    facts: Facts,
    loops: Vec<Open>,
    cycles: f64,
}

impl Walk<'_> {
    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For { var, extent, kind, body, .. } => {
                self.facts.bound_var(*var, extent.clone());
                let open = Open { var: *var, extent: most(extent, &self.facts), kind: *kind };
                self.loops.push(open);
                body.iter().for_each(|it| self.stmt(it));
                self.loops.pop();
            }
            Stmt::If { body, .. } => body.iter().for_each(|it| self.stmt(it)),
            Stmt::Store { .. } | Stmt::Update { .. } => {
                let is_counted = |it: &Open| {
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
