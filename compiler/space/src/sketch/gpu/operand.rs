//! Copies of the factors of a product, in shared memory as matrix instructions want them.
//!
//! A factor that is indexed by plain loops is copied as it lies. Any other is gathered: its copy has
//! the loops of the product as dimensions, whatever they touch, with zeros for padding.
//!
//! ```text
//! x_tile[p, c] = y + r - 1 and p + s - 1 inside of the image ? x[y + r - 1, p + s - 1, c] : 0
//! ```
//!
//! # Source
//!
//! The implicit matrix product of convolutions in CUTLASS (`implicit_gemm_convolution.md`).

use super::tile;
use crate::sketch::builder::Builder;
use crate::sketch::{DecisionId, Factor};
use tvmtune_ir::dag::access::Access;
use tvmtune_ir::dag::{Expr, Subscript, TensorId};
use tvmtune_ir::poly::VarId;
use tvmtune_schedule::error::{ErrorKind, ScheduleError};
use tvmtune_schedule::{AxisId, Layout, StageId};

/// Bytes of the widest access of a thread.
const WIDEST: u64 = 16;

/// What is known of the product.
pub(super) struct Factors<'a> {
    /// The axis that is reduced by instructions.
    pub(super) depth: usize,
    /// How much of an axis is in the tile of a step; `None` for one iteration.
    pub(super) tiled: &'a dyn Fn(usize) -> Option<u64>,
}

/// A copy of a factor.
pub(super) struct Operand {
    pub(super) stage: StageId,
    /// The axis of the product along which elements lie side by side in the copy.
    pub(super) axis: usize,
    /// The copy's axis for that.
    last: usize,
    /// How many of them one access copies.
    vector: u64,
}

/// Makes a reduction read copies of its two factors.
pub(super) fn copy(
    b: &mut Builder,
    anchor: StageId,
    factors: &Factors<'_>,
) -> Result<[Operand; 2], ScheduleError> {
    let [first, second] = <[Access; 2]>::try_from(b.accesses(anchor))
        .map_err(|_| ErrorKind::NotRead.of_stage(anchor))?;
    let second_operand = copy_one(b, anchor, &second, 1, factors)?;
    let first_operand = copy_one(b, anchor, &first, 0, factors)?;
    Ok([first_operand, second_operand])
}

fn copy_one(
    b: &mut Builder,
    anchor: StageId,
    access: &Access,
    read: u32,
    factors: &Factors<'_>,
) -> Result<Operand, ScheduleError> {
    // The axes of the reduction that the copy has as dimensions.
    let n_axes = b.schedule.stage(anchor).compute.axes.len();
    let axes: Vec<usize> = (0..n_axes).filter(|it| access.depends_on(*it)).collect();
    pack_weight(b, access, factors.depth)?;
    let padded = match access.conditional {
        true => Some(b.apply(|it| it.cache_padded(access.tensor, anchor))?),
        false => None,
    };
    let stage = b.apply(|it| it.cache_operand(anchor, read))?;
    if let Some(padded) = padded {
        b.apply(|it| it.inline(padded))?;
    }
    let (last, vector) = lie(b, stage, &axes, factors);
    Ok(Operand { stage, axis: axes[last], last, vector })
}

/// Lets a weight lie along the depth, if its layout is nobody else's.
fn pack_weight(b: &mut Builder, access: &Access, depth: usize) -> Result<(), ScheduleError> {
    let along = |steps: &Option<Vec<i64>>| steps.as_ref().is_some_and(|it| it[depth] == 1);
    let Some(dim) = access.steps.iter().position(along) else { return Ok(()) };
    let n_dims = access.steps.len();
    if dim + 1 == n_dims || access.is_contiguous(depth) || !b.is_packable(access.tensor) {
        return Ok(());
    }
    let order = (0..n_dims).filter(|it| *it != dim).chain([dim]).collect();
    b.apply(|it| it.pack(access.tensor, Layout { splits: Vec::new(), order }))
}

/// Which axis of a copy is the innermost, and how many of its elements can be copied at once.
fn lie(b: &Builder, stage: StageId, axes: &[usize], factors: &Factors<'_>) -> (usize, u64) {
    let depth = axes.iter().position(|it| *it == factors.depth).unwrap_or(axes.len() - 1);
    let accesses = b.accesses(stage);
    let Some(access) = accesses.first() else { return (depth, 1) };
    let bytes = b.schedule.tensor(access.tensor).tensor.dtype.bytes();
    let is_long = |axis: &usize| (factors.tiled)(axes[*axis]).is_some_and(|it| it >= 8);
    let along = (0..axes.len()).find(|it| access.is_contiguous(*it) && is_long(it));
    // Bytes are exchanged between threads along the depth only.
    let last = along.filter(|it| *it == depth || bytes > 1).unwrap_or(depth);
    if along != Some(last) {
        return (last, 1);
    }
    let length = (factors.tiled)(axes[last]).unwrap_or(1);
    let fits = |it: &u64| {
        it * bytes <= WIDEST && length.is_multiple_of(*it) && starts_even(b, stage, last, *it)
    };
    (last, [16, 8, 4, 2].into_iter().find(fits).unwrap_or(1))
}

/// How many elements along the last axis of a copy one access can have.
pub(super) fn whole_vector(b: &Builder, stage: StageId) -> u64 {
    let Some(last) = b.extents(stage).len().checked_sub(1) else { return 1 };
    let bytes = b.schedule.tensor(b.schedule.stage(stage).tensor()).tensor.dtype.bytes();
    let fits = |it: &u64| it * bytes <= WIDEST && starts_even(b, stage, last, *it);
    [16, 8, 4, 2].into_iter().find(fits).unwrap_or(1)
}

/// Whether runs of so many elements along an axis start at multiples of that, and end inside of the
/// tensor, or outside, as a whole.
fn starts_even(b: &Builder, stage: StageId, axis: usize, n: u64) -> bool {
    let mut even = true;
    b.schedule.stage(stage).compute.body.walk(&mut |it| {
        let Expr::Read { tensor, index } = it else { return };
        even &= is_even(b, *tensor, index, VarId(axis as u32), n);
    });
    even
}

fn is_even(b: &Builder, tensor: TensorId, index: &[Subscript], var: VarId, n: u64) -> bool {
    let found = b.schedule.tensor(tensor);
    let dim = match &found.layout {
        Some(layout) => layout.order.last().copied(),
        None => index.len().checked_sub(1),
    };
    let Some(dim) = dim else { return false };
    let Subscript::Affine(at) = &index[dim] else { return false };
    let Some((step, first)) = at.split_linear(var) else { return false };
    let starts = first.terms().all(|(_, by)| by.unsigned_abs().is_multiple_of(n));
    let extent = found.tensor.shape[dim].as_constant();
    step.as_constant() == Some(1)
        && starts
        && extent.is_some_and(|it| (it as u64).is_multiple_of(n))
}

/// Makes a copy in each step of the reduction, as its elements are to lie: in panels of a width, if
/// that is given.
pub(super) fn lay(
    b: &mut Builder,
    operand: &Operand,
    anchor: StageId,
    step: AxisId,
    panel: Option<u64>,
) -> Result<(), ScheduleError> {
    let Operand { stage, last, .. } = *operand;
    if let Some(width) = panel {
        return lay_in_panels(b, (stage, last), anchor, step, width);
    }
    let tensor = b.schedule.stage(stage).tensor();
    let n_dims = b.schedule.tensor(tensor).tensor.shape.len();
    b.apply(|it| it.compute_at(stage, anchor, step))?;
    if last + 1 == n_dims {
        return Ok(());
    }
    let order: Vec<usize> = (0..n_dims).filter(|it| *it != last).chain([last]).collect();
    let loops: Vec<AxisId> = order.iter().map(|it| AxisId(*it as u32)).collect();
    b.apply(|it| it.pack(tensor, Layout { splits: Vec::new(), order }))?;
    b.apply(|it| it.reorder(stage, &loops))
}

/// Makes a copy in each iteration of a loop, along that axis of it in panels of a width.
pub(super) fn lay_in_panels(
    b: &mut Builder,
    (stage, last): (StageId, usize),
    host: StageId,
    axis: AxisId,
    width: u64,
) -> Result<(), ScheduleError> {
    let tensor = b.schedule.stage(stage).tensor();
    let n_dims = b.schedule.tensor(tensor).tensor.shape.len();
    b.apply(|it| it.compute_at(stage, host, axis))?;
    let others = || (0..n_dims).filter(|it| *it != last);
    let parts = b.split(stage, AxisId(last as u32), &[Factor::Fixed(width)])?;
    let loops = others().map(|it| AxisId(it as u32));
    let loops: Vec<AxisId> = [parts[0]].into_iter().chain(loops).chain([parts[1]]).collect();
    // Where a dimension is split, later ones move up by one.
    let moved = others().map(|it| it + usize::from(it > last));
    let order = [last].into_iter().chain(moved).chain([last + 1]).collect();
    b.apply(|it| it.pack(tensor, Layout { splits: vec![(last, width)], order }))?;
    b.apply(|it| it.reorder(stage, &loops))
}

/// Lets all threads of a block make a copy: so many for every combination of what the decisions say.
pub(super) fn by_all_threads(
    b: &mut Builder,
    operand: &Operand,
    each: u64,
    threads: &[DecisionId],
) -> Result<(), ScheduleError> {
    let name = b.stage_name(operand.stage).to_owned();
    tile::by_all_threads(b, operand.stage, &name, operand.vector, each, threads)
}
