//! Loops of threads: the rows of a thread block, the threads of a row, the iterations of a thread.

use crate::sketch::builder::Builder;
use crate::sketch::fusion_group::Rows;
use crate::sketch::types::{DecisionId, Factor};
use tvmtune_schedule::error::ScheduleError;
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// Threads of a block with several rows.
const BLOCK_THREADS: u64 = 128;
/// Rows of a block.
const MAX_ROWS: u64 = 32;
/// Iterations of a reduction that are fully unrolled, at most.
pub(super) const MAX_UNROLLED: u64 = 32;

/// Distributes the rows of a root over thread blocks, several to a block where a row has few threads,
/// and computes the other stages inside.
pub(super) fn distribute_rows(
    b: &mut Builder,
    rows: &Rows,
    row_threads: u64,
    name: &str,
) -> Result<(), ScheduleError> {
    let Rows { root, ref inside, depth } = *rows;
    let Some(last) = depth.checked_sub(1) else { return Ok(()) };
    let extent = b.extents(root)[last];
    let group = b.new_group();
    let best = (BLOCK_THREADS / row_threads).clamp(1, extent.next_power_of_two());
    let block = b.decide_power(format!("{name} rows"), MAX_ROWS.min(extent), best, group);
    let parts = b.split(root, AxisId(last as u32), &[Factor::Open(block)])?;
    for axis in (0..last as u32).map(AxisId).chain([parts[0]]) {
        b.annotate(root, axis, LoopKind::Parallel)?;
    }
    b.annotate(root, parts[1], LoopKind::Thread)?;
    // Readers first: a stage runs inside the loop only when all that read it do.
    for stage in inside.iter().rev() {
        b.apply(|it| it.compute_at(*stage, root, parts[1]))?;
    }
    Ok(())
}

/// Distributes the iterations of a stage for one row over threads, in vectors.
pub(super) fn distribute_row(
    b: &mut Builder,
    stage: StageId,
    axes: &[usize],
    threads: DecisionId,
    lanes: DecisionId,
) -> Result<(), ScheduleError> {
    let Some((last, outer)) = axes.split_last() else { return Ok(()) };
    let mut axis = AxisId(*last as u32);
    for outer in outer.iter().rev() {
        axis = b.apply(|it| it.fuse(stage, AxisId(*outer as u32), axis))?;
    }
    let parts = b.split(stage, axis, &[Factor::Open(threads), Factor::Open(lanes)])?;
    let mut order = b.schedule.stage(stage).order.clone();
    let first = order.iter().position(|it| parts.contains(it)).unwrap_or(0);
    order.retain(|it| !parts.contains(it));
    // Elements that are reduced stay the innermost loop.
    order.splice(first..first, [parts[1], parts[0]]);
    order.push(parts[2]);
    b.apply(|it| it.reorder(stage, &order))?;
    b.annotate(stage, parts[1], LoopKind::Thread)?;
    b.annotate(stage, parts[2], LoopKind::Vectorized)
}

/// Orders the loops of a stage that one thread runs: `inner`, its few elements, is the innermost.
pub(super) fn innermost(
    b: &mut Builder,
    stage: StageId,
    inner: AxisId,
) -> Result<(), ScheduleError> {
    let n_spatial = b.schedule.stage(stage).compute.n_spatial;
    let mut order = b.schedule.stage(stage).order.clone();
    order.retain(|it| *it != inner);
    let mut n_iterations = 1;
    let short = |axis: &&AxisId| {
        n_iterations *= b.extent(stage, **axis);
        axis.0 as usize >= n_spatial && n_iterations <= MAX_UNROLLED
    };
    let short: Vec<AxisId> = order.iter().rev().take_while(short).copied().collect();
    order.push(inner);
    b.apply(|it| it.reorder(stage, &order))?;
    for axis in short {
        b.annotate(stage, axis, LoopKind::Unrolled)?;
    }
    b.annotate(stage, inner, LoopKind::Vectorized)
}
