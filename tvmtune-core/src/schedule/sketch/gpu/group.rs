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
//! images with few pixels in a row, `g` counts those and the rest of `i` rows of pixels. Or all
//! threads copy: `pipelined k_0`, and `thread t` inside of the copies; or each block has one tile:
//! `parallel i_0`.

use super::operand::{self, Factors, Operand};
use super::power;
use super::tensor::{Product, TF32_STEP, moves_with, product};
use super::tile::{most_stages, pipeline};
use crate::dag::access::Access;
use crate::schedule::error::{ErrorKind, ScheduleError};
use crate::schedule::sketch::builder::Builder;
use crate::schedule::sketch::{DecisionId, DecisionKind, Factor};
use crate::schedule::{AxisId, Instruction, LoopKind, StageId};

/// Rows of an instruction, and columns of a panel.
const ROWS: u64 = 64;
/// Rows that threads of a warp tell apart.
const LINE: u64 = 8;
/// Bytes of the rows that instructions read.
const ROW_BYTES: u64 = 128;
/// Threads of a group.
const THREADS: u64 = 128;
/// Bytes of shared memory for barriers, and where rings start.
const RESERVE: u64 = 2048;

/// How the rows and columns of a block are divided.
struct Tiles {
    /// The axis of groups, and that of the pixels in a row where it is another one.
    tall: usize,
    line: Option<usize>,
    /// Groups of four warps, one below the other.
    groups: DecisionId,
    /// Instructions of each, one below the other.
    rows: DecisionId,
    /// Panels of columns in an instruction.
    panels: DecisionId,
    /// Columns of a panel, in eights.
    eights: u64,
    /// Blocks of rows that follow one another before the next columns, and those of a cluster.
    order: [DecisionId; 2],
}

/// Whether warps can do a reduction by fours, with copies by a feeder or by all threads.
pub(super) fn suits(b: &Builder, anchor: StageId, is_fed: bool) -> bool {
    let fits = |it: &Product| {
        let is_tf32 = it.step == TF32_STEP;
        b.gpu().arch.has_wgmma() && (!is_tf32 || (is_fed && lie_along(b, anchor, it.depth)))
    };
    let Some(product) = product(b, anchor).filter(fits) else {
        return false;
    };
    let (tall, line) = rows_of(b, anchor, product);
    let extents = b.extents(anchor);
    match line {
        Some(line) => extents[line] > LINE / 2 && extents[tall] > LINE / 2,
        None => extents[tall] > ROWS / 2,
    }
}

/// Whether both factors lie along the reduction, or can be made to. Factors of TF32 must, and a feeder
/// that rounds them must bring them.
fn lie_along(b: &Builder, anchor: StageId, depth: usize) -> bool {
    let lies = |it: &Access| it.is_contiguous(depth) || b.is_packable(it.tensor);
    b.accesses(anchor).iter().all(lies)
}

/// The axis along which instructions lie below one another, and that of the pixels in a row, where
/// there are too few for an instruction.
fn rows_of(b: &Builder, anchor: StageId, product: Product) -> (usize, Option<usize>) {
    let few = b.extents(anchor)[product.row] < ROWS;
    let outer = product.beside.filter(|it| few && moves_with(b, anchor, *it, product.row));
    match outer {
        Some(outer) if outer < product.row => (outer, Some(product.row)),
        _ => (product.row, None),
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
    let product = product(b, anchor).ok_or(ErrorKind::NotReduction.of_stage(anchor))?;
    let anchor = if root == anchor { b.apply(|it| it.cache_write(anchor))? } else { anchor };
    let (tall, line) = rows_of(b, anchor, product);
    let [groups, rows, panels] = side(b, anchor, product, (tall, line));
    let eights = (b.extents(anchor)[product.column].next_power_of_two() / 8).clamp(1, 8);
    let depth = ROW_BYTES * product.step / 32;
    let below = groups * rows * ROWS / if line.is_some() { LINE } else { 1 };
    let tiled = |axis: usize| match axis {
        it if it == product.depth => Some(depth),
        it if it == product.column => Some(panels * eights * 8),
        it if it == tall => Some(below),
        it if Some(it) == line => Some(LINE),
        _ => None,
    };
    let operands = operand::copy(b, anchor, &Factors { depth: product.depth, tiled: &tiled })?;
    let group = b.new_group();
    let columns = b.new_group();
    let panel_options: &[u64] = if eights == 8 { &[1, 2, 3, 4] } else { &[1] };
    let tiles = Tiles {
        tall,
        line,
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
        order: order(b, root, tall, below, is_fed),
    };
    let block = split_root(b, root, product, &tiles)?;
    b.apply(|it| it.compute_at(anchor, root, block))?;
    let step = reduce(b, anchor, product, &tiles)?;
    if is_fed {
        let rows = groups * rows * ROWS + panels * eights * 8;
        let bytes = feed(b, anchor, step, &name, ROW_BYTES * rows)?;
        persist(b, root, bytes)?;
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
    Some(if b.accesses(anchor).iter().any(has_rows) { ROWS } else { 8 * eights })
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
        let kind = LoopKind::Fed(*depth as u8);
        vec![Instruction::Annotate { stage: anchor, axis, kind }]
    };
    b.one_of(decision, options.iter().map(fed).collect())?;
    Ok(best * bytes + RESERVE)
}

/// Opens whether each block has a tile, or so many blocks for each multiprocessor take turns, where
/// one needs so many bytes of shared memory.
fn persist(b: &mut Builder, root: StageId, bytes: u64) -> Result<(), ScheduleError> {
    /// Blocks for each multiprocessor.
    const BLOCKS: [u64; 3] = [0, 1, 2];
    let name = b.stage_name(root).to_owned();
    let stage = b.schedule.stage(root);
    let is_block = |it: &&AxisId| stage.axis(**it).kind.is_parallel();
    let blocks: Vec<AxisId> = stage.order.iter().take_while(is_block).copied().collect();
    let tiles: u64 = blocks.iter().map(|it| b.extent(root, *it)).product();
    let multiprocessors = u64::from(b.gpu().multiprocessors);
    // Where several blocks are resident, some compute while others end.
    let alone = 2 * bytes > u64::from(b.gpu().arch.limits().shared_bytes);
    let best = u64::from(alone && tiles > multiprocessors);
    let group = b.new_group();
    let decision =
        b.decide(format!("{name} persistent"), DecisionKind::Choice, &BLOCKS, best, group);
    let axis = blocks.first().copied().ok_or(ErrorKind::NotOutermost.of_stage(root))?;
    let list = |it: &u64| match u16::try_from(it * multiprocessors) {
        Ok(0) | Err(_) => Vec::new(),
        Ok(most) => {
            let kind = LoopKind::Persistent(most);
            vec![Instruction::Annotate { stage: root, axis, kind }]
        }
    };
    b.one_of(decision, BLOCKS.iter().map(list).collect())
}

/// Groups, rows and panels of a block: as many as leave every multiprocessor a block.
fn side(
    b: &Builder,
    anchor: StageId,
    product: Product,
    (tall, line): (usize, Option<usize>),
) -> [u64; 3] {
    const SIDES: [[u64; 3]; 5] = [[2, 1, 4], [2, 1, 2], [1, 1, 4], [1, 1, 2], [1, 1, 1]];
    let extents = b.extents(anchor);
    let n_spatial = b.schedule.stage(anchor).compute.n_spatial;
    let tiled = [Some(tall), Some(product.column), line];
    let others = (0..n_spatial).filter(|it| !tiled.contains(&Some(*it)));
    let outer: u64 = others.map(|it| extents[it]).product();
    let columns = extents[product.column];
    let (each, lines) = match line {
        Some(line) => (ROWS / LINE, extents[line].div_ceil(LINE)),
        None => (ROWS, 1),
    };
    let fills = |[groups, times, panels]: &[u64; 3]| {
        let below = extents[tall].div_ceil(groups * times * each);
        let blocks = below * lines * columns.div_ceil(panels * ROWS);
        let wide = *panels == 1 || panels * ROWS < 2 * columns;
        let high = *groups == 1 || groups * each < 2 * extents[tall];
        wide && high && blocks * outer >= u64::from(b.gpu().multiprocessors)
    };
    SIDES.into_iter().find(fills).unwrap_or([1, 1, 1])
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
    threads: [AxisId; 4],
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
    let id = |axis: usize| AxisId(axis as u32);
    let line = match tiles.line {
        Some(line) => b.split(stage, id(line), &[fixed(LINE)])?,
        None => Vec::new(),
    };
    let mut below = order.to_vec();
    below.extend([open(tiles.groups), open(tiles.rows), fixed(4), fixed(2)]);
    if line.is_empty() {
        below.push(fixed(LINE));
    }
    let mut below = b.split(stage, id(tiles.tall), &below)?;
    let columns = [open(tiles.panels), fixed(tiles.eights), fixed(4), fixed(2)];
    let columns = b.split(stage, id(product.column), &columns)?;
    below.extend(line.get(1));
    let ordered = below.drain(1..=order.len()).collect::<Vec<AxisId>>();
    let [first, groups, rows, warps, halves, lines] = below[..] else {
        return Err(ErrorKind::NotLive.of_stage(stage));
    };
    let blocks = line.first().copied().into_iter().chain([first, columns[0]]).chain(ordered);
    Ok(Parts {
        blocks: blocks.collect(),
        threads: [groups, warps, lines, columns[3]],
        rows,
        inside: [halves, columns[1], columns[2], columns[4]],
    })
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
    let steps = [Factor::Fixed(ROW_BYTES / 32), Factor::Fixed(product.step)];
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
        b.annotate(anchor, axis, LoopKind::Tensor)?;
    }
    // One loop over all that is copied, so that copies go ahead across its parts.
    let mut step = k[0];
    for window in windows.into_iter().rev() {
        step = b.apply(|it| it.fuse(anchor, window, step))?;
    }
    Ok(step)
}
