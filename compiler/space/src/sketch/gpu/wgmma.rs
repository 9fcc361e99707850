//! The GPU template for products by WGMMA instructions: warpgroups read operands from shared memory.
//!
//! ```text
//! persistent i_0; parallel j_0, order; cluster c
//!   warp-specialized k_0
//!     a_tile[i, k] = a[i_0 + i, k_0 + k]                      -- by the producer warp (TMA)
//!     b_tile[j, k] = b[j_0 + j, k_0 + k]
//!     thread i_1 (warpgroups), u (warps), g, q (threads of a warp)
//!       unrolled k_1: unrolled i_2:                           -- instructions
//!         tensor j_1, j_2, h, p, k_2:  acc[i, j] += a_tile[i, k] * b_tile[j, k]
//!   thread i_1, u, g, q
//!     unrolled i_2, h, j_1, j_2: vectorized p:  c[i, j] = f(acc[i, j])
//! ```
//!
//! Rows are `64 * i_2 + 16 * u + 8 * h + g`, columns `64 * j_1 + 8 * j_2 + 2 * q + p`: the fragment layout
//! of WGMMA. A tile that is contiguous along its rows is kept in panels of 64. In convolutions, `im2col`
//! distributes `u`, `h` and `g` over several axes. Variants: all threads copy, `pipelined k_0` and
//! `thread t` inside of the copies; each thread block has one tile, `parallel i_0`; thread blocks
//! share the last tiles, `stream-k i_0`.
//!
//! # Source
//!
//! CUTLASS's warp-specialized persistent kernels for Hopper; Stream-K (Osama et al., 2023).

use std::ops::RangeInclusive;

use super::im2col::{self, MmaRows, PANEL, Side, rows_of, wgmma_product};
use super::mma::{Product, TF32_STEP};
use super::operand::{self, Location, Operand, ProductTile};
use super::tile::{max_stages, pipeline};
use super::transpose::transpose;
use crate::sketch::{
    Builder, DecisionId, DecisionKind, Factor, Result, Template, TemplateKind, Tiled,
};
use tvmtune_ir::dag::access::Access;
use tvmtune_ir::size::Size;
use tvmtune_schedule::error::ErrorKind;
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// Bytes of the rows that instructions read: those of the widest swizzle.
const ROW_BYTES: u64 = 128;
/// Bytes of a row that one step of the reduction reads.
const STEP_BYTES: u64 = 32;
/// Columns that an instruction counts in.
const COLUMN_UNIT: u64 = 8;
/// Rows of an instruction.
pub(super) const WARPGROUP_ROWS: u64 = im2col::ROWS;
/// Threads of a warpgroup.
pub(super) const WARPGROUP_THREADS: u64 = 128;
/// Bytes of shared memory for barriers, and to align circular buffers.
pub(super) const RESERVED_BYTES: u64 = 2048;

/// The threads that copy operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copies {
    /// A producer warp, by TMA.
    ByProducerWarp,
    /// All threads, by asynchronous copies.
    ByAllThreads,
}

/// The template with copies by a producer warp.
pub(super) const WARP_SPECIALIZED: Template<Tiled> = Template {
    is_applicable: |b, group| is_applicable(b, group.anchor, Copies::ByProducerWarp),
    schedule: |b, group| schedule(b, *group, Copies::ByProducerWarp),
};

/// The template with copies by all threads.
pub(super) const COOPERATIVE: Template<Tiled> = Template {
    is_applicable: |b, group| is_applicable(b, group.anchor, Copies::ByAllThreads),
    schedule: |b, group| schedule(b, *group, Copies::ByAllThreads),
};

/// The tile of a thread block.
struct Tile {
    /// The axes of the rows.
    rows: MmaRows,
    /// Warpgroups along the rows.
    warpgroups: DecisionId,
    /// Instructions of each along the rows.
    instructions: DecisionId,
    /// Panels of columns in an instruction.
    panels: DecisionId,
    /// Columns of a panel, in units of [`COLUMN_UNIT`].
    column_units: u64,
    /// Steps of the reduction, an instruction each.
    steps: u64,
    /// The tile order along the rows.
    order: TileOrder,
}

/// The order of tiles along the rows.
struct TileOrder {
    /// Tiles of rows before the next columns.
    swizzle: DecisionId,
    /// Tiles of a thread block cluster.
    cluster: DecisionId,
}

fn is_applicable(b: &Builder, anchor: StageId, copies: Copies) -> bool {
    let fits = |it: &Product| {
        let is_tf32 = it.step == TF32_STEP;
        let by_producer = copies == Copies::ByProducerWarp;
        b.gpu().arch.has_wgmma() && (!is_tf32 || (by_producer && is_k_major(b, anchor, *it)))
    };
    let Some(product) = wgmma_product(b, anchor).filter(fits) else {
        return false;
    };
    let (rows, extents) = (rows_of(b, anchor, product, 1), b.extents(anchor));
    let (spatial, reduce) = extents.split_at(b.n_spatial(anchor));
    // A single unit of columns makes no loop, and a single step does not pay for a circular buffer.
    let is_long = reduce.iter().size() > 2 * product.step;
    let pays = !rows.is_im2col || (spatial[product.column] > COLUMN_UNIT && is_long);
    pays && rows.fill(&extents)
}

/// Returns whether both operands are contiguous along the reduction, or can be transposed. Operands of
/// TF32 must be, and the producer warp rounds them.
fn is_k_major(b: &Builder, anchor: StageId, product: Product) -> bool {
    /// Rows, or columns, that are worth the transpose of the other operand.
    const MIN_REUSE: u64 = 512;
    let extents = b.extents(anchor);
    let is_reused = |it: &Access| {
        let sides = [product.row, product.column];
        sides.iter().any(|side| !it.depends_on(*side) && extents[*side] >= MIN_REUSE)
    };
    let accesses = b.accesses(anchor);
    let is_operand_k_major = |it: &Access| {
        let is_transposed = transposed_dims(it, product.depth).is_some() && is_reused(it);
        it.is_contiguous(product.depth) || b.is_packable(it.tensor) || is_transposed
    };
    accesses.iter().all(is_operand_k_major)
}

/// Returns the dimension along the reduction and the contiguous one, if these are two.
fn transposed_dims(access: &Access, depth: usize) -> Option<[usize; 2]> {
    let along = |steps: &Option<Vec<i64>>| steps.as_ref().is_some_and(|it| it[depth] == 1);
    let dim = access.steps.iter().position(along)?;
    let last = access.steps.len() - 1;
    (dim != last && !access.conditional).then_some([dim, last])
}

/// Transposes the operands of TF32 that are not contiguous along the reduction, by kernels of their own:
/// instructions transpose 16-bit numbers only.
fn transpose_operands(b: &mut Builder, anchor: StageId, product: Product) -> Result<()> {
    for access in b.accesses(anchor) {
        let dims = transposed_dims(&access, product.depth);
        let Some([dim, last]) = dims.filter(|_| !b.is_packable(access.tensor)) else { continue };
        let stage = b.apply(|it| it.cache_read(access.tensor, anchor))?;
        let order = (0..=last).filter(|it| *it != dim).chain([dim]).collect();
        b.permute(b.tensor_of(stage), order)?;
        transpose(b, stage, last, dim)?;
    }
    Ok(())
}

/// Returns the bytes of the rows that instructions read: those of a swizzle, no more than pixels have.
fn row_bytes(b: &Builder, anchor: StageId, product: Product, rows: &MmaRows) -> u64 {
    let steps = b.extents(anchor)[product.depth].div_ceil(product.step);
    match steps {
        1 if rows.is_im2col => ROW_BYTES / 4,
        2 | 3 if rows.is_im2col => ROW_BYTES / 2,
        _ => ROW_BYTES,
    }
}

fn schedule(b: &mut Builder, group: Tiled, copies: Copies) -> Result<()> {
    let Tiled { root, anchor } = group;
    let name = b.stage_name(root).to_owned();
    let product = wgmma_product(b, anchor).ok_or(ErrorKind::NotReduction.of_stage(anchor))?;
    let anchor = if root == anchor { b.apply(|it| it.cache_write(anchor))? } else { anchor };
    if product.step == TF32_STEP {
        transpose_operands(b, anchor, product)?;
    }
    let (side, rows) = side(b, anchor, product);
    let row_bytes = row_bytes(b, anchor, product, &rows);
    let columns = b.extents(anchor)[product.column].next_power_of_two();
    let column_units = (columns / COLUMN_UNIT).clamp(1, PANEL / COLUMN_UNIT);
    let n_columns = side.panels * column_units * COLUMN_UNIT;
    let tiled = |axis: usize| match axis {
        it if it == product.depth => Some(row_bytes * product.step / STEP_BYTES),
        it if it == product.column => Some(n_columns),
        it => rows.tiled(it, side.instructions()),
    };
    let operands = operand::copy(b, anchor, &ProductTile { depth: product.depth, tiled: &tiled })?;
    let n_rows = side.instructions() * WARPGROUP_ROWS;
    let steps = row_bytes / STEP_BYTES;
    let tile = decide(b, root, (side, rows), column_units, steps, copies);
    let block = split_root(b, root, product, &tile)?;
    b.apply(|it| it.compute_at(anchor, root, block))?;
    let step = schedule_reduction(b, anchor, product, &tile)?;
    match copies {
        Copies::ByProducerWarp => {
            let stage_bytes = row_bytes * (n_rows + n_columns);
            let bytes = specialize_warps(b, anchor, step, &name, stage_bytes)?;
            persist(b, root, bytes, b.extent(anchor, step))?;
        }
        Copies::ByAllThreads => {
            let stages = max_stages(b);
            pipeline(b, anchor, step, stages, &name)?;
        }
    }
    for operand in operands {
        let width = panel(b, &operand, anchor, product, column_units);
        operand::place(b, &operand, anchor, step, width)?;
        if copies == Copies::ByAllThreads {
            operand::copy_by_all_threads(b, &operand, WARPGROUP_THREADS, &[tile.warpgroups])?;
        }
    }
    b.note_template(
        match copies {
            Copies::ByProducerWarp => TemplateKind::WgmmaWarpSpecialized,
            Copies::ByAllThreads => TemplateKind::Wgmma,
        },
        root,
    );
    Ok(())
}

/// Opens the size of the tile of a thread block.
fn decide(
    b: &mut Builder,
    root: StageId,
    (side, rows): (Side, MmaRows),
    column_units: u64,
    steps: u64,
    copies: Copies,
) -> Tile {
    let name = b.stage_name(root).to_owned();
    let options: &[u64] = if column_units * COLUMN_UNIT == PANEL { &[1, 2, 3, 4] } else { &[1] };
    let warpgroups = b.decide_power(format!("{name} groups"), 4, side.warpgroups);
    let instructions =
        b.decide_power_in(b.group_of(warpgroups), format!("{name} rows"), 2, side.each);
    let kind = DecisionKind::Inner;
    let panels = b.decide(format!("{name} panels"), kind, options, side.panels);
    let order = order(b, root, rows.tall, rows.high(side.instructions()), copies);
    Tile { rows, warpgroups, instructions, panels, column_units, steps, order }
}

/// Returns the width of the panels of a copy, if it is contiguous along its rows.
fn panel(
    b: &Builder,
    operand: &Operand,
    anchor: StageId,
    product: Product,
    column_units: u64,
) -> Option<u64> {
    if operand.axis == product.depth {
        return None;
    }
    let tensor = b.tensor_of(operand.stage);
    let has_rows = |it: &Access| it.tensor == tensor && it.depends_on(product.row);
    Some(if b.accesses(anchor).iter().any(has_rows) { PANEL } else { COLUMN_UNIT * column_units })
}

/// Opens the number of pipeline stages between the producer warp and the consumers, of so many bytes
/// each; returns the bytes of a thread block.
fn specialize_warps(
    b: &mut Builder,
    anchor: StageId,
    axis: AxisId,
    name: &str,
    bytes: u64,
) -> Result<u64> {
    const STAGES: RangeInclusive<u64> = 2..=8;
    let room = u64::from(b.gpu().arch.limits().block_shared_bytes) - RESERVED_BYTES;
    let best = (room / bytes.max(1)).clamp(*STAGES.start(), *STAGES.end());
    decide_slots(b, Location { stage: anchor, axis }, STAGES, best, name)?;
    Ok(best * bytes + RESERVED_BYTES)
}

/// Opens the number of pipeline stages of a warp-specialized loop.
pub(super) fn decide_slots(
    b: &mut Builder,
    at: Location,
    stages: RangeInclusive<u64>,
    best: u64,
    name: &str,
) -> Result<()> {
    let options: Vec<u64> = stages.collect();
    let options = (DecisionKind::Outer, &options[..]);
    let kind = |stages| Some(LoopKind::WarpSpecialized(stages as u8));
    b.decide_loop_kind(format!("{name} slots"), options, best, (at.stage, at.axis), kind)
}

/// Opens the tile scheduler: a tile for each thread block, a persistent tile loop, or stream-K. A thread
/// block takes so many bytes of shared memory, and a tile so many steps.
fn persist(b: &mut Builder, root: StageId, bytes: u64, steps: u64) -> Result<()> {
    /// Thread blocks for each multiprocessor; 0 for one a tile, from [`STREAM_K`] on for stream-K.
    const BLOCKS: [u64; 5] = [0, 1, 2, STREAM_K + 1, STREAM_K + 2];
    const STREAM_K: u64 = 100;
    /// Steps that take longer than the fix-up of their partial sums.
    const MIN_STEPS: u64 = 32;
    let name = b.stage_name(root).to_owned();
    let stage = b.schedule.stage(root);
    let is_block = |it: &&AxisId| stage.axis(**it).kind.is_parallel();
    let blocks: Vec<AxisId> = stage.order.iter().take_while(is_block).copied().collect();
    let tiles: u64 = blocks.iter().map(|it| b.extent(root, *it)).size();
    let multiprocessors = u64::from(b.gpu().multiprocessors);
    // Epilogues of several resident thread blocks overlap with other tiles anyway.
    let is_alone = 2 * bytes > u64::from(b.gpu().arch.limits().shared_bytes);
    // The last wave may have few tiles, for which most multiprocessors would wait.
    let waves = tiles.div_ceil(multiprocessors);
    let is_uneven = 3 * waves * multiprocessors > 4 * tiles;
    let best = match is_alone && tiles > multiprocessors {
        true if steps >= MIN_STEPS && is_uneven => STREAM_K + 1,
        is_persistent => u64::from(is_persistent),
    };
    let axis = blocks.first().copied().ok_or(ErrorKind::NotOutermost.of_stage(root))?;
    let kind = |option: u64| match u16::try_from(option % STREAM_K * multiprocessors) {
        Ok(0) | Err(_) => None,
        Ok(max_blocks) if option < STREAM_K => Some(LoopKind::Persistent(max_blocks)),
        Ok(max_blocks) => Some(LoopKind::StreamK(max_blocks)),
    };
    let options = (DecisionKind::Choice, &BLOCKS[..]);
    b.decide_loop_kind(format!("{name} persistent"), options, best, (root, axis), kind)
}

/// Chooses the largest tile that leaves each multiprocessor one, and the axes of its rows.
fn side(b: &Builder, anchor: StageId, product: Product) -> (Side, MmaRows) {
    const SIDES: [Side; 5] =
        [Side::new(2, 4), Side::new(2, 2), Side::new(1, 4), Side::new(1, 2), Side::new(1, 1)];
    if let Some(side) = im2col::side(b, anchor, product) {
        return side;
    }
    let extents = b.extents(anchor);
    let n_spatial = b.n_spatial(anchor);
    let columns = extents[product.column];
    let fills = |side: Side, rows: &MmaRows| {
        let Side { warpgroups, panels, .. } = side;
        let is_tiled = |it: usize| it == product.column || rows.tiled(it, 1).is_some();
        let outer: u64 = (0..n_spatial).filter(|it| !is_tiled(*it)).map(|it| extents[it]).size();
        let n_columns = columns.div_ceil(panels * PANEL);
        let blocks = rows.n_tiles(&extents, side.instructions()) * n_columns;
        let wide = panels == 1 || panels * PANEL < 2 * columns;
        let high = warpgroups == 1 || rows.high(warpgroups) < 2 * extents[rows.tall];
        wide && high && blocks * outer >= u64::from(b.gpu().multiprocessors)
    };
    let with_rows = |side: Side| (side, rows_of(b, anchor, product, side.instructions()));
    let mut sides = SIDES.into_iter().map(with_rows);
    sides.find(|(side, rows)| fills(*side, rows)).unwrap_or_else(|| with_rows(Side::new(1, 1)))
}

/// Opens the order of tiles along the rows.
fn order(b: &mut Builder, root: StageId, tall: usize, tile: u64, copies: Copies) -> TileOrder {
    let name = b.stage_name(root).to_owned();
    let by_producer = copies == Copies::ByProducerWarp;
    // Only where the factors divide the number of tiles for certain: padding is work for nothing.
    let extent = b.compute(root).axes[tall].extent.as_constant();
    let blocks = extent.map_or(1, |it| (it as u64).div_ceil(tile));
    let cluster = if by_producer && blocks.is_multiple_of(2) { 2 } else { 1 };
    let divides = |it: &u64| (blocks / cluster).is_multiple_of(*it);
    let swizzle = [8, 4, 2].into_iter().find(divides).unwrap_or(1);
    let swizzle = b.decide_power(format!("{name} order"), 16, swizzle);
    let max_cluster = if by_producer { 4 } else { 1 };
    let cluster = b.decide_power(format!("{name} cluster"), max_cluster, cluster);
    TileOrder { swizzle, cluster }
}

/// The loops of a tile.
struct Loops {
    /// Over thread blocks; in the stage that stores the result the last one is over a cluster.
    blocks: Vec<AxisId>,
    /// Over warpgroups, warps, and threads of warps.
    threads: Vec<AxisId>,
    /// Over instructions along the rows.
    rows: AxisId,
    /// Over halves of the rows of a warp, panels, units of columns, and pairs.
    inside: [AxisId; 4],
}

fn split(
    b: &mut Builder,
    stage: StageId,
    product: Product,
    tile: &Tile,
    order: &[Factor],
) -> Result<Loops> {
    let (open, fixed) = (Factor::Open, Factor::Fixed);
    let below = [tile.warpgroups, tile.instructions].map(open);
    let rows = tile.rows.split(b, stage, order, below)?;
    let columns = [open(tile.panels), fixed(tile.column_units), fixed(4), fixed(2)];
    let columns = b.split(stage, AxisId(product.column as u32), &columns)?;
    let [warpgroups, below] = rows.below;
    let blocks = [rows.beside, vec![rows.first, columns[0]], rows.ordered].concat();
    let threads = [vec![warpgroups], rows.warps, rows.lines, vec![columns[3]]].concat();
    let inside = [rows.halves, columns[1], columns[2], columns[4]];
    Ok(Loops { blocks, threads, rows: below, inside })
}

/// Splits the stage that stores the result; returns its last loop over blocks.
fn split_root(b: &mut Builder, root: StageId, product: Product, tile: &Tile) -> Result<AxisId> {
    let before = b.schedule.stage(root).order.clone();
    let order = [tile.order.swizzle, tile.order.cluster].map(Factor::Open);
    let Loops { blocks, threads, rows, inside } = split(b, root, product, tile, &order)?;
    let [halves, panels, units, pairs] = inside;
    let others = before.into_iter().filter(|it| b.schedule.stage(root).order.contains(it));
    let blocks: Vec<AxisId> = others.chain(blocks).collect();
    let unrolled = [rows, halves, panels, units];
    b.reorder(root, [&blocks[..], &threads, &unrolled, &[pairs]].concat())?;
    let cluster = blocks.last().copied().ok_or(ErrorKind::NotOutermost.of_stage(root))?;
    for axis in &blocks {
        let kind = if *axis == cluster { LoopKind::Cluster } else { LoopKind::Parallel };
        b.annotate(root, *axis, kind)?;
    }
    b.annotate_all(root, threads, LoopKind::Thread)?;
    b.annotate_all(root, unrolled, LoopKind::Unrolled)?;
    b.annotate(root, pairs, LoopKind::Vectorized)?;
    Ok(cluster)
}

/// Orders the loops of the reduction; returns the one at which operands are copied.
fn schedule_reduction(
    b: &mut Builder,
    anchor: StageId,
    product: Product,
    tile: &Tile,
) -> Result<AxisId> {
    let n_spatial = b.n_spatial(anchor);
    let before = b.schedule.stage(anchor).order.clone();
    let Loops { blocks, threads, rows, inside } = split(b, anchor, product, tile, &[])?;
    let [halves, panels, units, pairs] = inside;
    let steps = [Factor::Fixed(tile.steps), Factor::Fixed(product.step)];
    let k = b.split(anchor, AxisId(product.depth as u32), &steps)?;
    let live = &b.schedule.stage(anchor).order;
    let untouched: Vec<AxisId> = before.into_iter().filter(|it| live.contains(it)).collect();
    let is_spatial = |it: &AxisId| (it.0 as usize) < n_spatial;
    let (others, windows): (Vec<AxisId>, Vec<AxisId>) = untouched.into_iter().partition(is_spatial);
    let outer = [&others[..], &blocks, &windows, &[k[0]]].concat();
    let tile = [&threads[..], &[k[1], rows, panels, units, halves, pairs, k[2]]].concat();
    b.reorder(anchor, outer.iter().chain(&tile))?;
    b.annotate_all(anchor, threads, LoopKind::Thread)?;
    b.annotate_all(anchor, [k[1], rows], LoopKind::Unrolled)?;
    b.annotate_all(anchor, [panels, units, halves, pairs, k[2]], LoopKind::Tensorized)?;
    // One loop over all steps, so that the pipeline runs across windows.
    b.fuse(anchor, windows, k[0])
}
