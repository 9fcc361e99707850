//! The GPU template for prefixes within blocks: a thread has a block, and reads each of its elements
//! once.
//!
//! ```text
//! parallel f_0
//!   thread f_1
//!     unrolled k: unrolled r: vectorized v:  acc[r, v] += if k <= r { a[f, k, v] }
//!     unrolled r: vectorized v:  within[f, r, v] = acc[r, v]
//! ```
//!
//! Fully unrolled, the condition is a constant: half of the additions are left. Where the elements of a
//! block are contiguous, they are lanes when they are copied to registers and when results are stored.

use super::pattern::Pattern;
use super::reads::lanes;
use super::reads::vector;
use crate::sketch::builder::Builder;
use crate::sketch::fusion_group::Rows;
use crate::sketch::template::Template;
use crate::sketch::types::{Factor, TemplateKind};
use tvmtune_schedule::error::{ErrorKind, ScheduleError};
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// Threads of a thread block.
const THREADS: u64 = 128;
/// Results of a thread.
const MAX_RESULTS: u64 = 64;

pub(super) struct BlockPrefix;

impl Template<Rows> for BlockPrefix {
    fn is_applicable(&self, b: &Builder, rows: &Rows) -> bool {
        Pattern::classify(b, rows) == Pattern::BlockPrefix
    }

    fn schedule(&self, b: &mut Builder, rows: &Rows) -> Result<(), ScheduleError> {
        schedule(b, rows.root)
    }
}

fn schedule(b: &mut Builder, root: StageId) -> Result<(), ScheduleError> {
    let name = b.stage_name(root).to_owned();
    let refused = ErrorKind::NotReduction.of_stage(root);
    let [results, along] = b.schedule.prefix_axes(root).ok_or(refused)?;
    let extents = b.extents(root);
    let n_spatial = b.schedule.stage(root).compute.n_spatial;
    let last = AxisId(n_spatial as u32 - 1);
    let sums = b.apply(|it| it.cache_write(root))?;

    // Lanes are the elements beside the blocks in memory, or the results of a block.
    let group = b.new_group();
    let max = match results == last {
        true => vector(b, root, extents[last.0 as usize]),
        false => MAX_RESULTS / extents[results.0 as usize].clamp(1, MAX_RESULTS),
    };
    let best = lanes(b, &[root], last.0 as usize).min(max).max(1);
    let lanes = b.decide_power(format!("{name} vector"), max, best, group);
    let parts = b.split(root, last, &[Factor::Open(lanes)])?;
    let [outer, inner] = parts[..] else { return Err(refused) };

    let others = (0..n_spatial as u32).map(AxisId).filter(|it| *it != results && *it != last);
    let (blocks, unrolled): (Vec<AxisId>, AxisId) = match results == last {
        true => (others.collect(), outer),
        false => (others.chain([outer]).collect(), results),
    };
    let order: Vec<AxisId> = blocks.iter().copied().chain([unrolled, inner]).collect();
    b.apply(|it| it.reorder(root, &order))?;
    let (first, rest) = blocks.split_last().ok_or(refused)?;
    let mut fused = *first;
    for axis in rest.iter().rev() {
        fused = b.apply(|it| it.fuse(root, *axis, fused))?;
    }
    let group = b.new_group();
    let max = b.extent(root, fused).next_power_of_two().clamp(1, 1024);
    let threads = b.decide_power(format!("{name} threads"), max, THREADS.min(max), group);
    let split = b.split(root, fused, &[Factor::Open(threads)])?;
    b.annotate(root, split[0], LoopKind::Parallel)?;
    b.annotate(root, split[1], LoopKind::Thread)?;
    b.annotate(root, unrolled, LoopKind::Unrolled)?;
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
    b.note_template(TemplateKind::BlockPrefix, root);
    Ok(())
}
