//! The rules for GPUs: what becomes blocks, what threads, and what goes through shared memory.
//!
//! - `tensor`: sums of products of narrow numbers: matrix instructions, each of a warp.
//! - `group`: the same, each of four warps.
//! - `tile`: reductions of which two operands are used more than once: tiles of accumulators in the
//!   registers of threads, operands copied to shared memory by all of them.
//! - `rows`: reductions along memory, and what needs them: threads share a row.
//! - `flat`: everything else: a thread computes neighboring elements.
//! - `across`: elements that are read along another axis than they are written: tiles through shared
//!   memory.

mod across;
mod flat;
mod group;
mod rows;
mod tensor;
mod tile;
mod tile_size;

use super::builder::Builder;
use super::group::Group;
use super::{DecisionId, DecisionKind};
use crate::schedule::StageId;
use crate::schedule::error::ScheduleError;

/// One way to schedule a group on a GPU.
pub(super) enum Way {
    Group {
        is_fed: bool,
    },
    Tensor,
    Tile,
    Rows,
    Flat,
    /// Along which axis something is read that is written along the last one.
    Across(usize),
}

/// Whether a reduction runs in tiles: two of its operands are used more than once.
pub(super) fn tiles(b: &Builder, stage: StageId) -> bool {
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
    b.is_anchor(stage) && shared.iter().any(|a| shared.iter().any(|b| differs(a, b)))
}

/// The ways to schedule a group, the most promising first.
pub(super) fn ways(b: &Builder, group: &Group) -> Vec<Way> {
    match group {
        Group::Tiled { anchor, .. } => {
            let groups = [true, false].map(|is_fed| Way::Group { is_fed });
            let suits = group::suits(b, *anchor);
            let groups = groups.into_iter().filter(|_| suits);
            let tensor = tensor::product(b, *anchor).map(|_| Way::Tensor);
            groups.chain(tensor).chain([Way::Tile]).collect()
        }
        Group::Rows { root, inside, .. } => {
            let reduces = b.schedule.stage(*root).compute.reducer.is_some();
            if !inside.is_empty() {
                return vec![Way::Rows];
            }
            if reduces {
                return match rows::is_along_memory(b, *root) {
                    true => vec![Way::Rows, Way::Flat],
                    false => vec![Way::Flat],
                };
            }
            let across = across::axis(b, *root).map(Way::Across);
            across.into_iter().chain([Way::Flat]).collect()
        }
    }
}

/// Applies a way.
pub(super) fn apply(b: &mut Builder, group: &Group, way: &Way) -> Result<(), ScheduleError> {
    match (group, way) {
        (Group::Tiled { root, anchor }, Way::Group { is_fed }) => {
            group::group(b, *root, *anchor, *is_fed)
        }
        (Group::Tiled { root, anchor }, Way::Tensor) => tensor::tensor(b, *root, *anchor),
        (Group::Tiled { root, anchor }, _) => tile::tile(b, *root, *anchor),
        (Group::Rows { root, inside, depth }, Way::Rows) => rows::rows(b, *root, inside, *depth),
        (Group::Rows { root, .. }, Way::Across(axis)) => across::across(b, *root, *axis),
        (Group::Rows { root, .. }, _) => flat::flat(b, *root),
    }
}

/// A decision among powers of two from 1 to `most`; the default need not be one.
fn power(b: &mut Builder, name: String, most: u64, best: u64, group: u32) -> DecisionId {
    let options: Vec<u64> = (0..11).map(|it| 1 << it).filter(|it| *it <= most.max(1)).collect();
    b.decide(name, DecisionKind::Inner, &options, best, group)
}

/// How many elements of 16 bytes at most an access along an axis of that extent may have.
fn vector(b: &Builder, stage: StageId, extent: u64) -> u64 {
    let tensor = b.schedule.stage(stage).tensor();
    let widest = 16 / b.schedule.tensor(tensor).tensor.dtype.bytes();
    let fits = |it: &u64| *it <= widest && extent.is_multiple_of(*it);
    [8, 4, 2].into_iter().find(fits).unwrap_or(1)
}
