//! Loops of threads: the rows of a thread block, the threads of a row, the iterations of a thread.

use crate::sketch::{Builder, DecisionId, Factor, Result, Rows};
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// Threads of a block with several rows.
const BLOCK_THREADS: u64 = 128;
/// Rows of a block.
const MAX_ROWS: u64 = 32;
/// Iterations of a reduction that are fully unrolled, at most.
pub(super) const MAX_UNROLLED: u64 = 32;

/// Returns the stages inside of a root, the last one its accumulator if it reduces.
pub(super) fn with_accumulator(b: &mut Builder, rows: &Rows) -> Result<Vec<StageId>> {
    let mut attached = rows.inside.clone();
    if b.reduces(rows.root) {
        attached.push(b.apply(|it| it.cache_write(rows.root))?);
    }
    Ok(attached)
}

/// Distributes the rows of a root over thread blocks, several to a block where a row has few threads,
/// and computes the other stages inside.
pub(super) fn distribute_rows(
    b: &mut Builder,
    rows: &Rows,
    row_threads: u64,
    name: &str,
) -> Result<()> {
    let Rows { root, ref inside, depth } = *rows;
    let Some(last) = depth.checked_sub(1) else { return Ok(()) };
    let extent = b.extents(root)[last];
    let best = (BLOCK_THREADS / row_threads).clamp(1, extent.next_power_of_two());
    let block = b.decide_power(format!("{name} rows"), MAX_ROWS.min(extent), best);
    let parts = b.split(root, AxisId(last as u32), &[Factor::Open(block)])?;
    b.annotate_all(root, (0..last as u32).map(AxisId).chain([parts[0]]), LoopKind::Parallel)?;
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
) -> Result<()> {
    let Some((last, outer)) = axes.split_last() else { return Ok(()) };
    let outer = outer.iter().map(|it| AxisId(*it as u32));
    let axis = b.fuse(stage, outer, AxisId(*last as u32))?;
    let parts = b.split(stage, axis, &[Factor::Open(threads), Factor::Open(lanes)])?;
    let mut order = b.schedule.stage(stage).order.clone();
    let first = order.iter().position(|it| parts.contains(it)).unwrap_or(0);
    order.retain(|it| !parts.contains(it));
    // Elements that are reduced stay the innermost loop.
    order.splice(first..first, [parts[1], parts[0]]);
    order.push(parts[2]);
    b.reorder(stage, order)?;
    b.annotate(stage, parts[1], LoopKind::Thread)?;
    b.annotate(stage, parts[2], LoopKind::Vectorized)
}

/// Orders the loops of a stage that one thread runs: `inner`, its few elements, is the innermost.
pub(super) fn innermost(b: &mut Builder, stage: StageId, inner: AxisId) -> Result<()> {
    let n_spatial = b.n_spatial(stage);
    let mut order = b.schedule.stage(stage).order.clone();
    order.retain(|it| *it != inner);
    let mut n_iterations = 1;
    let short = |axis: &&AxisId| {
        n_iterations *= b.extent(stage, **axis);
        axis.0 as usize >= n_spatial && n_iterations <= MAX_UNROLLED
    };
    let short: Vec<AxisId> = order.iter().rev().take_while(short).copied().collect();
    order.push(inner);
    b.reorder(stage, order)?;
    b.annotate_all(stage, short, LoopKind::Unrolled)?;
    b.annotate(stage, inner, LoopKind::Vectorized)
}

/// Fuses loops and distributes them over threads; returns the loops over blocks and over threads.
pub(super) fn fuse_and_distribute(
    b: &mut Builder,
    root: StageId,
    outer: &[AxisId],
    inner: AxisId,
    threads: u64,
) -> Result<[AxisId; 2]> {
    let name = format!("{} threads", b.stage_name(root));
    let fused = b.fuse(root, outer, inner)?;
    let max = b.extent(root, fused).next_power_of_two().clamp(1, 1024);
    let threads = b.decide_power(name, max, threads.min(max));
    let parts = b.split(root, fused, &[Factor::Open(threads)])?;
    b.annotate(root, parts[0], LoopKind::Parallel)?;
    b.annotate(root, parts[1], LoopKind::Thread)?;
    Ok([parts[0], parts[1]])
}
