//! The functions that are compared, trained on the same trials.

use tvmtune_tuner::cost::analytic::AnalyticModel;
use tvmtune_tuner::cost::gbdt::Objective;
use tvmtune_tuner::parallel::n_cores;
use tvmtune_tuner::search::Score;
use tvmtune_tuner::space::Point;
use tvmtune_tuner::value::{
    Analysis, Features, Label, Prefix, Sample, TrainingProgram, ValueFunction, training_samples,
};

use crate::data::Layer;

/// A function from prefixes to values.
pub(crate) enum Function {
    /// The analytic cost of the completion by analysis.
    Cost,
    /// The same, predicted from complete schedules alone, as the cost model of a search does.
    Completion(ValueFunction),
    /// A value function.
    Value(ValueFunction),
}

/// The functions with their names.
#[derive(Default)]
pub(crate) struct Models(pub(crate) Vec<(&'static str, Function)>);

impl Models {
    /// Trains all functions on the same layers.
    pub(crate) fn train<'a>(layers: impl Iterator<Item = &'a Layer>) -> Self {
        let n = n_cores();
        let program =
            |it: &'a Layer| TrainingProgram { features: it.features(), trials: it.trials.clone() };
        let programs: Vec<TrainingProgram<'_>> = layers.map(program).collect();
        let best = training_samples(programs.iter(), Label::Best, n);
        let each = training_samples(programs.iter(), Label::Each, n);
        let complete: Vec<Sample> = each.iter().filter(|it| it.is_complete()).cloned().collect();
        let train = |samples: &[Sample], objective, analysis| {
            ValueFunction::train(samples, objective, analysis, n)
        };
        let (mean, upper) = (Objective::Mean, Objective::Quantile(0.9));
        Self(vec![
            ("analytic cost of the completion", Function::Cost),
            (
                "product of both costs of the completion",
                Function::Completion(train(&complete, mean, Analysis::Factor)),
            ),
            ("value", Function::Value(train(&best, mean, Analysis::Feature))),
            ("value and analysis", Function::Value(train(&best, mean, Analysis::Factor))),
            ("quantile and analysis", Function::Value(train(&each, upper, Analysis::Factor))),
        ])
    }
}

impl Function {
    /// Returns the values of prefixes of a layer; higher is better.
    pub(crate) fn values(
        &self,
        layer: &Layer,
        features: &Features<'_>,
        prefixes: &[Prefix],
    ) -> Vec<f64> {
        let n = n_cores();
        let completed =
            || prefixes.iter().map(|it| it.completed(&layer.space)).collect::<Vec<Point>>();
        match self {
            Self::Cost => {
                let model = AnalyticModel::new(&layer.workload.dag, layer.target, n);
                model.score(&layer.space, &completed()).into_iter().map(|it| -it).collect()
            }
            Self::Completion(model) => {
                let complete: Vec<Prefix> = completed().iter().map(Prefix::complete).collect();
                model.values(features, &complete, n)
            }
            Self::Value(model) => model.values(features, prefixes, n),
        }
    }
}
