//! The interface of all allocators.

use std::fmt;

use tvmtune_ir::dag::Dag;
use tvmtune_ir::workload::{self, Strength};

use super::history::History;

/// A task, when a slot is given away.
#[derive(Clone, Debug, Default)]
pub struct TaskState {
    /// Its number of runs in the network, relative to others.
    pub weight: f64,
    /// Floating-point operations of a run; 0 for one that only moves data.
    pub flops: f64,
    /// A lower bound on its latency on the device, in ns; 0 if none is known.
    pub bound_ns: f64,
    /// The group of tasks that are alike, if there are others: such as convolutions of the same kind.
    pub group: Option<u64>,
    /// Its trials so far.
    pub history: History,
}

/// The task of the next slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Its number.
    pub task: usize,
    /// The latency that the slot is expected to save, in ns a run of the task, for allocators that expect
    /// something.
    pub saving_ns: Option<f64>,
}

/// A scheduler of the tasks of a run.
pub trait Allocator: fmt::Debug + Send {
    /// Chooses the task of the next slot; `None` if no slot is worth its time.
    fn next(&mut self, tasks: &[&TaskState]) -> Option<Choice>;
}

impl Choice {
    /// Creates the choice of an allocator that expects nothing in particular.
    pub(super) fn of(task: usize) -> Self {
        Self { task, saving_ns: None }
    }
}

impl TaskState {
    /// Tells if it may get a slot.
    pub(super) fn is_open(&self) -> bool {
        !self.history.is_over() && self.weight > 0.0 && self.weight.is_finite()
    }

    /// Tells if all its candidates failed, and there were enough of them.
    pub(super) fn is_dead(&self) -> bool {
        self.history.best_ns().is_infinite() && self.history.latencies().len() >= DEAD
    }

    /// Returns the weighted latency; infinite before a candidate worked.
    pub(super) fn weighted_ns(&self) -> f64 {
        self.weight * self.history.best_ns()
    }
}

/// Trials without a candidate that works after which a task is given up.
const DEAD: usize = 128;

/// Returns the first task that may get a slot and had none.
pub(super) fn unvisited(tasks: &[&TaskState]) -> Option<usize> {
    tasks.iter().position(|it| it.is_open() && it.history.slots().is_empty())
}

/// Returns the open task of the highest score, of equals the first; those with a score that is not a number
/// are left out.
pub(super) fn best_of(
    tasks: &[&TaskState],
    score: impl Fn(&TaskState) -> f64,
) -> Option<(usize, f64)> {
    let open = tasks.iter().enumerate().filter(|(_, it)| it.is_open() && !it.is_dead());
    open.map(|(n, it)| (n, score(it)))
        .filter(|it| !it.1.is_nan())
        .reduce(|best, it| if it.1 > best.1 { it } else { best })
}

/// Returns the number of the group of a program that does so many operations: of the same operations and
/// access patterns, and of about as many operations, as Ansor groups tasks.
pub fn similarity_group(dag: &Dag, flops: f64) -> u64 {
    let golden_ratio = f64::midpoint(1.0, 5_f64.sqrt());
    let size = ((flops.max(0.0) + 1.0).ln() / golden_ratio.ln()) as u64;
    let class = workload::class(dag, Strength::Access).0.to_string();
    // FNV-1a.
    let hash = class.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash ^ size
}
