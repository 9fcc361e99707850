//! The CPU template for elementwise stages: contiguous axes are fused into one loop, tasks of it
//! for the threads, vectors inside.
//!
//! ```text
//! parallel others, r_0, f_0
//!   for r_1                                        -- r: rows that are shorter than a task should be
//!     for f_1
//!       vectorized f_2:  c[f] = g(a[f], b[f])        -- f: the axes along which all tensors are contiguous
//! ```

use std::collections::BTreeSet;

use super::{LONG_TASKS_PER_THREAD, hoist_invariant};
use crate::sketch::layout::{WORD_BYTES, block_sizes};
use crate::sketch::{Builder, DecisionKind, Factor, Result, Rows, Template, TemplateKind};
use tvmtune_ir::dag::access::Access;
use tvmtune_ir::dag::{Compute, Expr, TensorId};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_ir::size::Size;
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// Bytes that a task should touch, so that its dispatch costs little; chosen by measurement.
const TASK_BYTES: u64 = 64 * 1024;

/// Lengths of the last axes by which phases of a vectorized loop are interleaved; chosen by measurement: rows
/// of 8 are as well a vector.
const INTERLEAVED: [i64; 3] = [2, 3, 4];

/// Vectors of a loop: that many accesses are in flight; estimated.
const VECTORS: u64 = 4;

pub(super) const TEMPLATE: Template<Rows> = Template { is_applicable, schedule };

fn is_applicable(b: &Builder, rows: &Rows) -> bool {
    rows.inside.is_empty() && !b.reduces(rows.root)
}

fn schedule(b: &mut Builder, rows: &Rows) -> Result<()> {
    let root = rows.root;
    hoist_invariant::to_phases(b, root)?;
    let name = b.stage_name(root).to_owned();
    let extents = b.extents(root);
    let accesses = b.accesses(root);
    let tensors: BTreeSet<TensorId> = accesses.iter().map(|it| it.tensor).collect();
    let bytes_each = WORD_BYTES * (tensors.len() as u64 + 1);
    let Some(last) = extents.len().checked_sub(1) else { return Ok(()) };
    let compute = b.compute(root).clone();

    let flat = (0..last).rev().take_while(|it| is_flat(b, &compute, &accesses, *it));
    let contiguous_from = flat.last().unwrap_or(last);
    let phases = phases(&compute, contiguous_from);
    let transposed = (0..last).rev().find(|axis| is_transposed(&accesses, *axis, last));
    let transposed = transposed.filter(|_| phases.is_none());
    let flat_from = match (transposed, phases) {
        (Some(_), _) => last,
        (None, Some(_)) => contiguous_from - 1,
        (None, None) => contiguous_from,
    };
    let flattened = (flat_from as u32..last as u32).map(AxisId);
    let flat = b.fuse(root, flattened, AxisId(last as u32))?;
    let vectors = if transposed.is_some() { 1 } else { VECTORS };
    let lanes = format!("{name} lanes");
    let inner = match phases {
        Some(n) => b.decide_lanes_in_periods(lanes, (root, flat), vectors, n),
        None => b.decide_lanes_of(lanes, (root, flat), vectors),
    };
    let n_rows: u64 = extents[..flat_from].iter().size();
    let tile = b.value(inner);
    let n_tiles = b.extent(root, flat).div_ceil(tile);
    let wanted = u64::from(b.cpu().threads) * LONG_TASKS_PER_THREAD;
    let cached = TASK_BYTES.div_ceil(bytes_each * tile).max(1);
    let share = (n_tiles * n_rows).div_ceil(wanted).max(1);
    let tiles_of_task = cached.min(share);
    let block = tiles_of_task.min(n_tiles);
    let (kind, options) = (DecisionKind::Outer, block_sizes(n_tiles));
    let outer = b.decide_in(b.group_of(inner), format!("{name} block"), kind, &options, block);
    let parts = b.split(root, flat, &[Factor::Open(outer), Factor::Open(inner)])?;
    match (transposed, flat_from.checked_sub(1)) {
        (Some(axis), _) => tile_transposed(b, root, axis, &parts, &name)?,
        (None, Some(axis)) if block == n_tiles => {
            block_rows(b, root, AxisId(axis as u32), &parts, tiles_of_task / n_tiles)?;
        }
        _ => {}
    }
    let order = b.schedule.stage(root).order.clone();
    let n_parallel = order.iter().position(|it| *it == parts[0]).map_or(0, |it| it + 1);
    b.annotate_all(root, &order[..n_parallel], LoopKind::Parallel)?;
    b.annotate(root, parts[2], LoopKind::Vectorized)?;
    b.note_template(TemplateKind::Flat, root);
    Ok(())
}

/// Returns whether some read is contiguous along `axis`, the one way or the other, and not along the last one.
fn is_transposed(accesses: &[Access], axis: usize, last: usize) -> bool {
    let is_contiguous = |it: &Access, axis: usize| {
        let stride = it.strides[axis].as_ref().and_then(Poly::as_constant);
        stride.is_some_and(|it| it.unsigned_abs() == 1)
    };
    accesses
        .iter()
        .any(|it| is_contiguous(it, axis) && it.depends_on(last) && !is_contiguous(it, last))
}

/// Returns whether an axis and the next one are one contiguous run of all tensors.
fn is_flat(b: &Builder, compute: &Compute, accesses: &[Access], axis: usize) -> bool {
    let next = axis + 1;
    let extent = &compute.axes[next].extent;
    let is_index = |it: &Expr| {
        let is_axis = |n: usize| VarId(n as u32);
        matches!(it, Expr::Index(poly) if poly.mentions(is_axis(axis)) || poly.mentions(is_axis(next)))
    };
    let mut used = false;
    compute.body.walk(&mut |it| used |= is_index(it));
    let flat = |it: &Access| match (&it.strides[axis], &it.strides[next]) {
        (Some(outer), Some(inner)) => *outer == inner.clone() * extent.clone(),
        _ => false,
    };
    // An axis that is as long as a task needs no help from those around it.
    let short = b.max_extent(extent) * WORD_BYTES < TASK_BYTES;
    short && !used && accesses.iter().all(flat)
}

/// Returns the number of elements of the axes from one on, if they are too short for vectors, and better fused
/// with the axis before: then its iterations are lanes, and theirs are phases of a vectorized loop.
fn phases(compute: &Compute, from: usize) -> Option<u64> {
    let extents = compute.axes[from..].iter().map(|it| it.extent.as_constant());
    let n: i64 = extents.collect::<Option<Vec<i64>>>()?.iter().product();
    (from > 0 && INTERLEAVED.contains(&n)).then_some(n.unsigned_abs())
}

/// Lets a task have several rows that are shorter than it should be: they are iterations of a loop, in which
/// choices by their index are known but for a few at its ends.
fn block_rows(
    b: &mut Builder,
    root: StageId,
    axis: AxisId,
    parts: &[AxisId],
    most: u64,
) -> Result<()> {
    let extent = b.extent(root, axis);
    let most = most.clamp(1, extent);
    // Parts of equal length have one loop.
    let equal = (most.div_ceil(2)..=most).rev().find(|it| extent.is_multiple_of(*it));
    let name = format!("{} rows", b.stage_name(root));
    let options = block_sizes(extent);
    let decision = b.decide(name, DecisionKind::Outer, &options, equal.unwrap_or(most));
    let blocks = b.split(root, axis, &[Factor::Open(decision)])?;
    let mut order = b.schedule.stage(root).order.clone();
    order.retain(|it| *it != blocks[1]);
    let at = order.iter().position(|it| *it == parts[1]).unwrap_or(order.len());
    order.insert(at, blocks[1]);
    b.reorder(root, order)
}

/// Tiles the axis along which a read is contiguous, so that whole cache lines are used.
fn tile_transposed(
    b: &mut Builder,
    root: StageId,
    axis: usize,
    parts: &[AxisId],
    name: &str,
) -> Result<()> {
    let lanes = b.lanes();
    let options: Vec<u64> = [4, 8, 16, 32].into_iter().filter(|it| *it <= 2 * lanes).collect();
    let decision = b.decide(format!("{name} across"), DecisionKind::Inner, &options, lanes);
    let tiled = b.split(root, AxisId(axis as u32), &[Factor::Open(decision)])?;
    let mut order = b.schedule.stage(root).order.clone();
    order.retain(|it| *it != tiled[1]);
    let at = order.iter().position(|it| *it == parts[2]).unwrap_or(order.len());
    order.insert(at, tiled[1]);
    b.reorder(root, order)?;
    b.annotate(root, tiled[1], LoopKind::Unrolled)
}
