//! The rule for rows: threads share a row, combine what they reduce, and keep their elements of
//! what is used again in registers.
//!
//! ```text
//! parallel rows_0
//!   thread rows_1
//!     thread t: for d_0: vectorized d_2:  max = max(max, x[row, d])
//!     thread t: for d_0: vectorized d_2:  e[d] = exp(x[row, d] - max)
//!     ...
//!     thread t: for d_0: vectorized d_2:  y[row, d] = e[d] / sum
//! ```
//!
//! # Source
//!
//! The row kernels of quack (Dao-AILab): 8 to 256 threads a row, by its length.

use super::power;
use super::reads::{column, is_along_memory, lanes, length, reduces};
use crate::sketch::builder::Builder;
use crate::sketch::{DecisionId, Factor};
use tvmtune_schedule::error::ScheduleError;
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// Threads of a block with several rows.
const THREADS: u64 = 128;
/// Threads of a block that has a multiprocessor for itself.
const MOST_THREADS: u64 = 512;

pub(super) fn rows(
    b: &mut Builder,
    root: StageId,
    inside: &[StageId],
    depth: usize,
) -> Result<(), ScheduleError> {
    let name = b.stage_name(root).to_owned();
    let extents = b.extents(root);
    let mut attached = inside.to_vec();
    // A single result is added up where it belongs.
    if reduces(b, root) && depth > 0 {
        attached.push(b.apply(|it| it.cache_write(root))?);
    }
    let stages: Vec<StageId> = attached.iter().copied().chain([root]).collect();
    let shared: Vec<Vec<usize>> = stages.iter().map(|it| shared_axes(b, *it, depth)).collect();
    let length = |(stage, axes): (&StageId, &Vec<usize>)| {
        let extents = b.extents(*stage);
        axes.iter().map(|it| extents[*it]).product::<u64>()
    };
    let longest = stages.iter().zip(&shared).map(length).max().unwrap_or(1);
    let n_rows: u64 = extents[..depth].iter().product();
    let best = match longest {
        8192.. if n_rows <= u64::from(b.gpu().multiprocessors) => MOST_THREADS,
        ..=64 => 8,
        65..=128 => 16,
        129..=3072 => 32,
        3073..=6144 => 64,
        6145..=16384 => 128,
        _ => 256,
    };
    let group = b.new_group();
    let threads = power(b, format!("{name} threads"), 1024, best, group);
    // All stages have the same, so that what a thread computed is what it needs.
    let along = |(stage, axes): (&StageId, &Vec<usize>)| Some(lanes(b, &[*stage], *axes.last()?));
    let widest = stages.iter().zip(&shared).filter_map(along).min().unwrap_or(1);
    let lanes = power(b, format!("{name} vector"), 8, widest, group);
    for (stage, axes) in stages.iter().zip(&shared) {
        share(b, *stage, axes, threads, lanes)?;
    }
    b.name.push(format!("{name}: rows"));
    let Some(last) = depth.checked_sub(1) else { return Ok(()) };
    let group = b.new_group();
    let best = (THREADS / best).clamp(1, extents[last].next_power_of_two());
    let block = power(b, format!("{name} rows"), 32.min(extents[last]), best, group);
    let parts = b.split(root, AxisId(last as u32), &[Factor::Open(block)])?;
    for axis in (0..last as u32).map(AxisId).chain([parts[0]]) {
        b.annotate(root, axis, LoopKind::Parallel)?;
    }
    b.annotate(root, parts[1], LoopKind::Thread)?;
    // Readers first: a stage runs inside the loop only when all that read it do.
    for stage in attached.into_iter().rev() {
        b.apply(|it| it.compute_at(stage, root, parts[1]))?;
    }
    Ok(())
}

/// The axes of a stage that the threads of a row share: those of its elements, or those that it
/// reduces.
fn shared_axes(b: &Builder, stage: StageId, depth: usize) -> Vec<usize> {
    let extents = b.extents(stage);
    let n_spatial = b.schedule.stage(stage).compute.n_spatial;
    let elements: u64 = extents[depth.min(n_spatial)..n_spatial].iter().product();
    let by_element = match reduces(b, stage) {
        false => true,
        true if elements == 1 => false,
        true if column(b, stage).is_some_and(|it| it >= depth) && elements >= 8 => true,
        true if is_along_memory(b, stage) && length(b, stage) >= 32 => false,
        true => elements >= length(b, stage),
    };
    if by_element { (depth..n_spatial).collect() } else { (n_spatial..extents.len()).collect() }
}

/// Lets threads share what a stage does for one row.
pub(super) fn share(
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
