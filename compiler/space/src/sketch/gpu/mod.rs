//! The GPU templates: thread blocks, threads, and copies to shared memory.
//!
//! Each file has a template, which is listed in a table below for the fusion groups that it schedules.
//! `chain`, `split_k`, `operand`, `im2col`, `pattern`, `reads`, `row_threads` and `tile_size` serve them.
//!
//! In: a [`FusionGroup`]. Out: its [`templates`], the most promising first.

mod attention;
mod block_prefix;
mod chain;
mod columns;
mod flat;
mod im2col;
mod mma;
mod operand;
mod pattern;
mod reads;
mod row_scan;
mod row_threads;
mod rows;
mod split_k;
mod tile;
mod tile_size;
mod transpose;
mod wgmma;
mod wgmma_attention;
mod window;

pub(super) use self::chain::fuse_chains;
pub(super) use self::row_scan::fits_thread_block;
pub(super) use self::split_k::{is_split_column_reduction, split_k};

use self::wgmma::Copies;
use super::builder::Builder;
use super::fusion_group::{Chain, FusionGroup, Rows, Tiled};
use super::template::{Bound, Template, applicable};
use tvmtune_schedule::error::ScheduleError;
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// The templates for attention, in order.
const CHAIN: &[&dyn Template<Chain>] = &[&wgmma_attention::WgmmaAttention, &attention::Attention];

/// The templates for reductions in tiles, in order.
const TILED: &[&dyn Template<Tiled>] = &[
    &wgmma::Wgmma { copies: Copies::ByProducerWarp },
    &wgmma::Wgmma { copies: Copies::ByAllThreads },
    &mma::Mma,
    &tile::ThreadTile,
];

/// The templates for rows, in order.
const ROWS: &[&dyn Template<Rows>] = &[
    &row_scan::RowScan,
    &rows::RowReduction,
    &columns::ColumnReduction,
    &block_prefix::BlockPrefix,
    &window::Window,
    &transpose::Transpose,
    &flat::Flat,
];

/// Returns the templates of a group, the most promising first.
pub(super) fn templates<'a>(b: &Builder, group: &'a FusionGroup) -> Vec<Bound<'a>> {
    match group {
        FusionGroup::Chain(chain) => applicable(CHAIN, b, chain),
        FusionGroup::Tiled(tiled) => applicable(TILED, b, tiled),
        FusionGroup::Rows(rows) => applicable(ROWS, b, rows),
    }
}

/// Returns whether a reduction runs in tiles: two of its operands are used more than once.
pub(super) fn is_tiled(b: &Builder, stage: StageId) -> bool {
    let compute = &b.schedule.stage(stage).compute;
    let (extents, accesses) = (b.extents(stage), b.accesses(stage));
    let long = |axis: &usize| extents[*axis] > 1;
    let axes: Vec<usize> = (0..compute.n_spatial).filter(long).collect();
    let reused = |axis: &&usize| accesses.iter().any(|it| !it.depends_on(**axis));
    let differs = |a: &usize, b: &usize| {
        accesses.iter().any(|it| it.depends_on(*a) && !it.depends_on(*b))
            && accesses.iter().any(|it| it.depends_on(*b) && !it.depends_on(*a))
    };
    let shared: Vec<&usize> = axes.iter().filter(reused).collect();
    b.has_reuse(stage) && shared.iter().any(|a| shared.iter().any(|b| differs(a, b)))
}

/// Iterations of a reduction that are fully unrolled, at most.
const MAX_UNROLLED: u64 = 32;

/// Orders the loops of a stage that one thread runs: `inner`, its few elements, is the innermost.
fn innermost(b: &mut Builder, stage: StageId, inner: AxisId) -> Result<(), ScheduleError> {
    let n_spatial = b.schedule.stage(stage).compute.n_spatial;
    let mut order = b.schedule.stage(stage).order.clone();
    order.retain(|it| *it != inner);
    let mut n_iterations = 1;
    let short = |axis: &&AxisId| {
        n_iterations *= b.extent(stage, **axis);
        axis.0 as usize >= n_spatial && n_iterations <= MAX_UNROLLED
    };
    let short: Vec<AxisId> = order.iter().rev().take_while(short).copied().collect();
    order.push(inner);
    b.apply(|it| it.reorder(stage, &order))?;
    for axis in short {
        b.annotate(stage, axis, LoopKind::Unrolled)?;
    }
    b.annotate(stage, inner, LoopKind::Vectorized)
}

/// Returns the elements that one access may have along an axis of that extent.
fn vector(b: &Builder, stage: StageId, extent: u64) -> u64 {
    let tensor = b.schedule.stage(stage).tensor();
    let widest = reads::ACCESS_BYTES / b.schedule.tensor(tensor).tensor.dtype.bytes();
    let fits = |it: &u64| *it <= widest && extent.is_multiple_of(*it);
    [8, 4, 2].into_iter().find(fits).unwrap_or(1)
}
