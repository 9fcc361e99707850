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
mod traffic;

use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_ir::target::CpuTarget;
use tvmtune_schedule::nest::{ChosenIteration, Nest, Statement, Stmt};
use tvmtune_schedule::{LoopKind, Threads};

/// Cycles to start all threads and wait for them, and to schedule one task; estimates.
const BARRIER: f64 = 2500.0;
const TASK: f64 = 60.0;
/// The part of the shorter of computing and moving that does not overlap with the longer, with and
/// without software prefetching; estimates.
const EXPOSED_PIPELINED: f64 = 0.1;
const EXPOSED: f64 = 0.3;

/// Estimates the cycles of a nest on a target, at the largest extents of its dimensions.
pub fn cycles(nest: &Nest, target: &CpuTarget) -> f64 {
    let facts = nest.facts();
    let threads = match nest.threads {
        Threads::One => 1.0,
        Threads::All => f64::from(target.threads.max(1)),
    };
    let mut total = 0.0;
    for stmt in &nest.body {
        let mut leaves = Vec::new();
        collect(nest, stmt, &mut facts.clone(), &mut Vec::new(), &mut leaves);
        let computed = leaves.iter().fold(0.0, |sum, it| sum + it.cycles(nest, target));
        let n_tasks = tasks(stmt, &facts);
        // The last round of tasks leaves threads idle.
        let rounds = (n_tasks / threads).ceil() * threads / n_tasks;
        let moved = traffic::cycles(nest, &leaves, target, &facts);
        // Prefetched data arrives while other iterations are computed.
        let exposed = if is_pipelined(stmt) { EXPOSED_PIPELINED } else { EXPOSED };
        let busy = computed.max(moved) + exposed * computed.min(moved);
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
    stmt.any(&|it| matches!(it, Stmt::For { kind: LoopKind::Pipelined(_), .. }))
}

/// A loop around a statement.
#[derive(Clone, Copy, Debug)]
struct OpenLoop {
    var: VarId,
    /// Its largest extent; 1 if data choose one iteration.
    extent: u64,
    kind: LoopKind,
}

/// Returns the largest value of an extent, in `1..=2^40`.
fn max_extent(extent: &Poly, facts: &Facts) -> u64 {
    extent.interval(facts).hi.clamp(1, 1 << 40) as u64
}

/// A store or an update, and the loops around it, outermost first.
struct Leaf<'a> {
    loops: Vec<OpenLoop>,
    stmt: &'a Stmt,
}

/// Collects the stores and updates of a statement, and bounds the variables of their loops.
fn collect<'a>(
    nest: &Nest,
    stmt: &'a Stmt,
    facts: &mut Facts,
    loops: &mut Vec<OpenLoop>,
    leaves: &mut Vec<Leaf<'a>>,
) {
    match stmt {
        Stmt::For { var, extent, kind, body, .. } => {
            facts.bound_var(*var, extent.clone());
            let is_chosen =
                *kind == LoopKind::Serial && ChosenIteration::of(nest, *var, body).is_some();
            let extent = if is_chosen { 1 } else { max_extent(extent, facts) };
            loops.push(OpenLoop { var: *var, extent, kind: *kind });
            body.iter().for_each(|it| collect(nest, it, facts, loops, leaves));
            loops.pop();
        }
        Stmt::If { body, .. } => body.iter().for_each(|it| collect(nest, it, facts, loops, leaves)),
        Stmt::Store { .. } | Stmt::Update { .. } => {
            leaves.push(Leaf { loops: loops.clone(), stmt });
        }
    }
}

impl Leaf<'_> {
    /// Estimates the cycles of all its runs, without the traffic between caches.
    fn cycles(&self, nest: &Nest, target: &CpuTarget) -> f64 {
        let is_counted = |it: &OpenLoop| {
            matches!(it.kind, LoopKind::Serial | LoopKind::Pipelined(_)) || it.kind.is_parallel()
        };
        let inner = self.loops.iter().rposition(is_counted).map_or(0, |it| it + 1);
        let (outer, copies) = self.loops.split_at(inner);
        let times: f64 = outer.iter().map(|it| it.extent as f64).product();
        times * block::cycles(nest, self.stmt, copies, target)
    }
}
