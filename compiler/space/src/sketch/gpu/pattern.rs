//! The access pattern of a group of rows, by which its templates are chosen.

use super::{block_prefix, reads};
use crate::sketch::builder::Builder;
use crate::sketch::fusion_group::Rows;
use tvmtune_schedule::StageId;

/// Reductions up to this length are done by one thread.
const MAX_SERIAL: u64 = 32;

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
    pub(super) fn of(b: &Builder, rows: &Rows) -> Self {
        let Rows { root, ref inside, depth } = *rows;
        if inside.iter().any(|it| block_prefix::is_block_prefix(b, *it)) {
            return Pattern::RowScan;
        }
        let n_spatial = |it: StageId| b.schedule.stage(it).compute.n_spatial;
        let stages = || inside.iter().copied().chain([root]);
        if stages().any(|it| n_spatial(it) != depth) {
            return Pattern::MixedRanks;
        }
        let reductions: Vec<StageId> = stages().filter(|it| reads::reduces(b, *it)).collect();
        let longest = reductions.iter().map(|it| reads::length(b, *it)).max();
        let is_prefix = inside.is_empty()
            && block_prefix::is_block_prefix(b, root)
            && block_prefix::has_many_blocks(b, root);
        match longest {
            None => Pattern::Elementwise,
            Some(_) if depth == 0 => Pattern::FullReduction,
            Some(..=MAX_SERIAL) if is_prefix => Pattern::BlockPrefix,
            Some(..MAX_SERIAL) => Pattern::ShortReduction,
            Some(_) if reductions.iter().any(|it| reads::is_along_memory(b, *it)) => {
                Pattern::ContiguousReduction
            }
            Some(_) => Pattern::StridedReduction,
        }
    }
}
