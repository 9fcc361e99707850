//! The analytic cost of grids in a build without the feature `cuda`: no nest fits a GPU.

use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::GpuTarget;
use tvmtune_schedule::nest::Nest;

use crate::search::Score;
use crate::space::{Point, Space};

/// Returns `false`: no nest fits a GPU.
pub fn fits(_: &Nest, _: &GpuTarget) -> bool {
    false
}

/// Returns `None`: nothing is estimated.
pub fn time_ns(_: &Nest, _: &GpuTarget) -> Option<f64> {
    None
}

/// Returns `None`: no nest fits a GPU.
pub fn time_if_fits_ns(_: &Nest, _: &GpuTarget) -> Option<f64> {
    None
}

/// A model for which all points are alike.
pub struct AnalyticModel;

impl AnalyticModel {
    /// Creates the model.
    pub fn new(_: &Dag, _: GpuTarget) -> Self {
        Self
    }
}

impl Score for AnalyticModel {
    fn score(&self, _: &Space, points: &[Point]) -> Vec<f64> {
        vec![f64::INFINITY; points.len()]
    }
}
