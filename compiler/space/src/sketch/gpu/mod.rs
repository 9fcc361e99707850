//! The GPU templates: thread blocks, threads, and copies to shared memory.
//!
//! Each file has a template, which is listed in a table below for the fusion groups that it schedules.
//! `chain_stages`, `im2col`, `operand`, `pattern`, `reads`, `split_k`, `threads` and `tile_size`
//! serve them.
//!
//! In: a [`FusionGroup`]. Out: its [`templates`], the most promising first.

mod attention;
mod block_prefix;
mod chain_stages;
mod columns;
mod flat;
mod im2col;
mod mma;
mod operand;
mod pattern;
mod reads;
mod recurrence;
mod row_scan;
mod rows;
mod split_k;
mod threads;
mod tile;
mod tile_size;
mod transpose;
mod wgmma;
mod wgmma_attention;
mod window;

pub(super) use self::reads::benefits_from_tiling;
pub(super) use self::row_scan::fits_thread_block;
pub(super) use self::split_k::{is_split_column_reduction, split_k};

use super::builder::Builder;
use super::fusion_group::{Chain, FusionGroup, Rows, Tiled};
use super::template::{Bound, Template, applicable};

/// The templates for attention, in order.
const CHAIN: [Template<Chain>; 2] = [wgmma_attention::TEMPLATE, attention::TEMPLATE];

/// The templates for reductions in tiles, in order.
const TILED: [Template<Tiled>; 4] =
    [wgmma::WARP_SPECIALIZED, wgmma::COOPERATIVE, mma::TEMPLATE, tile::TEMPLATE];

/// The templates for rows, in order.
const ROWS: [Template<Rows>; 7] = [
    row_scan::TEMPLATE,
    rows::TEMPLATE,
    columns::TEMPLATE,
    block_prefix::TEMPLATE,
    window::TEMPLATE,
    transpose::TEMPLATE,
    flat::TEMPLATE,
];

/// The only template for recurrences: others do not keep the order of steps.
const RECURRENCE: [Template<Rows>; 1] = [recurrence::TEMPLATE];

/// Returns the templates of a group, the most promising first.
pub(super) fn templates<'a>(b: &Builder, group: &'a FusionGroup) -> Vec<Bound<'a>> {
    match group {
        FusionGroup::Chain(chain) => applicable(&CHAIN, b, chain),
        FusionGroup::Tiled(tiled) => applicable(&TILED, b, tiled),
        FusionGroup::Rows(rows) if (recurrence::TEMPLATE.is_applicable)(b, rows) => {
            applicable(&RECURRENCE, b, rows)
        }
        FusionGroup::Rows(rows) => applicable(&ROWS, b, rows),
    }
}
