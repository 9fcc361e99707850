//! The CPU templates: attention, register tiles, rows, elementwise stages, scatters, scans by blocks, and
//! recurrences.

mod attention;
mod block_scan;
mod blocked_reduction;
mod blocks;
mod cache_sets;
mod copies;
mod elementwise;
mod enumerate;
pub(super) mod hoist_invariant;
mod recurrence;
mod register_tile;
mod rows;
mod scatter;
mod tile;
mod transposed;
mod variant;

use std::collections::BTreeMap;

use super::builder::Builder;
use super::fusion_group::{FusionGroup, Rows};
use super::template::{Bound, Template, applicable};
use tvmtune_ir::dag::Expr;
use tvmtune_ir::dag::access::Access;
use tvmtune_schedule::StageId;

/// Tasks for each thread, so that the last ones end at about the same time; chosen by judgement.
const TASKS_PER_THREAD: u64 = 8;
/// Tasks for each thread of elementwise stages, and of tiles that share no operand: fewer and longer
/// ones; chosen by judgement.
const LONG_TASKS_PER_THREAD: u64 = 4;

/// The templates for rows: the first that is applicable is the only one.
const ROWS: [Template<Rows>; 5] = [
    recurrence::TEMPLATE,
    block_scan::TEMPLATE,
    elementwise::TEMPLATE,
    scatter::TEMPLATE,
    rows::TEMPLATE,
];

/// Returns the templates of a group, the most promising first.
pub(super) fn templates<'a>(b: &Builder, group: &'a FusionGroup) -> Vec<Bound<'a>> {
    match group {
        FusionGroup::Tiled(tiled) => {
            let bind = |variant| -> Bound<'a> {
                Box::new(move |b| tile::register_tile(b, *tiled, &variant))
            };
            enumerate::variants(b, tiled.anchor).into_iter().map(bind).collect()
        }
        FusionGroup::Rows(rows) => applicable(&ROWS, b, rows).into_iter().take(1).collect(),
        FusionGroup::Chain(chain) => applicable(&attention::templates(b, chain), b, chain),
    }
}

/// Returns whether a reduction runs in register tiles: only its spatial axes make vectors, or its operands
/// are used more than once, so often that a copy which its tiles need pays, or that they gather elements.
pub(super) fn is_tiled(b: &Builder, stage: StageId) -> bool {
    tiles(b, stage, &mut BTreeMap::new())
}

/// The same, with the answers for stages that were asked before: the answer may depend on those for all readers,
/// and each of several largest elements is read by all after it.
fn tiles(b: &Builder, stage: StageId, known: &mut BTreeMap<StageId, bool>) -> bool {
    if let Some(known) = known.get(&stage) {
        return *known;
    }
    let found = finds_tiles(b, stage, known);
    known.insert(stage, found);
    found
}

fn finds_tiles(b: &Builder, stage: StageId, known: &mut BTreeMap<StageId, bool>) -> bool {
    if rows::is_by_lanes(b, stage) || b.scatter(stage).is_some() || b.is_ragged(stage) {
        return false;
    }
    let variants = enumerate::variants(b, stage);
    let Some(in_rows) = rows::cycles(b, stage) else { return !variants.is_empty() };
    // A tile that transposes reads a piece of each of its rows at a time. Only rows shorter than a vector are read as a
    // whole by that.
    let is_short = rows::is_short(b, stage);
    let Some(best) = variants.iter().find(|it| is_short || it.transposed.is_none()) else {
        return false;
    };
    // Rows that are shorter than a vector leave lanes of it empty.
    let is_better = is_short && !is_of_indices(b, stage) && !is_read_by_rows(b, stage, known);
    let is_reused = b.has_reuse(stage) || reads_again(b, stage);
    let gathers = b.accesses(stage).iter().any(|it| it.is_gathered(best.vector));
    let is_direct = best.copied.is_empty() && best.transposed.is_none() && !gathers;
    (is_better || is_reused) && (is_direct || best.cost <= in_rows)
}

/// Returns whether a reduction is one of the indices of elements that it compares, as the index of a maximum:
/// its row is in the cache, since the reduction before it has read it.
fn is_of_indices(b: &Builder, stage: StageId) -> bool {
    let Expr::Select { then, otherwise, .. } = &b.compute(stage).body else { return false };
    [then, otherwise].iter().all(|it| {
        let mut reads = false;
        it.walk(&mut |it| reads |= matches!(it, Expr::Read { .. }));
        !reads
    })
}

/// Returns whether a reduction that runs in rows reads the result of a stage, as the index of a maximum that of
/// the maximum: both read their row once.
fn is_read_by_rows(b: &Builder, stage: StageId, known: &mut BTreeMap<StageId, bool>) -> bool {
    let mut readers = b.schedule.readers(b.tensor_of(stage));
    readers.any(|it| b.reduces(it) && !tiles(b, it, known))
}

/// Returns whether one of several reads of a tensor is the same along an axis: queries and keys may lie side
/// by side.
fn reads_again(b: &Builder, stage: StageId) -> bool {
    let (extents, n_spatial) = (b.extents(stage), b.n_spatial(stage));
    let is_reduced = |it: &&Access| (n_spatial..extents.len()).any(|axis| it.depends_on(axis));
    let is_same = |it: &Access, axis: usize| extents[axis] > 1 && !it.depends_on(axis);
    let accesses = b.accesses(stage);
    accesses.iter().filter(is_reduced).any(|it| (0..n_spatial).any(|axis| is_same(it, axis)))
}
