//! What stages share along an axis is computed apart: once for each row where stages run row by row,
//! else before everything, where that saves more than another phase takes.

use super::builder::Builder;
use tvmtune_ir::dag::access::work;
use tvmtune_schedule::error::ScheduleError;
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// Cycles that must be saved for a phase more: what it takes to wake threads, several times.
const PHASE: u64 = 20_000;
/// Times that what is lifted must be used.
const USES: u64 = 16;

/// Computes what is the same all along a row once for it; returns the stages that do.
pub(super) fn of_rows(
    b: &mut Builder,
    stage: StageId,
    depth: usize,
) -> Result<Vec<StageId>, ScheduleError> {
    let mut lifted = Vec::new();
    let is_of_rows = |b: &Builder| {
        let found = b.schedule.invariant_part(stage);
        found.is_ok_and(|it| it.axes.iter().all(|axis| *axis < depth))
    };
    while is_of_rows(b) {
        lifted.push(b.apply(|it| it.hoist_invariant(stage))?);
    }
    Ok(lifted)
}

/// Computes what a stage shares along an axis in phases before it, where that pays.
pub(super) fn apart(b: &mut Builder, stage: StageId) -> Result<(), ScheduleError> {
    while pays(b, stage) {
        let lifted = b.apply(|it| it.hoist_invariant(stage))?;
        let last = b.schedule.stage(lifted).compute.n_spatial - 1;
        b.annotate(lifted, AxisId(last as u32), LoopKind::Vectorized)?;
    }
    Ok(())
}

fn pays(b: &Builder, stage: StageId) -> bool {
    let Ok(lifted) = b.schedule.invariant_part(stage) else { return false };
    let extents = b.extents(stage);
    let all: u64 = extents.iter().product();
    let apart: u64 = lifted.axes.iter().map(|it| extents[*it]).product();
    let saved = work(&lifted.value).saturating_mul(all / b.lanes());
    all / apart.max(1) >= USES && saved >= PHASE
}
