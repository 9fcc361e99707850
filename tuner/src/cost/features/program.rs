//! What all rows of a program share: what the analytic drafts say of it.
//!
//! The cycles by the draft (on a GPU, the estimated time), and those for a thousand operations: what
//! is the same for tasks of any size.

use tvmtune_cuda::grid::Grid;
use tvmtune_ir::target::{CpuTarget, GpuTarget};
use tvmtune_schedule::nest::Nest;

use super::row::Row;
use crate::cost::{cycles, gpu};

/// Where the group starts.
pub(super) const FROM: usize = 164;
/// Numbers in it.
pub(super) const WIDTH: usize = 2;

/// The group.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    draft: f64,
}

impl Program {
    pub(super) fn on_cpu(nest: &Nest, target: &CpuTarget) -> Self {
        Self { draft: cycles(nest, target) }
    }

    pub(super) fn on_gpu(grid: &Grid, target: &GpuTarget) -> Self {
        Self { draft: gpu::estimate(grid, target).ns }
    }

    /// Adds the group, of a program that does so many operations.
    pub(super) fn add(&self, row: &mut Row, operations: f64) {
        row.add(self.draft);
        row.add(self.draft / operations.max(1.0) * 1e3);
    }
}
