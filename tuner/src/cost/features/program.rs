//! The features of the whole program, the same in all rows: its analytic cost.
//!
//! The estimated cycles (on a GPU, nanoseconds), and those per thousand operations, which compare
//! across tasks of any size.

use tvmtune_ir::target::CpuTarget;
use tvmtune_schedule::nest::Nest;

use super::row::Row;
use crate::cost::cpu;

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

    pub(super) fn on_gpu(estimate_ns: f64) -> Self {
        Self { analytic_cost: estimate_ns }
    }

    /// Adds the group for a program with that many operations.
    pub(super) fn add(&self, row: &mut Row, operations: f64) {
        row.add(self.analytic_cost);
        row.add(self.analytic_cost / operations.max(1.0) * 1e3);
    }
}
