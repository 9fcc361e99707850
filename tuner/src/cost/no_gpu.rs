//! The analytic cost of grids in a build without the feature `cuda`: no nest fits a GPU.

use tvmtune_ir::target::GpuTarget;
use tvmtune_schedule::nest::Nest;

/// Returns `false`: no nest fits a GPU.
pub fn fits(_: &Nest, _: &GpuTarget) -> bool {
    false
}

/// Returns `None`: no nest fits a GPU.
pub fn time_ns(_: &Nest, _: &GpuTarget) -> Option<f64> {
    None
}
