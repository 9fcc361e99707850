//! What the model of the GPU predicts of a bundle: written down before anything is measured.

use std::path::Path;

use anyhow::{Context, Result};
use tvmtune_ir::target::gpu::{Arch, GpuTarget};
use tvmtune_plan::record::Source;

use crate::item::{Goal, Item, Manifest, Prediction};
use crate::roofline::{Bound, Roofline};
use crate::subject::Subject;
use crate::table;

/// A table of all programs that the bundle in a folder times, whose name contains that: what each
/// takes at least, by the default schedule, and by the best of those that the model ranked.
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
    let mut rows = vec![head.map(str::to_owned)];
    for subject in Subject::all(&manifest, only)? {
        rows.extend(row(&subject, &manifest, &target));
    }
    Ok(table::markdown(&rows, 2))
}

fn row(subject: &Subject, manifest: &Manifest, target: &GpuTarget) -> Option<[String; 8]> {
    let of_it = |it: &&Item| it.goal == Goal::Time && subject.is_of(it);
    let items: Vec<&Item> = manifest.items.iter().filter(of_it).collect();
    let predicted = |item: &Item| item.predicted.as_ref().map_or(f64::NAN, |it| it.ns);
    let default = items.iter().find(|it| it.source == Source::Default)?;
    let best = items.iter().min_by(|a, b| predicted(a).total_cmp(&predicted(b)))?;
    let roofline = Roofline::of(&subject.problem, target);
    let ns = predicted(best);
    let rate = match roofline.bound {
        Bound::Arithmetic => format!("{:.0} TFLOP/s", best.flops / ns / 1e3),
        Bound::Memory => format!("{:.0} GB/s", best.bytes / ns),
    };
    Some([
        subject.case.clone(),
        subject.dims.clone(),
        format!("{:.1} us, {}", roofline.ns / 1e3, roofline.bound),
        format!("{:.1} us", predicted(default) / 1e3),
        format!("{:.1} us", ns / 1e3),
        format!("{:.0} %", 100.0 * roofline.ns / ns),
        rate,
        best.predicted.as_ref().map_or_else(String::new, bounds),
    ])
}

/// What bounds each kernel that takes a tenth of the time or more.
fn bounds(prediction: &Prediction) -> String {
    let large = prediction.kernels.iter().filter(|it| it.ns > 0.1 * prediction.ns);
    let each = large.map(|it| match it.frame_bytes {
        0 => it.bound.clone(),
        bytes => format!("{} ({bytes} bytes spilled)", it.bound),
    });
    each.collect::<Vec<_>>().join(", ")
}
