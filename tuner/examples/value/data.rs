//! Recorded layers, with the points of their trials.

use std::collections::BTreeMap;

use tvmtune_ir::target::Target;
use tvmtune_schedule::Instruction;
use tvmtune_space::sketch::Decision;
use tvmtune_tuner::space::{Point, Space};
use tvmtune_tuner::tune::{Rules, Workload};
use tvmtune_tuner::value::{Features, Measured};

use crate::Result;
use crate::curves::{Curve, Curves};

/// A layer of a network, with the trials of all seeds.
pub(crate) struct Layer {
    pub(crate) network: String,
    pub(crate) workload: Workload,
    /// The device that measured.
    pub(crate) target: Target,
    /// The rules of the space.
    pub(crate) rules: Rules,
    pub(crate) space: Space,
    pub(crate) trials: Vec<Measured>,
}

impl Layer {
    pub(crate) fn features(&self) -> Features<'_> {
        Features::new(&self.workload.dag, &self.target, &self.space)
    }

    /// Returns the fastest point of the first `n` trials.
    pub(crate) fn best_of_first(&self, n: usize) -> Option<&Point> {
        let works = self.trials.iter().take(n).filter_map(|(point, ns)| Some((point, (*ns)?)));
        works.min_by(|a, b| a.1.total_cmp(&b.1)).map(|it| it.0)
    }

    /// Returns the trace of the default schedule of builds.
    pub(crate) fn default(&self) -> Vec<Instruction> {
        let space = Space::new(&self.workload.dag, &self.target);
        let default = space.defaults().into_iter().next();
        default.map(|it| space.instructions(&it)).unwrap_or_default()
    }
}

/// Returns the layers of all networks, network by network. Trials of sketches that are no longer generated are
/// left out.
pub(crate) fn layers(curves: &Curves) -> Result<Vec<Layer>> {
    let mut layers: BTreeMap<(String, String), Layer> = BTreeMap::new();
    for curve in curves.all() {
        let key = (curve.network.clone(), curve.task.name.clone());
        if !layers.contains_key(&key) {
            layers.insert(key.clone(), layer(curve)?);
        }
        let layer = layers.get_mut(&key).ok_or("a layer")?;
        let trials = curve.task.trials.iter().zip(&curve.schedules);
        let point = |(sketch, choices): &(String, Vec<u16>)| {
            let sketch = layer.space.sketches.iter().position(|it| it.name == *sketch)?;
            let decisions = &layer.space.sketches[sketch].decisions;
            let exists = |(choice, it): (&u16, &Decision)| usize::from(*choice) < it.options.len();
            let is_point =
                choices.len() == decisions.len() && choices.iter().zip(decisions).all(exists);
            is_point.then(|| Point { sketch: sketch as u16, choices: choices.clone() })
        };
        let points: Vec<Measured> =
            trials.filter_map(|(trial, schedule)| Some((point(schedule)?, trial.ns))).collect();
        layer.trials.extend(points);
    }
    Ok(layers.into_values().collect())
}

fn layer(curve: &Curve) -> Result<Layer> {
    let network =
        tvmtune_zoo::network(&curve.network).ok_or(format!("no network `{}`", curve.network))?;
    let layer = network.layers.iter().find(|it| it.name == curve.task.name);
    let layer = layer.ok_or(format!("no layer `{}`", curve.task.name))?;
    let workload = crate::curves::workload(layer);
    let target = Target::from_key(&curve.device.parse()?).ok_or("an unknown device")?;
    let space = match curve.recipe.space {
        Rules::Tvmtune => Space::new(&workload.dag, &target),
        Rules::Ansor => Space::ansor(&workload.dag, &target),
    };
    let network = curve.network.clone();
    Ok(Layer { network, workload, target, rules: curve.recipe.space, space, trials: Vec::new() })
}
