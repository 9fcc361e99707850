//! The GPU template for long reductions across memory: neighboring threads take neighboring columns,
//! rows of threads interleave the steps of the reduction, and partial results are combined in shared
//! memory.
//!
//! ```text
//! parallel others, j_0
//!   thread r: thread j_1:  for k: vectorized j_2:  acc[j] += x[k, r, j]      -- in registers
//!                          vectorized j_2:         part[r, j] = acc[j]
//!   thread j_1: for r:     vectorized j_2:  sum[j] += part[r, j]
//!   thread j_1:            vectorized j_2:  y[j] = f(sum[j])
//! ```

use super::pattern::Pattern;
use super::reads::{common_vector_width, contiguous_spatial_axis, reduction_size};
use super::threads::{innermost, with_accumulator};
use crate::sketch::{Builder, DecisionId, Factor, Result, Rows, Template, TemplateKind};
use tvmtune_ir::size::Size;
use tvmtune_schedule::error::ErrorKind;
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// Threads along the columns: a warp.
const SIDE: u64 = 32;
/// Rows of threads.
const MAX_ROWS: u64 = 16;
/// Steps of the reduction that a thread should have.
const MIN_STEPS: u64 = 8;
/// Threads that keep the memory of a multiprocessor busy: half of those that it can hold.
const BUSY_THREADS: u64 = 1024;

/// The tile of a block.
#[derive(Clone, Copy)]
struct Tile {
    /// The axis that runs along memory.
    column: usize,
    threads: DecisionId,
    lanes: DecisionId,
}

/// A stage that runs inside of a block.
struct Placed {
    stage: StageId,
    /// Its axis over rows of threads, if it has one.
    row: Option<AxisId>,
    /// The stage that computes it in registers.
    accumulator: Option<StageId>,
}

pub(super) const TEMPLATE: Template<Rows> = Template { is_applicable, schedule };

fn is_applicable(b: &Builder, rows: &Rows) -> bool {
    Pattern::classify(b, rows) == Pattern::StridedReduction
}

fn schedule(b: &mut Builder, rows: &Rows) -> Result<()> {
    let root = rows.root;
    let name = b.stage_name(root).to_owned();
    let n_spatial = b.n_spatial(root);
    let attached = with_accumulator(b, rows)?;
    let is_reduction = |it: &StageId| b.reduces(*it);
    let reductions: Vec<StageId> = attached.iter().copied().filter(is_reduction).collect();
    let longest = reductions.iter().copied().max_by_key(|it| reduction_size(b, *it));
    let longest = longest.ok_or(ErrorKind::NotReduction.of_stage(root))?;
    let last = n_spatial.checked_sub(1).ok_or(ErrorKind::NotOutermost.of_stage(root))?;
    let column = contiguous_spatial_axis(b, longest).unwrap_or(last);

    let (tile, rows) = decide(b, &name, root, longest, column, &reductions);
    let mut placed = Vec::new();
    for stage in attached {
        if b.reduces(stage) {
            placed.push(rows_of_threads(b, stage, rows)?);
        }
        placed.push(Placed { stage, row: None, accumulator: None });
    }
    let block = split_root(b, root, tile)?;
    // Readers first: a stage runs inside the loop only when all that read it do.
    for Placed { stage, row, accumulator } in placed.into_iter().rev() {
        let thread = split_inside(b, stage, tile, row)?;
        b.apply(|it| it.compute_at(stage, root, block))?;
        if let Some(accumulator) = accumulator {
            innermost(b, accumulator, AxisId(tile.column as u32))?;
            b.apply(|it| it.compute_at(accumulator, stage, thread))?;
        }
    }
    b.note_template(TemplateKind::Columns, root);
    Ok(())
}

fn decide(
    b: &mut Builder,
    name: &str,
    root: StageId,
    longest: StageId,
    column: usize,
    reductions: &[StageId],
) -> (Tile, DecisionId) {
    let extents = b.extents(root);
    let elements: u64 = extents.iter().size();
    let multiprocessors = u64::from(b.gpu().multiprocessors);
    let max_rows = (reduction_size(b, longest) / MIN_STEPS).clamp(1, MAX_ROWS);
    // Wide accesses only where there is enough to do for all threads without them.
    let widest = common_vector_width(b, reductions, column);
    let busy = |lanes: &u64| elements / (lanes * SIDE) >= multiprocessors;
    let best = [8, 4, 2].into_iter().find(|it| *it <= widest && busy(it)).unwrap_or(1);
    let lanes = b.decide_power(format!("{name} vector"), widest, best);
    let side = (extents[column] / best).next_power_of_two().clamp(1, SIDE);
    let threads = b.decide_power_in(b.group_of(lanes), format!("{name} columns"), 4 * SIDE, side);
    let rows = (multiprocessors * BUSY_THREADS * best / elements.max(1))
        .next_power_of_two()
        .clamp(1, max_rows);
    let rows = 1 << rows.ilog2();
    let rows = b.decide_power(format!("{name} rows"), 2 * MAX_ROWS, rows);
    (Tile { column, threads, lanes }, rows)
}

/// Factors a reduction into partial results of rows of threads, each in registers.
fn rows_of_threads(b: &mut Builder, stage: StageId, rows: DecisionId) -> Result<Placed> {
    let (extents, n_spatial) = (b.extents(stage), b.n_spatial(stage));
    let longest = (n_spatial..extents.len()).max_by_key(|it| extents[*it]);
    let longest = longest.ok_or(ErrorKind::NotReduction.of_stage(stage))?;
    let parts = b.split(stage, AxisId(longest as u32), &[Factor::Open(rows)])?;
    let stage = b.apply(|it| it.rfactor(stage, parts[1]))?;
    let tensor = b.tensor_of(stage);
    let order = [n_spatial].into_iter().chain(0..n_spatial).collect();
    b.permute(tensor, order)?;
    let accumulator = Some(b.apply(|it| it.cache_write(stage))?);
    Ok(Placed { stage, row: Some(AxisId(n_spatial as u32)), accumulator })
}

/// Splits the stage that stores the result; returns its last loop over blocks.
fn split_root(b: &mut Builder, root: StageId, tile: Tile) -> Result<AxisId> {
    let n_spatial = b.n_spatial(root);
    let parts = split(b, root, tile)?;
    let others = (0..n_spatial).filter(|it| *it != tile.column).map(|it| AxisId(it as u32));
    let blocks: Vec<AxisId> = others.chain([parts[0]]).collect();
    b.reorder(root, blocks.iter().chain(&parts[1..]))?;
    b.annotate_all(root, blocks, LoopKind::Parallel)?;
    b.annotate(root, parts[1], LoopKind::Thread)?;
    b.annotate(root, parts[2], LoopKind::Vectorized)?;
    Ok(parts[0])
}

/// Gives each thread of a row, and each row of threads, its elements of a stage; returns the
/// innermost loop over threads.
fn split_inside(
    b: &mut Builder,
    stage: StageId,
    tile: Tile,
    row: Option<AxisId>,
) -> Result<AxisId> {
    let n_spatial = b.n_spatial(stage) as u32;
    let order = b.schedule.stage(stage).order.clone();
    let [outer, thread, inner] = split(b, stage, tile)?;
    let is_other = |it: &AxisId| it.0 != tile.column as u32 && Some(*it) != row;
    let (others, steps): (Vec<AxisId>, Vec<AxisId>) =
        order.into_iter().filter(is_other).partition(|it| it.0 < n_spatial);
    let threads: Vec<AxisId> = row.into_iter().chain([thread]).collect();
    b.reorder(stage, [&others[..], &threads, &[outer], &steps, &[inner]].concat())?;
    b.annotate_all(stage, threads, LoopKind::Thread)?;
    b.annotate_all(stage, steps, LoopKind::Unrolled)?;
    b.annotate(stage, inner, LoopKind::Vectorized)?;
    Ok(thread)
}

/// Splits columns into those of a block, a thread and a vector.
fn split(b: &mut Builder, stage: StageId, tile: Tile) -> Result<[AxisId; 3]> {
    let factors = [Factor::Open(tile.threads), Factor::Open(tile.lanes)];
    let parts = b.split(stage, AxisId(tile.column as u32), &factors)?;
    Ok([parts[0], parts[1], parts[2]])
}
