//! The networks that a study tunes, each a list of workloads: layers of a network of the zoo, by its
//! name, or the kernels of a Cargo package.

use anyhow::{Context, Result, ensure};
use tvmtune_build::tune::session::OpBuckets;
use tvmtune_ir::poly::Interval;
use tvmtune_space::work::Work;
use tvmtune_tuner::tune::{Tolerance, Workload};
use tvmtune_zoo::Layer;

use super::plan::Study;
use crate::cli::{Features, Selection};
use crate::workspace;

/// A network, or the kernels of a package that are tuned as if they were one.
pub(crate) struct Network {
    /// Its name.
    pub(crate) name: String,
    /// Its layers; the weight of each is how often it runs.
    pub(crate) workloads: Vec<Workload>,
}

impl Network {
    /// Loads the network of that name, with the layers of a study.
    ///
    /// # Errors
    ///
    /// If it is a package that can't be read, or the study leaves nothing of it.
    pub(crate) fn load(name: &str, study: &Study) -> Result<Self> {
        let workloads = match tvmtune_zoo::network(name) {
            Some(network) => network.layers.iter().map(layer_workload).collect(),
            None => package_workloads(name)?,
        };
        let is_selected = |it: &Workload| {
            study.layers.is_empty() || study.layers.iter().any(|name| it.dag.name.contains(name))
        };
        let mut workloads: Vec<Workload> = workloads.into_iter().filter(is_selected).collect();
        ensure!(!workloads.is_empty(), "no layer of `{name}` is among those of the study");
        if let Some(n_layers) = study.smallest_layers {
            workloads.sort_by(|a, b| max_work(a).total_cmp(&max_work(b)));
            workloads.truncate(n_layers);
        }
        Ok(Self { name: name.to_owned(), workloads })
    }
}

/// Returns the operations and bytes of the largest bucket.
fn max_work(workload: &Workload) -> f64 {
    let max_dims = |bucket: &Vec<Interval>| bucket.iter().map(|it| it.hi).collect::<Vec<_>>();
    let buckets = workload.buckets.iter().map(max_dims);
    let work = buckets.map(|dims| Work::of(&workload.dag, &dims));
    work.map(|it| it.flops + it.bytes).fold(0.0, f64::max)
}

/// Returns the workload of a layer.
fn layer_workload(layer: &Layer) -> Workload {
    let tolerance = layer.program().tolerance();
    let tolerance = Tolerance { rel: tolerance.rel, abs: tolerance.abs };
    let workload = Workload::new(layer.dag(), vec![Vec::new()], tolerance);
    Workload { weight: f64::from(layer.multiplicity), ..workload }
}

/// Returns the workloads of a package.
fn package_workloads(name: &str) -> Result<Vec<Workload>> {
    let selection = Selection {
        package: vec![name.to_owned()],
        kernel: None,
        manifest_path: None,
        features: Features::default(),
    };
    let packages = workspace::packages(&selection)
        .with_context(|| format!("`{name}` is no network, and the kernels of no package"))?;
    let ops = packages.iter().flat_map(|it| &it.ops);
    Ok(ops.map(|op| OpBuckets::new(op, (0..op.buckets.len()).collect()).workload()).collect())
}
