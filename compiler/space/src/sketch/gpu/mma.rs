//! The GPU template for products by MMA instructions: sums of products of narrow numbers, or of numbers
//! rounded to TF32, convolutions among them.
//!
//! ```text
//! parallel others, u_0, i_0, j_0
//!   pipelined r, s, k_0                                       -- other reduce loops outermost
//!     thread t:  a_tile[u, i, k] = a[u_0 + u, i_0 + i, k_0 + k]   -- cooperatively, in vectors
//!     thread t:  b_tile[j, k] = b[j_0 + j, k_0 + k]
//!     thread u_1, i_1, j_1 (warps), g, q (threads of a warp)
//!       unrolled k_1: unrolled u_2, i_2, j_2:                 -- instructions
//!         tensor h, p, k_2:  acc[u, i, j] += a_tile[u, i, k] * b_tile[j, k]
//!   thread u_1, i_1, j_1, g, q
//!     unrolled u_2, i_2, h, j_2: vectorized p:  c[u, i, j] = f(acc[u, i, j])
//! ```
//!
//! Rows are `16 * i_2 + 8 * h + g`, columns `8 * j_2 + 2 * q + p`: the fragment layout that lowering to
//! the grid recognizes. `u` is one more axis of the operand with the rows, or of the one with the
//! columns: the second axis of images with short rows.

use super::operand::{self, ProductTile};
use super::tile::{max_stages, pipeline};
use crate::sketch::{Builder, DecisionId, Factor, Result, Template, TemplateKind, Tiled};
use tvmtune_ir::dag::access::Access;
use tvmtune_ir::dag::{BinaryOp, DType, Expr, Literal, Reducer, UnaryOp};
use tvmtune_ir::size::Size;
use tvmtune_schedule::error::ErrorKind;
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// Rows of an MMA instruction.
const MMA_ROWS: u64 = 16;
/// Columns of an MMA instruction.
const MMA_COLUMNS: u64 = 8;
/// Fewer rows leave the second half of an instruction empty.
const MIN_ROWS: u64 = 9;
/// Fewer columns leave threads idle.
const MIN_COLUMNS: u64 = 7;

/// Threads of a warp.
const WARP_THREADS: u64 = 32;
/// Steps of the reduction in one instruction of TF32.
pub(super) const TF32_STEP: u64 = 8;

/// The axes of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Product {
    /// The axis of the rows: one operand depends on it.
    pub(super) row: usize,
    /// The axis of the columns: the other operand depends on it.
    pub(super) column: usize,
    /// One more axis in the tile of a block, of either operand.
    pub(super) beside: Option<usize>,
    /// The axis that is reduced.
    pub(super) depth: usize,
    /// Steps of the reduction in one instruction.
    pub(super) step: u64,
}

/// The operand of a product that may have the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operands {
    /// The one whose axis is not the last.
    InOrder,
    /// Either: few rows become columns.
    MaySwap,
}

pub(super) const TEMPLATE: Template<Tiled> = Template { is_applicable, schedule };

fn is_applicable(b: &Builder, group: &Tiled) -> bool {
    product(b, group.anchor).is_some()
}

/// Returns the product that a reduction is, if there are MMA instructions for it and it fills them.
pub(super) fn product(b: &Builder, anchor: StageId) -> Option<Product> {
    candidate(b, anchor, Operands::MaySwap).filter(|it| b.extents(anchor)[it.row] >= MIN_ROWS)
}

/// Returns the product that a reduction is, if there are MMA instructions for it.
pub(super) fn candidate(b: &Builder, anchor: StageId, operands: Operands) -> Option<Product> {
    if !b.gpu().arch.has_async_copies() {
        return None;
    }
    let compute = b.compute(anchor);
    let step = step(b, &compute.body)?;
    let (extents, accesses) = (b.extents(anchor), b.accesses(anchor));
    let [first, second] = accesses.as_slice() else { return None };
    let alone = |own: &Access, other: &Access| {
        let is_own = |it: &usize| own.depends_on(*it) && !other.depends_on(*it) && extents[*it] > 1;
        (0..compute.n_spatial).filter(is_own).collect::<Vec<usize>>()
    };
    let (first_own, second_own) = (alone(first, second), alone(second, first));
    // Results are contiguous along the columns.
    let long = |it: &&usize| extents[**it] >= MIN_COLUMNS;
    let last = first_own.iter().chain(&second_own).filter(long).max().copied()?;
    let others = if first_own.contains(&last) { &second_own } else { &first_own };
    let other = least_padded(others, &extents, MMA_ROWS)?;
    // A short axis is better along the shorter side of an instruction.
    let swapped = operands == Operands::MaySwap && extents[other] <= 8 && extents[last] >= 16;
    let (row, column) = if swapped { (last, other) } else { (other, last) };
    let left = |it: &usize| *it != row && *it != column;
    let beside: Vec<usize> = first_own.iter().chain(&second_own).copied().filter(left).collect();
    let beside = beside.into_iter().max_by_key(|it| (extents[*it], *it));
    let both = |it: &usize| first.depends_on(*it) && second.depends_on(*it) && extents[*it] >= step;
    let depth =
        (compute.n_spatial..compute.axes.len()).filter(both).max_by_key(|it| extents[*it])?;
    let is_large = extents[column] >= MIN_COLUMNS;
    let fits = compute.reducer == Some(Reducer::Sum) && is_large;
    fits.then_some(Product { row, column, beside, depth, step })
}

/// Returns the axis with the least padding in tiles of that side; the last of those.
fn least_padded(axes: &[usize], extents: &[u64], side: u64) -> Option<usize> {
    let used = |axis: &usize| {
        let extent = extents[*axis];
        (extent * 1024 / extent.next_multiple_of(side), extent.min(8 * side), *axis)
    };
    axes.iter().copied().max_by_key(used)
}

/// Returns the steps of a sum of products of narrow numbers in one instruction.
fn step(b: &Builder, body: &Expr) -> Option<u64> {
    let Expr::Binary(BinaryOp::Mul, one, other) = body else { return None };
    let factor = |it: &Expr| {
        let (wide, is_tf32, inner) = match without_padding(it) {
            Expr::Cast(to, inner) => (*to, false, inner),
            Expr::Unary(UnaryOp::Tf32, inner) => (DType::F32, true, inner),
            _ => return None,
        };
        let Expr::Read { tensor, .. } = without_padding(inner) else { return None };
        let narrow = b.schedule.tensor(*tensor).tensor.dtype;
        ((narrow == DType::F32) == is_tf32).then_some((narrow, wide))
    };
    let (one, other) = (factor(one)?, factor(other)?);
    match one {
        _ if one != other => None,
        (DType::F16 | DType::Bf16, DType::F32) => Some(16),
        (DType::I8, DType::I32) => Some(32),
        (DType::F32, DType::F32) => Some(TF32_STEP),
        _ => None,
    }
}

/// Returns the value that is read outside of zero padding.
fn without_padding(value: &Expr) -> &Expr {
    match value {
        Expr::Select { then, otherwise, .. } => match **otherwise {
            Expr::Const(Literal::Float(0.0) | Literal::Int(0), _) => then,
            _ => value,
        },
        other => other,
    }
}

/// The tile of a block, by axis.
#[derive(Clone, Copy)]
struct Sides {
    row: u64,
    column: u64,
    beside: u64,
}

/// The decisions on one axis.
#[derive(Clone, Copy)]
struct Axis {
    axis: usize,
    warps: DecisionId,
    instructions: DecisionId,
}

/// The decisions on a tile.
struct Tile {
    row: Axis,
    column: Axis,
    beside: Option<Axis>,
}

fn schedule(b: &mut Builder, group: &Tiled) -> Result<()> {
    let Tiled { root, anchor } = *group;
    let name = b.stage_name(root).to_owned();
    let product = product(b, anchor).ok_or(ErrorKind::NotReduction.of_stage(anchor))?;
    let anchor = if root == anchor { b.apply(|it| it.cache_write(anchor))? } else { anchor };
    let sides = sides(b, anchor, product);
    let depth = 2 * product.step;
    let tiled = |axis: usize| match axis {
        it if it == product.row => Some(sides.row),
        it if it == product.column => Some(sides.column),
        it if it == product.depth => Some(depth),
        it if Some(it) == product.beside => Some(sides.beside),
        _ => None,
    };
    let operands = operand::copy(b, anchor, &ProductTile { depth: product.depth, tiled: &tiled })?;
    let tile = decide(b, &name, product, sides);
    let block = split_root(b, root, anchor, &tile)?;
    b.apply(|it| it.compute_at(anchor, root, block))?;
    let step = schedule_reduction(b, anchor, product, &tile, &name)?;
    let warps = [Some(tile.row), Some(tile.column), tile.beside];
    let warps: Vec<DecisionId> = warps.into_iter().flatten().map(|it| it.warps).collect();
    for operand in operands {
        operand::place(b, &operand, anchor, step, None)?;
        operand::copy_by_all_threads(b, &operand, WARP_THREADS, &warps)?;
    }
    b.note_template(TemplateKind::Mma, root);
    Ok(())
}

/// Returns the tile of a block: the largest that leaves each multiprocessor one, where that can be.
fn sides(b: &Builder, anchor: StageId, product: Product) -> Sides {
    const SIDES: [(u64, u64); 6] = [(128, 128), (64, 128), (64, 64), (32, 64), (32, 32), (16, 16)];
    let extents = b.extents(anchor);
    let n_spatial = b.n_spatial(anchor);
    let Product { row, column, beside, .. } = product;
    let is_other = |it: &usize| ![Some(row), Some(column), beside].contains(&Some(*it));
    let others: u64 = (0..n_spatial).filter(is_other).map(|it| extents[it]).size();
    let with_row = beside.is_some_and(|it| moves_with(b, anchor, it, row));
    let mut chosen = Sides { row: MMA_ROWS, column: MMA_COLUMNS, beside: 1 };
    for (rows, columns) in SIDES {
        let tile = |axis: usize, side: u64| side.min(extents[axis].next_power_of_two());
        let (in_row, in_column) =
            (tile(row, rows).max(MMA_ROWS), tile(column, columns).max(MMA_COLUMNS));
        let left = if with_row { rows / in_row } else { columns / in_column };
        let beside_tile = beside.map_or(1, |it| tile(it, left.max(1)));
        chosen = Sides { row: in_row, column: in_column, beside: beside_tile };
        let beside_blocks = beside.map_or(1, |it| extents[it].div_ceil(beside_tile));
        let (row_blocks, column_blocks) =
            (extents[row].div_ceil(in_row), extents[column].div_ceil(in_column));
        let n_blocks = [others, row_blocks, column_blocks, beside_blocks].iter().size();
        if n_blocks >= u64::from(b.gpu().multiprocessors) {
            break;
        }
    }
    chosen
}

/// Returns whether an operand depends on both axes.
pub(super) fn moves_with(b: &Builder, anchor: StageId, one: usize, other: usize) -> bool {
    b.accesses(anchor).iter().any(|it| it.depends_on(one) && it.depends_on(other))
}

/// Opens the tile: two by two warps, of up to 64 x 64 each.
fn decide(b: &mut Builder, name: &str, product: Product, sides: Sides) -> Tile {
    let mut axis = |side: &str, axis: usize, n: u64, warps: u64, max: (u64, u64)| {
        let warps_of = b.decide_power(format!("{name} {side} warps"), max.0, warps);
        let each = b.decide_power_in(
            b.group_of(warps_of),
            format!("{name} {side} tiles"),
            max.1,
            n / warps,
        );
        Axis { axis, warps: warps_of, instructions: each }
    };
    let two = |n: u64| if n >= 4 { 2 } else { 1 };
    let (n_rows, n_columns) = (sides.row / MMA_ROWS, sides.column / MMA_COLUMNS);
    let row = axis("row", product.row, n_rows, two(n_rows), (4, 8));
    let column = axis("column", product.column, n_columns, two(n_columns), (8, 16));
    // If a side has few instructions, warps are distributed along the other axis.
    let few = two(n_rows) * two(n_columns) < 4;
    let beside = product.beside.filter(|_| sides.beside > 1).map(|it| {
        let warps = if few { two(2 * sides.beside) } else { 1 };
        axis("beside", it, sides.beside, warps, (4, 8))
    });
    Tile { row, column, beside }
}

/// The loops of a tile: over blocks, over threads, and those that are fully unrolled.
struct Parts {
    blocks: Vec<AxisId>,
    threads: Vec<AxisId>,
    /// Instructions along the axis beside, along rows, along columns.
    instructions: Vec<AxisId>,
    /// The halves of the rows, the pairs of columns.
    inside: [AxisId; 2],
}

fn split(b: &mut Builder, stage: StageId, tile: &Tile) -> Result<Parts> {
    let open = Factor::Open;
    let id = |axis: Axis| AxisId(axis.axis as u32);
    let Tile { row, column, beside } = tile;
    let beside = match beside {
        Some(it) => b.split(stage, id(*it), &[open(it.warps), open(it.instructions)])?,
        None => Vec::new(),
    };
    let rows = [open(row.warps), open(row.instructions), Factor::Fixed(2), Factor::Fixed(8)];
    let i = b.split(stage, id(*row), &rows)?;
    let columns =
        [open(column.warps), open(column.instructions), Factor::Fixed(4), Factor::Fixed(2)];
    let j = b.split(stage, id(*column), &columns)?;
    let part = |n: usize| beside.get(n).copied();
    Ok(Parts {
        blocks: part(0).into_iter().chain([i[0], j[0]]).collect(),
        threads: part(1).into_iter().chain([i[1], j[1], i[4], j[3]]).collect(),
        instructions: part(2).into_iter().chain([i[2], j[2]]).collect(),
        inside: [i[3], j[4]],
    })
}

/// Splits the stage that stores the result; returns its last loop over blocks.
fn split_root(b: &mut Builder, root: StageId, anchor: StageId, tile: &Tile) -> Result<AxisId> {
    let n_spatial = b.n_spatial(anchor) as u32;
    let parts = split(b, root, tile)?;
    let untouched = |it: &AxisId| b.schedule.stage(root).order.contains(it);
    let others: Vec<AxisId> = (0..n_spatial).map(AxisId).filter(untouched).collect();
    let blocks: Vec<AxisId> = others.into_iter().chain(parts.blocks).collect();
    let (columns, rows) = parts.instructions.split_last().expect("a tile has columns");
    let [half, pair] = parts.inside;
    let inner: Vec<AxisId> = rows.iter().copied().chain([half, *columns]).collect();
    b.reorder(root, [&blocks[..], &parts.threads, &inner, &[pair]].concat())?;
    b.annotate_all(root, &blocks, LoopKind::Parallel)?;
    b.annotate_all(root, parts.threads, LoopKind::Thread)?;
    b.annotate_all(root, inner, LoopKind::Unrolled)?;
    b.annotate(root, pair, LoopKind::Vectorized)?;
    blocks.last().copied().ok_or(ErrorKind::NotOutermost.of_stage(root))
}

/// Orders the loops of the reduction; returns the one at which operands are copied.
fn schedule_reduction(
    b: &mut Builder,
    anchor: StageId,
    product: Product,
    tile: &Tile,
    name: &str,
) -> Result<AxisId> {
    let n_spatial = b.n_spatial(anchor);
    let before = b.schedule.stage(anchor).order.clone();
    let parts = split(b, anchor, tile)?;
    let steps = b.decide_power(format!("{name} steps"), 4, 2);
    let factors = [Factor::Open(steps), Factor::Fixed(product.step)];
    let k = b.split(anchor, AxisId(product.depth as u32), &factors)?;
    let untouched: Vec<AxisId> =
        before.into_iter().filter(|it| b.schedule.stage(anchor).order.contains(it)).collect();
    let is_spatial = |it: &AxisId| (it.0 as usize) < n_spatial;
    let (others, windows): (Vec<AxisId>, Vec<AxisId>) = untouched.into_iter().partition(is_spatial);
    let [half, pair] = parts.inside;
    let inner = [half, pair, k[2]];
    let outer = [&others[..], &parts.blocks, &windows, &[k[0]]].concat();
    let tile = [&parts.threads[..], &[k[1]], &parts.instructions, &inner].concat();
    b.reorder(anchor, outer.iter().chain(&tile))?;
    b.annotate_all(anchor, &parts.threads, LoopKind::Thread)?;
    b.annotate_all(anchor, parts.instructions.iter().chain([&k[1]]), LoopKind::Unrolled)?;
    b.annotate_all(anchor, inner, LoopKind::Tensorized)?;
    // One loop over all steps, so that the pipeline runs across windows.
    let step = b.fuse(anchor, windows, k[0])?;
    let stages = max_stages(b);
    pipeline(b, anchor, step, stages, name)?;
    Ok(step)
}
