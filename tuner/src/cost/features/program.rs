//! The features of the whole program, the same in all rows: its analytic cost.
//!
//! The estimated cycles (on a GPU, nanoseconds), and those per thousand operations, which compare
//! across tasks of any size.

use tvmtune_cuda::grid::Grid;
use tvmtune_ir::target::{CpuTarget, GpuTarget};
use tvmtune_schedule::nest::Nest;

use super::row::Row;
use crate::cost::{cpu, gpu};

/// The position of the group in a row.
pub(super) const FROM: usize = 164;
/// Numbers in it.
pub(super) const WIDTH: usize = 2;

/// The group, by the analytic cost model.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    analytic_cost: f64,
}

impl Program {
    pub(super) fn on_cpu(nest: &Nest, target: &CpuTarget) -> Self {
        Self { analytic_cost: cpu::cycles(nest, target) }
    }

    pub(super) fn on_gpu(grid: &Grid, target: &GpuTarget) -> Self {
        Self { analytic_cost: gpu::estimate(grid, target).ns }
    }

    /// Adds the group for a program with that many operations.
    pub(super) fn add(&self, row: &mut Row, operations: f64) {
        row.add(self.analytic_cost);
        row.add(self.analytic_cost / operations.max(1.0) * 1e3);
    }
}
