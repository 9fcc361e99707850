//! The predictions of the analytic cost model for a bundle: written down before anything is
//! measured.

use std::path::Path;

use anyhow::{Context, Result};
use tvmtune_ir::target::gpu::{Arch, GpuTarget};
use tvmtune_plan::record::Source;

use crate::benchmark::Benchmark;
use crate::candidate::{Candidate, Goal, Manifest, Prediction};
use crate::roofline::{Bound, Roofline};
use crate::table;

/// Returns a table of all benchmarks of the bundle in a folder, whose name contains `only`: the
/// time of each by the roofline, by the default schedule, and by the best of those that the model
/// ranked.
///
/// # Errors
///
/// If the bundle can't be read.
pub fn page(folder: &Path, only: &str) -> Result<String> {
    let manifest = Manifest::read(folder)?;
    let arch =
        Arch::from_name(&manifest.arch).context("the bundle is for no known architecture")?;
    let target = GpuTarget::generic(arch);
    let head = ["case", "extents", "at least", "default", "ranked", "share", "rate", "kernels"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for benchmark in Benchmark::all(&manifest, only)? {
        rows.extend(row(&benchmark, &manifest, &target));
    }
    Ok(table::markdown(&rows, 2))
}

fn row(benchmark: &Benchmark, manifest: &Manifest, target: &GpuTarget) -> Option<Vec<String>> {
    let is_of_benchmark = |it: &&Candidate| it.goal == Goal::Time && benchmark.is_of(it);
    let candidates: Vec<&Candidate> = manifest.candidates.iter().filter(is_of_benchmark).collect();
    let predicted =
        |candidate: &Candidate| candidate.predicted.as_ref().map_or(f64::NAN, |it| it.ns);
    let default = candidates.iter().find(|it| it.source == Source::Default)?;
    let best = candidates.iter().min_by(|a, b| predicted(a).total_cmp(&predicted(b)))?;
    let roofline = Roofline::of(&benchmark.problem, target);
    let ns = predicted(best);
    let rate = match roofline.bound {
        Bound::Arithmetic => format!("{:.0} TFLOP/s", best.flops / ns / 1e3),
        Bound::Memory => format!("{:.0} GB/s", best.bytes / ns),
    };
    Some(vec![
        benchmark.case.clone(),
        benchmark.dims.clone(),
        format!("{:.1} us, {}", roofline.ns / 1e3, roofline.bound),
        format!("{:.1} us", predicted(default) / 1e3),
        format!("{:.1} us", ns / 1e3),
        format!("{:.0} %", 100.0 * roofline.ns / ns),
        rate,
        best.predicted.as_ref().map_or_else(String::new, bounds),
    ])
}

/// Returns the bound of each kernel that takes a tenth of the time or more.
fn bounds(prediction: &Prediction) -> String {
    let large = prediction.kernels.iter().filter(|it| it.ns > 0.1 * prediction.ns);
    let each = large.map(|it| match it.frame_bytes {
        0 => it.bound.clone(),
        bytes => format!("{} ({bytes} bytes spilled)", it.bound),
    });
    each.collect::<Vec<_>>().join(", ")
}
