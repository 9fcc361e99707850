//! The gradient schedulers of Ansor and of TVM's `MetaSchedule`, as published.
//!
//! # Source
//!
//! Zheng et al., "Ansor" (OSDI 2020), with the defaults of `task_scheduler.py` of TVM 0.16, the removal of
//! tasks from groups included; `gradient_based.cc` of `MetaSchedule`.

use std::collections::BTreeSet;

use super::allocator::{Allocator, Choice, TaskState, unvisited};
use super::history::History;
use crate::random::Random;

/// The share of the measured gradient, the rest being the optimistic one.
const ALPHA: f64 = 0.2;
/// The trust in the best speed of similar tasks.
const BETA: f64 = 2.0;
/// The slots over which the measured gradient is taken.
const WINDOW: usize = 3;
/// Slots more than all others of its group have after which a slow task leaves it.
const LEAD: usize = 5;

/// Ansor's scheduler.
#[derive(Debug)]
pub(super) struct Ansor {
    /// True if tasks of a group bound each other's hopes.
    has_groups: bool,
    /// Tasks that have left their groups.
    alone: BTreeSet<usize>,
    random: Random,
}

/// `MetaSchedule`'s scheduler.
#[derive(Debug)]
pub(super) struct MetaSchedule {
    random: Random,
}

impl Ansor {
    pub(super) fn new(has_groups: bool, seed: u64) -> Self {
        Self { has_groups, alone: BTreeSet::new(), random: Random::new(seed) }
    }

    /// Returns the tasks of the group of a task, itself included.
    fn group<'a>(
        &'a self,
        task: usize,
        tasks: &'a [&TaskState],
    ) -> impl Iterator<Item = usize> + 'a {
        let group = tasks[task].group.filter(|_| self.has_groups && !self.alone.contains(&task));
        let is_in = move |it: &usize| {
            *it == task || group.is_some() && tasks[*it].group == group && !self.alone.contains(it)
        };
        (0..tasks.len()).filter(is_in)
    }

    /// Returns the gradient of the network's latency by slots of a task, with its sign turned.
    fn gradient(&self, task: usize, tasks: &[&TaskState]) -> f64 {
        let it = tasks[task];
        let (latency, n) = (it.history.best_ns(), it.history.slots().len());
        let optimistic = latency - latency / n as f64;
        let is_like_others = self.group(task, tasks).count() > 1;
        let similar = match is_like_others {
            true => BETA * it.flops / self.best_speed(task, tasks),
            false => f64::INFINITY,
        };
        let forward = optimistic.min(similar) - latency;
        it.weight * (ALPHA * measured_slope(&it.history) - (1.0 - ALPHA) * forward)
    }

    /// Returns the best speed of the group of a task, in operations per ns.
    fn best_speed(&self, task: usize, tasks: &[&TaskState]) -> f64 {
        let speed = |it: usize| tasks[it].flops / tasks[it].history.best_ns();
        self.group(task, tasks).map(speed).fold(f64::MIN_POSITIVE, f64::max)
    }

    /// Removes a task from its group that remains slow though it had more slots than others.
    fn regroup(&mut self, tasks: &[&TaskState]) {
        for task in 0..tasks.len() {
            let speed = tasks[task].flops / tasks[task].history.best_ns();
            let n_slots = |it: usize| tasks[it].history.slots().len();
            let others = self.group(task, tasks).filter(|it| *it != task).map(n_slots).max();
            let is_slow = speed < self.best_speed(task, tasks) / BETA;
            if is_slow && others.is_some_and(|it| n_slots(task) > LEAD + it) {
                self.alone.insert(task);
            }
        }
    }
}

/// Returns the mean saving of the last slots; 0 before there are enough.
fn measured_slope(history: &History) -> f64 {
    let n = history.slots().len();
    match n > WINDOW {
        true => (history.best_after(n - WINDOW) - history.best_ns()) / WINDOW as f64,
        false => 0.0,
    }
}

impl Allocator for Ansor {
    fn next(&mut self, tasks: &[&TaskState]) -> Option<Choice> {
        if let Some(task) = unvisited(tasks) {
            return Some(Choice::of(task));
        }
        self.regroup(tasks);
        let gradients: Vec<f64> = (0..tasks.len()).map(|it| self.gradient(it, tasks)).collect();
        steepest(tasks, |it| gradients[*it], &mut self.random)
    }
}

impl MetaSchedule {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed) }
    }
}

impl Allocator for MetaSchedule {
    fn next(&mut self, tasks: &[&TaskState]) -> Option<Choice> {
        if let Some(task) = unvisited(tasks) {
            return Some(Choice::of(task));
        }
        let gradient = |it: &usize| {
            let history = &tasks[*it].history;
            let optimistic = history.best_ns() / history.slots().len() as f64;
            let slope = measured_slope(history);
            tasks[*it].weight * (ALPHA * slope + (1.0 - ALPHA) * optimistic)
        };
        steepest(tasks, gradient, &mut self.random)
    }
}

/// Returns the open task of the steepest gradient, which is positive here; a random one if all are equal.
fn steepest(
    tasks: &[&TaskState],
    gradient: impl Fn(&usize) -> f64,
    random: &mut Random,
) -> Option<Choice> {
    let is_open = |it: &usize| tasks[*it].is_open() && !tasks[*it].is_dead();
    let open: Vec<usize> = (0..tasks.len()).filter(is_open).collect();
    let gradients: Vec<f64> = open.iter().map(gradient).collect();
    let (first, is_finite) = (*gradients.first()?, |it: &f64| it.is_finite());
    if gradients.iter().all(|it| *it == first || !is_finite(it)) {
        return Some(Choice::of(open[random.below(open.len())]));
    }
    let steep = open.iter().zip(&gradients).filter(|(_, it)| is_finite(it));
    let (task, _) = steep.reduce(|best, it| if it.1 > best.1 { it } else { best })?;
    Some(Choice::of(*task))
}
