//! The access pattern of a group of rows, by which its templates are chosen.

use super::reads;
use crate::sketch::{Builder, Rows};
use tvmtune_schedule::{AxisId, StageId};

/// Reductions up to this length are done by one thread.
const MAX_SERIAL: u64 = 32;
/// Elements of a block: longer ones have more results than a thread has registers.
const MAX_LENGTH: u64 = 32;
/// Blocks of elements: fewer are better shared by threads.
const MIN_BLOCKS: u64 = 64;

/// The access pattern of a group of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Prefixes along the rows, in a scan by blocks.
    RowScan,
    /// Stages with an element for each row beside stages with many.
    MixedRanks,
    /// Stages with the same elements, none a reduction.
    Elementwise,
    /// A reduction to a single element.
    FullReduction,
    /// Prefixes within short blocks of elements.
    BlockPrefix,
    /// Reductions that one thread does.
    ShortReduction,
    /// Long reductions along memory.
    ContiguousReduction,
    /// Long reductions across memory.
    StridedReduction,
}

impl Pattern {
    /// Classifies a group of rows.
    pub(super) fn classify(b: &Builder, rows: &Rows) -> Self {
        let Rows { root, ref inside, depth } = *rows;
        if inside.iter().any(|it| is_block_prefix(b, *it)) {
            return Pattern::RowScan;
        }
        let n_spatial = |it: StageId| b.n_spatial(it);
        let stages = || inside.iter().copied().chain([root]);
        if stages().any(|it| n_spatial(it) != depth) {
            return Pattern::MixedRanks;
        }
        let reductions: Vec<StageId> = stages().filter(|it| b.reduces(*it)).collect();
        let longest = reductions.iter().map(|it| reads::reduction_size(b, *it)).max();
        let is_prefix = inside.is_empty() && is_block_prefix(b, root) && has_many_blocks(b, root);
        match longest {
            None => Pattern::Elementwise,
            Some(_) if depth == 0 => Pattern::FullReduction,
            Some(..=MAX_SERIAL) if is_prefix => Pattern::BlockPrefix,
            Some(..MAX_SERIAL) => Pattern::ShortReduction,
            Some(_) if reductions.iter().any(|it| reads::is_reduction_contiguous(b, *it)) => {
                Pattern::ContiguousReduction
            }
            Some(_) => Pattern::StridedReduction,
        }
    }
}

/// Returns whether a stage is a prefix reduction within short blocks, and reduces nothing else.
pub(super) fn is_block_prefix(b: &Builder, stage: StageId) -> bool {
    let extents = b.extents(stage);
    let n_spatial = b.n_spatial(stage);
    let is_short = |it: AxisId| extents[it.0 as usize] <= MAX_LENGTH;
    let of_elements = |axes: [AxisId; 2]| axes.into_iter().all(is_short);
    n_spatial + 1 == extents.len() && b.schedule.prefix_axes(stage).is_some_and(of_elements)
}

/// Returns whether there are blocks for many threads.
fn has_many_blocks(b: &Builder, stage: StageId) -> bool {
    let Some([results, _]) = b.schedule.prefix_axes(stage) else { return false };
    b.n_elements(stage) / b.extent(stage, results).max(1) >= MIN_BLOCKS
}
