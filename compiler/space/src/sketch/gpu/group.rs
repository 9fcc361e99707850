//! The rule for products that matrix instructions of four warps can do, from shared memory.
//!
//! ```text
//! persistent i_0; parallel j_0, order; cluster c
//!   fed k_0
//!     a_tile[i, k] = a[i_0 + i, k_0 + k]                      -- by the feeder, box by box
//!     b_tile[j, k] = b[j_0 + j, k_0 + k]
//!     thread i_1 (groups), u (warps of a group), g, q (threads of a warp)
//!       unrolled k_1: unrolled i_2:                           -- instructions
//!         tensor j_1, j_2, h, p, k_2:  acc[i, j] += a_tile[i, k] * b_tile[j, k]
//!   thread i_1, u, g, q
//!     unrolled i_2, h, j_1, j_2: vectorized p:  c[i, j] = f(acc[i, j])
//! ```
//!
//! Rows are `64 * i_2 + 16 * u + 8 * h + g`, columns `64 * j_1 + 8 * j_2 + 2 * q + p`: what
//! `grid::group` looks for. A tile whose rows lie side by side in memory is kept in panels of 64. Of
//! pictures, `pixels` says which pixels are rows of an instruction: `u`, `h` and `g` are then digits
//! of several axes. Or all threads copy: `pipelined k_0`, and `thread t` inside of the copies; or
//! each block has one tile, `parallel i_0`, or blocks divide the last tiles, `streamed i_0`.

use super::across::across;
use super::operand::{self, Factors, Operand};
use super::pixels::{self, PANEL, ROWS, Rows, product_of_group, rows_of};
use super::power;
use super::tensor::{Product, TF32_STEP};
use super::tile::{most_stages, pipeline};
use crate::sketch::builder::Builder;
use crate::sketch::{DecisionId, DecisionKind, Factor};
use tvmtune_ir::dag::access::Access;
use tvmtune_schedule::error::{ErrorKind, ScheduleError};
use tvmtune_schedule::{AxisId, Instruction, Layout, LoopKind, StageId};

/// Bytes of the rows that instructions read.
const ROW_BYTES: u64 = 128;
/// Threads of a group.
const THREADS: u64 = 128;
/// Bytes of shared memory for barriers, and where rings start.
const RESERVE: u64 = 2048;

/// How the rows and columns of a block are divided.
struct Tiles {
    /// The axes of the rows.
    of_rows: Rows,
    /// Groups of four warps, one below the other.
    groups: DecisionId,
    /// Instructions of each, one below the other.
    rows: DecisionId,
    /// Panels of columns in an instruction.
    panels: DecisionId,
    /// Columns of a panel, in eights.
    eights: u64,
    /// Steps of the reduction in instructions, one after the other.
    steps: u64,
    /// Blocks of rows that follow one another before the next columns, and those of a cluster.
    order: [DecisionId; 2],
}

/// Whether warps can do a reduction by fours, with copies by a feeder or by all threads.
pub(super) fn suits(b: &Builder, anchor: StageId, is_fed: bool) -> bool {
    let fits = |it: &Product| {
        let is_tf32 = it.step == TF32_STEP;
        b.gpu().arch.has_wgmma() && (!is_tf32 || (is_fed && lie_along(b, anchor, *it)))
    };
    let Some(product) = product_of_group(b, anchor).filter(fits) else {
        return false;
    };
    let (rows, extents) = (rows_of(b, anchor, product, 1), b.extents(anchor));
    let (spatial, reduce) = extents.split_at(b.schedule.stage(anchor).compute.n_spatial);
    // Of one eight of columns there is no loop, and a ring fills for one step in vain.
    let is_long = reduce.iter().product::<u64>() > 2 * product.step;
    let pays = !rows.are_pixels || (spatial[product.column] > 8 && is_long);
    pays && rows.fill(&extents)
}

/// Whether both factors lie along the reduction, or can be made to. Factors of TF32 must, and a feeder
/// that rounds them must bring them.
fn lie_along(b: &Builder, anchor: StageId, product: Product) -> bool {
    /// With fewer rows, or columns, turning the other factor takes longer than it saves.
    const PAYS: u64 = 512;
    let extents = b.extents(anchor);
    let often = |it: &Access| {
        let sides = [product.row, product.column];
        sides.iter().any(|side| !it.depends_on(*side) && extents[*side] >= PAYS)
    };
    let accesses = b.accesses(anchor);
    let lies = |it: &Access| {
        let is_turned = across_reduction(it, product.depth).is_some() && often(it);
        it.is_contiguous(product.depth) || b.is_packable(it.tensor) || is_turned
    };
    accesses.iter().all(lies)
}

/// The dimensions along the reduction and along which a factor lies, if these are two.
fn across_reduction(access: &Access, depth: usize) -> Option<[usize; 2]> {
    let along = |steps: &Option<Vec<i64>>| steps.as_ref().is_some_and(|it| it[depth] == 1);
    let dim = access.steps.iter().position(along)?;
    let last = access.steps.len() - 1;
    (dim != last && !access.conditional).then_some([dim, last])
}

/// Turns the factors of TF32 that lie across the reduction, which instructions cannot: by kernels of
/// their own.
fn turn(b: &mut Builder, anchor: StageId, product: Product) -> Result<(), ScheduleError> {
    for access in b.accesses(anchor) {
        let dims = across_reduction(&access, product.depth);
        let Some([dim, last]) = dims.filter(|_| !b.is_packable(access.tensor)) else { continue };
        let stage = b.apply(|it| it.cache_read(access.tensor, anchor))?;
        let order = (0..=last).filter(|it| *it != dim).chain([dim]).collect();
        let layout = Layout { splits: Vec::new(), order };
        let turned = b.schedule.stage(stage).tensor();
        b.apply(|it| it.pack(turned, layout))?;
        across(b, stage, (last, dim))?;
    }
    Ok(())
}

/// Bytes of the rows that instructions read: no more than pixels have, a power of two.
fn row_bytes(b: &Builder, anchor: StageId, product: Product, of_rows: &Rows) -> u64 {
    let steps = b.extents(anchor)[product.depth].div_ceil(product.step);
    match steps {
        1 if of_rows.are_pixels => ROW_BYTES / 4,
        2 | 3 if of_rows.are_pixels => ROW_BYTES / 2,
        _ => ROW_BYTES,
    }
}

/// The rule, with copies by a feeder or by all threads.
pub(super) fn group(
    b: &mut Builder,
    root: StageId,
    anchor: StageId,
    is_fed: bool,
) -> Result<(), ScheduleError> {
    let name = b.stage_name(root).to_owned();
    let product = product_of_group(b, anchor).ok_or(ErrorKind::NotReduction.of_stage(anchor))?;
    let anchor = if root == anchor { b.apply(|it| it.cache_write(anchor))? } else { anchor };
    if product.step == TF32_STEP {
        turn(b, anchor, product)?;
    }
    let ([groups, rows, panels], of_rows) = side(b, anchor, product);
    let eights = (b.extents(anchor)[product.column].next_power_of_two() / 8).clamp(1, 8);
    let row_bytes = row_bytes(b, anchor, product, &of_rows);
    let depth = row_bytes * product.step / 32;
    let tiled = |axis: usize| match axis {
        it if it == product.depth => Some(depth),
        it if it == product.column => Some(panels * eights * 8),
        it => of_rows.tiled(it, groups * rows),
    };
    let operands = operand::copy(b, anchor, &Factors { depth: product.depth, tiled: &tiled })?;
    let group = b.new_group();
    let columns = b.new_group();
    let panel_options: &[u64] = if eights == 8 { &[1, 2, 3, 4] } else { &[1] };
    let tall = of_rows.tall;
    let below = of_rows.high(groups * rows);
    let tiles = Tiles {
        of_rows,
        groups: power(b, format!("{name} groups"), 4, groups, group),
        rows: power(b, format!("{name} rows"), 2, rows, group),
        panels: b.decide(
            format!("{name} panels"),
            DecisionKind::Inner,
            panel_options,
            panels,
            columns,
        ),
        eights,
        steps: row_bytes / 32,
        order: order(b, root, tall, below, is_fed),
    };
    let block = split_root(b, root, product, &tiles)?;
    b.apply(|it| it.compute_at(anchor, root, block))?;
    let step = reduce(b, anchor, product, &tiles)?;
    if is_fed {
        let rows = groups * rows * ROWS + panels * eights * 8;
        let bytes = feed(b, anchor, step, &name, row_bytes * rows)?;
        persist(b, root, (bytes, b.extent(anchor, step)))?;
    } else {
        let stages = most_stages(b);
        pipeline(b, anchor, step, stages, &name)?;
    }
    for operand in operands {
        let width = panel(b, &operand, anchor, product, eights);
        operand::lay(b, &operand, anchor, step, width)?;
        if !is_fed {
            operand::by_all_threads(b, &operand, THREADS, &[tiles.groups])?;
        }
    }
    b.name.push(format!("{name}: {}", if is_fed { "fed group" } else { "group" }));
    Ok(())
}

/// The width of the panels of a copy, if its rows lie side by side.
fn panel(
    b: &Builder,
    operand: &Operand,
    anchor: StageId,
    product: Product,
    eights: u64,
) -> Option<u64> {
    if operand.axis == product.depth {
        return None;
    }
    let tensor = b.schedule.stage(operand.stage).tensor();
    let has_rows = |it: &Access| it.tensor == tensor && it.depends_on(product.row);
    Some(if b.accesses(anchor).iter().any(has_rows) { PANEL } else { 8 * eights })
}

/// Opens how many steps of the reduction, of so many bytes each, the feeder is ahead; returns the
/// bytes of a block.
fn feed(
    b: &mut Builder,
    anchor: StageId,
    axis: AxisId,
    name: &str,
    bytes: u64,
) -> Result<u64, ScheduleError> {
    const DEPTHS: std::ops::RangeInclusive<u64> = 2..=8;
    let room = u64::from(b.gpu().arch.limits().block_shared_bytes) - RESERVE;
    let group = b.new_group();
    let options: Vec<u64> = DEPTHS.collect();
    let best = (room / bytes.max(1)).clamp(*DEPTHS.start(), *DEPTHS.end());
    let decision = b.decide(format!("{name} slots"), DecisionKind::Outer, &options, best, group);
    let fed = |depth: &u64| {
        let kind = LoopKind::WarpSpecialized(*depth as u8);
        vec![Instruction::Annotate { stage: anchor, axis, kind }]
    };
    b.one_of(decision, options.iter().map(fed).collect())?;
    Ok(best * bytes + RESERVE)
}

/// Opens whether each block has a tile, or so many blocks for each multiprocessor take turns, where
/// one needs so many bytes of shared memory and has so many steps; and whether these divide the last
/// tiles between them.
fn persist(
    b: &mut Builder,
    root: StageId,
    (bytes, steps): (u64, u64),
) -> Result<(), ScheduleError> {
    /// Blocks for each multiprocessor; from [`STREAMED`] on they divide tiles.
    const BLOCKS: [u64; 5] = [0, 1, 2, STREAMED + 1, STREAMED + 2];
    const STREAMED: u64 = 100;
    /// Steps that take longer than joining their sums.
    const MANY: u64 = 32;
    let name = b.stage_name(root).to_owned();
    let stage = b.schedule.stage(root);
    let is_block = |it: &&AxisId| stage.axis(**it).kind.is_parallel();
    let blocks: Vec<AxisId> = stage.order.iter().take_while(is_block).copied().collect();
    let tiles: u64 = blocks.iter().map(|it| b.extent(root, *it)).product();
    let multiprocessors = u64::from(b.gpu().multiprocessors);
    // Where several blocks are resident, some compute while others end.
    let alone = 2 * bytes > u64::from(b.gpu().arch.limits().shared_bytes);
    // What is left over after whole rounds may be few tiles, for which most would wait.
    let rounds = tiles.div_ceil(multiprocessors);
    let best = match alone && tiles > multiprocessors {
        true if steps >= MANY && 3 * rounds * multiprocessors > 4 * tiles => STREAMED + 1,
        several => u64::from(several),
    };
    let group = b.new_group();
    let decision =
        b.decide(format!("{name} persistent"), DecisionKind::Choice, &BLOCKS, best, group);
    let axis = blocks.first().copied().ok_or(ErrorKind::NotOutermost.of_stage(root))?;
    let list = |it: &u64| match u16::try_from(it % STREAMED * multiprocessors) {
        Ok(0) | Err(_) => Vec::new(),
        Ok(most) => {
            let kind = match *it < STREAMED {
                true => LoopKind::Persistent(most),
                false => LoopKind::StreamK(most),
            };
            vec![Instruction::Annotate { stage: root, axis, kind }]
        }
    };
    b.one_of(decision, BLOCKS.iter().map(list).collect())
}

/// Groups, rows and panels of a block, as many as leave every multiprocessor a block; and over what
/// the rows go.
fn side(b: &Builder, anchor: StageId, product: Product) -> ([u64; 3], Rows) {
    if let Some(side) = pixels::side(b, anchor, product) {
        return side;
    }
    const SIDES: [[u64; 3]; 5] = [[2, 1, 4], [2, 1, 2], [1, 1, 4], [1, 1, 2], [1, 1, 1]];
    let extents = b.extents(anchor);
    let n_spatial = b.schedule.stage(anchor).compute.n_spatial;
    let columns = extents[product.column];
    let fills = |[groups, times, panels]: [u64; 3], of_rows: &Rows| {
        let is_tiled = |it: usize| it == product.column || of_rows.tiled(it, 1).is_some();
        let outer: u64 = (0..n_spatial).filter(|it| !is_tiled(*it)).map(|it| extents[it]).product();
        let blocks = of_rows.n_tiles(&extents, groups * times) * columns.div_ceil(panels * PANEL);
        let wide = panels == 1 || panels * PANEL < 2 * columns;
        let high = groups == 1 || of_rows.high(groups) < 2 * extents[of_rows.tall];
        wide && high && blocks * outer >= u64::from(b.gpu().multiprocessors)
    };
    let with_rows = |side: [u64; 3]| (side, rows_of(b, anchor, product, side[0] * side[1]));
    let mut sides = SIDES.into_iter().map(with_rows);
    sides.find(|(side, of_rows)| fills(*side, of_rows)).unwrap_or_else(|| with_rows([1, 1, 1]))
}

/// Opens in which order blocks run: so many blocks of rows before the next columns, and of these so
/// many at the same time.
fn order(b: &mut Builder, root: StageId, tall: usize, tile: u64, is_fed: bool) -> [DecisionId; 2] {
    let name = b.stage_name(root).to_owned();
    // Rows that blocks stick out by are computed for nothing: only where there are none for certain.
    let extent = b.schedule.stage(root).compute.axes[tall].extent.as_constant();
    let blocks = extent.map_or(1, |it| (it as u64).div_ceil(tile));
    let cluster = if is_fed && blocks.is_multiple_of(2) { 2 } else { 1 };
    let divides = |it: &u64| (blocks / cluster).is_multiple_of(*it);
    let order = [8, 4, 2].into_iter().find(divides).unwrap_or(1);
    let group = b.new_group();
    let order = power(b, format!("{name} order"), 16, order, group);
    let group = b.new_group();
    let most = if is_fed { 4 } else { 1 };
    [order, power(b, format!("{name} cluster"), most, cluster, group)]
}

/// The loops of a tile.
struct Parts {
    /// Over blocks; in the stage that stores the result the last one is over those of a cluster.
    blocks: Vec<AxisId>,
    /// Over groups, warps, and threads of warps.
    threads: Vec<AxisId>,
    /// Over instructions one below the other.
    rows: AxisId,
    /// Over halves of the rows of a warp, panels, eights of columns, and pairs.
    inside: [AxisId; 4],
}

fn split(
    b: &mut Builder,
    stage: StageId,
    product: Product,
    tiles: &Tiles,
    order: &[Factor],
) -> Result<Parts, ScheduleError> {
    let (open, fixed) = (Factor::Open, Factor::Fixed);
    let rows = tiles.of_rows.split(b, stage, order, [tiles.groups, tiles.rows].map(open))?;
    let columns = [open(tiles.panels), fixed(tiles.eights), fixed(4), fixed(2)];
    let columns = b.split(stage, AxisId(product.column as u32), &columns)?;
    let [groups, below] = rows.below;
    let blocks = [rows.beside, vec![rows.first, columns[0]], rows.ordered].concat();
    let threads = [vec![groups], rows.warps, rows.lines, vec![columns[3]]].concat();
    let inside = [rows.halves, columns[1], columns[2], columns[4]];
    Ok(Parts { blocks, threads, rows: below, inside })
}

/// Splits the stage that stores the result; returns its last loop over blocks.
fn split_root(
    b: &mut Builder,
    root: StageId,
    product: Product,
    tiles: &Tiles,
) -> Result<AxisId, ScheduleError> {
    let before = b.schedule.stage(root).order.clone();
    let order = tiles.order.map(Factor::Open);
    let Parts { blocks, threads, rows, inside } = split(b, root, product, tiles, &order)?;
    let [halves, panels, eights, pairs] = inside;
    let others = before.into_iter().filter(|it| b.schedule.stage(root).order.contains(it));
    let blocks: Vec<AxisId> = others.chain(blocks).collect();
    let unrolled = [rows, halves, panels, eights];
    let order = blocks.iter().chain(&threads).chain(&unrolled).chain([&pairs]);
    let order: Vec<AxisId> = order.copied().collect();
    b.apply(|it| it.reorder(root, &order))?;
    let cluster = blocks.last().copied().ok_or(ErrorKind::NotOutermost.of_stage(root))?;
    for axis in &blocks {
        let kind = if *axis == cluster { LoopKind::Cluster } else { LoopKind::Parallel };
        b.annotate(root, *axis, kind)?;
    }
    for axis in threads {
        b.annotate(root, axis, LoopKind::Thread)?;
    }
    for axis in unrolled {
        b.annotate(root, axis, LoopKind::Unrolled)?;
    }
    b.annotate(root, pairs, LoopKind::Vectorized)?;
    Ok(cluster)
}

/// Orders the loops of the reduction; returns the one at which operands are copied.
fn reduce(
    b: &mut Builder,
    anchor: StageId,
    product: Product,
    tiles: &Tiles,
) -> Result<AxisId, ScheduleError> {
    let n_spatial = b.schedule.stage(anchor).compute.n_spatial;
    let before = b.schedule.stage(anchor).order.clone();
    let Parts { blocks, threads, rows, inside } = split(b, anchor, product, tiles, &[])?;
    let [halves, panels, eights, pairs] = inside;
    let steps = [Factor::Fixed(tiles.steps), Factor::Fixed(product.step)];
    let k = b.split(anchor, AxisId(product.depth as u32), &steps)?;
    let live = &b.schedule.stage(anchor).order;
    let untouched: Vec<AxisId> = before.into_iter().filter(|it| live.contains(it)).collect();
    let is_spatial = |it: &AxisId| (it.0 as usize) < n_spatial;
    let (mut order, windows): (Vec<AxisId>, Vec<AxisId>) =
        untouched.into_iter().partition(is_spatial);
    order.extend(&blocks);
    order.extend(&windows);
    order.push(k[0]);
    order.extend(&threads);
    order.extend([k[1], rows, panels, eights, halves, pairs, k[2]]);
    b.apply(|it| it.reorder(anchor, &order))?;
    for axis in threads {
        b.annotate(anchor, axis, LoopKind::Thread)?;
    }
    for axis in [k[1], rows] {
        b.annotate(anchor, axis, LoopKind::Unrolled)?;
    }
    for axis in [panels, eights, halves, pairs, k[2]] {
        b.annotate(anchor, axis, LoopKind::Tensorized)?;
    }
    // One loop over all that is copied, so that copies go ahead across its parts.
    let mut step = k[0];
    for window in windows.into_iter().rev() {
        step = b.apply(|it| it.fuse(anchor, window, step))?;
    }
    Ok(step)
}
