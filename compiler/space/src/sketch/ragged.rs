//! Ragged reductions: data bound the terms of each row, as the sums of padded rows, of bags by their offsets, and
//! products with sparse matrices.

use super::Builder;
use tvmtune_ir::dag::access::Access;
use tvmtune_ir::dag::bounded::bounded_axes;
use tvmtune_ir::size::Size;
use tvmtune_ir::target::Target;
use tvmtune_schedule::{ReductionOrder, StageId};

impl Builder {
    /// Returns the spatial axes of which each iteration has other bounds of its terms; `None` if data bound none.
    fn rows_with_bounds(&self, stage: StageId) -> Option<Vec<usize>> {
        let axes = bounded_axes(self.compute(stage), &self.schedule);
        let mut rows: Vec<usize> = axes.iter().flat_map(|it| it.rows.clone()).collect();
        rows.sort_unstable();
        rows.dedup();
        (!axes.is_empty()).then_some(rows)
    }

    /// Returns whether data bound the terms of a stage's reduction, and its elements share no operands but along one
    /// axis: a tile of several rows would take the terms of all of them.
    pub(super) fn is_ragged(&self, stage: StageId) -> bool {
        let compute = self.compute(stage);
        let Target::Cpu(cpu) = &self.target else { return false };
        let Some(deciding) = self.rows_with_bounds(stage) else { return false };
        let extents = self.extents(stage);
        let n_rows: u64 = deciding.iter().map(|it| extents[*it]).collect::<Vec<_>>().iter().size();
        let others = (0..compute.n_spatial).filter(|it| !deciding.contains(it) && extents[*it] > 1);
        // An operand that is contiguous along such an axis makes lanes of it, and each lane has a mask.
        let is_column = |it: &Access| {
            (compute.n_spatial..extents.len()).any(|axis| it.depends_on(axis))
                && deciding.iter().any(|axis| it.is_contiguous(*axis))
        };
        n_rows >= u64::from(cpu.threads)
            && others.count() <= 1
            && !self.accesses(stage).iter().any(is_column)
    }

    /// Returns the number of leading axes of a reduction that are rows: all its axes, but for the last of a ragged
    /// one if vectors lie along it.
    pub(super) fn n_row_axes(&self, stage: StageId) -> usize {
        let compute = self.compute(stage);
        let order = self.schedule.stage(stage).reduction;
        let is_ragged = !matches!(order, ReductionOrder::Lanes { .. }) && self.is_ragged(stage);
        let Some(last) = compute.n_spatial.checked_sub(1).filter(|_| is_ragged) else {
            return compute.n_spatial;
        };
        let deciding = self.rows_with_bounds(stage).unwrap_or_default();
        let accesses = self.accesses(stage);
        let in_vectors = !deciding.contains(&last)
            && self.extents(stage)[last] > 1
            && accesses.iter().any(|it| it.is_contiguous(last))
            && accesses.iter().all(|it| it.is_contiguous(last) || !it.depends_on(last));
        compute.n_spatial - usize::from(in_vectors)
    }
}
