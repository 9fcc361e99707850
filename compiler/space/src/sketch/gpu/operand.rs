//! Copies of the operands of a product to shared memory, in layouts that MMA instructions read.
//!
//! An operand that is indexed by plain loops is copied in its layout. Any other is gathered (implicit
//! GEMM): its copy has the loops of the product as dimensions, with zeros for padding.
//!
//! ```text
//! x_tile[p, c] = y + r - 1 and p + s - 1 inside of the image ? x[y + r - 1, p + s - 1, c] : 0
//! ```
//!
//! # Source
//!
//! The implicit matrix product of convolutions in CUTLASS (`implicit_gemm_convolution.md`).

use super::reads::ACCESS_BYTES;
use super::tile;
use crate::sketch::{Builder, DecisionId, Factor, Result};
use tvmtune_ir::dag::access::Access;
use tvmtune_ir::dag::{Expr, Subscript, TensorId};
use tvmtune_ir::poly::VarId;
use tvmtune_schedule::error::ErrorKind;
use tvmtune_schedule::{AxisId, Layout, StageId};

/// The tile of a product that its operands are copied for.
pub(super) struct ProductTile<'a> {
    /// The axis that is reduced by instructions.
    pub(super) depth: usize,
    /// Returns the length of an axis in the tile of a step; `None` for one iteration.
    pub(super) tiled: &'a dyn Fn(usize) -> Option<u64>,
}

/// A loop of a stage.
#[derive(Clone, Copy)]
pub(super) struct Location {
    pub(super) stage: StageId,
    pub(super) axis: AxisId,
}

/// A copy of an operand.
pub(super) struct Operand {
    pub(super) stage: StageId,
    /// The axis of the product along which the copy is contiguous.
    pub(super) axis: usize,
    /// The same axis, by its number in the copy.
    last: usize,
    /// Elements of an access.
    vector: u64,
}

/// Makes a reduction read copies of its two operands.
pub(super) fn copy(
    b: &mut Builder,
    anchor: StageId,
    tile: &ProductTile<'_>,
) -> Result<[Operand; 2]> {
    let [first, second] = <[Access; 2]>::try_from(b.accesses(anchor))
        .map_err(|_| ErrorKind::NotRead.of_stage(anchor))?;
    let second_operand = copy_one(b, anchor, &second, 1, tile)?;
    let first_operand = copy_one(b, anchor, &first, 0, tile)?;
    Ok([first_operand, second_operand])
}

fn copy_one(
    b: &mut Builder,
    anchor: StageId,
    access: &Access,
    read: u32,
    tile: &ProductTile<'_>,
) -> Result<Operand> {
    // The axes of the reduction that the copy has as dimensions.
    let n_axes = b.compute(anchor).axes.len();
    let axes: Vec<usize> = (0..n_axes).filter(|it| access.depends_on(*it)).collect();
    pack_weight(b, access, tile.depth)?;
    let padded = match access.conditional {
        true => Some(b.apply(|it| it.cache_padded(access.tensor, anchor))?),
        false => None,
    };
    let stage = b.apply(|it| it.cache_operand(anchor, read))?;
    if let Some(padded) = padded {
        b.apply(|it| it.inline(padded))?;
    }
    let (last, vector) = innermost(b, stage, &axes, tile);
    Ok(Operand { stage, axis: axes[last], last, vector })
}

/// Packs a weight to be contiguous along the depth, if no other stage reads it.
fn pack_weight(b: &mut Builder, access: &Access, depth: usize) -> Result<()> {
    let along = |steps: &Option<Vec<i64>>| steps.as_ref().is_some_and(|it| it[depth] == 1);
    let Some(dim) = access.steps.iter().position(along) else { return Ok(()) };
    let n_dims = access.steps.len();
    if dim + 1 == n_dims || access.is_contiguous(depth) || !b.is_packable(access.tensor) {
        return Ok(());
    }
    b.permute(access.tensor, (0..n_dims).filter(|it| *it != dim).chain([dim]).collect())
}

/// Returns the innermost axis of a copy, and how many of its elements one access copies.
fn innermost(b: &Builder, stage: StageId, axes: &[usize], tile: &ProductTile<'_>) -> (usize, u64) {
    let depth = axes.iter().position(|it| *it == tile.depth).unwrap_or(axes.len() - 1);
    let accesses = b.accesses(stage);
    let Some(access) = accesses.first() else { return (depth, 1) };
    let bytes = b.schedule.tensor(access.tensor).tensor.dtype.bytes();
    let is_long = |axis: &usize| (tile.tiled)(axes[*axis]).is_some_and(|it| it >= 8);
    let along = (0..axes.len()).find(|it| access.is_contiguous(*it) && is_long(it));
    // Matrix loads transpose elements of two bytes, not single bytes.
    let last = along.filter(|it| *it == depth || bytes > 1).unwrap_or(depth);
    if along != Some(last) {
        return (last, 1);
    }
    let length = (tile.tiled)(axes[last]).unwrap_or(1);
    let fits = |it: &u64| {
        it * bytes <= ACCESS_BYTES && length.is_multiple_of(*it) && is_aligned(b, stage, last, *it)
    };
    (last, [16, 8, 4, 2].into_iter().find(fits).unwrap_or(1))
}

/// Returns the elements along the last axis of a copy that one access can have.
pub(super) fn aligned_vector(b: &Builder, stage: StageId) -> u64 {
    let Some(last) = b.extents(stage).len().checked_sub(1) else { return 1 };
    let bytes = b.schedule.tensor(b.tensor_of(stage)).tensor.dtype.bytes();
    let fits = |it: &u64| it * bytes <= ACCESS_BYTES && is_aligned(b, stage, last, *it);
    [16, 8, 4, 2].into_iter().find(fits).unwrap_or(1)
}

/// Returns whether runs of so many elements along an axis are aligned, and are inside of the tensor or
/// outside as a whole.
fn is_aligned(b: &Builder, stage: StageId, axis: usize, n: u64) -> bool {
    let mut aligned = true;
    b.compute(stage).body.walk(&mut |it| {
        let Expr::Read { tensor, index } = it else { return };
        aligned &= is_read_aligned(b, *tensor, index, VarId(axis as u32), n);
    });
    aligned
}

fn is_read_aligned(b: &Builder, tensor: TensorId, index: &[Subscript], var: VarId, n: u64) -> bool {
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

/// Places a copy in each step of the reduction, in panels if a width is given.
pub(super) fn place(
    b: &mut Builder,
    operand: &Operand,
    anchor: StageId,
    step: AxisId,
    panel: Option<u64>,
) -> Result<()> {
    let Operand { stage, last, .. } = *operand;
    if let Some(width) = panel {
        return place_in_panels(b, stage, last, Location { stage: anchor, axis: step }, width);
    }
    let tensor = b.tensor_of(stage);
    let n_dims = b.n_dims(tensor);
    b.apply(|it| it.compute_at(stage, anchor, step))?;
    if last + 1 == n_dims {
        return Ok(());
    }
    let order: Vec<usize> = (0..n_dims).filter(|it| *it != last).chain([last]).collect();
    let loops: Vec<AxisId> = order.iter().map(|it| AxisId(*it as u32)).collect();
    b.permute(tensor, order)?;
    b.reorder(stage, loops)
}

/// Places a copy in each iteration of a loop; panels divide one of its axes.
pub(super) fn place_in_panels(
    b: &mut Builder,
    stage: StageId,
    last: usize,
    at: Location,
    width: u64,
) -> Result<()> {
    let tensor = b.tensor_of(stage);
    let n_dims = b.n_dims(tensor);
    b.apply(|it| it.compute_at(stage, at.stage, at.axis))?;
    let others = || (0..n_dims).filter(|it| *it != last);
    let parts = b.split(stage, AxisId(last as u32), &[Factor::Fixed(width)])?;
    let loops = others().map(|it| AxisId(it as u32));
    let loops: Vec<AxisId> = [parts[0]].into_iter().chain(loops).chain([parts[1]]).collect();
    // A split dimension moves later ones up by one.
    let moved = others().map(|it| it + usize::from(it > last));
    let order = [last].into_iter().chain(moved).chain([last + 1]).collect();
    b.apply(|it| it.pack(tensor, Layout { splits: vec![(last, width)], order }))?;
    b.reorder(stage, loops)
}

/// Distributes a copy over all threads of a block: `each` for every combination of `threads`.
pub(super) fn copy_by_all_threads(
    b: &mut Builder,
    operand: &Operand,
    each: u64,
    threads: &[DecisionId],
) -> Result<()> {
    let threads = Factor::Product(each, threads.to_vec());
    tile::copy_by_all_threads(b, operand.stage, operand.vector, threads)
}
