//! Convergence curves of a cell: best latencies by trials and time.

use std::collections::BTreeMap;
use std::time::Instant;

use tvmtune_ir::poly::Interval;
use tvmtune_tuner::tune::{Event, TaskName};

use super::cell::Step;
use crate::records;

/// The convergence of one cell.
pub(super) struct Convergence {
    start: Instant,
    /// The time of the last trial, in seconds.
    last: f64,
    trials: u64,
    /// The convergence of each layer.
    layers: BTreeMap<String, LayerCurve>,
    /// The curve of the network's latency.
    pub(super) curve: Vec<Step>,
}

/// The convergence of a layer.
struct LayerCurve {
    /// Its number of runs in the network.
    weight: f64,
    trials: u64,
    seconds: f64,
    curve: Vec<Step>,
}

impl Convergence {
    /// Starts with no trials, for layers of these names and weights.
    pub(super) fn new(tasks: impl Iterator<Item = (String, f64)>) -> Self {
        let layer = |weight| LayerCurve { weight, trials: 0, seconds: 0.0, curve: Vec::new() };
        Self {
            start: Instant::now(),
            last: 0.0,
            trials: 0,
            layers: tasks.map(|(name, weight)| (name, layer(weight))).collect(),
            curve: Vec::new(),
        }
    }

    /// Adds an event.
    pub(super) fn on_event(&mut self, event: &Event<'_>) {
        let now = self.start.elapsed().as_secs_f64();
        match event {
            Event::Trial { task, trial, best_ns, .. } => {
                self.add_trial(&self::task(task), now, *trial, *best_ns);
            }
            Event::Skipped { task, .. } => {
                self.layers.remove(&self::task(task));
            }
            _ => {}
        }
    }

    /// Adds trial number `n` of a layer, with the best latency after it; it took the time since the
    /// last one.
    fn add_trial(&mut self, name: &str, now: f64, n: u64, best_ns: f64) {
        let spent = now - self.last;
        self.last = now;
        self.trials += 1;
        let Some(layer) = self.layers.get_mut(name) else { return };
        layer.seconds += spent;
        layer.trials = n;
        let step = Step { trials: n, seconds: layer.seconds, ns: best_ns };
        push_if_lower(&mut layer.curve, step);
        let latest = self.layers.values().map(|it| Some(it.weight * it.curve.last()?.ns));
        if let Some(ns) = latest.sum::<Option<f64>>() {
            push_if_lower(&mut self.curve, Step { trials: self.trials, seconds: now, ns });
        }
    }

    /// Extends all curves to the last trial.
    pub(super) fn close(&mut self) {
        extend(&mut self.curve, self.trials, self.last);
        for LayerCurve { trials, seconds, curve, .. } in self.layers.values_mut() {
            extend(curve, *trials, *seconds);
        }
    }

    /// Returns the curve of a layer.
    pub(super) fn layer(&self, name: &str) -> Vec<Step> {
        self.layers.get(name).map(|it| it.curve.clone()).unwrap_or_default()
    }
}

/// Extends a curve to its last trial.
fn extend(curve: &mut Vec<Step>, trials: u64, seconds: f64) {
    curve.extend(curve.last().map(|it| Step { trials, seconds, ..*it }));
}

/// Adds a step if it is lower than the last one.
fn push_if_lower(curve: &mut Vec<Step>, step: Step) {
    if step.ns.is_finite() && curve.last().is_none_or(|it| step.ns < it.ns) {
        curve.push(step);
    }
}

/// Returns the name of a task in cells.
pub(super) fn task(task: &TaskName) -> String {
    name(&task.program, task.dims.clone())
}

/// Returns the name of a layer, with the ranges of its dimensions if it has any.
pub(super) fn name(program: &str, dims: Vec<(String, Interval)>) -> String {
    if dims.is_empty() {
        return program.to_owned();
    }
    let ranges = records::ranges(dims.iter().map(|(name, range)| (name.as_str(), *range)));
    format!("{program} [{ranges}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_as_fast_as_its_layers_together() {
        let layers = [("a".to_owned(), 1.0), ("b".to_owned(), 3.0)];
        let mut convergence = Convergence::new(layers.into_iter());
        for (name, now, n, best_ns) in [
            ("a", 1.0, 1, 100.0),
            ("b", 3.0, 1, 10.0),
            ("a", 4.0, 2, 100.0),
            ("b", 6.0, 2, 8.0),
            ("a", 7.0, 3, f64::INFINITY),
            ("a", 9.0, 4, 50.0),
        ] {
            convergence.add_trial(name, now, n, best_ns);
        }
        let steps = |curve: &[Step]| {
            curve.iter().map(|it| (it.trials, it.seconds, it.ns)).collect::<Vec<_>>()
        };
        assert_eq!(steps(&convergence.curve), [(2, 3.0, 130.0), (4, 6.0, 124.0), (6, 9.0, 74.0)]);
        assert_eq!(steps(&convergence.layer("a")), [(1, 1.0, 100.0), (4, 5.0, 50.0)]);
        assert_eq!(steps(&convergence.layer("b")), [(1, 2.0, 10.0), (2, 4.0, 8.0)]);
        assert!(convergence.layer("c").is_empty());
        convergence.add_trial("b", 12.0, 3, 8.0);
        convergence.close();
        assert_eq!(steps(&convergence.curve)[2..], [(6, 9.0, 74.0), (7, 12.0, 74.0)]);
        assert_eq!(steps(&convergence.layer("b"))[1..], [(2, 4.0, 8.0), (3, 7.0, 8.0)]);
    }
}
