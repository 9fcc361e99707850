//! Access analysis for GPU templates.
//!
//! In: a sketch under construction, and a stage of it. Out: the reduction's size, the axis that is
//! contiguous in memory, data reuse, and the widest vectors along an axis.

use crate::sketch::Builder;
use tvmtune_ir::dag::access::Access;
use tvmtune_ir::size::Size;
use tvmtune_schedule::StageId;

/// Bytes of the widest access of a thread.
pub(super) const ACCESS_BYTES: u64 = 16;

/// Returns the product of a stage's reduce extents; 1 for a stage that does not reduce.
pub(super) fn reduction_size(b: &Builder, stage: StageId) -> u64 {
    let n_spatial = b.n_spatial(stage);
    b.extents(stage)[n_spatial..].iter().size()
}

/// Returns the read with the largest footprint: it dominates the memory traffic.
fn largest_read(b: &Builder, stage: StageId) -> Option<Access> {
    let extents = b.extents(stage);
    let size = |it: &Access| {
        let moving = (0..extents.len()).filter(|axis| it.depends_on(*axis));
        moving.map(|axis| extents[axis]).fold(1, u64::saturating_mul)
    };
    b.accesses(stage).into_iter().max_by_key(size)
}

/// Returns whether the last reduce axis of a stage is contiguous in memory.
pub(super) fn is_reduction_contiguous(b: &Builder, stage: StageId) -> bool {
    let n_spatial = b.n_spatial(stage);
    let extents = b.extents(stage);
    let last = (n_spatial..extents.len()).rev().find(|it| extents[*it] > 1);
    last.is_some_and(|last| largest_read(b, stage).is_some_and(|it| it.is_contiguous(last)))
}

/// Returns the spatial axis of a stage that is contiguous in memory.
pub(super) fn contiguous_spatial_axis(b: &Builder, stage: StageId) -> Option<usize> {
    let (extents, read) = (b.extents(stage), largest_read(b, stage)?);
    let n_spatial = b.n_spatial(stage);
    (0..n_spatial).find(|it| extents[*it] > 1 && read.is_contiguous(*it))
}

/// Returns the largest vector width, in elements, that is legal along an axis in all of those stages;
/// 1 if the extent is dynamic.
pub(super) fn common_vector_width(b: &Builder, stages: &[StageId], axis: usize) -> u64 {
    let bytes = |it: &StageId| {
        let own = b.tensor_of(*it);
        let read = b.accesses(*it).into_iter().filter(|it| it.is_contiguous(axis));
        let tensors = read.map(|it| it.tensor).chain([own]);
        tensors.map(|it| b.schedule.tensor(it).tensor.dtype.bytes()).min().unwrap_or(ACCESS_BYTES)
    };
    let widest = ACCESS_BYTES / stages.iter().map(bytes).min().unwrap_or(ACCESS_BYTES);
    let fits =
        |lanes: &u64| *lanes <= widest && stages.iter().all(|it| is_multiple(b, *it, axis, *lanes));
    [8, 4, 2].into_iter().find(fits).unwrap_or(1)
}

/// Returns whether the extent of an axis is constant and a multiple of `divisor`.
fn is_multiple(b: &Builder, stage: StageId, axis: usize, divisor: u64) -> bool {
    let extent = &b.compute(stage).axes[axis].extent;
    extent.as_constant().is_some_and(|it| (it as u64).is_multiple_of(divisor))
}

/// Returns whether tiles save memory traffic: two operands of a reduction have data reuse.
pub(in crate::sketch) fn benefits_from_tiling(b: &Builder, stage: StageId) -> bool {
    let compute = b.compute(stage);
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

/// Returns the largest vector width, in elements, of a stage's writes along an axis of that extent.
pub(super) fn store_vector_width(b: &Builder, stage: StageId, extent: u64) -> u64 {
    let tensor = b.tensor_of(stage);
    let widest = ACCESS_BYTES / b.schedule.tensor(tensor).tensor.dtype.bytes();
    let fits = |it: &u64| *it <= widest && extent.is_multiple_of(*it);
    [8, 4, 2].into_iter().find(fits).unwrap_or(1)
}
