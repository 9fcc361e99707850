//! Allocators that look at the latest latencies, and believe in nothing.

use super::allocator::{Allocator, Choice, TaskState, best_of, unvisited};
use super::fixed::EarlyStop;

/// The task that takes most of the network's time.
#[derive(Debug)]
pub(super) struct LatencyGreedy(pub(super) EarlyStop);

/// The task whose last slots gained most.
#[derive(Debug)]
pub(super) struct RecentSlope;

/// The task that gains most per second by [`recent_gain`].
#[derive(Debug)]
pub(super) struct RecentGain;

/// The slots by which [`RecentSlope`] extrapolates.
const WINDOW: usize = 3;
/// The least slope, as a share of the latency: a task on a plateau falls back, and comes again.
const LEAST_SLOPE: f64 = 0.01;

/// Trials in which a task is hoped to halve what is left to gain, and the share of that hope that is never
/// given up; estimates.
const HOPE_TRIALS: f64 = 32.0;
const LEAST_HOPE: f64 = 0.05;

/// Estimates the gain of another second, in ns per run of the task: that of the last slot, but at least a
/// share of the latency that falls with the number of trials. Infinite before the second slot.
fn recent_gain(task: &TaskState) -> f64 {
    let history = &task.history;
    let [.., last] = history.slots() else { return f64::INFINITY };
    let n = history.slots().len();
    let seconds = last.seconds - n.checked_sub(2).map_or(0.0, |it| history.slots()[it].seconds);
    let hope = history.best_ns() / (1.0 + history.latencies().len() as f64 / HOPE_TRIALS);
    let gained = history.best_after(n - 1) - history.best_ns();
    // Nothing worked so far.
    let gained = if gained.is_nan() { f64::INFINITY } else { gained };
    gained.max(LEAST_HOPE * hope) / seconds.max(1e-3)
}

impl Allocator for RecentGain {
    fn next(&mut self, tasks: &[&TaskState]) -> Option<Choice> {
        let (task, _) = best_of(tasks, |it| it.weight * recent_gain(it))?;
        let gain = recent_gain(tasks[task]);
        let seconds = tasks[task].history.expected_slot().map_or(0.0, |it| it.1);
        Some(Choice { task, saving_ns: Some(gain * seconds).filter(|it| it.is_finite()) })
    }
}

impl Allocator for LatencyGreedy {
    fn next(&mut self, tasks: &[&TaskState]) -> Option<Choice> {
        if let Some(task) = unvisited(tasks) {
            return Some(Choice::of(task));
        }
        let score = |it: &TaskState| match self.0.is_open(it) {
            true => it.weighted_ns(),
            false => f64::NAN,
        };
        best_of(tasks, score).map(|it| Choice::of(it.0))
    }
}

impl Allocator for RecentSlope {
    fn next(&mut self, tasks: &[&TaskState]) -> Option<Choice> {
        if let Some(task) = unvisited(tasks) {
            return Some(Choice::of(task));
        }
        let saving = |it: &TaskState| {
            let n = it.history.slots().len();
            let now = it.history.best_ns();
            let from = it.history.best_after(n.saturating_sub(WINDOW).max(1));
            let measured = if from.is_finite() { (from - now) / WINDOW as f64 } else { now };
            measured.max(LEAST_SLOPE * now / n as f64)
        };
        let (task, _) = best_of(tasks, |it| it.weight * saving(it))?;
        Some(Choice { task, saving_ns: Some(saving(tasks[task])).filter(|it| it.is_finite()) })
    }
}
