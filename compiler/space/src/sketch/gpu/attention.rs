//! The rule for chains of two products with a softmax between: one kernel, in which everything goes
//! along with the second product block by block.
//!
//! ```text
//! parallel h, i_0
//!   thread t:  q_tile[i, d] = q[i_0 + i, d]
//!   pipelined j_0
//!     thread t:  k_tile[j, d] = k[j_0 + j, d];  v_tile[j, d] = v[j_0 + j, d]
//!     thread rows: thread columns:  s[i, j] += q_tile[i, d] * k_tile[j, d]
//!     thread rows: thread columns:  m[i] = max(m[i], s[i, j])                 -- rolling
//!     thread rows: thread columns:  e[i, j] = exp(s[i, j] - m[i])
//!     thread rows: thread columns:  l[i] = l[i] * factor[i] + e[i, j]         -- rolling
//!     thread rows: thread columns:  o[i, d] = o[i, d] * factor[i] + e[i, j] * v_tile[j, d]
//!   thread rows: thread columns:  out[i, d] = o[i, d] / l[i]
//! ```
//!
//! Where a mask says that no row of a tile sees more columns, the loop over blocks ends.
//!
//! Every stage deals rows and columns out to threads in the same way, so that what belongs to a row
//! stays in the registers of the threads that share it. Where operands are narrow, that way is the
//! one of matrix instructions, for each of the two products that allows it.
//!
//! # Source
//!
//! FlashAttention-2 (Dao, 2023): rows over warps, the loop over keys inside, nothing but row
//! statistics and accumulators kept from one block to the next.

use super::chain::Chain;
use super::power;
use super::tensor::product;
use super::tile::pipeline;
use crate::sketch::builder::Builder;
use crate::sketch::{DecisionId, Factor};
use tvmtune_ir::dag::TensorId;
use tvmtune_schedule::error::{ErrorKind, ScheduleError};
use tvmtune_schedule::{AxisId, Layout, LoopKind, StageId};

/// Rows of a block where nothing was measured.
const MOST_ROWS: u64 = 64;

/// How rows and columns are dealt out to threads.
#[derive(Clone)]
pub(super) struct Deal {
    /// How rows are split, from the outermost part in, and who has the parts.
    pub(super) rows: Vec<(Factor, Part)>,
    /// Threads that share a row, and columns that each has side by side.
    pub(super) threads: u64,
    pub(super) pair: u64,
    /// Steps of [`STEP`] columns in a block.
    pub(super) steps: DecisionId,
    /// How many threads there are.
    pub(super) all: Factor,
    /// Whether tiles of columns belong to matrix instructions.
    pub(super) is_wide: bool,
}

/// Who has a part of the rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Different threads.
    Threads,
    /// One thread, tile after tile.
    Tiles,
    /// One thread, in each tile.
    Half,
}

/// Columns that one step of the second product reduces.
pub(super) const STEP: u64 = 16;

/// The loops of a stage once rows and columns are dealt out.
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
    /// Those of one thread but the innermost.
    fn tiles(&self) -> Vec<AxisId> {
        [&self.row_tiles[..], &[self.half], &self.column_tiles].concat()
    }
}

pub(super) fn attention(b: &mut Builder, chain: &Chain) -> Result<(), ScheduleError> {
    let name = b.stage_name(chain.root).to_owned();
    let (anchor, products) = products(b, chain)?;
    let is_tensor = products.iter().any(|it| is_tensor(b, *it));
    let (width, stages) = block(b, chain, &products);
    let deal = deal(b, chain, is_tensor, width, &name);
    let copies = copy_operands(b, chain, &products)?;
    let columns = b.extents(chain.root)[chain.column].div_ceil(deal.threads * deal.pair);
    let at = stages_of(b, chain, anchor, (&[Factor::Fixed(columns)], &deal), &along_depth)?;
    for Copied { stage, is_row } in copies {
        place(b, stage, if is_row { at.root } else { at.block }, &deal)?;
    }
    pipeline(b, anchor, at.block.1, stages, &name)?;
    // What no mask ends has all its blocks.
    let _ = b.apply(|it| it.tighten_bounds(anchor, at.block.1));
    b.name.push(format!("{name}: attention"));
    Ok(())
}

/// The products of a chain, the second one last, with sums of its own; its first factor is stored
/// narrowly.
pub(super) fn products(
    b: &mut Builder,
    chain: &Chain,
) -> Result<(StageId, Vec<StageId>), ScheduleError> {
    let is_copied = chain.root == chain.anchor;
    let anchor = if is_copied { b.apply(|it| it.cache_write(chain.root))? } else { chain.anchor };
    let products = chain
        .scores
        .iter()
        .map(|it| it.0)
        .filter(|it| b.schedule.stage(*it).compute.reducer.is_some())
        .chain([anchor])
        .collect();
    narrow_scores(b, chain, anchor);
    Ok((anchor, products))
}

/// Where copies are made: a stage and one of its loops.
pub(super) struct Places {
    /// For all blocks of columns.
    pub(super) root: (StageId, AxisId),
    /// For each of them.
    pub(super) block: (StageId, AxisId),
}

/// Splits what a stage of scores reduces: the loops over blocks, over steps, and inside of a step.
pub(super) type Steps<'a> =
    dyn Fn(&mut Builder, StageId, AxisId) -> Result<Vec<AxisId>, ScheduleError> + 'a;

/// Schedules all stages of a chain but copies, with columns of the result in such tiles.
pub(super) fn stages_of(
    b: &mut Builder,
    chain: &Chain,
    anchor: StageId,
    (columns, deal): (&[Factor], &Deal),
    steps: &Steps<'_>,
) -> Result<Places, ScheduleError> {
    let Chain { root, row, column, .. } = *chain;
    let loops = deal_out(b, root, row, (column, columns), deal)?;
    let block = store(b, root, &loops)?;
    let blocks = reduce(b, anchor, (row, column), columns, deal)?;
    b.apply(|it| it.compute_at(anchor, root, block))?;
    for stage in b.schedule.order.clone().into_iter().rev() {
        if let Some((_, row, column)) = chain.scores.iter().find(|it| it.0 == stage) {
            score(b, stage, (*row, *column), deal, steps)?;
            b.apply(|it| it.compute_at(stage, anchor, blocks))?;
        } else if let Some((_, row)) = chain.rolling.iter().find(|it| it.0 == stage) {
            roll(b, stage, *row, deal)?;
            b.apply(|it| it.online_reduction(stage, anchor, blocks))?;
        }
    }
    Ok(Places { root: (root, block), block: (anchor, blocks) })
}

/// Steps of matrix instructions along all that is reduced.
fn along_depth(
    b: &mut Builder,
    stage: StageId,
    depth: AxisId,
) -> Result<Vec<AxisId>, ScheduleError> {
    let steps = b.extent(stage, depth).div_ceil(STEP);
    b.split(stage, depth, &[Factor::Fixed(steps), Factor::Fixed(STEP)])
}

/// Stores what the second product reads as narrowly as what it is multiplied with, where the result
/// is no more precise.
fn narrow_scores(b: &mut Builder, chain: &Chain, anchor: StageId) {
    let dtype = |it: TensorId| b.schedule.tensor(it).tensor.dtype;
    let root = dtype(b.schedule.stage(chain.root).tensor());
    let reads: Vec<TensorId> = b.accesses(anchor).iter().map(|it| it.tensor).collect();
    let narrow = reads.iter().map(|it| dtype(*it)).find(|it| *it == root && *it != it.compute());
    let stored = |it: &TensorId| {
        let stage = b.schedule.tensor(*it).stage?;
        chain.scores.iter().any(|it| it.0 == stage).then_some(stage)
    };
    if let (Some(narrow), Some(stage)) = (narrow, reads.iter().find_map(stored)) {
        // What needs more precision keeps it.
        let _ = b.apply(|it| it.downcast(stage, narrow));
    }
}

/// Whether a stage is a product by matrix instructions of that many steps.
pub(super) fn is_tensor(b: &Builder, stage: StageId) -> bool {
    product(b, stage).is_some_and(|it| it.step == STEP)
}

/// Rows of a block.
fn rows(b: &Builder, chain: &Chain) -> u64 {
    b.extents(chain.root)[chain.row].next_power_of_two().clamp(16, MOST_ROWS)
}

/// How many columns a block has, and how many blocks are on their way at once: the first of these
/// that there is room for in shared memory, half of it first, so that two blocks run side by side.
fn block(b: &Builder, chain: &Chain, products: &[StageId]) -> (u64, u64) {
    const CHOICES: [(u64, u64, u64); 7] =
        [(2, 64, 3), (2, 64, 2), (1, 64, 2), (1, 64, 1), (1, 32, 2), (1, 32, 1), (1, 16, 1)];
    let limits = b.gpu().arch.limits();
    let most = if b.gpu().arch.has_async_copies() { 3 } else { 1 };
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
    let there = depth(&anchor).next_power_of_two().max(STEP);
    let fits = |(share, width, stages): &&(u64, u64, u64)| {
        let width = (*width).min(there);
        let copies = width * (row(inner) + row(columns)) * stages;
        let kept = rows(b, chain) * (row(inner) + row(width));
        *stages <= most && (copies + kept) * share <= limits.block_shared_bytes.into()
    };
    let (_, width, stages) = CHOICES.iter().find(fits).copied().unwrap_or((1, STEP, 1));
    (width.min(there), stages)
}

/// Opens how large blocks are.
fn deal(b: &mut Builder, chain: &Chain, is_tensor: bool, width: u64, name: &str) -> Deal {
    let rows = rows(b, chain);
    let group = b.new_group();
    let (outer, tiles) = if is_tensor { (rows / 16, 1) } else { (16.min(rows), rows.div_ceil(16)) };
    let most = if is_tensor { 8 } else { 32 };
    let outer = power(b, format!("{name} row threads"), most, outer, group);
    let tiles = power(b, format!("{name} row tiles"), 8, tiles, group);
    let group = b.new_group();
    let steps = power(b, format!("{name} steps"), 8, width / STEP, group);
    let (half, inner, threads, pair) = if is_tensor { (2, 8, 4, 2) } else { (1, 1, 16, 1) };
    let rows = vec![
        (Factor::Open(outer), Part::Threads),
        (Factor::Open(tiles), Part::Tiles),
        (Factor::Fixed(half), Part::Half),
        (Factor::Fixed(inner), Part::Threads),
    ];
    let all = Factor::Times(inner * threads, outer);
    Deal { rows, threads, pair, steps, all, is_wide: false }
}

/// A copy of an operand of a product.
pub(super) struct Copied {
    pub(super) stage: StageId,
    /// Whether it is the same for all blocks of columns.
    pub(super) is_row: bool,
}

/// Copies what the products read that is not computed for a block.
pub(super) fn copy_operands(
    b: &mut Builder,
    chain: &Chain,
    products: &[StageId],
) -> Result<Vec<Copied>, ScheduleError> {
    let computed: Vec<TensorId> = chain.members().map(|it| b.schedule.stage(it).tensor()).collect();
    let mut copies = Vec::new();
    for stage in products {
        let moving = match chain.scores.iter().find(|it| it.0 == *stage) {
            Some((_, _, column)) => *column,
            None => b.schedule.stage(*stage).compute.n_spatial,
        };
        for (n, access) in (0..).zip(b.accesses(*stage)) {
            if computed.contains(&access.tensor) {
                continue;
            }
            // What cannot be copied is read where it is.
            if let Ok(copy) = b.apply(|it| it.cache_operand(*stage, n)) {
                copies.push(Copied { stage: copy, is_row: !access.depends_on(moving) });
            }
        }
    }
    Ok(copies)
}

/// Splits the axes of rows and of columns of a stage.
fn deal_out(
    b: &mut Builder,
    stage: StageId,
    row: usize,
    (column, columns): (usize, &[Factor]),
    deal: &Deal,
) -> Result<Loops, ScheduleError> {
    let factors: Vec<Factor> = deal.rows.iter().map(|it| it.0.clone()).collect();
    let i = b.split(stage, AxisId(row as u32), &factors)?;
    let lines = [Factor::Fixed(deal.threads), Factor::Fixed(deal.pair)];
    let j = b.split(stage, AxisId(column as u32), &[columns, &lines].concat())?;
    let n_spatial = b.schedule.stage(stage).compute.n_spatial;
    let others = (0..n_spatial).filter(|it| ![row, column].contains(it));
    let outer = others.map(|it| AxisId(it as u32)).chain([i[0], j[0]]).collect();
    let of = |part: Part| -> Vec<AxisId> {
        let parts = deal.rows.iter().zip(&i[1..]).filter(|it| it.0.1 == part);
        parts.map(|it| *it.1).collect()
    };
    let (tiles, lines) = j[1..].split_at(columns.len());
    let threads: Vec<AxisId> = of(Part::Threads).into_iter().chain([lines[0]]).collect();
    for axis in &threads {
        b.annotate(stage, *axis, LoopKind::Thread)?;
    }
    Ok(Loops {
        outer,
        threads,
        row_tiles: of(Part::Tiles),
        half: of(Part::Half)[0],
        column_tiles: tiles.to_vec(),
        pair: lines[1],
    })
}

/// Columns of a block, as tiles of what threads have side by side.
fn block_columns(deal: &Deal) -> Factor {
    Factor::Times(STEP / (deal.threads * deal.pair), deal.steps)
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
    anchor: StageId,
    (row, column): (usize, usize),
    columns: &[Factor],
    deal: &Deal,
) -> Result<AxisId, ScheduleError> {
    let depth = AxisId(b.schedule.stage(anchor).compute.n_spatial as u32);
    let loops = deal_out(b, anchor, row, (column, columns), deal)?;
    let k = b.split(anchor, depth, &[Factor::Open(deal.steps), Factor::Fixed(STEP)])?;
    multiply(b, anchor, &loops, &[k[0]], &k[1..], deal)?;
    Ok(k[0])
}

/// Orders the loops of a product: `first` outermost, steps of the reduction inside of threads.
fn multiply(
    b: &mut Builder,
    stage: StageId,
    loops: &Loops,
    first: &[AxisId],
    steps: &[AxisId],
    deal: &Deal,
) -> Result<(), ScheduleError> {
    let is_tensor = is_tensor(b, stage);
    let Loops { row_tiles, column_tiles, half, pair, .. } = loops;
    let (inner, steps) = steps.split_last().ok_or(ErrorKind::NotReduction.of_stage(stage))?;
    let tile = match is_tensor {
        true => [&row_tiles[..], column_tiles, &[*half, *pair, *inner]].concat(),
        false => [&[*inner], &row_tiles[..], &[*half], column_tiles, &[*pair]].concat(),
    };
    let order = [first, &loops.outer, &loops.threads, steps, &tile].concat();
    b.apply(|it| it.reorder(stage, &order))?;
    let kind = if is_tensor { LoopKind::Tensorized } else { LoopKind::Unrolled };
    for axis in row_tiles {
        b.annotate(stage, *axis, LoopKind::Unrolled)?;
    }
    for axis in column_tiles {
        b.annotate(stage, *axis, if deal.is_wide { kind } else { LoopKind::Unrolled })?;
    }
    for axis in [half, pair, inner] {
        b.annotate(stage, *axis, kind)?;
    }
    for axis in steps.iter().filter(|_| is_tensor) {
        b.annotate(stage, *axis, LoopKind::Unrolled)?;
    }
    Ok(())
}

/// Deals out a stage that is computed for a block.
fn score(
    b: &mut Builder,
    stage: StageId,
    (row, column): (usize, usize),
    deal: &Deal,
    steps: &Steps<'_>,
) -> Result<(), ScheduleError> {
    let compute = b.schedule.stage(stage).compute.clone();
    let loops = deal_out(b, stage, row, (column, &[block_columns(deal)]), deal)?;
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
    let k = steps(b, stage, depth)?;
    let first: Vec<AxisId> = depths.chain([k[0]]).collect();
    let loops = Loops { outer: [loops.outer.clone(), first].concat(), ..loops };
    multiply(b, stage, &loops, &[], &k[1..], deal)
}

/// Deals out a stage that reduces the columns of blocks: the threads of a row combine what they
/// have.
fn roll(b: &mut Builder, stage: StageId, row: usize, deal: &Deal) -> Result<(), ScheduleError> {
    let column = b.schedule.stage(stage).compute.n_spatial;
    let loops = deal_out(b, stage, row, (column, &[block_columns(deal)]), deal)?;
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
    (host, axis): (StageId, AxisId),
    deal: &Deal,
) -> Result<(), ScheduleError> {
    let name = b.stage_name(stage).to_owned();
    let tensor = b.schedule.stage(stage).tensor();
    let n_dims = b.schedule.tensor(tensor).tensor.shape.len();
    b.apply(|it| it.compute_at(stage, host, axis))?;
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
    let fits = |it: &u64| *it * dtype.bytes() <= 16 && length.is_multiple_of(*it);
    let best = if contiguous.is_some() { [8, 4, 2].into_iter().find(fits).unwrap_or(1) } else { 1 };
    let mut order = order.into_iter().map(|it| AxisId(it as u32)).rev();
    let mut fused = order.next().ok_or(ErrorKind::NotFusible.of_stage(stage))?;
    for outer in order {
        fused = b.apply(|it| it.fuse(stage, outer, fused))?;
    }
    let group = b.new_group();
    let lanes = power(b, format!("{name} vector"), best, best, group);
    let factors = [deal.all.clone(), Factor::Open(lanes)];
    let parts = b.split(stage, fused, &factors)?;
    b.apply(|it| it.reorder(stage, &[parts[1], parts[0], parts[2]]))?;
    b.annotate(stage, parts[1], LoopKind::Thread)?;
    b.annotate(stage, parts[0], LoopKind::Unrolled)?;
    b.annotate(stage, parts[2], LoopKind::Vectorized)
}
