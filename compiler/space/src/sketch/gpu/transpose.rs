//! The GPU template for transposes: tiles go through shared memory, so that both reads and writes are
//! coalesced.
//!
//! ```text
//! parallel others, i_0, j_0
//!   thread s: thread r:        tile[s, r] = x[.. j, i ..]        -- along x
//!   thread i_2: thread j_1: for i_1:  y[.. i, j ..] = f(tile[.., ..])   -- along y
//! ```

use super::pattern::Pattern;
use crate::sketch::{Builder, Factor, Result, Rows, Template, TemplateKind};
use tvmtune_ir::dag::access::Access;
use tvmtune_schedule::error::ErrorKind;
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// Elements of a side of a tile: a warp reads and writes rows of it.
const SIDE: u64 = 32;

/// The shortest axes that are worth a tile.
const MIN_EXTENT: u64 = 8;

pub(super) const TEMPLATE: Template<Rows> = Template { is_applicable, schedule };

fn is_applicable(b: &Builder, rows: &Rows) -> bool {
    Pattern::classify(b, rows) == Pattern::Elementwise
        && rows.inside.is_empty()
        && transposed_axis(b, rows.root).is_some()
}

fn schedule(b: &mut Builder, rows: &Rows) -> Result<()> {
    let refused = ErrorKind::NotOutermost.of_stage(rows.root);
    let axis = transposed_axis(b, rows.root).ok_or(refused)?;
    let last = b.n_spatial(rows.root) - 1;
    transpose(b, rows.root, axis, last)
}

/// Returns an axis other than the last along which a read is contiguous that is not along the last:
/// in the order of the loops, each element would touch a cache line.
fn transposed_axis(b: &Builder, root: StageId) -> Option<usize> {
    let extents = b.extents(root);
    let last = extents.len().checked_sub(1)?;
    let accesses = b.accesses(root);
    let is_read_along = |axis: &usize| accesses.iter().any(|it| is_transposed(it, *axis, last));
    let is_long = |axis: usize| extents[axis] >= MIN_EXTENT;
    (0..last).rev().find(is_read_along).filter(|it| is_long(*it) && is_long(last))
}

fn is_transposed(access: &Access, axis: usize, last: usize) -> bool {
    access.is_contiguous(axis)
        && access.depends_on(last)
        && !access.is_contiguous(last)
        && !access.conditional
}

/// Schedules a stage that reads along `axis` and writes along `last`.
pub(super) fn transpose(b: &mut Builder, root: StageId, axis: usize, last: usize) -> Result<()> {
    let name = b.stage_name(root).to_owned();
    let accesses = b.accesses(root);
    let mut tensors: Vec<_> =
        accesses.iter().filter(|it| is_transposed(it, axis, last)).map(|it| it.tensor).collect();
    tensors.dedup();
    let mut copies = Vec::new();
    for tensor in tensors {
        copies.push(b.apply(|it| it.cache_read(tensor, root))?);
    }
    let rows = b.decide_power(format!("{name} rows"), SIDE, 8);
    let repeats = b.decide_power_in(b.group_of(rows), format!("{name} repeats"), 8, SIDE / 8);
    let factors = [Factor::Open(repeats), Factor::Open(rows)];
    let i = b.split(root, AxisId(axis as u32), &factors)?;
    let j = b.split(root, AxisId(last as u32), &[Factor::Fixed(SIDE)])?;
    let n_spatial = b.n_spatial(root);
    let others = (0..n_spatial).filter(|it| ![axis, last].contains(it));
    let mut blocks: Vec<AxisId> = others.map(|it| AxisId(it as u32)).collect();
    blocks.extend([i[0], j[0]]);
    let tile = j[0];
    b.reorder(root, blocks.iter().copied().chain([i[2], j[1], i[1]]))?;
    for outer in blocks {
        b.annotate(root, outer, LoopKind::Parallel)?;
    }
    b.annotate(root, i[2], LoopKind::Thread)?;
    b.annotate(root, j[1], LoopKind::Thread)?;
    b.annotate(root, i[1], LoopKind::Unrolled)?;
    for copy in copies {
        b.apply(|it| it.compute_at(copy, root, tile))?;
        let last = b.schedule.stage(copy).order.len() as u32 - 1;
        let axis = b.fuse(copy, (0..last).map(AxisId), AxisId(last))?;
        let parts = b.split(copy, axis, &[Factor::Times(SIDE, rows)])?;
        b.annotate(copy, parts[1], LoopKind::Thread)?;
        b.annotate(copy, parts[0], LoopKind::Unrolled)?;
        b.reorder(copy, [parts[1], parts[0]])?;
    }
    b.note_template(TemplateKind::Transpose, root);
    Ok(())
}
