//! The default size of thread tiles.
//!
//! A thread with `i x j` accumulators reads `i + j` elements of shared memory for `i * j` multiply-adds:
//! 8 x 8 keep the arithmetic busy. But a multiprocessor without a block is idle: where there would be
//! too few blocks, tiles shrink.

use crate::sketch::Builder;
use tvmtune_ir::size::Size;
use tvmtune_schedule::StageId;

/// The tile of one axis: of a block `repeats * threads * inner` iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AxisTile {
    /// The axis of the reduction.
    pub(super) axis: usize,
    /// Threads, `inner` iterations apart.
    pub(super) threads: u64,
    /// Consecutive iterations of one thread.
    pub(super) inner: u64,
    /// Repeats of all that, as virtual threads.
    pub(super) repeats: u64,
}

impl AxisTile {
    pub(super) fn length(self) -> u64 {
        self.threads * self.inner * self.repeats
    }
}

/// The tile of a reduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TileSize {
    /// The spatial axes that are tiled, in their order.
    pub(super) axes: Vec<AxisTile>,
    /// The reduce axis that is copied step by step, and the length of a step.
    pub(super) step: (usize, u64),
}

/// Iterations of the reduction in a step.
const DEPTH: u64 = 16;

/// Threads of a block.
const MAX_THREADS: u64 = 256;

/// Sides of tiles along the two axes that matter, large ones first.
const SIDES: [(u64, u64); 7] =
    [(128, 128), (64, 128), (64, 64), (32, 64), (32, 32), (16, 32), (16, 16)];

/// Chooses the tile of a reduction for the multiprocessors of the target.
pub(super) fn choose(b: &Builder, anchor: StageId) -> Option<TileSize> {
    let compute = b.compute(anchor);
    let extents = b.extents(anchor);
    let n_spatial = compute.n_spatial;
    let accesses = b.accesses(anchor);
    // Tiles pay along axes that an operand does not depend on.
    let is_tiled =
        |axis: &usize| extents[*axis] > 1 && accesses.iter().any(|it| !it.depends_on(*axis));
    let fast = (0..n_spatial).rev().find(is_tiled)?;
    let both = |axis: usize| {
        accesses.iter().filter(|it| it.depends_on(fast) && it.depends_on(axis)).count()
    };
    let others = (0..n_spatial).filter(|it| *it != fast && is_tiled(it));
    let row = others.clone().min_by_key(|it| (both(*it), std::cmp::Reverse(extents[*it])))?;
    // A short axis is tiled with the next one of the same operand.
    let beside_axis = others.clone().rfind(|it| *it != row && both(*it) > both(row));
    let is_outer = |it: &usize| ![Some(fast), Some(row), beside_axis].contains(&Some(*it));
    let outer: u64 = (0..n_spatial).filter(is_outer).map(|it| extents[it]).size();

    let wanted = u64::from(b.gpu().multiprocessors);
    let mut chosen = None;
    for (rows, columns) in SIDES {
        let rows = rows.min(extents[row].next_power_of_two());
        let along = columns.min(extents[fast].next_power_of_two());
        let beside =
            beside_axis.map_or(1, |it| (columns / along).min(extents[it].next_power_of_two()));
        let beside_blocks = beside_axis.map_or(1, |it| extents[it].div_ceil(beside));
        let (row_blocks, fast_blocks) =
            (extents[row].div_ceil(rows), extents[fast].div_ceil(along));
        let n_blocks = [outer, row_blocks, fast_blocks, beside_blocks].iter().size();
        chosen = Some((rows, along, beside));
        if n_blocks >= wanted {
            break;
        }
    }
    let (rows, along, beside) = chosen?;
    // Without a transposed layout, neighboring threads read neighboring elements.
    let inner = if b.gpu().arch.has_async_copies() { 1 } else { 4 };
    let mut axes = vec![tile_of(row, rows, 8), tile_of(fast, along, inner)];
    axes.extend(beside_axis.filter(|_| beside > 1).map(|it| tile_of(it, beside, 1)));
    // Threads of a third axis come on top of 16 x 16.
    while axes.iter().map(|it| it.threads).size() > MAX_THREADS {
        let widest = axes.iter_mut().max_by_key(|it| it.threads)?;
        widest.threads /= 2;
        widest.repeats *= 2;
    }
    axes.sort_by_key(|it| it.axis);
    Some(TileSize {
        axes,
        step: step(&extents, n_spatial, &|axis| accesses.iter().any(|it| it.is_contiguous(axis)))?,
    })
}

/// Returns a side of so many iterations: 16 threads with up to `inner` consecutive ones each.
fn tile_of(axis: usize, length: u64, inner: u64) -> AxisTile {
    let threads = length.min(16);
    let inner = (length / threads).clamp(1, inner);
    AxisTile { axis, threads, inner, repeats: length / threads / inner }
}

/// Chooses the reduce axis to take in steps: one along memory if there is one, else the longest.
fn step(
    extents: &[u64],
    n_spatial: usize,
    is_contiguous: &dyn Fn(usize) -> bool,
) -> Option<(usize, u64)> {
    let reduce = n_spatial..extents.len();
    let axis =
        reduce.clone().max_by_key(|it| (extents[*it] > 8 && is_contiguous(*it), extents[*it]))?;
    let beside: u64 = reduce.filter(|it| *it != axis).map(|it| extents[it]).size();
    let wanted = DEPTH.div_ceil(beside.max(1)).next_power_of_two();
    let wanted = if beside > 1 { wanted.max(4) } else { wanted };
    Some((axis, wanted.min(extents[axis])))
}
