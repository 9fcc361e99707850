//! The order of prefixes, beside what was later found under them.

use std::collections::BTreeMap;

use serde_json::json;
use tvmtune_tuner::statistics::spearman;
use tvmtune_tuner::value::Prefix;

use crate::data::Layer;
use crate::model::Models;

/// Trials under a prefix from which on the best of them says something of the best of all.
const MIN_TRIALS: usize = 8;
/// Prefixes that are compared with each other, at least.
const MIN_PREFIXES: usize = 5;

/// Prints the rank correlations of the layers of a network, with functions trained on all others.
pub(crate) fn run(layers: &[Layer], network: &str) {
    let models = Models::train(layers.iter().filter(|it| it.network != network));
    for (name, function) in &models.0 {
        let mut correlations = Vec::new();
        let mut regrets = Vec::new();
        for layer in layers.iter().filter(|it| it.network == network) {
            let features = layer.features();
            for level in levels(layer) {
                let prefixes: Vec<Prefix> = level.keys().cloned().collect();
                let found: Vec<f64> = level.into_values().map(|ns| -ns).collect();
                let values = function.values(layer, &features, &prefixes);
                let best = found.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let first = (0..values.len()).max_by(|a, b| values[*a].total_cmp(&values[*b]));
                regrets.extend(first.map(|it| (found[it] / best).ln()));
                correlations.push(spearman(&values, &found));
            }
        }
        correlations.retain(|it| it.is_finite());
        let mean = |it: &[f64]| it.iter().sum::<f64>() / it.len() as f64;
        println!(
            "{}",
            json!({
                "network": network,
                "function": name,
                "levels": correlations.len(),
                "rank_correlation": mean(&correlations),
                "regret_of_the_first": mean(&regrets).exp() - 1.0,
            })
        );
    }
}

/// Returns the prefixes of each number of decisions, with the best latency found under each.
fn levels(layer: &Layer) -> Vec<BTreeMap<Prefix, f64>> {
    let mut seen: BTreeMap<Prefix, (f64, usize)> = BTreeMap::new();
    for (point, ns) in &layer.trials {
        for prefix in Prefix::of(point) {
            let (min_ns, n) = seen.entry(prefix).or_insert((f64::INFINITY, 0));
            (*min_ns, *n) = (min_ns.min(ns.unwrap_or(f64::INFINITY)), *n + 1);
        }
    }
    let mut levels: BTreeMap<usize, BTreeMap<Prefix, f64>> = BTreeMap::new();
    for (prefix, (min_ns, n)) in seen {
        if n >= MIN_TRIALS && min_ns.is_finite() {
            levels.entry(prefix.choices.len()).or_default().insert(prefix, min_ns);
        }
    }
    levels.into_values().filter(|it| it.len() >= MIN_PREFIXES).collect()
}
