//! Layouts and sizes of tiles that templates of both targets use.

use super::{Builder, DecisionId, Result};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::dag::access::Access;
use tvmtune_schedule::{Instruction, Layout};

/// Bytes of an element as footprints on CPUs are estimated, whatever its type.
pub(super) const WORD_BYTES: u64 = 4;

/// Packs a tensor so that the elements of a vectorized tile are contiguous.
pub(super) fn pack_by_tile(
    b: &mut Builder,
    tensor: TensorId,
    dim: usize,
    tile: DecisionId,
) -> Result<()> {
    let n_dims = b.n_dims(tensor);
    // Stored: the tile's number, the other dimensions, the element in the tile.
    let others = (0..=n_dims).filter(|it| *it != dim && *it != dim + 1);
    let order: Vec<usize> = [dim].into_iter().chain(others).chain([dim + 1]).collect();
    let list = |factor: &u64| {
        let layout = Layout { splits: vec![(dim, *factor)], order: order.clone() };
        vec![Instruction::Pack { tensor, layout }]
    };
    let lists = b.options(tile).iter().map(list).collect();
    b.one_of(tile, lists)
}

/// Estimates the bytes that an access reads while each axis runs that many iterations.
pub(super) fn footprint_bytes(access: &Access, extents: &[u64]) -> u64 {
    access.footprint(extents).saturating_mul(WORD_BYTES)
}

/// Returns the dimension of a tensor that an axis, and no other axis along it, indexes with step 1.
pub(super) fn dim_along(access: &Access, axis: usize) -> Option<usize> {
    let along = |steps: &Option<Vec<i64>>| steps.as_ref().is_none_or(|it| it[axis] != 0);
    let mut dims = access.steps.iter().enumerate().filter(|(_, it)| along(it));
    let (dim, steps) = dims.next()?;
    let steps = steps.as_ref()?;
    let alone = steps.iter().filter(|it| **it != 0).count() == 1 && steps[axis] == 1;
    (alone && dims.next().is_none()).then_some(dim)
}

/// Returns the sizes of blocks of an axis: 1, 2, 3, 4, 6, 8, 12, ... and the whole.
pub(super) fn block_sizes(extent: u64) -> Vec<u64> {
    let mut sizes: Vec<u64> = (0..16).flat_map(|it| [1 << it, 3 << it]).collect();
    sizes.retain(|it| *it < extent);
    sizes.push(extent);
    sizes.sort_unstable();
    sizes
}
