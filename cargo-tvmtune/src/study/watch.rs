//! What happens while a cell is tuned, as curves: how latencies fall with trials and time.

use std::collections::BTreeMap;
use std::time::Instant;

use tvmtune_ir::poly::Interval;
use tvmtune_tuner::tune::{Event, TaskName};

use super::cell::Step;
use crate::known;

/// Watches one cell.
pub(super) struct Watch {
    start: Instant,
    /// When the last thing happened, in seconds.
    last: f64,
    trials: u64,
    /// How often each layer runs.
    layers: BTreeMap<String, Seen>,
    /// The network's latency as it fell.
    pub(super) curve: Vec<Step>,
}

/// What is known of a layer.
struct Seen {
    weight: f64,
    trials: u64,
    seconds: f64,
    curve: Vec<Step>,
}

impl Watch {
    /// Watches tasks of these names, each with how often it runs.
    pub(super) fn new(tasks: impl Iterator<Item = (String, f64)>) -> Self {
        let seen = |weight| Seen { weight, trials: 0, seconds: 0.0, curve: Vec::new() };
        Self {
            start: Instant::now(),
            last: 0.0,
            trials: 0,
            layers: tasks.map(|(name, weight)| (name, seen(weight))).collect(),
            curve: Vec::new(),
        }
    }

    /// Takes note of what happened.
    pub(super) fn see(&mut self, event: &Event<'_>) {
        let now = self.start.elapsed().as_secs_f64();
        match event {
            Event::Trial { task, trial, best_ns, .. } => {
                self.trial(&self::task(task), now, (*trial, *best_ns));
            }
            Event::Skipped { task, .. } => {
                self.layers.remove(&self::task(task));
            }
            _ => {}
        }
    }

    /// A trial of a layer, the time since the last thing that happened having gone into it.
    fn trial(&mut self, name: &str, now: f64, (trial, best_ns): (u64, f64)) {
        let spent = now - self.last;
        self.last = now;
        self.trials += 1;
        let Some(layer) = self.layers.get_mut(name) else { return };
        layer.seconds += spent;
        layer.trials = trial;
        fall(&mut layer.curve, Step { trials: trial, seconds: layer.seconds, ns: best_ns });
        let latest = self.layers.values().map(|it| Some(it.weight * it.curve.last()?.ns));
        if let Some(ns) = latest.sum::<Option<f64>>() {
            fall(&mut self.curve, Step { trials: self.trials, seconds: now, ns });
        }
    }

    /// What curves say at the end: nothing better was found since.
    pub(super) fn close(&mut self) {
        let (trials, seconds) = (self.trials, self.last);
        let still = |it: &Step| Step { trials, seconds, ..*it };
        self.curve.extend(self.curve.last().map(still));
        for layer in self.layers.values_mut() {
            let (trials, seconds) = (layer.trials, layer.seconds);
            let still = |it: &Step| Step { trials, seconds, ..*it };
            layer.curve.extend(layer.curve.last().map(still));
        }
    }

    /// The curve of a layer.
    pub(super) fn layer(&self, name: &str) -> Vec<Step> {
        self.layers.get(name).map(|it| it.curve.clone()).unwrap_or_default()
    }
}

/// Adds a step if it leads down.
fn fall(curve: &mut Vec<Step>, step: Step) {
    if step.ns.is_finite() && curve.last().is_none_or(|it| step.ns < it.ns) {
        curve.push(step);
    }
}

/// A task as cells name it.
pub(super) fn task(task: &TaskName) -> String {
    name(&task.program, task.dims.clone())
}

/// A layer, and the ranges of its dimensions if it has any.
pub(super) fn name(program: &str, dims: Vec<(String, Interval)>) -> String {
    if dims.is_empty() {
        return program.to_owned();
    }
    let ranges = known::ranges(dims.iter().map(|(name, range)| (name.as_str(), *range)));
    format!("{program} [{ranges}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_as_fast_as_its_layers_together() {
        let layers = [("a".to_owned(), 1.0), ("b".to_owned(), 3.0)];
        let mut watch = Watch::new(layers.into_iter());
        let trials = [
            ("a", 1.0, (1, 100.0)),
            ("b", 3.0, (1, 10.0)),
            ("a", 4.0, (2, 100.0)),
            ("b", 6.0, (2, 8.0)),
            ("a", 7.0, (3, f64::INFINITY)),
            ("a", 9.0, (4, 50.0)),
        ];
        trials.into_iter().for_each(|(name, now, trial)| watch.trial(name, now, trial));
        let steps = |curve: &[Step]| {
            curve.iter().map(|it| (it.trials, it.seconds, it.ns)).collect::<Vec<_>>()
        };
        assert_eq!(steps(&watch.curve), [(2, 3.0, 130.0), (4, 6.0, 124.0), (6, 9.0, 74.0)]);
        assert_eq!(steps(&watch.layer("a")), [(1, 1.0, 100.0), (4, 5.0, 50.0)]);
        assert_eq!(steps(&watch.layer("b")), [(1, 2.0, 10.0), (2, 4.0, 8.0)]);
        assert!(watch.layer("c").is_empty());
        watch.trial("b", 12.0, (3, 8.0));
        watch.close();
        assert_eq!(steps(&watch.curve)[2..], [(6, 9.0, 74.0), (7, 12.0, 74.0)]);
        assert_eq!(steps(&watch.layer("b"))[1..], [(2, 4.0, 8.0), (3, 7.0, 8.0)]);
    }
}
