//! The expectation that a task gains as tasks do on average.
//!
//! The mean of recorded curves (docs/allocation.md) is that a task after `n` trials is `exp(n^-0.3)` times as
//! slow as it will ever be: 2.7 times after the first, 1.42 after 32, 1.24 after 128. What a task gained
//! before says little about what it will gain: its latency, its trials and their seconds do.

use super::allocator::{Allocator, Choice, TaskState, best_of, unvisited};

/// The task that is expected to save most per second by the mean curve.
#[derive(Debug)]
pub(super) struct MeanCurve;

/// The exponent of the mean curve.
const EXPONENT: f64 = 0.3;
/// The exponent of the room above the lower bound: tasks that are far from it gain a little more.
const ROOM_EXPONENT: f64 = 0.4;
/// The least time of a trial, in seconds: clocks are coarse.
const LEAST_SECONDS: f64 = 1e-6;

/// Returns the share of its latency that a task is expected to lose in so many more trials.
fn relative_saving(n_trials: f64, more: f64) -> f64 {
    let slowdown = |n: f64| n.max(1.0).powf(-EXPONENT);
    -(slowdown(n_trials + more) - slowdown(n_trials)).exp_m1()
}

/// Returns the saving that is expected of the next slot of a task, in ns a run, and the seconds of the slot;
/// infinite before its first slot, and before a candidate worked.
pub(crate) fn expected_saving(task: &TaskState) -> (f64, f64) {
    let Some((trials, seconds)) = task.history.expected_slot() else { return (f64::INFINITY, 1.0) };
    let trials = trials.max(1.0);
    let share = relative_saving(task.history.latencies().len() as f64, trials);
    (task.history.best_ns() * share, seconds.max(LEAST_SECONDS * trials))
}

/// Returns the ratio of the present latency to the lower bound; 1 if none is known.
fn room(task: &TaskState) -> f64 {
    let room = task.history.best_ns() / task.bound_ns;
    if task.bound_ns > 0.0 && room.is_finite() { room.max(1.0) } else { 1.0 }
}

impl Allocator for MeanCurve {
    fn next(&mut self, tasks: &[&TaskState]) -> Option<Choice> {
        if let Some(task) = unvisited(tasks) {
            return Some(Choice::of(task));
        }
        let per_second = |it: &TaskState| {
            let (saving, seconds) = expected_saving(it);
            it.weight * saving / seconds * room(it).powf(ROOM_EXPONENT)
        };
        let (task, _) = best_of(tasks, per_second)?;
        let (saving, _) = expected_saving(tasks[task]);
        Some(Choice { task, saving_ns: Some(saving).filter(|it| it.is_finite()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::History;

    #[test]
    fn savings_add_up_to_the_curve() {
        let slots = (0..15).map(|it| (1.0 + f64::from(it) * 32.0, 32.0));
        let left: f64 = slots.map(|(n, more)| 1.0 - relative_saving(n, more)).product();
        assert!((left - (481_f64.powf(-0.3) - 1.0).exp()).abs() < 1e-12, "{left}");
        assert!(relative_saving(0.0, 0.0) == 0.0 && relative_saving(1e9, 1e9) > 0.0);
    }

    /// A task with so many slots of 32 trials that take some seconds each.
    fn task(n_slots: usize, seconds: f64, ns: f64) -> TaskState {
        let mut history = History::default();
        for _ in 0..n_slots {
            (0..32).for_each(|_| history.add_trial(Some(ns)));
            history.end_slot(seconds);
        }
        TaskState { weight: 1.0, history, ..TaskState::default() }
    }

    #[test]
    fn slow_tasks_with_few_trials_and_short_slots_come_first() {
        let next = |tasks: &[TaskState]| MeanCurve.next(&tasks.iter().collect::<Vec<_>>());
        let chosen = |tasks: &[TaskState]| next(tasks).unwrap().task;
        assert_eq!(chosen(&[task(2, 1.0, 100.0), task(2, 1.0, 101.0)]), 1);
        assert_eq!(chosen(&[task(3, 1.0, 100.0), task(2, 1.0, 100.0)]), 1);
        assert_eq!(chosen(&[task(2, 1.1, 100.0), task(2, 1.0, 100.0)]), 1);
        let heavy = TaskState { weight: 2.0, ..task(2, 1.0, 60.0) };
        assert_eq!(chosen(&[task(2, 1.0, 100.0), heavy]), 1);
        // Both are as slow, but the first is as fast as can be.
        let bound = |it: f64| TaskState { bound_ns: it, ..task(2, 1.0, 100.0) };
        assert_eq!(chosen(&[bound(100.0), bound(10.0)]), 1);
        let choice = next(&[task(1, 1.0, 1000.0)]).unwrap();
        let expected = 1000.0 * (1.0 - (64_f64.powf(-0.3) - 32_f64.powf(-0.3)).exp());
        assert!((choice.saving_ns.unwrap() - expected).abs() < 1e-9, "{choice:?}");
    }
}
