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

use super::{power, vector};
use crate::schedule::error::ScheduleError;
use crate::schedule::sketch::builder::Builder;
use crate::schedule::sketch::{DecisionId, Factor};
use crate::schedule::{AxisId, AxisRole, LoopKind, StageId};

/// Threads of a block with several rows.
const THREADS: u64 = 128;

/// Whether a reduction runs along memory, and far enough for threads to share it.
pub(super) fn is_along_memory(b: &Builder, stage: StageId) -> bool {
    let compute = &b.schedule.stage(stage).compute;
    let (extents, accesses) = (b.extents(stage), b.accesses(stage));
    let length: u64 = extents[compute.n_spatial..].iter().product();
    let reduce = compute.n_spatial..compute.axes.len();
    let Some(last) = reduce.rev().find(|it| extents[*it] > 1) else { return false };
    length >= 32 && accesses.iter().any(|it| it.is_contiguous(last))
}

pub(super) fn rows(
    b: &mut Builder,
    root: StageId,
    inside: &[StageId],
    depth: usize,
) -> Result<(), ScheduleError> {
    let name = b.stage_name(root).to_owned();
    let extents = b.extents(root);
    let mut attached = inside.to_vec();
    if b.schedule.stage(root).compute.reducer.is_some() {
        attached.push(b.apply(|it| it.cache_write(root))?);
    }
    let length = |b: &Builder, stage: &StageId| {
        let extents = b.extents(*stage);
        extents[depth.min(extents.len())..].iter().product::<u64>()
    };
    let longest = attached.iter().chain([&root]).map(|it| length(b, it)).max().unwrap_or(1);
    let group = b.new_group();
    let shared = match longest {
        ..=64 => 8,
        65..=128 => 16,
        129..=3072 => 32,
        3073..=6144 => 64,
        6145..=16384 => 128,
        _ => 256,
    };
    let threads = power(b, format!("{name} threads"), 1024, shared, group);
    for stage in attached.clone() {
        share(b, stage, depth, threads)?;
    }
    share(b, root, depth, threads)?;
    b.name.push(format!("{name}: rows"));
    let Some(last) = depth.checked_sub(1) else { return Ok(()) };
    let group = b.new_group();
    let best = (THREADS / shared).clamp(1, extents[last].next_power_of_two());
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

/// Lets threads share what a stage does for one row.
fn share(
    b: &mut Builder,
    stage: StageId,
    depth: usize,
    threads: DecisionId,
) -> Result<(), ScheduleError> {
    let name = b.stage_name(stage).to_owned();
    let found = b.schedule.stage(stage);
    let reduces = found.compute.reducer.is_some();
    let role = if reduces { AxisRole::Reduce } else { AxisRole::Spatial };
    let first = if reduces { found.compute.n_spatial } else { depth };
    let is_shared = |it: &&AxisId| it.0 as usize >= first && found.axis(**it).role == role;
    let mut axes: Vec<AxisId> = found.order.iter().filter(is_shared).copied().collect();
    let Some(mut axis) = axes.pop() else { return Ok(()) };
    let extent = b.extent(stage, axis);
    while let Some(outer) = axes.pop() {
        axis = b.apply(|it| it.fuse(stage, outer, axis))?;
    }
    let group = b.new_group();
    let best = vector(b, stage, extent);
    let lanes = power(b, format!("{name} vector"), 8.min(extent), best, group);
    let parts = b.split(stage, axis, &[Factor::Open(threads), Factor::Open(lanes)])?;
    b.apply(|it| it.reorder(stage, &[parts[1], parts[0], parts[2]]))?;
    b.annotate(stage, parts[1], LoopKind::Thread)?;
    b.annotate(stage, parts[2], LoopKind::Vectorized)
}
