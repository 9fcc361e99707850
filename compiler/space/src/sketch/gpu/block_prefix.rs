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
use super::reads::{common_vector_width, store_vector_width};
use super::threads::fuse_and_distribute;
use crate::sketch::{Builder, Factor, Result, Rows, Template, TemplateKind};
use tvmtune_schedule::error::ErrorKind;
use tvmtune_schedule::{AxisId, LoopKind};

/// Threads of a thread block.
const THREADS: u64 = 128;
/// Results of a thread.
const MAX_RESULTS: u64 = 64;

pub(super) const TEMPLATE: Template<Rows> = Template { is_applicable, schedule };

fn is_applicable(b: &Builder, rows: &Rows) -> bool {
    Pattern::classify(b, rows) == Pattern::BlockPrefix
}

fn schedule(b: &mut Builder, rows: &Rows) -> Result<()> {
    let root = rows.root;
    let name = b.stage_name(root).to_owned();
    let refused = ErrorKind::NotReduction.of_stage(root);
    let [results, along] = b.schedule.prefix_axes(root).ok_or(refused)?;
    let extents = b.extents(root);
    let n_spatial = b.n_spatial(root);
    let last = AxisId(n_spatial as u32 - 1);
    let sums = b.apply(|it| it.cache_write(root))?;

    // Lanes are the elements beside the blocks in memory, or the results of a block.
    let max = match results == last {
        true => store_vector_width(b, root, extents[last.0 as usize]),
        false => MAX_RESULTS / extents[results.0 as usize].clamp(1, MAX_RESULTS),
    };
    let best = common_vector_width(b, &[root], last.0 as usize).min(max).max(1);
    let lanes = b.decide_power(format!("{name} vector"), max, best);
    let parts = b.split(root, last, &[Factor::Open(lanes)])?;
    let [outer, inner] = parts[..] else { return Err(refused) };

    let others = (0..n_spatial as u32).map(AxisId).filter(|it| *it != results && *it != last);
    let (blocks, unrolled): (Vec<AxisId>, AxisId) = match results == last {
        true => (others.collect(), outer),
        false => (others.chain([outer]).collect(), results),
    };
    b.reorder(root, blocks.iter().copied().chain([unrolled, inner]))?;
    let (inner_block, outer_blocks) = blocks.split_last().ok_or(refused)?;
    let [_, thread] = fuse_and_distribute(b, root, outer_blocks, *inner_block, THREADS)?;
    b.annotate(root, unrolled, LoopKind::Unrolled)?;
    b.annotate(root, inner, LoopKind::Vectorized)?;

    let before = (0..n_spatial as u32).map(AxisId).filter(|it| *it != results && *it != last);
    let inside = [along, results].into_iter().chain((results != last).then_some(last));
    b.reorder(sums, before.chain(inside))?;
    b.annotate(sums, along, LoopKind::Unrolled)?;
    b.annotate(sums, results, LoopKind::Unrolled)?;
    if results != last {
        b.annotate(sums, last, LoopKind::Vectorized)?;
    }
    b.apply(|it| it.compute_at(sums, root, thread))?;
    b.note_template(TemplateKind::BlockPrefix, root);
    Ok(())
}
