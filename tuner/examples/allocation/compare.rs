//! All schedulers on recorded networks, beside the oracles.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tvmtune_tuner::allocation::replay::{SlotLength, curves};
use tvmtune_tuner::allocation::{Scheduler, hindsight};
use tvmtune_tuner::parallel::on_all_cores;
use tvmtune_tuner::statistics::{Ratio, ratio};

use crate::arm::{Arm, Case, limits};

/// The measures of a scheduler on a network from a seed. Times are from the end of the first slots, and
/// relative to the time of all trials.
#[derive(Clone)]
struct Measures {
    /// The time until the network is within 1, 5 and 10 % of its best latency.
    to_within: [f64; 3],
    /// The mean latency until all trials are made, relative to the best.
    area: f64,
    /// The latency at 10, 25, 50 and 100 % of the time, relative to the best.
    at: [f64; 4],
    deciding: Duration,
    n_choices: usize,
}

const WITHIN: [f64; 3] = [1.01, 1.05, 1.10];
const SHARES: [f64; 4] = [0.1, 0.25, 0.5, 1.0];
/// About the time of a slot, relative to that of all: less is no difference.
const ONE_SLOT: f64 = 0.005;

/// The measures of arms, by network and in the order of seeds.
type Groups = BTreeMap<String, Vec<Measures>>;

/// Prints what the best shares gain over sequential and round-robin at each budget, then a line for each arm
/// over all networks and for each, and a line for each pair of our arms with another.
pub(crate) fn run(cases: &[Case], slot: SlotLength) {
    let networks: BTreeMap<&str, Vec<&Case>> = cases.iter().fold(BTreeMap::new(), |mut all, it| {
        all.entry(it.network.as_str()).or_insert_with(Vec::new).push(it);
        all
    });
    for (name, cases) in &networks {
        println!("{}", headroom(name, cases, slot));
    }
    let measured: Vec<(Arm, Groups)> =
        Arm::all().into_iter().map(|it| (it, groups(it, cases, slot))).collect();
    let oracle = measured[0].1.clone();
    for (arm, groups) in &measured {
        let beside = relative(groups, &oracle);
        for (network, measures) in &beside {
            let one = BTreeMap::from([(network.clone(), measures.clone())]);
            println!("{}", line(&arm.name(), Some(network), &one));
        }
        println!("{}", line(&arm.name(), None, &networks_only(beside)));
    }
    for (ours, groups) in measured.iter().filter(|it| it.0.is_ours()) {
        for (other, others) in measured.iter().filter(|it| it.0.is_baseline()) {
            let ratios = networks_only(relative(groups, others));
            println!(
                "{}",
                json!({
                    "arm": ours.name(),
                    "over": other.name(),
                    "time_to_5": interval(&ratios, &|it| it.to_within[1]),
                    "area": interval(&ratios, &|it| it.area),
                    "latency_at_25": interval(&ratios, &|it| it.at[1]),
                })
            );
        }
    }
}

/// Measures an arm in all cases that it can be run in.
fn groups(arm: Arm, cases: &[Case], slot: SlotLength) -> Groups {
    let measured = on_all_cores(cases, |it| Some((it.network.clone(), measure(arm, it, slot)?)));
    measured.into_iter().flatten().fold(Groups::new(), |mut groups, (network, it)| {
        groups.entry(network).or_default().push(it);
        groups
    })
}

fn measure(arm: Arm, case: &Case, slot: SlotLength) -> Option<Measures> {
    let tasks = &case.tasks;
    let (best, first, end) = limits(tasks, slot);
    let replayed = arm.replay(case, slot)?;
    let time = |it: f64| (it - first).max(0.0) / (end - first);
    // A replay that never gets so close counts as one that does at the end of the time.
    let to_within =
        WITHIN.map(|it| time(replayed.seconds_to(it * best).unwrap_or(f64::INFINITY).min(end)));
    Some(Measures {
        to_within,
        area: replayed.mean_between(first, end, best),
        at: SHARES.map(|it| replayed.total_after(first + it * (end - first)) / best),
        deciding: replayed.deciding,
        n_choices: replayed.steps.len().saturating_sub(tasks.len()).max(1),
    })
}

/// Returns times and areas in units of those of another arm in the same cases; latencies, too.
fn relative(groups: &Groups, others: &Groups) -> Groups {
    let times = |own: f64, other: f64| (own + ONE_SLOT) / (other + ONE_SLOT);
    let beside = |own: &Measures, other: &Measures| Measures {
        to_within: [0, 1, 2].map(|it| times(own.to_within[it], other.to_within[it])),
        area: own.area / other.area,
        at: [0, 1, 2, 3].map(|it| own.at[it] / other.at[it]),
        ..own.clone()
    };
    let all = groups.iter().filter_map(|(network, own)| {
        let other = others.get(network)?;
        Some((network.clone(), own.iter().zip(other).map(|(a, b)| beside(a, b)).collect()))
    });
    all.collect()
}

/// Leaves out what is not a network.
fn networks_only(groups: Groups) -> Groups {
    groups.into_iter().filter(|it| Case::is_network(&it.0)).collect()
}

/// Returns the geometric mean of a measure, with its 95 % interval: for other networks, or for other seeds of a
/// single network.
fn interval(groups: &Groups, of: &dyn Fn(&Measures) -> f64) -> Option<[f64; 3]> {
    let groups: Vec<Vec<f64>> = groups.values().map(|it| it.iter().map(of).collect()).collect();
    ratio(&groups).map(|Ratio { mean, low, high, .. }| [mean, low, high])
}

/// Returns the line of an arm, relative to the oracle of the least area.
fn line(arm: &str, network: Option<&str>, groups: &Groups) -> Value {
    let all = || groups.values().flatten();
    let deciding: f64 = all().map(|it| it.deciding.as_secs_f64()).sum();
    let n_choices: usize = all().map(|it| it.n_choices).sum();
    json!({
        "arm": arm,
        "network": network,
        "n": all().count(),
        "time_to_1_of_oracle": interval(groups, &|it| it.to_within[0]),
        "time_to_5_of_oracle": interval(groups, &|it| it.to_within[1]),
        "time_to_10_of_oracle": interval(groups, &|it| it.to_within[2]),
        "area_of_oracle": interval(groups, &|it| it.area),
        "latency_at_10": interval(groups, &|it| it.at[0]),
        "latency_at_25": interval(groups, &|it| it.at[1]),
        "latency_at_50": interval(groups, &|it| it.at[2]),
        "latency_at_100": interval(groups, &|it| it.at[3]),
        "ms_per_choice": deciding * 1e3 / n_choices as f64,
    })
}

/// Returns what the best shares by a deadline gain over the two simplest schedulers.
fn headroom(name: &str, cases: &[&Case], slot: SlotLength) -> Value {
    const UNITS: usize = 1000;
    let gains = |scheduler: Scheduler| -> Vec<Option<[f64; 3]>> {
        let mut gains = SHARES.map(|_| Vec::new());
        for case in cases {
            let (_, first, end) = limits(&case.tasks, slot);
            let unit = (end - first) / UNITS as f64;
            let best = hindsight::by_deadline(&curves(&case.tasks, slot), unit, UNITS);
            let Some(other) = Arm::Scheduler(scheduler).replay(case, slot) else { continue };
            for (gains, share) in gains.iter_mut().zip(SHARES) {
                let at = best[(share * UNITS as f64) as usize];
                gains.push(other.total_after(first + share * (end - first)) / at);
            }
        }
        let of = |it: &Vec<f64>| ratio(std::slice::from_ref(it));
        gains.iter().map(|it| of(it).map(|it| [it.mean, it.low, it.high])).collect()
    };
    json!({
        "headroom": name,
        "seeds": cases.len(),
        "tasks": cases.first().map_or(0, |it| it.tasks.len()),
        "shares": SHARES,
        "over_sequential": gains(Scheduler::Sequential),
        "over_round_robin": gains(Scheduler::RoundRobin),
    })
}
