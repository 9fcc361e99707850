//! How large tiles are where nothing was measured.
//!
//! A thread with `i x j` accumulators reads `i + j` elements of shared memory for as many
//! multiply-adds: 8 x 8 keep the arithmetic busy. But a multiprocessor with no block does nothing:
//! where there would be too few, tiles shrink.

use crate::sketch::builder::Builder;
use tvmtune_schedule::StageId;

/// The tile of one axis: of a block `repeats * threads * inner` iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AxisTile {
    /// The axis of the reduction.
    pub(super) axis: usize,
    /// Threads apart by `inner` iterations.
    pub(super) threads: u64,
    /// Iterations of one thread in a row.
    pub(super) inner: u64,
    /// How often that, further out.
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
    /// Of the spatial axes that are tiled, in their order.
    pub(super) axes: Vec<AxisTile>,
    /// The reduce axis of which a block copies a part at a time, and how much.
    pub(super) step: (usize, u64),
}

/// Elements of the reduction that a block copies at a time.
const DEPTH: u64 = 16;

/// Sides of tiles along the two axes that matter, large ones first.
const SIDES: [(u64, u64); 7] =
    [(128, 128), (64, 128), (64, 64), (32, 64), (32, 32), (16, 32), (16, 16)];

/// The tile of a reduction by the multiprocessors there are.
pub(super) fn choose(b: &Builder, anchor: StageId) -> Option<TileSize> {
    let compute = &b.schedule.stage(anchor).compute;
    let extents = b.extents(anchor);
    let n_spatial = compute.n_spatial;
    let accesses = b.accesses(anchor);
    // Tiles pay along axes that something does not depend on.
    let is_tiled =
        |axis: &usize| extents[*axis] > 1 && accesses.iter().any(|it| !it.depends_on(*axis));
    let fast = (0..n_spatial).rev().find(is_tiled)?;
    let both = |axis: usize| {
        accesses.iter().filter(|it| it.depends_on(fast) && it.depends_on(axis)).count()
    };
    let others = (0..n_spatial).filter(|it| *it != fast && is_tiled(it));
    let row = others.clone().min_by_key(|it| (both(*it), std::cmp::Reverse(extents[*it])))?;
    // A short axis gets the next one that moves along with it as company.
    let walk = others.clone().rfind(|it| *it != row && both(*it) > both(row));
    let is_outer = |it: &usize| ![Some(fast), Some(row), walk].contains(&Some(*it));
    let outer: u64 = (0..n_spatial).filter(is_outer).map(|it| extents[it]).product();

    let wanted = u64::from(b.gpu().multiprocessors);
    let mut chosen = None;
    for (rows, columns) in SIDES {
        let rows = rows.min(extents[row].next_power_of_two());
        let along = columns.min(extents[fast].next_power_of_two());
        let beside = walk.map_or(1, |it| (columns / along).min(extents[it].next_power_of_two()));
        let n_blocks = outer
            * extents[row].div_ceil(rows)
            * extents[fast].div_ceil(along)
            * walk.map_or(1, |it| extents[it].div_ceil(beside));
        chosen = Some((rows, along, beside));
        if n_blocks >= wanted {
            break;
        }
    }
    let (rows, along, beside) = chosen?;
    // Where steps are copied as they lie, neighbors of a row are neighboring threads.
    let inner = if b.gpu().arch.has_async_copies() { 1 } else { 4 };
    let mut axes = vec![tile_of(row, rows, 8), tile_of(fast, along, inner)];
    axes.extend(walk.filter(|_| beside > 1).map(|it| tile_of(it, beside, 1)));
    // Walking threads come on top of 16 x 16.
    while axes.iter().map(|it| it.threads).product::<u64>() > 256 {
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

/// A side of so many iterations: 16 threads, of which each has up to `inner` in a row.
fn tile_of(axis: usize, length: u64, inner: u64) -> AxisTile {
    let threads = length.min(16);
    let inner = (length / threads).clamp(1, inner);
    AxisTile { axis, threads, inner, repeats: length / threads / inner }
}

/// The reduce axis to take in steps: one along memory if there is one, else the longest.
fn step(
    extents: &[u64],
    n_spatial: usize,
    is_contiguous: &dyn Fn(usize) -> bool,
) -> Option<(usize, u64)> {
    let reduce = n_spatial..extents.len();
    let axis =
        reduce.clone().max_by_key(|it| (extents[*it] > 8 && is_contiguous(*it), extents[*it]))?;
    let beside: u64 = reduce.filter(|it| *it != axis).map(|it| extents[it]).product();
    let wanted = DEPTH.div_ceil(beside.max(1)).next_power_of_two();
    let wanted = if beside > 1 { wanted.max(4) } else { wanted };
    Some((axis, wanted.min(extents[axis])))
}
