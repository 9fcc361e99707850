//! The functions that are compared, trained on the same trials.

use tvmtune_tuner::cost::analytic::AnalyticModel;
use tvmtune_tuner::cost::gbdt::Objective;
use tvmtune_tuner::cost::learned::combine;
use tvmtune_tuner::parallel::{n_cores, on_threads};
use tvmtune_tuner::search::Score;
use tvmtune_tuner::space::Point;
use tvmtune_tuner::value::{Label, Prefix, Sample, ValueFunction, samples};

use crate::data::Layer;

/// Samples of a layer, at most.
pub(crate) const N_SAMPLES: usize = 200;

/// A function from prefixes to values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// The analytic cost of the completion by analysis.
    Analytic,
    /// The latency of that completion as predicted from complete schedules alone.
    Completion,
    /// The product of both.
    Product,
    /// The value function of the best that was seen under a prefix.
    Value,
    /// The value function of a high quantile of all that was seen under it.
    Quantile,
    /// The product of the value function and the analytic cost.
    ValueProduct,
}

pub(crate) const KINDS: [Kind; 6] = [
    Kind::Analytic,
    Kind::Completion,
    Kind::Product,
    Kind::Value,
    Kind::Quantile,
    Kind::ValueProduct,
];

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Analytic => "analytic cost of the completion",
            Kind::Completion => "learned cost of the completion",
            Kind::Product => "product of both costs",
            Kind::Value => "value",
            Kind::Quantile => "value, quantile",
            Kind::ValueProduct => "product of value and analytic cost",
        }
    }
}

/// All functions, trained on the same layers.
pub(crate) struct Models {
    completion: ValueFunction,
    value: ValueFunction,
    quantile: ValueFunction,
}

impl Models {
    /// Trains on these layers.
    pub(crate) fn train<'a>(layers: impl Iterator<Item = &'a Layer>) -> Self {
        let layers: Vec<&Layer> = layers.collect();
        let n = n_cores();
        let all = |of: &(dyn Fn(&Layer) -> Vec<Sample> + Sync)| -> Vec<Sample> {
            on_threads(n, &layers, |it| of(it)).into_iter().flatten().collect()
        };
        let labelled = |label| {
            all(&move |it: &Layer| samples(&it.features(), &it.trials, label, N_SAMPLES, 1))
        };
        Self {
            completion: ValueFunction::train(&all(&complete), Objective::Mean, n),
            value: ValueFunction::train(&labelled(Label::Best), Objective::Mean, n),
            quantile: ValueFunction::train(&labelled(Label::Each), Objective::Quantile(0.9), n),
        }
    }

    /// Returns the values of prefixes of a layer by a function; higher is better.
    pub(crate) fn values(&self, kind: Kind, layer: &Layer, prefixes: &[Prefix]) -> Vec<f64> {
        let n = n_cores();
        let features = layer.features();
        let analytic = || {
            let points: Vec<Point> = prefixes.iter().map(|it| it.completed(&layer.space)).collect();
            let model = AnalyticModel::new(&layer.workload.dag, layer.target, n);
            model.score(&layer.space, &points)
        };
        let product = |shares: Vec<f64>| -> Vec<f64> {
            let costs = analytic();
            let both = shares.into_iter().zip(costs);
            both.map(|(share, cost)| -combine(share, Some(cost))).collect()
        };
        let completions = || {
            let complete: Vec<Prefix> = prefixes
                .iter()
                .map(|it| it.completed(&layer.space))
                .map(|Point { sketch, choices }| Prefix { sketch, choices })
                .collect();
            self.completion.values(&features, &complete, n)
        };
        match kind {
            Kind::Analytic => analytic().into_iter().map(|it| -it).collect(),
            Kind::Completion => completions(),
            Kind::Product => product(completions()),
            Kind::Value => self.value.values(&features, prefixes, n),
            Kind::Quantile => self.quantile.values(&features, prefixes, n),
            Kind::ValueProduct => product(self.value.values(&features, prefixes, n)),
        }
    }
}

/// Returns samples of complete schedules alone, with their own speeds.
fn complete(layer: &Layer) -> Vec<Sample> {
    let Some((_, best_ns)) = layer.best() else { return Vec::new() };
    let features = layer.features();
    let step = layer.trials.len().div_ceil(N_SAMPLES).max(1);
    let sample = |(point, ns): &(Point, Option<f64>)| {
        let Point { sketch, choices } = point.clone();
        let prefix = Prefix { sketch, choices };
        let rows = features.of(&prefix)?;
        Some(Sample { prefix, rows, share: ns.map_or(0.0, |ns| best_ns / ns), n_trials: 1 })
    };
    layer.trials.iter().step_by(step).filter_map(sample).collect()
}
