//! Allocators that look at no latency: the static baselines, and these with early termination.

use super::allocator::{Allocator, Choice, TaskState};
use crate::random::Random;

/// Early termination: tasks without a better candidate for long are passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EarlyStop(pub(super) Option<usize>);

impl EarlyStop {
    /// The trials without a better candidate of the paper.
    pub(super) const DYNATUNE: Self = Self(Some(200));
    /// None.
    pub(super) const NEVER: Self = Self(None);

    /// Tells if a task may get a slot.
    pub(super) fn is_open(self, task: &TaskState) -> bool {
        task.is_open() && !task.is_dead() && self.0.is_none_or(|it| task.history.n_stale() < it)
    }
}

/// One task after the other, each until it is over.
#[derive(Debug)]
pub(super) struct Sequential(pub(super) EarlyStop);

/// All tasks in turn.
#[derive(Debug)]
pub(super) struct RoundRobin {
    stop: EarlyStop,
    next: usize,
}

/// A random task.
#[derive(Debug)]
pub(super) struct RandomTask {
    stop: EarlyStop,
    random: Random,
}

/// Slots in proportion to arithmetic.
#[derive(Debug)]
pub(super) struct Linear;

impl RoundRobin {
    pub(super) fn new(stop: EarlyStop) -> Self {
        Self { stop, next: 0 }
    }
}

impl RandomTask {
    pub(super) fn new(stop: EarlyStop, seed: u64) -> Self {
        Self { stop, random: Random::new(seed) }
    }
}

impl Allocator for Sequential {
    fn next(&mut self, tasks: &[&TaskState]) -> Option<Choice> {
        tasks.iter().position(|it| self.0.is_open(it)).map(Choice::of)
    }
}

impl Allocator for RoundRobin {
    fn next(&mut self, tasks: &[&TaskState]) -> Option<Choice> {
        let n = tasks.len();
        let in_turn = (0..n).map(|it| (self.next + it) % n);
        let task = in_turn.into_iter().find(|it| self.stop.is_open(tasks[*it]))?;
        self.next = (task + 1) % n;
        Some(Choice::of(task))
    }
}

impl Allocator for RandomTask {
    fn next(&mut self, tasks: &[&TaskState]) -> Option<Choice> {
        let open: Vec<usize> =
            (0..tasks.len()).filter(|it| self.stop.is_open(tasks[*it])).collect();
        (!open.is_empty()).then(|| Choice::of(open[self.random.below(open.len())]))
    }
}

impl Allocator for Linear {
    /// Takes the task that is furthest behind its share, which is that of the largest remainder.
    fn next(&mut self, tasks: &[&TaskState]) -> Option<Choice> {
        let open = |it: &TaskState| EarlyStop::NEVER.is_open(it);
        let n_slots: usize = tasks.iter().map(|it| it.history.slots().len()).sum();
        // Tasks that only move data get slots as well.
        let work = |it: &TaskState| it.weight * it.flops.max(1.0);
        let all: f64 = tasks.iter().filter(|it| it.weight.is_finite()).map(|it| work(it)).sum();
        let behind = |it: &TaskState| {
            work(it) / all * (n_slots + 1) as f64 - it.history.slots().len() as f64
        };
        let candidates = tasks.iter().enumerate().filter(|(_, it)| open(it));
        let best = candidates.map(|(n, it)| (n, behind(it)));
        best.reduce(|best, it| if it.1 > best.1 { it } else { best }).map(|it| Choice::of(it.0))
    }
}
