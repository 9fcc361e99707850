//! The CPU templates: register tiles, rows, elementwise stages, and scans by blocks.

mod block_scan;
mod blocks;
mod copies;
mod elementwise;
mod enumerate;
mod hoist_invariant;
mod register_tile;
mod rows;
mod tile;
mod variant;

use self::block_scan::BlockScan;
use self::elementwise::Elementwise;
use self::rows::RowByRow;
use super::builder::Builder;
use super::fusion_group::{FusionGroup, Rows};
use super::template::{Bound, Template, applicable};
use tvmtune_schedule::StageId;

/// The templates for rows: the first that is applicable is the only one.
const ROWS: &[&dyn Template<Rows>] = &[&BlockScan, &Elementwise, &RowByRow];

/// Returns the templates of a group, the most promising first.
pub(super) fn templates<'a>(b: &Builder, group: &'a FusionGroup) -> Vec<Bound<'a>> {
    match group {
        FusionGroup::Tiled(tiled) => {
            let bind = |variant| -> Bound<'a> {
                Box::new(move |b| tile::register_tile(b, *tiled, &variant))
            };
            enumerate::variants(b, tiled.anchor).into_iter().map(bind).collect()
        }
        FusionGroup::Rows(rows) => applicable(ROWS, b, rows).into_iter().take(1).collect(),
        FusionGroup::Chain(_) => Vec::new(),
    }
}

/// Returns whether a reduction runs in register tiles: its operands are used more than once, or only
/// its spatial axes make vectors.
pub(super) fn is_tiled(b: &Builder, stage: StageId) -> bool {
    let has_vectors = rows::contiguous_reduction(b, stage).is_some();
    (b.has_reuse(stage) || !has_vectors) && !enumerate::variants(b, stage).is_empty()
}
