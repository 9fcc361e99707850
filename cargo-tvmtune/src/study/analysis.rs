//! Comparison of arms, cell by cell, with confidence intervals.

use std::collections::{BTreeMap, BTreeSet};

use tvmtune_tuner::statistics::{self, Ratio, geometric_mean, median};

use super::cell::{Cell, Layer, Step};
use super::plan::Study;

/// The speedup of an arm over the default schedules.
pub(super) struct Speedup {
    pub(super) n_cells: usize,
    /// The geometric mean over the layers of all cells, and the middle one.
    pub(super) layers: [f64; 2],
    /// The same over networks.
    pub(super) networks: [f64; 2],
    pub(super) trials: u64,
    pub(super) seconds: f64,
}

/// An arm beside another one.
pub(super) struct Comparison {
    pub(super) n_pairs: usize,
    /// The latency of networks, relative to the other arm.
    pub(super) networks: Option<Ratio>,
    /// The latency of layers.
    pub(super) layers: Option<Ratio>,
    /// The middle ratio of layers.
    pub(super) layers_median: f64,
    /// The latency of layers when that of both is over that took less time, as seen by then.
    pub(super) at_equal_time: Option<Ratio>,
    /// The trials, and the seconds, that it takes a layer to be as fast as the worse of both ends up.
    pub(super) trials: Option<Ratio>,
    /// See `trials`.
    pub(super) seconds: Option<Ratio>,
    /// The seconds that it takes a network to be as fast as the worse of both ends up.
    pub(super) network_seconds: Option<Ratio>,
}

/// The share of full tuning that an arm reaches.
pub(super) struct Share {
    /// The quotient of the speedups, in percent.
    pub(super) speedup: f64,
    /// The time saved at run time, in percent of that saved by full tuning.
    pub(super) saving: f64,
    /// The time of full tuning, relative to the arm.
    pub(super) search_time: f64,
}

/// Computes the speedups of an arm.
pub(super) fn speedup(cells: &[&Cell]) -> Speedup {
    let layers = cells.iter().flat_map(|it| &it.layers);
    let layer = |it: &Layer| it.default_ns / it.best_ns;
    let of_layers: Vec<f64> = layers.clone().map(layer).collect();
    let network = |it: &&Cell| Some(it.default_ns()? / it.best_ns()?);
    let of_networks: Vec<f64> = cells.iter().filter_map(network).collect();
    let both = |values: &[f64]| [geometric_mean(values), median(values)];
    Speedup {
        n_cells: cells.len(),
        layers: both(&of_layers),
        networks: both(&of_networks),
        trials: layers.map(|it| it.trials).sum(),
        seconds: cells.iter().map(|it| it.seconds).sum(),
    }
}

/// Pairs the cells of an arm with their counterparts: of the same seed, network and, if that has
/// one, transfer source.
pub(super) fn pairs<'a>(cells: &[&'a Cell], [arm, other]: [&str; 2]) -> Vec<(&'a Cell, &'a Cell)> {
    let counterpart = |cell: &Cell| {
        let is_counterpart = |it: &&&Cell| {
            (it.key.arm.as_str(), it.key.seed, &it.key.target)
                == (other, cell.key.seed, &cell.key.target)
                && (it.key.source.is_none() || it.key.source == cell.key.source)
        };
        cells.iter().find(is_counterpart).copied()
    };
    let of_arm = cells.iter().filter(|it| it.key.arm == arm);
    of_arm.filter_map(|it| Some((*it, counterpart(it)?))).collect()
}

/// Compares the cells of pairs; networks count as much as each other, and in a network its layers.
pub(super) fn compare(pairs: &[(&Cell, &Cell)]) -> Comparison {
    let mut networks = Groups::default();
    let mut layers = Groups::default();
    let (mut trials, mut seconds) = (Groups::default(), Groups::default());
    let mut network_seconds = Groups::default();
    let mut at_equal_time = Groups::default();
    for (cell, other) in pairs {
        let group = (cell.key.target.as_str(), cell.key.seed);
        // Beside the default schedule of its own cell: the machine drifts by more than arms differ.
        let network = |it: &Cell| Some(it.best_ns()? / it.default_ns()?);
        if let (Some(a), Some(b)) = (network(cell), network(other)) {
            networks.add(group, a / b);
        }
        let curve = |it: &Cell| Some(relative(&it.curve, it.default_ns()?));
        if let (Some(a), Some(b)) = (curve(cell), curve(other))
            && let Some((a, b)) = equally_good(&a, &b)
        {
            network_seconds.add(group, a.seconds / b.seconds);
        }
        let layer = |it: &Layer| it.best_ns / it.default_ns;
        for (a, b) in common_layers(cell, other) {
            layers.add(group, layer(a) / layer(b));
            let end = last_seconds(a).min(last_seconds(b));
            let seen = |it: &Layer| Some(seen_by(&it.curve, end)?.ns / it.default_ns);
            if let (Some(a), Some(b)) = (seen(a), seen(b)) {
                at_equal_time.add(group, a / b);
            }
            let curve = |it: &Layer| relative(&it.curve, it.default_ns);
            if let Some((a, b)) = equally_good(&curve(a), &curve(b)) {
                trials.add(group, a.trials as f64 / b.trials as f64);
                seconds.add(group, a.seconds / b.seconds);
            }
        }
    }
    Comparison {
        n_pairs: pairs.len(),
        layers_median: median(&layers.all()),
        networks: networks.ratio(),
        layers: layers.ratio(),
        at_equal_time: at_equal_time.ratio(),
        trials: trials.ratio(),
        seconds: seconds.ratio(),
        network_seconds: network_seconds.ratio(),
    }
}

/// Computes the share of the second of each pair that the first reached; `None` if no pair has all
/// layers.
pub(super) fn share(pairs: &[(&Cell, &Cell)]) -> Option<Share> {
    let each = pairs.iter().filter_map(|(cell, full)| {
        let [own, full_times] = [cell, full].map(|it| Some((it.default_ns()?, it.best_ns()?)));
        let ((own_default, own), (full_default, full_best)) = (own?, full_times?);
        let speedups = [own_default / own, full_default / full_best];
        let savings = [1.0 - own / own_default, 1.0 - full_best / full_default];
        Some((speedups, savings, full.seconds / cell.seconds))
    });
    let each: Vec<_> = each.collect();
    let speedup: Vec<f64> = each.iter().map(|it| it.0[0] / it.0[1]).collect();
    let saving = |n: usize| each.iter().map(|it| it.1[n]).sum::<f64>();
    let time: Vec<f64> = each.iter().map(|it| it.2).collect();
    (!each.is_empty()).then(|| Share {
        speedup: 100.0 * geometric_mean(&speedup),
        saving: 100.0 * saving(0) / saving(1),
        search_time: geometric_mean(&time),
    })
}

/// Lists what is left out of the numbers, with reasons.
pub(super) fn excluded(study: &Study, cells: &[&Cell]) -> Vec<String> {
    let name = |cell: &Cell| {
        let source = cell.key.source.as_ref().map(|it| format!(" from {it}")).unwrap_or_default();
        format!("{}{source}, {}, seed {}", cell.key.target, cell.key.arm, cell.key.seed)
    };
    let missing = |cell: &&Cell| {
        let name = name(cell);
        let line = move |(layer, why): (&str, &str)| format!("{name}: {layer}: {why}");
        cell.missing.iter().map(move |it| line((&it.name, &it.why))).collect::<Vec<_>>()
    };
    let finished: BTreeSet<_> = cells.iter().map(|it| &it.key).collect();
    let planned = study.source_cells().into_iter().chain(study.cells());
    let unfinished = planned.filter(|it| !finished.contains(it)).count();
    let unfinished = (unfinished > 0).then(|| format!("{unfinished} cells have not been run"));
    cells.iter().flat_map(missing).chain(unfinished).collect()
}

/// Returns the layers that two cells have in common.
fn common_layers<'a>(
    cell: &'a Cell,
    other: &'a Cell,
) -> impl Iterator<Item = (&'a Layer, &'a Layer)> {
    cell.layers.iter().filter_map(|it| Some((it, other.layer(&it.name)?)))
}

/// Returns a curve in units of the default schedule.
fn relative(curve: &[Step], default_ns: f64) -> Vec<Step> {
    curve.iter().map(|it| Step { ns: it.ns / default_ns, ..*it }).collect()
}

/// Returns the first step of each of two curves that is as low as the higher of their ends.
fn equally_good(a: &[Step], b: &[Step]) -> Option<(Step, Step)> {
    let goal = a.last()?.ns.max(b.last()?.ns);
    let reached = |it: &[Step]| it.iter().find(|step| step.ns <= goal).copied();
    Some((reached(a)?, reached(b)?))
}

/// When the search of a layer ended.
fn last_seconds(layer: &Layer) -> f64 {
    layer.curve.last().map_or(0.0, |it| it.seconds)
}

/// Returns the last step of a curve before a time.
fn seen_by(curve: &[Step], seconds: f64) -> Option<Step> {
    curve.iter().take_while(|it| it.seconds <= seconds).last().copied()
}

/// Ratios by network and seed. Those of one network and seed share what makes them differ from others: the
/// network, the session, and the cell that they are relative to, which is one for all transfer sources. So their
/// mean is one observation.
#[derive(Default)]
struct Groups<'a>(BTreeMap<&'a str, BTreeMap<u64, Vec<f64>>>);

impl<'a> Groups<'a> {
    fn add(&mut self, (network, seed): (&'a str, u64), ratio: f64) {
        self.0.entry(network).or_default().entry(seed).or_default().push(ratio);
    }

    fn all(&self) -> Vec<f64> {
        self.0.values().flat_map(BTreeMap::values).flatten().copied().collect()
    }

    fn ratio(self) -> Option<Ratio> {
        let of_network = |seeds: BTreeMap<u64, Vec<f64>>| {
            seeds.into_values().map(|it| geometric_mean(&it)).collect()
        };
        let groups: Vec<Vec<f64>> = self.0.into_values().map(of_network).collect();
        statistics::ratio(&groups)
    }
}
