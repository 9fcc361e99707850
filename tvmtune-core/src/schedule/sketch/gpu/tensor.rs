//! The rule for products that matrix instructions can do: sums of products of narrow numbers.
//!
//! ```text
//! parallel i_0, j_0
//!   pipelined k_0
//!     thread t:  a_tile[i, k] = a[i_0 + i, k_0 + k]           -- by all threads, in vectors
//!     thread t:  b_tile[j, k] = b[j_0 + j, k_0 + k]
//!     thread i_1, j_1 (warps), g, q (threads of a warp)
//!       unrolled k_1: unrolled i_2, j_2:                      -- instructions
//!         tensor h, p, k_2:  acc[i, j] += a_tile[i, k] * b_tile[j, k]
//!   thread i_1, j_1, g, q
//!     unrolled i_2, h, j_2: vectorized p:  c[i, j] = f(acc[i, j])
//! ```
//!
//! Rows are `16 * i_2 + 8 * h + g`, columns `8 * j_2 + 2 * q + p`: what `grid::tensor` looks for.

use super::power;
use super::tile::{Operand, copy_operands, pipeline, place};
use super::tile_size::{AxisTile, TileSize};
use crate::dag::{BinaryOp, DType, Expr, Reducer};
use crate::schedule::error::{ErrorKind, ScheduleError};
use crate::schedule::sketch::builder::Builder;
use crate::schedule::sketch::{DecisionId, Factor};
use crate::schedule::{AxisId, LoopKind, StageId};

/// The axes of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Product {
    /// That of the rows of the first factor.
    pub(super) row: usize,
    /// That of the rows of the second factor: the columns of the result.
    pub(super) column: usize,
    /// What is reduced.
    pub(super) depth: usize,
    /// Steps of the reduction in one instruction.
    pub(super) step: u64,
}

/// The product that a reduction is, if there are instructions for it.
pub(super) fn product(b: &Builder, anchor: StageId) -> Option<Product> {
    if !b.gpu().arch.has_async_copies() {
        return None;
    }
    let compute = &b.schedule.stage(anchor).compute;
    let step = step(b, &compute.body)?;
    let (extents, accesses) = (b.extents(anchor), b.accesses(anchor));
    let [first, second] = accesses.as_slice() else { return None };
    let spatial = 0..compute.n_spatial;
    let of = |own: &crate::dag::access::Access, other: &crate::dag::access::Access, least: u64| {
        let alone = |it: &usize| own.depends_on(*it) && !other.depends_on(*it);
        spatial
            .clone()
            .filter(alone)
            .max_by_key(|it| (extents[*it], *it))
            .filter(|it| extents[*it] >= least)
    };
    let row = of(first, second, 16)?;
    let column = of(second, first, 8)?;
    let both = |it: &usize| first.depends_on(*it) && second.depends_on(*it) && extents[*it] >= step;
    let depth =
        (compute.n_spatial..compute.axes.len()).filter(both).max_by_key(|it| extents[*it])?;
    let fits = compute.reducer == Some(Reducer::Sum) && row < column;
    fits.then_some(Product { row, column, depth, step })
}

/// How many steps of a sum of products of narrow numbers one instruction does.
fn step(b: &Builder, body: &Expr) -> Option<u64> {
    let Expr::Binary(BinaryOp::Mul, one, other) = body else { return None };
    let factor = |it: &Expr| match it {
        Expr::Cast(to, inner) => match &**inner {
            Expr::Read { tensor, .. } => Some((b.schedule.tensor(*tensor).tensor.dtype, *to)),
            _ => None,
        },
        _ => None,
    };
    let (one, other) = (factor(one)?, factor(other)?);
    match one {
        _ if one != other => None,
        (DType::F16 | DType::Bf16, DType::F32) => Some(16),
        (DType::I8, DType::I32) => Some(32),
        _ => None,
    }
}

/// The decisions on one axis.
#[derive(Clone, Copy)]
struct Axis {
    warps: DecisionId,
    instructions: DecisionId,
}

pub(super) fn tensor(b: &mut Builder, root: StageId, anchor: StageId) -> Result<(), ScheduleError> {
    let name = b.stage_name(root).to_owned();
    let product = product(b, anchor).ok_or(ErrorKind::NotReduction.of_stage(anchor))?;
    let anchor = if root == anchor { b.apply(|it| it.cache_write(anchor))? } else { anchor };
    let (rows, columns) = side(b, anchor, product);
    let depth = 2 * product.step;
    let size = TileSize {
        axes: vec![
            AxisTile { axis: product.row, threads: rows, inner: 1, repeats: 1 },
            AxisTile { axis: product.column, threads: columns, inner: 1, repeats: 1 },
        ],
        step: (product.depth, depth),
    };
    let operands = copy_operands(b, anchor, &size)?;
    let group = b.new_group();
    // Two by two warps, of up to 64 x 64 each.
    let warps = |length: u64, one: u64| if length >= 4 * one { 2 } else { 1 };
    let (row_warps, column_warps) = (warps(rows, 16), warps(columns, 8));
    let rows = Axis {
        warps: power(b, format!("{name} row warps"), 4, row_warps, group),
        instructions: power(b, format!("{name} row tiles"), 8, rows / row_warps / 16, group),
    };
    let group = b.new_group();
    let columns = Axis {
        warps: power(b, format!("{name} column warps"), 8, column_warps, group),
        instructions: power(
            b,
            format!("{name} column tiles"),
            16,
            columns / column_warps / 8,
            group,
        ),
    };
    let block = split_root(b, root, anchor, product, (rows, columns))?;
    b.apply(|it| it.compute_at(anchor, root, block))?;
    let step = reduce(b, anchor, product, (rows, columns), &name)?;
    for operand in operands {
        // Copied as it lies: rows along the reduction, or rows along the other axis.
        let operand = Operand { dim: None, ..operand };
        place(b, &operand, anchor, step, &[rows.warps, columns.warps], 32)?;
    }
    b.name.push(format!("{name}: tensor"));
    Ok(())
}

/// The tile of a block: as large as leaves every multiprocessor one, where that can be.
fn side(b: &Builder, anchor: StageId, product: Product) -> (u64, u64) {
    const SIDES: [(u64, u64); 6] = [(128, 128), (64, 128), (64, 64), (32, 64), (32, 32), (16, 16)];
    let extents = b.extents(anchor);
    let n_spatial = b.schedule.stage(anchor).compute.n_spatial;
    let others = (0..n_spatial).filter(|it| ![product.row, product.column].contains(it));
    let outer: u64 = others.map(|it| extents[it]).product();
    let mut chosen = (16, 8);
    for (rows, columns) in SIDES {
        let rows = rows.min(extents[product.row].next_power_of_two()).max(16);
        let columns = columns.min(extents[product.column].next_power_of_two()).max(8);
        chosen = (rows, columns);
        let blocks =
            extents[product.row].div_ceil(rows) * extents[product.column].div_ceil(columns);
        if blocks * outer >= u64::from(b.gpu().multiprocessors) {
            break;
        }
    }
    chosen
}

/// Splits the stage that stores the result; returns its last loop over blocks.
fn split_root(
    b: &mut Builder,
    root: StageId,
    anchor: StageId,
    product: Product,
    (rows, columns): (Axis, Axis),
) -> Result<AxisId, ScheduleError> {
    let n_spatial = b.schedule.stage(anchor).compute.n_spatial as u32;
    let open = Factor::Open;
    let row = [open(rows.warps), open(rows.instructions), Factor::Fixed(2), Factor::Fixed(8)];
    let i = b.split(root, AxisId(product.row as u32), &row)?;
    let column =
        [open(columns.warps), open(columns.instructions), Factor::Fixed(4), Factor::Fixed(2)];
    let j = b.split(root, AxisId(product.column as u32), &column)?;
    let tiled = [product.row as u32, product.column as u32];
    let mut blocks: Vec<AxisId> =
        (0..n_spatial).filter(|it| !tiled.contains(it)).map(AxisId).collect();
    blocks.extend([i[0], j[0]]);
    let threads = [i[1], j[1], i[4], j[3]];
    let inner = [i[2], i[3], j[2], j[4]];
    let order: Vec<AxisId> = blocks.iter().chain(&threads).chain(&inner).copied().collect();
    b.apply(|it| it.reorder(root, &order))?;
    for axis in &blocks {
        b.annotate(root, *axis, LoopKind::Parallel)?;
    }
    for axis in threads {
        b.annotate(root, axis, LoopKind::Thread)?;
    }
    for axis in [i[2], i[3], j[2]] {
        b.annotate(root, axis, LoopKind::Unrolled)?;
    }
    b.annotate(root, j[4], LoopKind::Vectorized)?;
    Ok(j[0])
}

/// Orders the loops of the reduction; returns the one at which operands are copied.
fn reduce(
    b: &mut Builder,
    anchor: StageId,
    product: Product,
    (rows, columns): (Axis, Axis),
    name: &str,
) -> Result<AxisId, ScheduleError> {
    let compute = b.schedule.stage(anchor).compute.clone();
    let open = Factor::Open;
    let row = [open(rows.warps), open(rows.instructions), Factor::Fixed(2), Factor::Fixed(8)];
    let i = b.split(anchor, AxisId(product.row as u32), &row)?;
    let column =
        [open(columns.warps), open(columns.instructions), Factor::Fixed(4), Factor::Fixed(2)];
    let j = b.split(anchor, AxisId(product.column as u32), &column)?;
    let group = b.new_group();
    let steps = power(b, format!("{name} steps"), 4, 2, group);
    let k =
        b.split(anchor, AxisId(product.depth as u32), &[open(steps), Factor::Fixed(product.step)])?;
    let tiled = [product.row, product.column, product.depth];
    let others = |range: std::ops::Range<usize>| {
        range.filter(|it| !tiled.contains(it)).map(|it| AxisId(it as u32))
    };
    let mut order: Vec<AxisId> = others(0..compute.n_spatial).collect();
    order.extend([i[0], j[0]]);
    order.extend(others(compute.n_spatial..compute.axes.len()));
    order.push(k[0]);
    order.extend([i[1], j[1], i[4], j[3], k[1], i[2], j[2], i[3], j[4], k[2]]);
    b.apply(|it| it.reorder(anchor, &order))?;
    for axis in [i[1], j[1], i[4], j[3]] {
        b.annotate(anchor, axis, LoopKind::Thread)?;
    }
    for axis in [k[1], i[2], j[2]] {
        b.annotate(anchor, axis, LoopKind::Unrolled)?;
    }
    for axis in [i[3], j[4], k[2]] {
        b.annotate(anchor, axis, LoopKind::Tensor)?;
    }
    pipeline(b, anchor, k[0], name)?;
    Ok(k[0])
}
