//! The stages of attention, two products with an online softmax between, for its templates by MMA and
//! by WGMMA: all stages share one thread layout, and run in the loop over blocks of keys and values.

use super::mma::product;
use super::operand::Location;
use crate::sketch::fusion_group::{Chain, Score};
use crate::sketch::{Builder, DecisionId, Factor, Result};
use tvmtune_ir::dag::TensorId;
use tvmtune_schedule::error::ErrorKind;
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// The distribution of the rows and columns of a chain over threads.
#[derive(Clone)]
pub(super) struct ChainLayout {
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

/// Gives the second product of a chain accumulators of its own, and stores its first operand in low
/// precision; returns it, and all products, it last.
pub(super) fn prepare_products(b: &mut Builder, chain: &Chain) -> Result<(StageId, Vec<StageId>)> {
    let is_copied = chain.root == chain.anchor;
    let anchor = if is_copied { b.apply(|it| it.cache_write(chain.root))? } else { chain.anchor };
    let products = chain
        .scores
        .iter()
        .map(|it| it.stage)
        .filter(|it| b.reduces(*it))
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
pub(super) type SplitDepth = dyn Fn(&mut Builder, StageId, AxisId) -> Result<Vec<AxisId>>;

/// The blocking of a chain.
pub(super) struct Blocking<'a> {
    /// The tiles of the columns of the result.
    pub(super) columns: &'a [Factor],
    pub(super) layout: &'a ChainLayout,
    pub(super) split_depth: &'a SplitDepth,
}

/// Schedules all stages of a chain except copies.
pub(super) fn schedule_stages(
    b: &mut Builder,
    chain: &Chain,
    anchor: StageId,
    blocking: &Blocking<'_>,
) -> Result<CopyLocations> {
    let Chain { root, row, column, .. } = *chain;
    let Blocking { columns, layout, split_depth } = *blocking;
    let loops = split_rows_and_columns(b, Score { stage: root, row, column }, columns, layout)?;
    let block = order_root_loops(b, root, &loops)?;
    let blocks = schedule_second_product(b, Score { stage: anchor, row, column }, columns, layout)?;
    b.apply(|it| it.compute_at(anchor, root, block))?;
    for stage in b.schedule.order.clone().into_iter().rev() {
        if let Some(it) = chain.score(stage) {
            schedule_score(b, *it, layout, split_depth)?;
            b.apply(|it| it.compute_at(stage, anchor, blocks))?;
        } else if let Some(it) = chain.reductions.iter().find(|it| it.stage == stage) {
            schedule_online_reduction(b, stage, it.row, layout)?;
            b.apply(|it| it.online_reduction(stage, anchor, blocks))?;
        }
    }
    let root = Location { stage: root, axis: block };
    Ok(CopyLocations { root, block: Location { stage: anchor, axis: blocks } })
}

/// Stores the scores that the second product reads in the precision of its other operand, where the
/// result is no more precise.
fn downcast_scores(b: &mut Builder, chain: &Chain, anchor: StageId) {
    let dtype = |it: TensorId| b.schedule.tensor(it).tensor.dtype;
    let root = dtype(b.tensor_of(chain.root));
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

/// Splits the rows and columns of a stage, and distributes them over threads.
fn split_rows_and_columns(
    b: &mut Builder,
    axes: Score,
    columns: &[Factor],
    layout: &ChainLayout,
) -> Result<Loops> {
    let Score { stage, row, column } = axes;
    let factors: Vec<Factor> = layout.rows.iter().map(|it| it.0.clone()).collect();
    let i = b.split(stage, AxisId(row as u32), &factors)?;
    let lines = [Factor::Fixed(layout.threads), Factor::Fixed(layout.pair)];
    let j = b.split(stage, AxisId(column as u32), &[columns, &lines].concat())?;
    let n_spatial = b.n_spatial(stage);
    let others = (0..n_spatial).filter(|it| ![row, column].contains(it));
    let outer = others.map(|it| AxisId(it as u32)).chain([i[0], j[0]]).collect();
    let on = |level: RowLevel| -> Vec<AxisId> {
        let loops = layout.rows.iter().zip(&i[1..]).filter(|it| it.0.1 == level);
        loops.map(|it| *it.1).collect()
    };
    let (tiles, lines) = j[1..].split_at(columns.len());
    let threads: Vec<AxisId> = on(RowLevel::Threads).into_iter().chain([lines[0]]).collect();
    b.annotate_all(stage, &threads, LoopKind::Thread)?;
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
fn block_columns(layout: &ChainLayout) -> Factor {
    Factor::Times(STEP / (layout.threads * layout.pair), layout.steps)
}

/// Orders the loops of the stage that stores the result; returns the last one over blocks.
fn order_root_loops(b: &mut Builder, root: StageId, loops: &Loops) -> Result<AxisId> {
    b.reorder(root, [&loops.outer[..], &loops.threads, &loops.tiles(), &[loops.pair]].concat())?;
    b.annotate_all(root, &loops.outer, LoopKind::Parallel)?;
    b.annotate_all(root, loops.tiles(), LoopKind::Unrolled)?;
    b.annotate(root, loops.pair, LoopKind::Vectorized)?;
    loops.outer.last().copied().ok_or(ErrorKind::NotOutermost.of_stage(root))
}

/// Schedules the second product; returns its loop over blocks.
fn schedule_second_product(
    b: &mut Builder,
    axes: Score,
    columns: &[Factor],
    layout: &ChainLayout,
) -> Result<AxisId> {
    let anchor = axes.stage;
    let depth = AxisId(b.n_spatial(anchor) as u32);
    let loops = split_rows_and_columns(b, axes, columns, layout)?;
    let k = b.split(anchor, depth, &[Factor::Open(layout.steps), Factor::Fixed(STEP)])?;
    let outer = [&[k[0]], &loops.outer[..]].concat();
    order_product_loops(b, anchor, &Loops { outer, ..loops }, &k[1..], layout)?;
    Ok(k[0])
}

/// Orders the loops of a product: steps of the reduction inside of threads.
fn order_product_loops(
    b: &mut Builder,
    stage: StageId,
    loops: &Loops,
    steps: &[AxisId],
    layout: &ChainLayout,
) -> Result<()> {
    let is_tensorized = is_tensorized(b, stage);
    let Loops { row_tiles, column_tiles, half, pair, .. } = loops;
    let (inner, steps) = steps.split_last().ok_or(ErrorKind::NotReduction.of_stage(stage))?;
    let tile = match is_tensorized {
        true => [&row_tiles[..], column_tiles, &[*half, *pair, *inner]].concat(),
        false => [&[*inner], &row_tiles[..], &[*half], column_tiles, &[*pair]].concat(),
    };
    b.reorder(stage, [&loops.outer[..], &loops.threads, steps, &tile].concat())?;
    let kind = if is_tensorized { LoopKind::Tensorized } else { LoopKind::Unrolled };
    b.annotate_all(stage, row_tiles, LoopKind::Unrolled)?;
    b.annotate_all(stage, column_tiles, if layout.is_wide { kind } else { LoopKind::Unrolled })?;
    b.annotate_all(stage, [half, pair, inner], kind)?;
    b.annotate_all(stage, steps.iter().filter(|_| is_tensorized), LoopKind::Unrolled)?;
    Ok(())
}

/// Schedules a score, which is computed for each block.
fn schedule_score(
    b: &mut Builder,
    axes: Score,
    layout: &ChainLayout,
    split_depth: &SplitDepth,
) -> Result<()> {
    let stage = axes.stage;
    let compute = b.compute(stage).clone();
    let loops = split_rows_and_columns(b, axes, &[block_columns(layout)], layout)?;
    if compute.reducer.is_none() {
        b.reorder(
            stage,
            [&loops.outer[..], &loops.threads, &loops.tiles(), &[loops.pair]].concat(),
        )?;
        b.annotate_all(stage, loops.tiles(), LoopKind::Unrolled)?;
        return b.annotate(stage, loops.pair, LoopKind::Vectorized);
    }
    let mut depths = (compute.n_spatial..compute.axes.len()).map(|it| AxisId(it as u32));
    let depth = depths.next_back().ok_or(ErrorKind::NotReduction.of_stage(stage))?;
    let k = split_depth(b, stage, depth)?;
    let first: Vec<AxisId> = depths.chain([k[0]]).collect();
    let loops = Loops { outer: [loops.outer.clone(), first].concat(), ..loops };
    order_product_loops(b, stage, &loops, &k[1..], layout)
}

/// Schedules a reduction of the columns of blocks: a warp all-reduce by the threads of a row.
fn schedule_online_reduction(
    b: &mut Builder,
    stage: StageId,
    row: usize,
    layout: &ChainLayout,
) -> Result<()> {
    let column = b.n_spatial(stage);
    let axes = Score { stage, row, column };
    let loops = split_rows_and_columns(b, axes, &[block_columns(layout)], layout)?;
    let inner = [loops.tiles(), vec![loops.pair]].concat();
    b.reorder(stage, [&loops.outer[..], &loops.threads, &inner].concat())?;
    b.annotate_all(stage, inner, LoopKind::Unrolled)?;
    Ok(())
}
