//! The GPU template for attention: one kernel, in which all stages follow the second product block by
//! block.
//!
//! ```text
//! parallel h, i_0
//!   thread t:  q_tile[i, d] = q[i_0 + i, d]
//!   pipelined j_0
//!     thread t:  k_tile[j, d] = k[j_0 + j, d];  v_tile[j, d] = v[j_0 + j, d]
//!     thread rows: thread columns:  s[i, j] += q_tile[i, d] * k_tile[j, d]
//!     thread rows: thread columns:  m[i] = max(m[i], s[i, j])                 -- online
//!     thread rows: thread columns:  e[i, j] = exp(s[i, j] - m[i])
//!     thread rows: thread columns:  l[i] = l[i] * factor[i] + e[i, j]         -- online
//!     thread rows: thread columns:  o[i, d] = o[i, d] * factor[i] + e[i, j] * v_tile[j, d]
//!   thread rows: thread columns:  out[i, d] = o[i, d] / l[i]
//! ```
//!
//! The loop over blocks ends where a mask hides all later columns from the rows of a tile.
//!
//! All stages distribute rows and columns over threads by one layout, so that values of a row stay in
//! the registers of the threads that share it. Where operands are narrow, it is the fragment layout of
//! MMA instructions, for each of the two products that allows it.
//!
//! # Source
//!
//! FlashAttention-2 (Dao, 2023): rows over warps, the loop over keys inside, only row statistics and
//! accumulators kept from one block to the next.

use super::mma::product;
use super::operand::Location;
use super::reads::ACCESS_BYTES;
use super::tile::{max_stages, pipeline};
use crate::sketch::builder::Builder;
use crate::sketch::fusion_group::{Chain, Score};
use crate::sketch::template::Template;
use crate::sketch::types::{DecisionId, Factor, TemplateKind};
use tvmtune_ir::dag::TensorId;
use tvmtune_schedule::error::{ErrorKind, ScheduleError};
use tvmtune_schedule::{AxisId, Layout, LoopKind, StageId};

/// Rows of a block by default.
const MAX_ROWS: u64 = 64;
/// Rows of an MMA instruction.
const MMA_ROWS: u64 = 16;

/// The distribution of rows and columns over threads.
#[derive(Clone)]
pub(super) struct ThreadLayout {
    /// The factors of rows, outermost first, and the level of each.
    pub(super) rows: Vec<(Factor, RowLevel)>,
    /// Threads that share a row.
    pub(super) threads: u64,
    /// Contiguous columns of a thread.
    pub(super) pair: u64,
    /// The decision on steps of [`STEP`] columns in a block.
    pub(super) steps: DecisionId,
    /// Threads of a block.
    pub(super) all: Factor,
    /// Tiles of columns belong to one instruction (WGMMA), else to one each (MMA).
    pub(super) is_wide: bool,
}

/// A level of the distribution of rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RowLevel {
    /// Different threads.
    Threads,
    /// One thread, tile after tile.
    Tiles,
    /// One thread, in each tile.
    Half,
}

/// Columns that one step of the second product reduces.
pub(super) const STEP: u64 = 16;

/// The loops of a stage after the distribution of rows and columns.
struct Loops {
    /// Over blocks.
    outer: Vec<AxisId>,
    threads: Vec<AxisId>,
    row_tiles: Vec<AxisId>,
    half: AxisId,
    column_tiles: Vec<AxisId>,
    pair: AxisId,
}

impl Loops {
    /// Returns the loops of one thread except the innermost.
    fn tiles(&self) -> Vec<AxisId> {
        [&self.row_tiles[..], &[self.half], &self.column_tiles].concat()
    }
}

pub(super) struct Attention;

impl Template<Chain> for Attention {
    fn is_applicable(&self, _: &Builder, _: &Chain) -> bool {
        true
    }

    fn schedule(&self, b: &mut Builder, chain: &Chain) -> Result<(), ScheduleError> {
        schedule(b, chain)
    }
}

fn schedule(b: &mut Builder, chain: &Chain) -> Result<(), ScheduleError> {
    let name = b.stage_name(chain.root).to_owned();
    let (anchor, products) = products(b, chain)?;
    let (width, stages) = block(b, chain, &products);
    let is_tensorized = products.iter().any(|it| is_tensorized(b, *it));
    let layout = match is_tensorized {
        true => mma_layout(b, chain, width, &name),
        false => scalar_layout(b, chain, width, &name),
    };
    let copies = copy_operands(b, chain, &products)?;
    let columns = b.extents(chain.root)[chain.column].div_ceil(layout.threads * layout.pair);
    let columns = [Factor::Fixed(columns)];
    let blocking = Blocking { columns: &columns, layout: &layout, split_depth: &split_depth };
    let at = schedule_stages(b, chain, anchor, &blocking)?;
    for OperandCopy { stage, is_row } in copies {
        place(b, stage, if is_row { at.root } else { at.block }, &layout.all)?;
    }
    pipeline(b, anchor, at.block.axis, stages, &name)?;
    // Without a mask the loop keeps all its blocks.
    let _ = b.apply(|it| it.tighten_bounds(anchor, at.block.axis));
    b.note_template(TemplateKind::Attention, chain.root);
    Ok(())
}

/// Returns the products of a chain, the second one last, with accumulators of its own and its first
/// operand stored in low precision.
pub(super) fn products(
    b: &mut Builder,
    chain: &Chain,
) -> Result<(StageId, Vec<StageId>), ScheduleError> {
    let is_copied = chain.root == chain.anchor;
    let anchor = if is_copied { b.apply(|it| it.cache_write(chain.root))? } else { chain.anchor };
    let products = chain
        .scores
        .iter()
        .map(|it| it.stage)
        .filter(|it| b.schedule.stage(*it).compute.reducer.is_some())
        .chain([anchor])
        .collect();
    downcast_scores(b, chain, anchor);
    Ok((anchor, products))
}

/// The loops in which operands are copied.
pub(super) struct CopyLocations {
    /// The loop over tiles of rows.
    pub(super) root: Location,
    /// The loop over blocks of columns.
    pub(super) block: Location,
}

/// Splits the axis that a score reduces: returns the loops over blocks, over steps, and in a step.
pub(super) type SplitDepth =
    dyn Fn(&mut Builder, StageId, AxisId) -> Result<Vec<AxisId>, ScheduleError>;

/// The blocking of a chain.
pub(super) struct Blocking<'a> {
    /// The tiles of the columns of the result.
    pub(super) columns: &'a [Factor],
    pub(super) layout: &'a ThreadLayout,
    pub(super) split_depth: &'a SplitDepth,
}

/// Schedules all stages of a chain except copies.
pub(super) fn schedule_stages(
    b: &mut Builder,
    chain: &Chain,
    anchor: StageId,
    blocking: &Blocking<'_>,
) -> Result<CopyLocations, ScheduleError> {
    let Chain { root, row, column, .. } = *chain;
    let Blocking { columns, layout, split_depth } = *blocking;
    let loops = distribute(b, Score { stage: root, row, column }, columns, layout)?;
    let block = store(b, root, &loops)?;
    let blocks = reduce(b, Score { stage: anchor, row, column }, columns, layout)?;
    b.apply(|it| it.compute_at(anchor, root, block))?;
    for stage in b.schedule.order.clone().into_iter().rev() {
        if let Some(it) = chain.score(stage) {
            score(b, *it, layout, split_depth)?;
            b.apply(|it| it.compute_at(stage, anchor, blocks))?;
        } else if let Some(it) = chain.reductions.iter().find(|it| it.stage == stage) {
            reduce_online(b, stage, it.row, layout)?;
            b.apply(|it| it.online_reduction(stage, anchor, blocks))?;
        }
    }
    let root = Location { stage: root, axis: block };
    Ok(CopyLocations { root, block: Location { stage: anchor, axis: blocks } })
}

/// Splits all of a reduced axis into steps of MMA instructions.
fn split_depth(
    b: &mut Builder,
    stage: StageId,
    depth: AxisId,
) -> Result<Vec<AxisId>, ScheduleError> {
    let steps = b.extent(stage, depth).div_ceil(STEP);
    b.split(stage, depth, &[Factor::Fixed(steps), Factor::Fixed(STEP)])
}

/// Stores the scores that the second product reads in the precision of its other operand, where the
/// result is no more precise.
fn downcast_scores(b: &mut Builder, chain: &Chain, anchor: StageId) {
    let dtype = |it: TensorId| b.schedule.tensor(it).tensor.dtype;
    let root = dtype(b.schedule.stage(chain.root).tensor());
    let reads: Vec<TensorId> = b.accesses(anchor).iter().map(|it| it.tensor).collect();
    let narrow = reads.iter().map(|it| dtype(*it)).find(|it| *it == root && *it != it.compute());
    let stored = |it: &TensorId| {
        let stage = b.schedule.tensor(*it).stage?;
        chain.score(stage).map(|it| it.stage)
    };
    if let (Some(narrow), Some(stage)) = (narrow, reads.iter().find_map(stored)) {
        // Scores that need more precision keep it.
        let _ = b.apply(|it| it.downcast(stage, narrow));
    }
}

/// Returns whether a stage is a product by MMA instructions of [`STEP`] steps.
pub(super) fn is_tensorized(b: &Builder, stage: StageId) -> bool {
    product(b, stage).is_some_and(|it| it.step == STEP)
}

/// Returns the rows of a block.
fn rows(b: &Builder, chain: &Chain) -> u64 {
    b.extents(chain.root)[chain.row].next_power_of_two().clamp(MMA_ROWS, MAX_ROWS)
}

/// Returns the columns of a block and the pipeline stages: the first choice that fits shared memory,
/// or half of it, so that two thread blocks are resident.
fn block(b: &Builder, chain: &Chain, products: &[StageId]) -> (u64, u64) {
    /// Resident thread blocks, columns, pipeline stages.
    const CHOICES: [(u64, u64, u64); 7] =
        [(2, 64, 3), (2, 64, 2), (1, 64, 2), (1, 64, 1), (1, 32, 2), (1, 32, 1), (1, 16, 1)];
    let limits = b.gpu().arch.limits();
    let max_stages = max_stages(b);
    let bytes = |it: &StageId| {
        let dtypes = b.accesses(*it).into_iter().map(|it| b.schedule.tensor(it.tensor));
        dtypes.map(|it| it.tensor.dtype.bytes()).max().unwrap_or(4)
    };
    let bytes = products.iter().map(bytes).max().unwrap_or(4);
    // Rows are padded.
    let row = |elements: u64| elements * bytes + 16;
    let depth = |it: &StageId| b.extents(*it).last().copied().unwrap_or(1);
    let anchor = products.last().copied().unwrap_or(chain.anchor);
    let inner = products.iter().filter(|it| **it != anchor).map(depth).max().unwrap_or(0);
    let columns = b.extents(anchor)[chain.column];
    let max_width = depth(&anchor).next_power_of_two().max(STEP);
    let fits = |(residents, width, stages): &&(u64, u64, u64)| {
        let width = (*width).min(max_width);
        let copies = width * (row(inner) + row(columns)) * stages;
        let kept = rows(b, chain) * (row(inner) + row(width));
        *stages <= max_stages && (copies + kept) * residents <= limits.block_shared_bytes.into()
    };
    let (_, width, stages) = CHOICES.iter().find(fits).copied().unwrap_or((1, STEP, 1));
    (width.min(max_width), stages)
}

/// Opens the size of blocks in the fragment layout of MMA instructions.
fn mma_layout(b: &mut Builder, chain: &Chain, width: u64, name: &str) -> ThreadLayout {
    let sizes = Sizes { row_threads: rows(b, chain) / MMA_ROWS, row_tiles: 1, width };
    let [outer, tiles, steps] = decide(b, &sizes, 8, name);
    let rows = vec![
        (Factor::Open(outer), RowLevel::Threads),
        (Factor::Open(tiles), RowLevel::Tiles),
        (Factor::Fixed(2), RowLevel::Half),
        (Factor::Fixed(8), RowLevel::Threads),
    ];
    let all = Factor::Times(8 * 4, outer);
    ThreadLayout { rows, threads: 4, pair: 2, steps, all, is_wide: false }
}

/// Opens the size of blocks where products are scalar: 16 threads share a row.
fn scalar_layout(b: &mut Builder, chain: &Chain, width: u64, name: &str) -> ThreadLayout {
    const THREADS: u64 = 16;
    let rows = rows(b, chain);
    let sizes = Sizes { row_threads: THREADS.min(rows), row_tiles: rows.div_ceil(THREADS), width };
    let [outer, tiles, steps] = decide(b, &sizes, 32, name);
    let rows = vec![
        (Factor::Open(outer), RowLevel::Threads),
        (Factor::Open(tiles), RowLevel::Tiles),
        (Factor::Fixed(1), RowLevel::Half),
        (Factor::Fixed(1), RowLevel::Threads),
    ];
    let all = Factor::Times(THREADS, outer);
    ThreadLayout { rows, threads: THREADS, pair: 1, steps, all, is_wide: false }
}

/// The default size of a block.
struct Sizes {
    row_threads: u64,
    row_tiles: u64,
    width: u64,
}

/// Opens threads and tiles of rows, and steps of columns.
fn decide(b: &mut Builder, sizes: &Sizes, max_threads: u64, name: &str) -> [DecisionId; 3] {
    let group = b.new_group();
    let threads = format!("{name} row threads");
    let threads = b.decide_power(threads, max_threads, sizes.row_threads, group);
    let tiles = b.decide_power(format!("{name} row tiles"), 8, sizes.row_tiles, group);
    let group = b.new_group();
    [threads, tiles, b.decide_power(format!("{name} steps"), 8, sizes.width / STEP, group)]
}

/// A copy of an operand of a product.
struct OperandCopy {
    stage: StageId,
    /// It is loop-invariant along blocks of columns.
    is_row: bool,
}

/// Copies the operands of the products that are not computed for a block.
fn copy_operands(
    b: &mut Builder,
    chain: &Chain,
    products: &[StageId],
) -> Result<Vec<OperandCopy>, ScheduleError> {
    let computed: Vec<TensorId> = chain.members().map(|it| b.schedule.stage(it).tensor()).collect();
    let mut copies = Vec::new();
    for stage in products {
        let moving = match chain.score(*stage) {
            Some(score) => score.column,
            None => b.schedule.stage(*stage).compute.n_spatial,
        };
        for (n, access) in (0..).zip(b.accesses(*stage)) {
            if computed.contains(&access.tensor) {
                continue;
            }
            // An operand that cannot be copied is read in place.
            if let Ok(copy) = b.apply(|it| it.cache_operand(*stage, n)) {
                copies.push(OperandCopy { stage: copy, is_row: !access.depends_on(moving) });
            }
        }
    }
    Ok(copies)
}

/// Distributes the rows and columns of a stage over threads, with the columns in tiles.
fn distribute(
    b: &mut Builder,
    axes: Score,
    columns: &[Factor],
    layout: &ThreadLayout,
) -> Result<Loops, ScheduleError> {
    let Score { stage, row, column } = axes;
    let factors: Vec<Factor> = layout.rows.iter().map(|it| it.0.clone()).collect();
    let i = b.split(stage, AxisId(row as u32), &factors)?;
    let lines = [Factor::Fixed(layout.threads), Factor::Fixed(layout.pair)];
    let j = b.split(stage, AxisId(column as u32), &[columns, &lines].concat())?;
    let n_spatial = b.schedule.stage(stage).compute.n_spatial;
    let others = (0..n_spatial).filter(|it| ![row, column].contains(it));
    let outer = others.map(|it| AxisId(it as u32)).chain([i[0], j[0]]).collect();
    let on = |level: RowLevel| -> Vec<AxisId> {
        let loops = layout.rows.iter().zip(&i[1..]).filter(|it| it.0.1 == level);
        loops.map(|it| *it.1).collect()
    };
    let (tiles, lines) = j[1..].split_at(columns.len());
    let threads: Vec<AxisId> = on(RowLevel::Threads).into_iter().chain([lines[0]]).collect();
    for axis in &threads {
        b.annotate(stage, *axis, LoopKind::Thread)?;
    }
    Ok(Loops {
        outer,
        threads,
        row_tiles: on(RowLevel::Tiles),
        half: on(RowLevel::Half)[0],
        column_tiles: tiles.to_vec(),
        pair: lines[1],
    })
}

/// Returns the columns of a block, in tiles of the contiguous columns of all threads.
fn block_columns(layout: &ThreadLayout) -> Factor {
    Factor::Times(STEP / (layout.threads * layout.pair), layout.steps)
}

/// Orders the loops of the stage that stores the result; returns the last one over blocks.
fn store(b: &mut Builder, root: StageId, loops: &Loops) -> Result<AxisId, ScheduleError> {
    let order = [&loops.outer[..], &loops.threads, &loops.tiles(), &[loops.pair]].concat();
    b.apply(|it| it.reorder(root, &order))?;
    for axis in &loops.outer {
        b.annotate(root, *axis, LoopKind::Parallel)?;
    }
    for axis in loops.tiles() {
        b.annotate(root, axis, LoopKind::Unrolled)?;
    }
    b.annotate(root, loops.pair, LoopKind::Vectorized)?;
    loops.outer.last().copied().ok_or(ErrorKind::NotOutermost.of_stage(root))
}

/// Orders the loops of the second product; returns the one over blocks.
fn reduce(
    b: &mut Builder,
    axes: Score,
    columns: &[Factor],
    layout: &ThreadLayout,
) -> Result<AxisId, ScheduleError> {
    let anchor = axes.stage;
    let depth = AxisId(b.schedule.stage(anchor).compute.n_spatial as u32);
    let loops = distribute(b, axes, columns, layout)?;
    let k = b.split(anchor, depth, &[Factor::Open(layout.steps), Factor::Fixed(STEP)])?;
    let outer = [&[k[0]], &loops.outer[..]].concat();
    multiply(b, anchor, &Loops { outer, ..loops }, &k[1..], layout)?;
    Ok(k[0])
}

/// Orders the loops of a product: steps of the reduction inside of threads.
fn multiply(
    b: &mut Builder,
    stage: StageId,
    loops: &Loops,
    steps: &[AxisId],
    layout: &ThreadLayout,
) -> Result<(), ScheduleError> {
    let is_tensorized = is_tensorized(b, stage);
    let Loops { row_tiles, column_tiles, half, pair, .. } = loops;
    let (inner, steps) = steps.split_last().ok_or(ErrorKind::NotReduction.of_stage(stage))?;
    let tile = match is_tensorized {
        true => [&row_tiles[..], column_tiles, &[*half, *pair, *inner]].concat(),
        false => [&[*inner], &row_tiles[..], &[*half], column_tiles, &[*pair]].concat(),
    };
    let order = [&loops.outer[..], &loops.threads, steps, &tile].concat();
    b.apply(|it| it.reorder(stage, &order))?;
    let kind = if is_tensorized { LoopKind::Tensorized } else { LoopKind::Unrolled };
    for axis in row_tiles {
        b.annotate(stage, *axis, LoopKind::Unrolled)?;
    }
    for axis in column_tiles {
        b.annotate(stage, *axis, if layout.is_wide { kind } else { LoopKind::Unrolled })?;
    }
    for axis in [half, pair, inner] {
        b.annotate(stage, *axis, kind)?;
    }
    for axis in steps.iter().filter(|_| is_tensorized) {
        b.annotate(stage, *axis, LoopKind::Unrolled)?;
    }
    Ok(())
}

/// Schedules a score, which is computed for each block.
fn score(
    b: &mut Builder,
    axes: Score,
    layout: &ThreadLayout,
    split_depth: &SplitDepth,
) -> Result<(), ScheduleError> {
    let stage = axes.stage;
    let compute = b.schedule.stage(stage).compute.clone();
    let loops = distribute(b, axes, &[block_columns(layout)], layout)?;
    if compute.reducer.is_none() {
        let order = [&loops.outer[..], &loops.threads, &loops.tiles(), &[loops.pair]].concat();
        b.apply(|it| it.reorder(stage, &order))?;
        for axis in loops.tiles() {
            b.annotate(stage, axis, LoopKind::Unrolled)?;
        }
        return b.annotate(stage, loops.pair, LoopKind::Vectorized);
    }
    let mut depths = (compute.n_spatial..compute.axes.len()).map(|it| AxisId(it as u32));
    let depth = depths.next_back().ok_or(ErrorKind::NotReduction.of_stage(stage))?;
    let k = split_depth(b, stage, depth)?;
    let first: Vec<AxisId> = depths.chain([k[0]]).collect();
    let loops = Loops { outer: [loops.outer.clone(), first].concat(), ..loops };
    multiply(b, stage, &loops, &k[1..], layout)
}

/// Schedules a reduction of the columns of blocks: a warp all-reduce by the threads of a row.
fn reduce_online(
    b: &mut Builder,
    stage: StageId,
    row: usize,
    layout: &ThreadLayout,
) -> Result<(), ScheduleError> {
    let column = b.schedule.stage(stage).compute.n_spatial;
    let axes = Score { stage, row, column };
    let loops = distribute(b, axes, &[block_columns(layout)], layout)?;
    let inner = [loops.tiles(), vec![loops.pair]].concat();
    let order = [&loops.outer[..], &loops.threads, &inner].concat();
    b.apply(|it| it.reorder(stage, &order))?;
    for axis in inner {
        b.annotate(stage, axis, LoopKind::Unrolled)?;
    }
    Ok(())
}

/// Copies an operand by all threads, along memory.
fn place(
    b: &mut Builder,
    stage: StageId,
    at: Location,
    threads: &Factor,
) -> Result<(), ScheduleError> {
    let name = b.stage_name(stage).to_owned();
    let tensor = b.schedule.stage(stage).tensor();
    let n_dims = b.schedule.tensor(tensor).tensor.shape.len();
    b.apply(|it| it.compute_at(stage, at.stage, at.axis))?;
    let accesses = b.accesses(stage);
    let contiguous = (0..n_dims).rev().find(|dim| accesses.iter().all(|it| it.is_contiguous(*dim)));
    let last = contiguous.unwrap_or(n_dims.saturating_sub(1));
    let order: Vec<usize> = (0..n_dims).filter(|it| *it != last).chain([last]).collect();
    if last + 1 != n_dims {
        let layout = Layout { splits: Vec::new(), order: order.clone() };
        b.apply(|it| it.pack(tensor, layout))?;
        let order: Vec<AxisId> = order.iter().map(|it| AxisId(*it as u32)).collect();
        b.apply(|it| it.reorder(stage, &order))?;
    }
    let dtype = b.schedule.tensor(tensor).tensor.dtype;
    let length = b.extents(stage)[last];
    let fits = |it: &u64| *it * dtype.bytes() <= ACCESS_BYTES && length.is_multiple_of(*it);
    let best = if contiguous.is_some() { [8, 4, 2].into_iter().find(fits).unwrap_or(1) } else { 1 };
    let mut order = order.into_iter().map(|it| AxisId(it as u32)).rev();
    let mut fused = order.next().ok_or(ErrorKind::NotAlike.of_stage(stage))?;
    for outer in order {
        fused = b.apply(|it| it.fuse(stage, outer, fused))?;
    }
    let group = b.new_group();
    let lanes = b.decide_power(format!("{name} vector"), best, best, group);
    let factors = [threads.clone(), Factor::Open(lanes)];
    let parts = b.split(stage, fused, &factors)?;
    b.apply(|it| it.reorder(stage, &[parts[1], parts[0], parts[2]]))?;
    b.annotate(stage, parts[1], LoopKind::Thread)?;
    b.annotate(stage, parts[0], LoopKind::Unrolled)?;
    b.annotate(stage, parts[2], LoopKind::Vectorized)
}
