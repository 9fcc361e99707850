//! Loop-invariant code motion: subexpressions that do not vary along an axis are computed once for each
//! row where stages run row by row, else in a phase of their own where that pays, as operands of products do.

use crate::sketch::{Builder, Result};
use tvmtune_ir::dag::access::work;
use tvmtune_ir::size::Size;
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// Cycles that a phase of its own must save: several times those that it takes to wake threads; chosen
/// by judgement.
const MIN_SAVED_CYCLES: u64 = 20_000;
/// Times that a hoisted element must be used; chosen by measurement.
const MIN_USES: u64 = 16;

/// Hoists subexpressions that are invariant along rows into stages with an element for each row;
/// returns these stages.
pub(super) fn to_rows(b: &mut Builder, stage: StageId, depth: usize) -> Result<Vec<StageId>> {
    let mut hoisted = Vec::new();
    let is_row_invariant = |b: &Builder| {
        let found = b.schedule.invariant_part(stage);
        found.is_ok_and(|it| it.along.iter().all(|axis| *axis < depth))
    };
    while is_row_invariant(b) {
        hoisted.push(b.apply(|it| it.hoist_invariant(stage))?);
    }
    Ok(hoisted)
}

/// Hoists invariant subexpressions into phases before a stage, where that pays.
pub(super) fn to_phases(b: &mut Builder, stage: StageId) -> Result<()> {
    while pays(b, stage) {
        let hoisted = b.apply(|it| it.hoist_invariant(stage))?;
        let last = b.n_spatial(hoisted) - 1;
        b.annotate(hoisted, AxisId(last as u32), LoopKind::Vectorized)?;
    }
    Ok(())
}

/// Hoists functions of the operands of a reduction whose tiles use each element many times.
pub(in crate::sketch) fn operands(b: &mut Builder, stage: StageId) {
    // A part that cannot be hoisted is computed where it is used.
    while b.reduces(stage) && pays(b, stage) && b.apply(|it| it.hoist_invariant(stage)).is_ok() {}
}

fn pays(b: &Builder, stage: StageId) -> bool {
    let Ok(invariant) = b.schedule.invariant_part(stage) else { return false };
    let all: u64 = b.extents(stage).iter().size();
    let hoisted: u64 = invariant.axes.iter().map(|it| b.max_extent(&it.extent)).size();
    let saved = work(&invariant.value).saturating_mul(all / b.lanes());
    all / hoisted.max(1) >= MIN_USES && saved >= MIN_SAVED_CYCLES
}
