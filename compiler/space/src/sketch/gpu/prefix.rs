//! The rule for prefixes of blocks: a thread has a block, and looks at each of its elements once.
//!
//! ```text
//! parallel f_0
//!   thread f_1
//!     unrolled k: unrolled r: vectorized v:  acc[r, v] += if k <= r { a[f, k, v] }
//!     unrolled r: vectorized v:  within[f, r, v] = acc[r, v]
//! ```
//!
//! Which elements are in which prefix is known where loops are written out: what is left is half of
//! the additions, and no condition. Where elements of a block lie side by side, they are lanes when
//! they are copied to registers, and when results are stored.

use super::reads::lanes;
use super::{power, vector};
use crate::sketch::Factor;
use crate::sketch::builder::Builder;
use tvmtune_schedule::error::{ErrorKind, ScheduleError};
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// Longer blocks have more results than a thread has registers.
const LONGEST: u64 = 32;
/// With fewer blocks of elements, threads had better share them.
const FEWEST: u64 = 64;
/// Threads of a block.
const THREADS: u64 = 128;
/// Results of a thread.
const RESULTS: u64 = 64;

/// Whether a stage is prefixes of blocks, and of nothing but their elements.
pub(super) fn suits(b: &Builder, stage: StageId) -> bool {
    let extents = b.extents(stage);
    let n_spatial = b.schedule.stage(stage).compute.n_spatial;
    let is_short = |it: AxisId| extents[it.0 as usize] <= LONGEST;
    let of_elements = |axes: [AxisId; 2]| axes.into_iter().all(is_short);
    n_spatial + 1 == extents.len() && b.schedule.prefix_axes(stage).is_some_and(of_elements)
}

/// Whether there are blocks for many threads.
pub(super) fn has_many(b: &Builder, stage: StageId) -> bool {
    let Some([results, _]) = b.schedule.prefix_axes(stage) else { return false };
    let elements: u64 =
        b.extents(stage)[..b.schedule.stage(stage).compute.n_spatial].iter().product();
    elements / b.extent(stage, results).max(1) >= FEWEST
}

pub(super) fn prefix(b: &mut Builder, root: StageId) -> Result<(), ScheduleError> {
    let name = b.stage_name(root).to_owned();
    let refused = ErrorKind::NotReduction.of_stage(root);
    let [results, along] = b.schedule.prefix_axes(root).ok_or(refused)?;
    let extents = b.extents(root);
    let n_spatial = b.schedule.stage(root).compute.n_spatial;
    let last = AxisId(n_spatial as u32 - 1);
    let sums = b.apply(|it| it.cache_write(root))?;

    // What is beside the blocks in memory, or the results of a block.
    let group = b.new_group();
    let most = match results == last {
        true => vector(b, root, extents[last.0 as usize]),
        false => RESULTS / extents[results.0 as usize].clamp(1, RESULTS),
    };
    let best = lanes(b, &[root], last.0 as usize).min(most).max(1);
    let lanes = power(b, format!("{name} vector"), most, best, group);
    let parts = b.split(root, last, &[Factor::Open(lanes)])?;
    let [outer, inner] = parts[..] else { return Err(refused) };

    let others = (0..n_spatial as u32).map(AxisId).filter(|it| *it != results && *it != last);
    let (blocks, written_out): (Vec<AxisId>, AxisId) = match results == last {
        true => (others.collect(), outer),
        false => (others.chain([outer]).collect(), results),
    };
    let order: Vec<AxisId> = blocks.iter().copied().chain([written_out, inner]).collect();
    b.apply(|it| it.reorder(root, &order))?;
    let (first, rest) = blocks.split_last().ok_or(refused)?;
    let mut fused = *first;
    for axis in rest.iter().rev() {
        fused = b.apply(|it| it.fuse(root, *axis, fused))?;
    }
    let group = b.new_group();
    let most = b.extent(root, fused).next_power_of_two().clamp(1, 1024);
    let threads = power(b, format!("{name} threads"), most, THREADS.min(most), group);
    let split = b.split(root, fused, &[Factor::Open(threads)])?;
    b.annotate(root, split[0], LoopKind::Parallel)?;
    b.annotate(root, split[1], LoopKind::Thread)?;
    b.annotate(root, written_out, LoopKind::Unrolled)?;
    b.annotate(root, inner, LoopKind::Vectorized)?;

    let before = (0..n_spatial as u32).map(AxisId).filter(|it| *it != results && *it != last);
    let inside = [along, results].into_iter().chain((results != last).then_some(last));
    let order: Vec<AxisId> = before.chain(inside).collect();
    b.apply(|it| it.reorder(sums, &order))?;
    b.annotate(sums, along, LoopKind::Unrolled)?;
    b.annotate(sums, results, LoopKind::Unrolled)?;
    if results != last {
        b.annotate(sums, last, LoopKind::Vectorized)?;
    }
    b.apply(|it| it.compute_at(sums, root, split[1]))?;
    b.name.push(format!("{name}: prefix"));
    Ok(())
}
