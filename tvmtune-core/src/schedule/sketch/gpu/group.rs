//! The rule for products that matrix instructions of four warps can do, from shared memory.
//!
//! ```text
//! parallel i_0, j_0, raster; cluster c
//!   pipelined k_0
//!     thread t:  a_tile[i, k] = a[i_0 + i, k_0 + k]           -- by all threads, in vectors
//!     thread t:  b_tile[j, k] = b[j_0 + j, k_0 + k]
//!     thread i_1 (groups), u (warps of a group), g, q (threads of a warp)
//!       unrolled k_1: unrolled i_2:                           -- instructions
//!         tensor j_1, j_2, h, p, k_2:  acc[i, j] += a_tile[i, k] * b_tile[j, k]
//!   thread i_1, u, g, q
//!     unrolled i_2, h, j_1, j_2: vectorized p:  c[i, j] = f(acc[i, j])
//! ```
//!
//! Rows are `64 * i_2 + 16 * u + 8 * h + g`, columns `64 * j_1 + 8 * j_2 + 2 * q + p`: what
//! `grid::group` looks for. Or a feeder copies: `fed k_0`, and copies are plain loops. A tile whose rows lie side by side in memory is kept in panels of 64.

use super::power;
use super::tensor::{Product, product};
use super::tile::{Operand, copy_operands, pipeline, place};
use super::tile_size::{AxisTile, TileSize};
use crate::dag::access::Access;
use crate::schedule::error::{ErrorKind, ScheduleError};
use crate::schedule::sketch::builder::Builder;
use crate::schedule::sketch::{DecisionId, DecisionKind, Factor};
use crate::schedule::{AxisId, Instruction, Layout, LoopKind, StageId};

/// Rows of an instruction, and columns of a panel.
const ROWS: u64 = 64;
/// Bytes of the rows that instructions read.
const ROW_BYTES: u64 = 128;

/// How the rows and columns of a block are divided.
struct Tiles {
    /// Groups of four warps, one below the other.
    groups: DecisionId,
    /// Instructions of each, one below the other.
    rows: DecisionId,
    /// Panels of columns in an instruction.
    panels: DecisionId,
    /// Columns of a panel, in eights.
    eights: u64,
    /// Blocks of rows that follow one another before the next columns, and those of a cluster.
    raster: [DecisionId; 2],
}

/// The product that a reduction is, if warps can do it by fours.
pub(super) fn suits(b: &Builder, anchor: StageId) -> bool {
    b.gpu().arch.has_wgmma()
        && product(b, anchor).is_some_and(|it| b.extents(anchor)[it.row] > ROWS / 2)
}

/// The rule with copies by all threads, or by a feeder.
pub(super) fn group(
    b: &mut Builder,
    root: StageId,
    anchor: StageId,
    is_fed: bool,
) -> Result<(), ScheduleError> {
    let name = b.stage_name(root).to_owned();
    let product = product(b, anchor).ok_or(ErrorKind::NotReduction.of_stage(anchor))?;
    let anchor = if root == anchor { b.apply(|it| it.cache_write(anchor))? } else { anchor };
    let [groups, rows, panels] = side(b, anchor, product);
    let extents = b.extents(anchor);
    let eights = (extents[product.column].next_power_of_two() / 8).clamp(1, 8);
    let depth = ROW_BYTES * product.step / 32;
    let tile = |axis, threads| AxisTile { axis, threads, inner: 1, repeats: 1 };
    let size = TileSize {
        axes: vec![
            tile(product.row, groups * rows * ROWS),
            tile(product.column, panels * eights * 8),
        ],
        step: (product.depth, depth),
    };
    let operands = copy_operands(b, anchor, &size)?;
    let group = b.new_group();
    let tiles = Tiles {
        groups: power(b, format!("{name} groups"), 4, groups, group),
        rows: power(b, format!("{name} rows"), 2, rows, group),
        panels: {
            let group = b.new_group();
            let options: &[u64] = if eights == 8 { &[1, 2, 3, 4] } else { &[1] };
            b.decide(format!("{name} panels"), DecisionKind::Inner, options, panels, group)
        },
        eights,
        raster: raster(b, &name, extents[product.row], groups * rows * ROWS, is_fed),
    };
    let block = split_root(b, root, anchor, product, &tiles)?;
    b.apply(|it| it.compute_at(anchor, root, block))?;
    let step = reduce(b, anchor, product, &tiles, depth)?;
    if is_fed {
        let bytes = ROW_BYTES * size.axes.iter().map(|it| it.length()).sum::<u64>();
        feed(b, anchor, step, &name, bytes)?;
    } else {
        pipeline(b, anchor, step, &name)?;
    }
    for operand in operands {
        let tensor = b.schedule.stage(operand.stage).tensor();
        let is_first = |it: &Access| it.tensor == tensor && it.depends_on(product.row);
        let is_first = b.accesses(anchor).iter().any(is_first);
        let width = if is_first { ROWS } else { 8 * eights };
        let is_panels = in_panels(b, &operand, width)?;
        let operand = Operand { dim: None, ..operand };
        if is_fed {
            let stage = operand.stage;
            b.apply(|it| it.compute_at(stage, anchor, step))?;
            if is_panels {
                let last = b.schedule.stage(stage).order.last().copied();
                let last = last.ok_or(ErrorKind::NotReduction.of_stage(stage))?;
                b.split(stage, last, &[Factor::Fixed(width)])?;
            }
        } else {
            place(b, &operand, anchor, step, &[tiles.groups], 128)?;
        }
    }
    b.name.push(format!("{name}: {}", if is_fed { "fed group" } else { "group" }));
    Ok(())
}

/// Opens how many steps of the reduction, of so many bytes each, the feeder is ahead.
fn feed(
    b: &mut Builder,
    anchor: StageId,
    axis: AxisId,
    name: &str,
    bytes: u64,
) -> Result<(), ScheduleError> {
    const DEPTHS: std::ops::RangeInclusive<u64> = 2..=8;
    /// For barriers, and where rings start.
    const RESERVE: u64 = 2048;
    let room = u64::from(b.gpu().arch.limits().block_shared_bytes) - RESERVE;
    let group = b.new_group();
    let options: Vec<u64> = DEPTHS.collect();
    let best = (room / bytes.max(1)).clamp(*DEPTHS.start(), *DEPTHS.end());
    let decision = b.decide(format!("{name} slots"), DecisionKind::Outer, &options, best, group);
    let fed = |depth: &u64| {
        let kind = LoopKind::Fed(*depth as u8);
        vec![Instruction::Annotate { stage: anchor, axis, kind }]
    };
    b.one_of(decision, options.iter().map(fed).collect())
}

/// Keeps a copy whose last dimension is not the reduction's in panels of that width; whether it is
/// one.
fn in_panels(b: &mut Builder, operand: &Operand, width: u64) -> Result<bool, ScheduleError> {
    let tensor = b.schedule.stage(operand.stage).tensor();
    let n_dims = b.schedule.tensor(tensor).tensor.shape.len();
    let Some(last) = n_dims.checked_sub(1).filter(|it| operand.dim == Some(*it)) else {
        return Ok(false);
    };
    let mut order: Vec<usize> = (0..=n_dims).collect();
    order[..=last].rotate_right(1);
    let layout = Layout { splits: vec![(last, width)], order };
    b.apply(|it| it.pack(tensor, layout))?;
    Ok(true)
}

/// Groups, rows and panels of a block: as many as leave every multiprocessor a block.
fn side(b: &Builder, anchor: StageId, product: Product) -> [u64; 3] {
    const SIDES: [[u64; 3]; 5] = [[2, 1, 4], [2, 1, 2], [1, 1, 4], [1, 1, 2], [1, 1, 1]];
    let extents = b.extents(anchor);
    let n_spatial = b.schedule.stage(anchor).compute.n_spatial;
    let others = (0..n_spatial).filter(|it| ![product.row, product.column].contains(it));
    let outer: u64 = others.map(|it| extents[it]).product();
    let [rows, columns] = [extents[product.row], extents[product.column]];
    let fills = |[groups, times, panels]: &[u64; 3]| {
        let blocks = rows.div_ceil(groups * times * ROWS) * columns.div_ceil(panels * ROWS);
        let wide = *panels == 1 || panels * ROWS < 2 * columns;
        wide && blocks * outer >= u64::from(b.gpu().multiprocessors)
    };
    SIDES.into_iter().find(fills).unwrap_or([1, 1, 1])
}

/// Opens in which order blocks run: so many blocks of rows before the next columns, and of these so
/// many at the same time.
fn raster(b: &mut Builder, name: &str, rows: u64, tile: u64, is_fed: bool) -> [DecisionId; 2] {
    let blocks = rows.div_ceil(tile);
    let cluster = if is_fed && blocks.is_multiple_of(2) { 2 } else { 1 };
    // Rows that blocks stick out by are computed for nothing.
    let least = |it: &u64| (blocks / cluster).is_multiple_of(*it);
    let order = [8, 4, 2].into_iter().find(least).unwrap_or(1);
    let group = b.new_group();
    let order = power(b, format!("{name} raster"), 16, order, group);
    let group = b.new_group();
    let most = if is_fed { 4 } else { 1 };
    [order, power(b, format!("{name} cluster"), most, cluster, group)]
}

/// The factors of the axes of rows and columns, outermost first.
fn factors(tiles: &Tiles) -> ([Factor; 5], [Factor; 4]) {
    let (open, fixed) = (Factor::Open, Factor::Fixed);
    (
        [open(tiles.groups), open(tiles.rows), fixed(4), fixed(2), fixed(8)],
        [open(tiles.panels), fixed(tiles.eights), fixed(4), fixed(2)],
    )
}

/// Splits the stage that stores the result; returns its last loop over blocks.
fn split_root(
    b: &mut Builder,
    root: StageId,
    anchor: StageId,
    product: Product,
    tiles: &Tiles,
) -> Result<AxisId, ScheduleError> {
    let n_spatial = b.schedule.stage(anchor).compute.n_spatial as u32;
    let (rows, columns) = factors(tiles);
    let raster = tiles.raster.map(Factor::Open);
    let rows: Vec<Factor> = raster.into_iter().chain(rows).collect();
    let i = b.split(root, AxisId(product.row as u32), &rows)?;
    let j = b.split(root, AxisId(product.column as u32), &columns)?;
    // Blocks, their order and clusters; then as in the reduction.
    let (order, cluster, i) = (i[1], i[2], [&i[..1], &i[3..]].concat());
    let tiled = [product.row as u32, product.column as u32];
    let mut blocks: Vec<AxisId> =
        (0..n_spatial).filter(|it| !tiled.contains(it)).map(AxisId).collect();
    blocks.extend([i[0], j[0], order, cluster]);
    let threads = [i[1], i[3], i[5], j[3]];
    let inner = [i[2], i[4], j[1], j[2], j[4]];
    let order: Vec<AxisId> = blocks.iter().chain(&threads).chain(&inner).copied().collect();
    b.apply(|it| it.reorder(root, &order))?;
    for axis in &blocks {
        let kind = if *axis == cluster { LoopKind::Cluster } else { LoopKind::Parallel };
        b.annotate(root, *axis, kind)?;
    }
    for axis in threads {
        b.annotate(root, axis, LoopKind::Thread)?;
    }
    for axis in [i[2], i[4], j[1], j[2]] {
        b.annotate(root, axis, LoopKind::Unrolled)?;
    }
    b.annotate(root, j[4], LoopKind::Vectorized)?;
    Ok(cluster)
}

/// Orders the loops of the reduction; returns the one at which operands are copied.
fn reduce(
    b: &mut Builder,
    anchor: StageId,
    product: Product,
    tiles: &Tiles,
    depth: u64,
) -> Result<AxisId, ScheduleError> {
    let compute = b.schedule.stage(anchor).compute.clone();
    let (rows, columns) = factors(tiles);
    let i = b.split(anchor, AxisId(product.row as u32), &rows)?;
    let j = b.split(anchor, AxisId(product.column as u32), &columns)?;
    let steps = [Factor::Fixed(depth / product.step), Factor::Fixed(product.step)];
    let k = b.split(anchor, AxisId(product.depth as u32), &steps)?;
    let tiled = [product.row, product.column, product.depth];
    let others = |range: std::ops::Range<usize>| {
        range.filter(|it| !tiled.contains(it)).map(|it| AxisId(it as u32))
    };
    let mut order: Vec<AxisId> = others(0..compute.n_spatial).collect();
    order.extend([i[0], j[0]]);
    order.extend(others(compute.n_spatial..compute.axes.len()));
    order.push(k[0]);
    order.extend([i[1], i[3], i[5], j[3], k[1], i[2], j[1], j[2], i[4], j[4], k[2]]);
    b.apply(|it| it.reorder(anchor, &order))?;
    for axis in [i[1], i[3], i[5], j[3]] {
        b.annotate(anchor, axis, LoopKind::Thread)?;
    }
    for axis in [k[1], i[2]] {
        b.annotate(anchor, axis, LoopKind::Unrolled)?;
    }
    for axis in [j[1], j[2], i[4], j[4], k[2]] {
        b.annotate(anchor, axis, LoopKind::Tensor)?;
    }
    Ok(k[0])
}
