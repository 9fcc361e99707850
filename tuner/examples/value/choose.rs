//! The schedules that functions choose, measured.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Value, json};
use tvmtune_schedule::Instruction;
use tvmtune_tuner::measure::WorkerCommand;
use tvmtune_tuner::parallel::n_cores;
use tvmtune_tuner::space::Point;
use tvmtune_tuner::statistics::geometric_mean;
use tvmtune_tuner::tune::{self, Bench, Bucket};
use tvmtune_tuner::value::{Analysis, Prefix, ValueFunction, beam_search};

use crate::Result;
use crate::data::Layer;
use crate::model::Models;
use crate::{improve, lock};

/// Timings of each schedule, side by side.
const ROUNDS: usize = 15;

/// Prints the latencies of the choices for each layer of a network, relative to the default schedule of
/// builds, with functions trained on all other networks; improved ones measured so many more schedules of each
/// of their layers.
pub(crate) fn run(
    layers: &[Layer],
    network: &str,
    n_schedules: usize,
    is_brief: bool,
) -> Result<()> {
    let others: Vec<&Layer> = layers.iter().filter(|it| it.network != network).collect();
    let models = match is_brief {
        true => Models::default(),
        false => Models::train(others.iter().copied()),
    };
    let lock = lock()?;
    let improved = improve::functions(&others, n_schedules, Analysis::Factor, &lock)?;
    let mut totals: BTreeMap<String, Total> = BTreeMap::new();
    for layer in layers.iter().filter(|it| it.network == network) {
        let choices = choices(layer, &models, &improved);
        let traces: Vec<Vec<Instruction>> = choices.iter().map(|it| it.trace.clone()).collect();
        let bucket = Bucket { workload: &layer.workload, ranges: &[] };
        let bench = Bench { bucket, dims: None, target: layer.target, rounds: ROUNDS };
        let outcomes = tune::bench(&bench, &traces, WorkerCommand::this_executable()?, &lock)??;
        let ns: Vec<Option<f64>> =
            outcomes.iter().map(|it| it.timing().map(|it| it.typical_ns())).collect();
        let Some(default_ns) = ns[0] else { continue };
        let by_search: BTreeMap<&str, Option<f64>> =
            choices.iter().map(|it| it.search.as_str()).zip(ns.iter().copied()).collect();
        let gains: BTreeMap<&str, f64> =
            choices.iter().filter_map(|it| Some((it.search.as_str(), it.gain?))).collect();
        let weight = layer.workload.weight;
        println!(
            "{}",
            json!({
                "network": network,
                "layer": layer.workload.dag.name,
                "weight": weight,
                "ns": by_search,
                "predicted_gain": gains,
            })
        );
        for (choice, own_ns) in choices.into_iter().zip(ns) {
            let total = totals.entry(choice.search).or_default();
            total.add(layer.workload.weight, default_ns, own_ns, choice.seconds);
        }
    }
    for (search, total) in totals {
        println!("{}", total.line(network, &search));
    }
    Ok(())
}

/// The layers of a network by one search.
#[derive(Default)]
struct Total {
    /// Their latencies relative to those of the default schedules.
    ratios: Vec<f64>,
    /// The latency of the network, and that of the default schedules, in ns.
    ns: f64,
    default_ns: f64,
    /// Layers whose schedule failed; they have the default one.
    n_failed: usize,
    /// The time of the choices.
    seconds: f64,
}

impl Total {
    fn add(&mut self, weight: f64, default_ns: f64, own_ns: Option<f64>, seconds: f64) {
        let ns = own_ns.unwrap_or(default_ns);
        self.ratios.push(ns / default_ns);
        self.ns += weight * ns;
        self.default_ns += weight * default_ns;
        self.n_failed += usize::from(own_ns.is_none());
        self.seconds += seconds;
    }

    fn line(&self, network: &str, search: &str) -> Value {
        json!({
            "network": network,
            "search": search,
            "layers": self.ratios.len(),
            "layers_of_default": geometric_mean(&self.ratios),
            "network_of_default": self.ns / self.default_ns,
            "failed": self.n_failed,
            "seconds": self.seconds,
        })
    }
}

/// A schedule that is measured.
struct Choice {
    search: String,
    trace: Vec<Instruction>,
    /// The time that the choice took.
    seconds: f64,
    /// The predicted speed in that of the default point of the space, by a value function.
    gain: Option<f64>,
}

/// Returns the choices for a layer; the first is the default schedule of builds.
fn choices(layer: &Layer, models: &Models, improved: &[ValueFunction]) -> Vec<Choice> {
    let (space, features) = (&layer.space, layer.features());
    let choice = |search: &str, point: &Point| Choice {
        search: search.to_owned(),
        trace: space.instructions(point),
        seconds: 0.0,
        gain: None,
    };
    let default =
        Choice { search: "default".to_owned(), trace: layer.default(), seconds: 0.0, gain: None };
    let mut choices = vec![default];
    let recorded = [("16 trials", 16), ("64 trials", 64), ("all trials", usize::MAX)];
    for (name, n) in recorded {
        choices.extend(layer.best_of_first(n).map(|it| choice(name, it)));
    }
    let mut search = |name: &str, width: usize, values: &dyn Fn(&[Prefix]) -> Vec<f64>| {
        let start = Instant::now();
        let found = beam_search(space, width, values);
        let seconds = start.elapsed().as_secs_f64();
        let name = format!("{name}, beam of {width}");
        let gain = |it: &Point| {
            let default = space.defaults().into_iter().next()?;
            let both = values(&[Prefix::complete(it), Prefix::complete(&default)]);
            Some(both[0] / both[1])
        };
        choices.extend(found.first().map(|it| Choice {
            seconds,
            gain: gain(it),
            ..choice(&name, it)
        }));
    };
    for (name, function) in &models.0 {
        search(name, 16, &|it| function.values(layer, &features, it));
    }
    for (n, value) in improved.iter().enumerate() {
        for width in [1, 4, 16] {
            search(&format!("V{n}"), width, &|it| value.values(&features, it, n_cores()));
        }
    }
    choices
}
