//! The rule for transposes: tiles go through shared memory, so that both reads and writes run along
//! memory.
//!
//! ```text
//! parallel others, i_0, j_0
//!   thread s: thread r:        tile[s, r] = x[.. j, i ..]        -- along x
//!   thread i_2: thread j_1: for i_1:  y[.. i, j ..] = f(tile[.., ..])   -- along y
//! ```

use super::power;
use crate::sketch::Factor;
use crate::sketch::builder::Builder;
use tvmtune_ir::dag::access::Access;
use tvmtune_schedule::error::ScheduleError;
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// The sides of a tile.
const SIDE: u64 = 32;

/// The axis along which something lies that is not the last one, while along the last one it does
/// not: reading it in the order of the loops would touch a line of memory for each element.
pub(super) fn axis(b: &Builder, root: StageId) -> Option<usize> {
    let extents = b.extents(root);
    let last = extents.len().checked_sub(1)?;
    let accesses = b.accesses(root);
    let crosses = |axis: &usize| accesses.iter().any(|it| is_across(it, *axis, last));
    (0..last).rev().find(crosses).filter(|it| extents[*it] >= 8 && extents[last] >= 8)
}

fn is_across(access: &Access, axis: usize, last: usize) -> bool {
    access.is_contiguous(axis)
        && access.depends_on(last)
        && !access.is_contiguous(last)
        && !access.conditional
}

/// The rule, for what is read along an axis and written along another.
pub(super) fn across(
    b: &mut Builder,
    root: StageId,
    (axis, last): (usize, usize),
) -> Result<(), ScheduleError> {
    let name = b.stage_name(root).to_owned();
    let accesses = b.accesses(root);
    let mut tensors: Vec<_> =
        accesses.iter().filter(|it| is_across(it, axis, last)).map(|it| it.tensor).collect();
    tensors.dedup();
    let mut copies = Vec::new();
    for tensor in tensors {
        copies.push(b.apply(|it| it.cache_read(tensor, root))?);
    }
    let group = b.new_group();
    let rows = power(b, format!("{name} rows"), SIDE, 8, group);
    let repeats = power(b, format!("{name} repeats"), 8, SIDE / 8, group);
    let factors = [Factor::Open(repeats), Factor::Open(rows)];
    let i = b.split(root, AxisId(axis as u32), &factors)?;
    let j = b.split(root, AxisId(last as u32), &[Factor::Fixed(SIDE)])?;
    let n_spatial = b.schedule.stage(root).compute.n_spatial;
    let others = (0..n_spatial).filter(|it| ![axis, last].contains(it));
    let mut blocks: Vec<AxisId> = others.map(|it| AxisId(it as u32)).collect();
    blocks.extend([i[0], j[0]]);
    let tile = j[0];
    let order: Vec<AxisId> = blocks.iter().copied().chain([i[2], j[1], i[1]]).collect();
    b.apply(|it| it.reorder(root, &order))?;
    for outer in blocks {
        b.annotate(root, outer, LoopKind::Parallel)?;
    }
    b.annotate(root, i[2], LoopKind::Thread)?;
    b.annotate(root, j[1], LoopKind::Thread)?;
    b.annotate(root, i[1], LoopKind::Unrolled)?;
    for copy in copies {
        b.apply(|it| it.compute_at(copy, root, tile))?;
        let n_dims = b.schedule.stage(copy).order.len() as u32;
        let mut axis = AxisId(n_dims - 1);
        for outer in (0..n_dims - 1).rev() {
            axis = b.apply(|it| it.fuse(copy, AxisId(outer), axis))?;
        }
        let threads = [Factor::Times(SIDE, rows)];
        let parts = b.split(copy, axis, &threads)?;
        b.annotate(copy, parts[1], LoopKind::Thread)?;
        b.annotate(copy, parts[0], LoopKind::Unrolled)?;
        b.apply(|it| it.reorder(copy, &[parts[1], parts[0]]))?;
    }
    b.name.push(format!("{name}: across"));
    Ok(())
}
