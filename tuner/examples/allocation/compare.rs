//! All schedulers on recorded networks, beside the oracles.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use tvmtune_tuner::allocation::Scheduler;
use tvmtune_tuner::allocation::hindsight;
use tvmtune_tuner::allocation::replay::{
    InOrder, RecordedTask, Replayed, SlotLength, curves, replay,
};
use tvmtune_tuner::statistics::{Ratio, ratio};

use crate::curves::{Curves, Network};

/// The measures of a scheduler on a network from a seed. Times are from the end of the first slots, and
/// relative to the time of all trials.
#[derive(Clone)]
struct Measures {
    /// The time until the network is within 1, 5 and 10 % of its best latency.
    to_within: [f64; 3],
    /// The mean latency until all trials are made, relative to the best.
    area: f64,
    /// The latency at 25, 50 and 100 % of the time, relative to the best.
    at: [f64; 3],
    deciding: Duration,
    n_choices: usize,
}

const WITHIN: [f64; 3] = [1.01, 1.05, 1.10];
const SHARES: [f64; 3] = [0.25, 0.5, 1.0];

/// The order of an oracle, and all others.
#[derive(Clone, Copy, PartialEq)]
enum Arm {
    LeastArea,
    Myopic,
    Scheduler(Scheduler),
}

impl Arm {
    fn all() -> Vec<Self> {
        let schedulers = Scheduler::all().into_iter().map(Self::Scheduler);
        [Self::LeastArea, Self::Myopic].into_iter().chain(schedulers).collect()
    }

    fn name(self) -> String {
        match self {
            Self::LeastArea => "oracle of the least area".to_owned(),
            Self::Myopic => "myopic oracle".to_owned(),
            Self::Scheduler(it) => it.to_string(),
        }
    }

    fn replay(self, tasks: &[RecordedTask], slot: SlotLength, seed: u64) -> Replayed {
        let in_order = |order: &dyn Fn(&[hindsight::Curve]) -> Vec<usize>| {
            replay(tasks, &mut InOrder::new(order(&curves(tasks, slot))), slot)
        };
        match self {
            Self::LeastArea => in_order(&|it| hindsight::least_area(it)),
            Self::Myopic => in_order(&|it| hindsight::myopic(it)),
            Self::Scheduler(it) => replay(tasks, it.allocator(seed).as_mut(), slot),
        }
    }
}

/// Prints what the best shares gain over sequential and round-robin at each budget, then a line for each
/// scheduler: over all networks, and for each.
pub(crate) fn run(curves: &Curves, slot: SlotLength) {
    let networks = curves.networks();
    for (name, seeds) in &networks {
        println!("{}", headroom(name, seeds, slot));
    }
    let mut all: BTreeMap<String, Vec<Vec<Measures>>> = BTreeMap::new();
    for (name, seeds) in &networks {
        let mut oracle = Vec::new();
        for arm in Arm::all() {
            let measured: Vec<Measures> =
                seeds.iter().map(|(seed, network)| measure(arm, network, slot, *seed)).collect();
            if arm == Arm::LeastArea {
                oracle.clone_from(&measured);
            }
            let beside: Vec<Measures> =
                measured.iter().zip(&oracle).map(|(a, b)| a.beside(b)).collect();
            println!("{}", line(&arm.name(), Some(name), std::slice::from_ref(&beside)));
            all.entry(arm.name()).or_default().push(beside);
        }
    }
    for arm in Arm::all() {
        println!("{}", line(&arm.name(), None, &all[&arm.name()]));
    }
}

/// Returns the tasks of a network of which some candidate worked.
fn usable(network: &Network<'_>) -> Vec<RecordedTask> {
    let works = |it: &&&RecordedTask| it.trials.iter().any(|it| it.ns.is_some());
    network.iter().filter(works).map(|it| (*it).clone()).collect()
}

/// Returns the best latency of a network, the time of the first slots, and that of all trials.
fn limits(tasks: &[RecordedTask], slot: SlotLength) -> (f64, f64, f64) {
    let curves = curves(tasks, slot);
    let last =
        |it: &hindsight::Curve| it.steps.last().map_or((f64::NAN, 0.0), |it| (it.ns, it.seconds));
    let best = curves.iter().map(|it| it.weight * last(it).0).sum();
    let first = curves.iter().filter_map(|it| Some(it.steps.first()?.seconds)).sum();
    (best, first, curves.iter().map(|it| last(it).1).sum())
}

fn measure(arm: Arm, network: &Network<'_>, slot: SlotLength, seed: u64) -> Measures {
    let tasks = usable(network);
    let (best, first, end) = limits(&tasks, slot);
    let replayed = arm.replay(&tasks, slot, seed);
    let time = |it: f64| (it - first).max(0.0) / (end - first);
    // A replay that never gets so close counts as one that does at the end of the time.
    let to_within =
        WITHIN.map(|it| time(replayed.seconds_to(it * best).unwrap_or(f64::INFINITY).min(end)));
    Measures {
        to_within,
        area: replayed.mean_between(first, end, best),
        at: SHARES.map(|it| replayed.total_after(first + it * (end - first)) / best),
        deciding: replayed.deciding,
        n_choices: replayed.steps.len().saturating_sub(tasks.len()).max(1),
    }
}

impl Measures {
    /// Puts times and areas in units of those of an oracle. A slot more or less is no difference where the
    /// oracle needs none.
    fn beside(&self, oracle: &Self) -> Self {
        let relative = |own: f64, other: f64| (own + ONE_SLOT) / (other + ONE_SLOT);
        let to_within = [0, 1, 2].map(|it| relative(self.to_within[it], oracle.to_within[it]));
        Self { to_within, area: self.area / oracle.area, ..self.clone() }
    }
}

/// About the time of a slot, relative to that of all.
const ONE_SLOT: f64 = 0.005;

/// Returns the line of a scheduler: geometric means, with 95 % intervals over networks and seeds.
fn line(arm: &str, network: Option<&str>, groups: &[Vec<Measures>]) -> serde_json::Value {
    let interval = |of: &dyn Fn(&Measures) -> f64| -> Option<[f64; 3]> {
        let groups: Vec<Vec<f64>> = groups.iter().map(|it| it.iter().map(of).collect()).collect();
        ratio(&groups, 1).map(|Ratio { mean, low, high, .. }| [mean, low, high])
    };
    let all = || groups.iter().flatten();
    let deciding: f64 = all().map(|it| it.deciding.as_secs_f64()).sum();
    let n_choices: usize = all().map(|it| it.n_choices).sum();
    json!({
        "arm": arm,
        "network": network,
        "time_to_1_of_oracle": interval(&|it| it.to_within[0]),
        "time_to_5_of_oracle": interval(&|it| it.to_within[1]),
        "time_to_10_of_oracle": interval(&|it| it.to_within[2]),
        "area_of_oracle": interval(&|it| it.area),
        "latency_at_25": interval(&|it| it.at[0]),
        "latency_at_50": interval(&|it| it.at[1]),
        "latency_at_100": interval(&|it| it.at[2]),
        "ms_per_choice": deciding * 1e3 / n_choices as f64,
    })
}

/// Returns what the best shares by a deadline gain over the two simplest schedulers.
fn headroom(name: &str, seeds: &BTreeMap<u64, Network<'_>>, slot: SlotLength) -> serde_json::Value {
    const UNITS: usize = 1000;
    let mut gains: [Vec<f64>; 6] = Default::default();
    for (seed, network) in seeds {
        let tasks = usable(network);
        let (_, first, end) = limits(&tasks, slot);
        let unit = (end - first) / UNITS as f64;
        let best = hindsight::by_deadline(&curves(&tasks, slot), unit, UNITS);
        let others = [Scheduler::Sequential, Scheduler::RoundRobin]
            .map(|it| Arm::Scheduler(it).replay(&tasks, slot, *seed));
        for (n, share) in SHARES.iter().enumerate() {
            let at = best[(share * UNITS as f64) as usize];
            for (m, it) in others.iter().enumerate() {
                gains[2 * n + m].push(it.total_after(first + share * (end - first)) / at);
            }
        }
    }
    let of =
        |it: &Vec<f64>| ratio(std::slice::from_ref(it), 1).map(|it| [it.mean, it.low, it.high]);
    json!({
        "headroom": name,
        "seeds": seeds.len(),
        "tasks": seeds.values().next().map_or(0, Vec::len),
        "over_sequential": [of(&gains[0]), of(&gains[2]), of(&gains[4])],
        "over_round_robin": [of(&gains[1]), of(&gains[3]), of(&gains[5])],
    })
}
