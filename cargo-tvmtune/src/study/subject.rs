//! What studies tune: networks of the zoo, or the kernels of a package, as workloads.

use anyhow::{Context, Result, ensure};
use tvmtune_build::tune::session;
use tvmtune_ir::poly::Interval;
use tvmtune_tuner::cost::work::Work;
use tvmtune_tuner::tune::{Tolerance, Workload};
use tvmtune_zoo::Layer;

use super::plan::Study;
use crate::cli::Selection;
use crate::workspace;

/// A network, or what is tuned as if it were one.
pub(crate) struct Subject {
    /// Its name.
    pub(crate) name: String,
    /// Its layers; the weight of each is how often it runs.
    pub(crate) workloads: Vec<Workload>,
}

/// Layers that are left of a network in a smoke test: those with least to do.
const SMOKE: usize = 2;

impl Subject {
    /// The subject of that name, as a study wants it.
    ///
    /// # Errors
    ///
    /// If it is a package that can't be read, or the study leaves nothing of it.
    pub(crate) fn load(name: &str, study: &Study, smoke: bool) -> Result<Self> {
        let workloads = match tvmtune_zoo::network(name) {
            Some(network) => network.layers.iter().map(of_layer).collect(),
            None => of_package(name)?,
        };
        let is_asked = |it: &Workload| {
            study.layers.is_empty() || study.layers.iter().any(|name| it.dag.name.contains(name))
        };
        let mut workloads: Vec<Workload> = workloads.into_iter().filter(is_asked).collect();
        ensure!(!workloads.is_empty(), "no layer of `{name}` is among those of the study");
        if smoke {
            workloads.sort_by(|a, b| work(a).total_cmp(&work(b)));
            workloads.truncate(SMOKE);
        }
        Ok(Self { name: name.to_owned(), workloads })
    }
}

fn work(workload: &Workload) -> f64 {
    let most = |bucket: &Vec<Interval>| bucket.iter().map(|it| it.hi).collect::<Vec<_>>();
    let buckets = workload.buckets.iter().map(most);
    let work = buckets.map(|dims| Work::of(&workload.dag, &dims));
    work.map(|it| it.flops + it.bytes).fold(0.0, f64::max)
}

fn of_layer(layer: &Layer) -> Workload {
    let tolerance = layer.program().tolerance();
    let tolerance = Tolerance { rel: tolerance.rel, abs: tolerance.abs };
    let workload = Workload::new(layer.dag(), vec![Vec::new()], tolerance);
    Workload { weight: f64::from(layer.multiplicity), ..workload }
}

fn of_package(name: &str) -> Result<Vec<Workload>> {
    let selection = Selection { package: vec![name.to_owned()], kernel: None, manifest_path: None };
    let packages = workspace::packages(&selection)
        .with_context(|| format!("`{name}` is no network, and the kernels of no package"))?;
    let ops = packages.iter().flat_map(|it| &it.ops);
    Ok(ops.map(|it| session::workload(&(it, (0..it.buckets.len()).collect()))).collect())
}
