//! Allocators on recorded curves: each sees what it has bought, and nothing else.
//!
//! It holds for tasks whose curves do not depend on what others get: they were recorded one by one, with a
//! cost model of their own.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::allocator::{Allocator, Choice, TaskState};
use super::hindsight::{Curve, Step};
use super::history::History;

/// A task that was tuned to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedTask {
    /// Its name.
    pub name: String,
    /// Its number of runs in the network.
    pub weight: f64,
    /// Floating-point operations of a run.
    pub flops: f64,
    /// A lower bound on its latency, in ns; 0 if none is known.
    pub bound_ns: f64,
    /// The group of tasks that are alike.
    pub group: Option<u64>,
    /// The seconds before the first trial.
    pub opening_seconds: f64,
    /// Its trials, in order.
    pub trials: Vec<RecordedTrial>,
}

/// A trial of a recorded task.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(Option<f64>, f64)", into = "(Option<f64>, f64)")]
pub struct RecordedTrial {
    /// Its latency; `None` if the candidate failed.
    pub ns: Option<f64>,
    /// The seconds since the trial before, choosing and building included.
    pub seconds: f64,
}

/// The length of a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SlotLength {
    /// Trials.
    Trials(usize),
    /// Seconds; at least one trial.
    Seconds(f64),
}

/// A replay that has ended.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    /// The network after each slot.
    pub steps: Vec<ReplayStep>,
    /// The wall time of all choices.
    pub deciding: Duration,
}

/// The network after a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayStep {
    /// The task that had the slot.
    pub task: usize,
    /// The seconds of all slots so far.
    pub seconds: f64,
    /// The weighted latency of all tasks, in ns; infinite until each has a candidate that works.
    pub total_ns: f64,
}

/// Slots in an order that is known: of an oracle.
#[derive(Clone, Debug)]
pub struct InOrder {
    order: std::vec::IntoIter<usize>,
}

impl From<(f64, Option<f64>)> for RecordedTrial {
    fn from((seconds, ns): (f64, Option<f64>)) -> Self {
        Self { ns, seconds }
    }
}

impl From<(Option<f64>, f64)> for RecordedTrial {
    fn from((ns, seconds): (Option<f64>, f64)) -> Self {
        Self { ns, seconds }
    }
}

impl From<RecordedTrial> for (Option<f64>, f64) {
    fn from(it: RecordedTrial) -> Self {
        (it.ns, it.seconds)
    }
}

impl SlotLength {
    /// Returns the number of trials of the slot that begins at a trial, and its seconds.
    fn of(self, task: &RecordedTask, from: usize) -> (usize, f64) {
        let opening = if from == 0 { task.opening_seconds } else { 0.0 };
        let (mut n, mut seconds) = (0, opening);
        for trial in &task.trials[from..] {
            let is_full = match self {
                Self::Trials(trials) => n >= trials.max(1),
                Self::Seconds(limit) => n > 0 && seconds >= limit,
            };
            if is_full {
                break;
            }
            (n, seconds) = (n + 1, seconds + trial.seconds);
        }
        (n, seconds)
    }
}

impl InOrder {
    /// Creates the allocator of an order, which begins when each task had its first slot.
    pub fn new(order: Vec<usize>) -> Self {
        Self { order: order.into_iter() }
    }
}

impl Allocator for InOrder {
    fn next(&mut self, tasks: &[&TaskState]) -> Option<Choice> {
        self.order.find(|it| tasks[*it].is_open()).map(Choice::of)
    }
}

/// Gives each task a first slot, before which the network has no latency, and then runs an allocator until it
/// chooses nothing, or all tasks are over.
pub fn replay(tasks: &[RecordedTask], allocator: &mut dyn Allocator, slot: SlotLength) -> Replayed {
    let mut states: Vec<TaskState> = tasks.iter().map(RecordedTask::state).collect();
    let (mut replayed, mut seconds) = (Replayed::default(), 0.0);
    loop {
        let first = states.iter().position(|it| it.history.slots().is_empty());
        let choice = first.map(Choice::of).or_else(|| {
            let clock = Instant::now();
            let choice = allocator.next(&states.iter().collect::<Vec<_>>());
            replayed.deciding += clock.elapsed();
            choice
        });
        let Some(Choice { task, .. }) = choice else { return replayed };
        let (recorded, history) = (&tasks[task], &mut states[task].history);
        let from = history.latencies().len();
        let (n, took) = slot.of(recorded, from);
        recorded.trials[from..from + n].iter().for_each(|it| history.add_trial(it.ns));
        history.end_slot(took);
        if from + n == recorded.trials.len() {
            history.end();
        }
        seconds += took;
        let total_ns = states.iter().map(|it| it.weight * it.history.best_ns()).sum();
        replayed.steps.push(ReplayStep { task, seconds, total_ns });
    }
}

/// Returns the curves of tasks, slot by slot.
pub fn curves(tasks: &[RecordedTask], slot: SlotLength) -> Vec<Curve> {
    let curve = |task: &RecordedTask| {
        let mut history = History::default();
        let mut steps = Vec::new();
        let (mut from, mut seconds) = (0, 0.0);
        while from < task.trials.len() {
            let (n, took) = slot.of(task, from);
            task.trials[from..from + n].iter().for_each(|it| history.add_trial(it.ns));
            (from, seconds) = (from + n, seconds + took);
            steps.push(Step { seconds, ns: history.best_ns() });
        }
        Curve { weight: task.weight, steps }
    };
    tasks.iter().map(curve).collect()
}

impl RecordedTask {
    /// Returns its state before its first trial.
    fn state(&self) -> TaskState {
        let Self { weight, flops, bound_ns, group, .. } = *self;
        TaskState { weight, flops, bound_ns, group, history: History::default() }
    }
}

impl Replayed {
    /// Returns the seconds until the network is as fast; `None` if it never is.
    pub fn seconds_to(&self, total_ns: f64) -> Option<f64> {
        self.steps.iter().find(|it| it.total_ns <= total_ns).map(|it| it.seconds)
    }

    /// Returns the latency of the network after so many seconds; infinite before the first.
    pub fn total_after(&self, seconds: f64) -> f64 {
        let n = self.steps.partition_point(|it| it.seconds <= seconds);
        n.checked_sub(1).map_or(f64::INFINITY, |it| self.steps[it].total_ns)
    }

    /// Returns the last latency.
    pub fn last_ns(&self) -> f64 {
        self.steps.last().map_or(f64::INFINITY, |it| it.total_ns)
    }

    /// Returns the mean latency over the time from one time to another, in units of `unit_ns`; the area
    /// under the curve.
    pub fn mean_between(&self, from: f64, to: f64, unit_ns: f64) -> f64 {
        let ends = self.steps.iter().skip(1).map(|it| it.seconds).chain([f64::INFINITY]);
        let area: f64 = self
            .steps
            .iter()
            .zip(ends)
            .map(|(it, end)| (end.min(to) - it.seconds.max(from)).max(0.0) * it.total_ns)
            .filter(|it| !it.is_nan())
            .sum();
        area / (to - from).max(f64::MIN_POSITIVE) / unit_ns
    }
}
