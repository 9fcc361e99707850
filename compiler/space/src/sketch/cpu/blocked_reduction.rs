//! Long reductions of register tiles, block by block: all tiles of a task add a block of the reduction
//! to their accumulators, which lie in memory in between.
//!
//! ```text
//! parallel u_0, v_0
//!   for k_0                              -- blocks of the reduction
//!     for v_1, u_1                       -- tiles of the task
//!       for k_1
//!         unrolled k_2
//!           unrolled u: vectorized v:  acc[u, v] += a[u, k] * b[k, v]
//!   for u_1, v_1
//!     unrolled u_2: vectorized v_2:  c[u, v] = f(acc[u, v])
//! ```
//!
//! The code generator keeps the accumulators of a tile in registers while `k_1` runs. The elements of `b`
//! that a tile reads in a block stay in the first-level cache for the tiles below it, those of `a` that the
//! task reads in the second-level one. A reduction at once would fetch them from further away for each
//! tile.
//!
//! # Source
//!
//! The loop over `kc` of Goto and van de Geijn (2008), with accumulators of a task in place of those of
//! the result.

use super::tile::{Loops, Steps, annotate_root};
use super::variant::{ReductionBlock, TileVariant};
use crate::sketch::layout::block_sizes;
use crate::sketch::{Builder, DecisionKind, Factor, Result, Tiled};
use tvmtune_schedule::{AxisId, Instruction, LoopKind, StageId};

/// Orders the loops of the root, and computes the accumulators of a task at once.
pub(super) fn order_root(b: &mut Builder, group: Tiled, loops: &Loops) -> Result<()> {
    let middle = loops.middle.iter().map(|it| it.1);
    let tile = loops.row.into_iter().chain([loops.vector]);
    let order: Vec<AxisId> = loops.grid.iter().copied().chain(middle).chain(tile).collect();
    b.reorder(group.root, order)?;
    b.apply(|it| it.compute_at(group.anchor, group.root, loops.copies.task))?;
    annotate_root(b, group.root, loops)
}

/// Splits and orders the loops of the accumulators: blocks of the reduction, tiles of the task, steps in
/// the block, elements of the tile.
pub(super) fn reduce(
    b: &mut Builder,
    anchor: StageId,
    (variant, block): (&TileVariant, ReductionBlock),
    (loops, steps): (&Loops, Steps),
    name: &str,
) -> Result<()> {
    let n_spatial = b.n_spatial(anchor);
    let Steps { outer: mut reduce, unrolled } = steps;
    let blocked = &mut reduce[block.axis - n_spatial];
    let n_steps = b.extent(anchor, *blocked);
    // Iterations that are unrolled count as one.
    let each = b.extents(anchor)[block.axis].div_ceil(n_steps);
    let (kind, options) = (DecisionKind::Outer, block_sizes(n_steps));
    let best = (block.length / each).clamp(1, n_steps);
    let length = b.decide(format!("{name} reduction block"), kind, &options, best);
    let parts = b.split(anchor, *blocked, &[Factor::Open(length)])?;
    *blocked = parts[1];

    let vector = AxisId(variant.vector as u32);
    let row = variant.row.map(|it| AxisId(it as u32)).zip(loops.row_tile);
    let columns = b.split(anchor, vector, &[Factor::Open(loops.copies.vector_tile)])?;
    let rows = match row {
        Some((row, tile)) => b.split(anchor, row, &[Factor::Open(tile)])?,
        None => Vec::new(),
    };
    let is_tiled = |it: &AxisId| *it == vector || Some(*it) == row.map(|it| it.0);
    let others = (0..n_spatial as u32).map(AxisId).filter(|it| !is_tiled(it));
    let outer: Vec<AxisId> = [parts[0]].into_iter().chain(others).collect();
    let tile: Vec<AxisId> = rows.get(1).into_iter().chain(&columns[1..]).copied().collect();
    let order = |tiles: [Option<&AxisId>; 2]| {
        let tiles = tiles.into_iter().flatten().copied();
        let inner = reduce.iter().chain(&unrolled).copied().chain(tile.iter().copied());
        let order = outer.iter().copied().chain(tiles).chain(inner).collect();
        vec![Instruction::Reorder { stage: anchor, order }]
    };
    let (column, row) = (columns.first(), rows.first());
    // First the order in which operands of the vectorized axis stay in the first-level cache.
    let mut orders = vec![order([column, row])];
    orders.extend(row.map(|row| order([Some(row), column])));
    let numbers: Vec<u64> = (0..orders.len() as u64).collect();
    let decision = b.decide(format!("{name} order"), DecisionKind::Order, &numbers, 0);
    b.one_of(decision, orders)?;

    b.annotate_all(anchor, &unrolled, LoopKind::Unrolled)?;
    b.annotate_all(anchor, rows.get(1), LoopKind::Unrolled)?;
    b.annotate(anchor, columns[1], LoopKind::Vectorized)
}
