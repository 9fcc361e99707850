//! The CPU template for reductions with reuse: tiles of accumulators in registers, blocks of those for
//! the caches, tasks of those for the threads.
//!
//! ```text
//! parallel others, y_0, u_0, v_0
//!   for y_1, u_1, v_1                    -- in an order that is a decision
//!     for k_0                            -- the reduction, computed here
//!       unrolled k_1
//!         unrolled u: vectorized v:  acc[u, v] += a[.., u, k] * b[.., k, v]
//!     unrolled u_2: vectorized v_2:  c[.., u, v] = f(acc[u, v])
//! ```
//!
//! `v` is vectorized: operands that depend on it are contiguous along it, or they are weights, which
//! are packed so, or they are copied so. `u` is unrolled: an axis on which such operands do not
//! depend. `y` is the last of the other axes.
//!
//! # Source
//!
//! Goto and van de Geijn's layers of matrix multiplication, for any reduction with reuse.
//! `blocked_reduction.rs` has the layer of long reductions.

use super::blocked_reduction;
use super::blocks::Blocks;
use super::copies::{self, TileLoops};
use super::hoist_invariant;
use super::register_tile::MAX_TILE;
use super::transposed;
use super::variant::{CopyScope, TileVariant};
use crate::sketch::layout::{block_sizes, footprint_bytes, pack_by_tile};
use crate::sketch::{Builder, DecisionId, DecisionKind, Factor, Result, TemplateKind, Tiled};
use tvmtune_schedule::{AxisId, Instruction, LoopKind, StageId};

/// Steps of the reduction that are unrolled, at most; chosen by judgement.
const MAX_STEPS: u64 = 8;
/// Steps of the reduction that are unrolled by default, all of a window of up to [`MAX_WINDOW`]; chosen by
/// measurement.
const STEPS: u64 = 4;
pub(super) const MAX_WINDOW: u64 = 7;

/// Columns of tiles of a task from which on prefetching behind the last one is a small waste; chosen by
/// judgement.
const MIN_COLUMNS_AHEAD: u64 = 4;

/// The loops of the stage that is tiled.
pub(super) struct Loops {
    /// The grid of tasks.
    pub(super) grid: Vec<AxisId>,
    /// The loops between the grid and the register tile.
    pub(super) middle: Vec<(Middle, AxisId)>,
    pub(super) row: Option<AxisId>,
    /// The decision on the rows of the register tile.
    pub(super) row_tile: Option<DecisionId>,
    pub(super) vector: AxisId,
    pub(super) copies: TileLoops,
}

/// A loop between the grid and the register tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Middle {
    /// Over iterations of the last other axis.
    Outer,
    /// Over tiles of the unrolled axis.
    Rows,
    /// Over tiles of the vectorized axis.
    Vectors,
}

/// Tiles the root of a group, and computes its anchor in each of the tiles.
pub(super) fn register_tile(b: &mut Builder, group: Tiled, variant: &TileVariant) -> Result<()> {
    let Tiled { root, anchor } = group;
    let name = b.stage_name(root).to_owned();
    hoist_invariant::to_phases(b, root)?;
    let anchor = if root == anchor { b.apply(|it| it.cache_write(anchor))? } else { anchor };
    let mut copied = Vec::new();
    for copy in &variant.copied {
        copied.push((b.apply(|it| it.cache_operand(anchor, copy.read))?, *copy));
    }
    let mut padded = Vec::new();
    for it in &variant.padded {
        match b.apply(|schedule| schedule.cache_padded(it.tensor, anchor)) {
            Ok(stage) => padded.push((stage, it.stride)),
            // A condition that is no padding stays.
            Err(_) if it.stride == 1 => {}
            Err(error) => return Err(error),
        }
    }
    pack_accumulators(b, anchor, variant)?;
    let loops = split_root(b, root, anchor, variant, &name)?;
    let panels = copied.iter().filter(|it| it.1.scope == CopyScope::Panel);
    let panels: Vec<StageId> = panels.map(|it| it.0).collect();
    let group = Tiled { root, anchor };
    match variant.block {
        Some(block) => {
            blocked_reduction::order_root(b, group, &loops)?;
            let unrolled = split_steps(b, anchor, variant, &name)?;
            blocked_reduction::reduce(b, anchor, (variant, block), (&loops, unrolled), &name)?;
        }
        None => {
            order_root(b, group, &loops, &panels, &name)?;
            if panels.is_empty() {
                prefetch_panels(b, group, variant, &loops, &name)?;
            }
            reduce_in_registers(b, anchor, variant, &name)?;
        }
    }
    for (tensor, dim) in &variant.packed {
        pack_by_tile(b, *tensor, *dim, loops.copies.vector_tile)?;
    }
    for (stage, stride) in padded {
        copies::place_padded(b, stage, stride, root, &loops.copies)?;
    }
    for (stage, copy) in copied {
        copies::place_copy(b, stage, copy, loops.copies.vector_tile)?;
    }
    b.note_template_as(TemplateKind::Tile, root, &label(b, root, variant));
    Ok(())
}

/// Packs accumulators so that their lanes are contiguous, as in a register.
fn pack_accumulators(b: &mut Builder, anchor: StageId, variant: &TileVariant) -> Result<()> {
    let n_spatial = b.n_spatial(anchor);
    if variant.vector + 1 == n_spatial {
        return Ok(());
    }
    let others = (0..n_spatial).filter(|it| *it != variant.vector);
    let order = others.chain([variant.vector]).collect();
    b.permute(b.tensor_of(anchor), order)
}

fn label(b: &Builder, root: StageId, variant: &TileVariant) -> String {
    let copied = match variant.copy_scope() {
        Some(CopyScope::Panel) => " panel",
        Some(CopyScope::Whole) => " copy",
        None if variant.transposed.is_some() => " transposed",
        None => "",
    };
    let blocked = if variant.block.is_some() { " blocked" } else { "" };
    let axis = &b.compute(root).axes[variant.vector].name;
    format!("{} {axis}{copied}{blocked}", TemplateKind::Tile.label())
}

fn split_root(
    b: &mut Builder,
    root: StageId,
    anchor: StageId,
    variant: &TileVariant,
    name: &str,
) -> Result<Loops> {
    let extents = b.extents(root);
    let blocks = Blocks::choose(b, anchor, variant);
    let lanes = b.lanes();
    let (mut grid, mut middle) = (Vec::new(), Vec::new());

    let last_outer = variant.last_outer(&extents);
    for (axis, extent) in extents.iter().copied().enumerate() {
        let id = AxisId(axis as u32);
        if axis == variant.vector || Some(axis) == variant.row {
            continue;
        }
        if Some(axis) == last_outer {
            let (kind, options) = (DecisionKind::Outer, block_sizes(extent));
            let inner = b.decide(format!("{name} walk"), kind, &options, blocks.outer);
            let parts = b.split(root, id, &[Factor::Open(inner)])?;
            grid.push(parts[0]);
            middle.push((Middle::Outer, parts[1]));
        } else {
            grid.push(id);
        }
    }
    let (mut row, mut row_tile) = (None, None);
    if let Some(axis) = variant.row {
        let extent = extents[axis];
        let tiles: Vec<u64> = (1..=extent.min(MAX_TILE.0)).collect();
        let kind = DecisionKind::Inner;
        let inner = b.decide(format!("{name} rows"), kind, &tiles, variant.tile.rows);
        let n_tiles = extent.div_ceil(variant.tile.rows);
        let factors = tile_factors(b, format!("{name} row tiles"), n_tiles, blocks.rows, inner);
        let parts = b.split(root, AxisId(axis as u32), &factors)?;
        grid.push(parts[0]);
        middle.push((Middle::Rows, parts[1]));
        (row, row_tile) = (Some(parts[2]), Some(inner));
    }
    let n_vectors = extents[variant.vector].div_ceil(lanes);
    let tiles: Vec<u64> = (1..=n_vectors.min(MAX_TILE.1)).map(|it| it * lanes).collect();
    let best = variant.tile.vectors * lanes;
    let inner = b.decide(format!("{name} lanes"), DecisionKind::Inner, &tiles, best);
    let n_tiles = n_vectors.div_ceil(variant.tile.vectors);
    let factors = tile_factors(b, format!("{name} lane tiles"), n_tiles, blocks.vectors, inner);
    let parts = b.split(root, AxisId(variant.vector as u32), &factors)?;
    grid.push(parts[0]);
    middle.push((Middle::Vectors, parts[1]));
    let copies = TileLoops { task: parts[0], vector_tile: inner, padding: blocks.padding };
    Ok(Loops { grid, middle, row, row_tile, vector: parts[2], copies })
}

/// Returns the factors of an axis: tiles of a task, a decision with that default, and `inner` in a tile.
fn tile_factors(
    b: &mut Builder,
    name: String,
    n_tiles: u64,
    best: u64,
    inner: DecisionId,
) -> [Factor; 2] {
    let (kind, options) = (DecisionKind::Outer, block_sizes(n_tiles));
    let outer = b.decide_in(b.group_of(inner), name, kind, &options, best);
    [Factor::Open(outer), Factor::Open(inner)]
}

/// Opens the order of the loops, and places the reduction and panels.
fn order_root(
    b: &mut Builder,
    group: Tiled,
    loops: &Loops,
    panels: &[StageId],
    name: &str,
) -> Result<()> {
    let Tiled { root, anchor } = group;
    let position = |order: &[(Middle, AxisId)], it| order.iter().position(|(n, _)| *n == it);
    let vectors = |order: &[(Middle, AxisId)]| position(order, Middle::Vectors);
    let rows = |order: &[(Middle, AxisId)]| position(order, Middle::Rows);
    let mut orders = permutations(&loops.middle);
    // A panel is copied for each column of tiles, and must serve all rows in it.
    orders.retain(|it| panels.is_empty() || vectors(it) == Some(0));
    // First the order in which operands of the vectorized axis stay in the cache.
    orders.sort_by_key(|it| (vectors(it), rows(it).map(std::cmp::Reverse)));
    let list = |order: &Vec<(Middle, AxisId)>| {
        let axes = order.iter().map(|it| it.1);
        let inner = loops.row.into_iter().chain([loops.vector]);
        let all = loops.grid.iter().copied().chain(axes).chain(inner).collect();
        let last = order.last().expect("the vectorized axis has a loop here").1;
        let mut list = vec![Instruction::Reorder { stage: root, order: all }];
        list.push(Instruction::ComputeAt { stage: anchor, consumer: root, axis: last });
        list.extend(panels.iter().map(|stage| Instruction::ComputeAt {
            stage: *stage,
            consumer: root,
            axis: order[0].1,
        }));
        list
    };
    let lists: Vec<_> = orders.iter().map(list).collect();
    let numbers: Vec<u64> = (0..lists.len() as u64).collect();
    let decision = b.decide(format!("{name} order"), DecisionKind::Order, &numbers, 0);
    b.one_of(decision, lists)?;
    annotate_root(b, root, loops)
}

/// Makes the grid of a tiled stage parallel, and its tiles vectors.
pub(super) fn annotate_root(b: &mut Builder, root: StageId, loops: &Loops) -> Result<()> {
    b.annotate_all(root, &loops.grid, LoopKind::Parallel)?;
    if let Some(row) = loops.row {
        b.annotate(root, row, LoopKind::Unrolled)?;
    }
    b.annotate(root, loops.vector, LoopKind::Vectorized)
}

/// Opens whether the elements that a column of tiles reads are prefetched while tiles of the one before
/// are computed: weights come from memory, or from the last-level cache.
fn prefetch_panels(
    b: &mut Builder,
    Tiled { root, anchor }: Tiled,
    variant: &TileVariant,
    loops: &Loops,
    name: &str,
) -> Result<()> {
    let Some((_, axis)) = loops.middle.iter().find(|it| it.0 == Middle::Vectors) else {
        return Ok(());
    };
    let extents = b.extents(anchor);
    let mut column = extents.clone();
    column[variant.vector] = b.lanes() * variant.tile.vectors;
    let accesses = b.accesses(anchor);
    let bytes = |extents: &[u64]| -> u64 {
        let of_columns = accesses.iter().filter(|it| it.depends_on(variant.vector));
        of_columns.map(|it| footprint_bytes(it, extents)).fold(0, u64::saturating_add)
    };
    let [in_task, n_tasks] = [*axis, loops.copies.task].map(|it| b.extent(root, it));
    // The last column of a task asks for the first of the next task, or in vain if it is the only one.
    let is_read = n_tasks > 1 || in_task >= MIN_COLUMNS_AHEAD;
    // The second-level cache has room for two columns.
    let has_room = bytes(&column) <= b.cpu().l2_bytes / 2;
    let pays = is_read && has_room && bytes(&extents) > b.cpu().l1_bytes;
    // The columns in flight are the one that is computed, and the one that is prefetched.
    let options = (DecisionKind::Outer, &[1, 2][..]);
    let best = u64::from(pays) + 1;
    let kind = |columns| (columns > 1).then_some(LoopKind::Pipelined(columns as u8));
    b.decide_loop_kind(format!("{name} columns ahead"), options, best, (root, *axis), kind)
}

fn permutations<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for n in 0..items.len() {
        let mut rest = items.to_vec();
        let first = rest.remove(n);
        all.extend(permutations(&rest).into_iter().map(|mut it| {
            it.insert(0, first.clone());
            it
        }));
    }
    all
}

/// The loops of the reduction: reduce axes outside, the tile inside.
fn reduce_in_registers(
    b: &mut Builder,
    anchor: StageId,
    variant: &TileVariant,
    name: &str,
) -> Result<()> {
    let n_spatial = b.n_spatial(anchor);
    let tile = |it: &usize| *it == variant.vector || Some(*it) == variant.row;
    let mut order: Vec<AxisId> =
        (0..n_spatial).filter(|it| !tile(it)).map(|it| AxisId(it as u32)).collect();
    let steps = split_steps(b, anchor, variant, name)?;
    order.extend(&steps.outer);
    let mut lanes = AxisId(variant.vector as u32);
    if variant.transposed.is_some() {
        // The steps of a vector are side by side.
        let parts = b.split(anchor, lanes, &[Factor::Fixed(b.lanes())])?;
        order.push(parts[0]);
        b.annotate(anchor, parts[0], LoopKind::Unrolled)?;
        lanes = parts[1];
    }
    order.extend(&steps.unrolled);
    order.extend(variant.row.map(|it| AxisId(it as u32)));
    order.push(lanes);
    b.reorder(anchor, order)?;
    b.annotate_all(anchor, &steps.unrolled, LoopKind::Unrolled)?;
    if let Some(axis) = variant.row {
        b.annotate(anchor, AxisId(axis as u32), LoopKind::Unrolled)?;
    }
    b.annotate(anchor, lanes, LoopKind::Vectorized)
}

/// The loops of a reduction around the register tile.
pub(super) struct Steps {
    /// A loop for each reduce axis, in order.
    pub(super) outer: Vec<AxisId>,
    /// The steps that are unrolled: of the last of them, and before these another axis of windows.
    pub(super) unrolled: Vec<AxisId>,
}

/// Returns the steps of a reduction of that extent that may be unrolled, and how many are by default.
fn steps(variant: &TileVariant, extent: u64) -> (Vec<u64>, u64) {
    if let Some(words) = variant.transposed {
        return (transposed::words(extent), words);
    }
    let stride = variant.stride();
    let is_known = |it: &u64| *it == extent || (*it < extent && it.is_multiple_of(stride));
    let options = (1..=MAX_STEPS).filter(is_known).collect();
    let best = if extent <= MAX_WINDOW { extent } else { (STEPS / stride).max(1) * stride };
    (options, best)
}

/// Splits the last reduce axis that runs more than once: its inner part is unrolled, all of it if it is
/// short.
fn split_steps(
    b: &mut Builder,
    anchor: StageId,
    variant: &TileVariant,
    name: &str,
) -> Result<Steps> {
    let n_spatial = b.n_spatial(anchor);
    let extents = b.extents(anchor);
    let mut outer: Vec<AxisId> = (n_spatial..extents.len()).map(|it| AxisId(it as u32)).collect();
    let Some(last) = (n_spatial..extents.len()).rev().find(|it| extents[*it] > 1) else {
        return Ok(Steps { outer, unrolled: Vec::new() });
    };
    let extent = extents[last];
    let (options, best) = steps(variant, extent);
    let kind = DecisionKind::Inner;
    let decision = b.decide(format!("{name} steps"), kind, &options, best);
    let parts = b.split(anchor, AxisId(last as u32), &[Factor::Open(decision)])?;
    outer[last - n_spatial] = parts[0];
    let mut unrolled = vec![parts[1]];
    if let Some(windows) = variant.windows {
        let kind = DecisionKind::Inner;
        let name = format!("{name} window");
        let extent = extents[windows.axis];
        let decision = b.decide(name, kind, &[1, extent], extent);
        let parts = b.split(anchor, AxisId(windows.axis as u32), &[Factor::Open(decision)])?;
        outer[windows.axis - n_spatial] = parts[0];
        unrolled.insert(0, parts[1]);
    }
    Ok(Steps { outer, unrolled })
}
