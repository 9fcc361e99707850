//! Variants of the mean curve: other exponents, and one scaled for each task by what it gained so far, which is
//! an experiment on what the history of a task says about its future.
//!
//! A task is thought to gain a constant times as much as the mean curve says. The constant has a gamma
//! distribution of mean 1, which observed gains turn into one of mean `(strength + gained) / (strength +
//! expected)`. An infinite strength believes in the mean curve alone, none in the history alone.

use std::collections::BTreeSet;

use serde_json::json;
use tvmtune_tuner::allocation::replay::{SlotLength, replay};
use tvmtune_tuner::allocation::{Allocator, Choice, Scheduler, TaskState};
use tvmtune_tuner::parallel::on_all_cores;
use tvmtune_tuner::statistics::geometric_mean;

use crate::arm::{Arm, Case, limits};

/// The scheduler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variant {
    /// The exponent of the mean curve: the logarithm of the latency falls by `n^-exponent`.
    exponent: f64,
    /// The exponent of the room above the lower bound.
    room: f64,
    strength: f64,
}

impl Variant {
    /// The mean curve with the history of each task.
    pub(crate) fn of_strength(strength: f64) -> Self {
        Self { exponent: 0.3, room: 0.0, strength }
    }

    fn saving_per_second(&self, task: &TaskState) -> f64 {
        let history = &task.history;
        let Some((trials, seconds)) = history.expected_slot() else { return f64::INFINITY };
        let slowdown = |n: f64| n.max(1.0).powf(-self.exponent);
        let n = history.latencies().len() as f64;
        let first = history.slots().first().map_or(0, |it| it.trials) as f64;
        let gained = (history.best_after(1) / history.best_ns()).ln();
        let expected = slowdown(first) - slowdown(n);
        let factor = (self.strength + gained) / (self.strength + expected);
        let factor = if factor.is_finite() { factor } else { 1.0 };
        let room = (history.best_ns() / task.bound_ns.max(1e-3)).max(1.0).powf(self.room);
        let saving = history.best_ns() * factor * (slowdown(n) - slowdown(n + trials));
        task.weight * saving * room / seconds.max(1e-6)
    }
}

impl Allocator for Variant {
    fn next(&mut self, tasks: &[&TaskState]) -> Option<Choice> {
        let open = (0..tasks.len()).filter(|it| !tasks[*it].history.is_over());
        let savings = open.map(|it| (it, self.saving_per_second(tasks[it])));
        let best = savings.reduce(|best, it| if it.1 > best.1 { it } else { best });
        best.map(|(task, _)| Choice { task, saving_ns: None })
    }
}

const EXPONENTS: [f64; 5] = [0.1, 0.2, 0.3, 0.5, 0.8];
const ROOMS: [f64; 4] = [0.0, 0.2, 0.4, 0.6];

/// Prints, for each network, the exponents with the smallest area on all other networks, and the area that they
/// have on it, beside that of the exponents of the library.
pub(crate) fn held_out(cases: &[Case], slot: SlotLength) {
    let networks: BTreeSet<&str> =
        cases.iter().map(|it| it.network.as_str()).filter(|it| Case::is_network(it)).collect();
    let pairs: Vec<(f64, f64)> =
        EXPONENTS.iter().flat_map(|e| ROOMS.map(|room| (*e, room))).collect();
    let areas = |(exponent, room): &(f64, f64)| -> Vec<f64> {
        let variant = Variant { exponent: *exponent, room: *room, strength: f64::INFINITY };
        let run = |it: &Case| {
            let (best, first, end) = limits(&it.tasks, slot);
            replay(&it.tasks, &mut { variant }, slot).mean_between(first, end, best)
        };
        cases.iter().map(run).collect()
    };
    let all = on_all_cores(&pairs, areas);
    for network in networks {
        let of = |areas: &[f64], is_own: bool| {
            let those = cases.iter().zip(areas).filter(|(it, _)| Case::is_network(&it.network));
            let those = those.filter(|(it, _)| (it.network == network) == is_own);
            geometric_mean(&those.map(|it| *it.1).collect::<Vec<_>>())
        };
        let best =
            (0..pairs.len()).min_by(|a, b| of(&all[*a], false).total_cmp(&of(&all[*b], false)));
        let Some(n) = best else { continue };
        let own = cases.iter().map(|it| {
            let (best, first, end) = limits(&it.tasks, slot);
            let run = Arm::Scheduler(Scheduler::MeanCurve).replay(it, slot);
            run.map_or(f64::NAN, |run| run.mean_between(first, end, best))
        });
        let own = of(&own.collect::<Vec<_>>(), true);
        println!(
            "{}",
            json!({
                "held_out": network,
                "exponent": pairs[n].0,
                "room": pairs[n].1,
                "area": of(&all[n], true),
                "area_of_mean_curve": own,
            })
        );
    }
}
