//! Variants of the register tile that read an operand across memory where it lies: several words of each lane at
//! a time, which are transposed in registers.
//!
//! ```text
//! for k_0
//!   unrolled v_0:                        -- vectors of the tile
//!     unrolled k_1 in 0..8
//!       unrolled u: vectorized v_1:  acc[u, v] += a[u, k] * b[v, k]
//! ```
//!
//! In: a variant, and the reads that are contiguous along the reduction instead of along its vectors. Out: the
//! variant without copies of these. A copy is written and read again, and pays only where many rows share it; the
//! sums of a matrix with one vector, or with a few, read each element of the matrix once.
//!
//! The steps of a vector stand side by side, so that the code generator finds the transposition, and takes a line
//! of each row while the cache has it.

use super::register_tile::{Operand, choose};
use super::variant::TileVariant;
use crate::sketch::Builder;
use crate::sketch::layout::WORD_BYTES;
use tvmtune_ir::dag::access::Access;
use tvmtune_ir::poly::Poly;
use tvmtune_schedule::StageId;

/// Words of a row that are read at once: those of a transposition, half a cache line, and all of it.
const WORDS: [u64; 3] = [4, 8, 16];
/// Rows so many bytes apart, or a multiple of it, lie in a few sets of a first-level cache.
const FEW_SETS_BYTES: u64 = 1024;

/// Returns the variant that reads all operands across memory in place, if each of them can be transposed.
pub(super) fn variant(
    b: &Builder,
    anchor: StageId,
    variant: &TileVariant,
    scattered: &[u32],
) -> Option<TileVariant> {
    let (extents, accesses) = (b.extents(anchor), b.accesses(anchor));
    let steps = steps_axis(&extents, b.n_spatial(anchor))?;
    let is_transposable = |it: &u32| is_transposable(b, &accesses[*it as usize], steps);
    if scattered.is_empty()
        || extents[variant.vector] < b.lanes()
        || !scattered.iter().all(is_transposable)
    {
        return None;
    }
    let operand = |(read, access): (u32, &Access)| {
        let operand = Operand::new(access, variant.vector, variant.row, b.cpu().l1_bytes);
        if scattered.contains(&read) { operand.transposed(b.lanes()) } else { operand }
    };
    let loaded = (0..).zip(&accesses).filter(|it| !it.1.repeated);
    let operands: Vec<Operand> = loaded.map(operand).collect();
    let n_rows = variant.row.map_or(1, |it| extents[it]);
    let tile = choose(b.simd(), &operands, None, (n_rows, extents[variant.vector]));
    let shares_sets =
        scattered.iter().any(|it| shares_sets(&accesses[*it as usize], variant.vector));
    let wanted = if shares_sets { WORDS[2] } else { WORDS[1] };
    let words = words(extents[steps]).into_iter().rfind(|it| *it <= wanted)?;
    tile.cycles.is_finite().then(|| TileVariant {
        tile,
        windows: None,
        copied: Vec::new(),
        transposed: Some(words),
        ..variant.clone()
    })
}

/// Returns the reduce axis whose steps are unrolled: the last one that runs more than once.
pub(super) fn steps_axis(extents: &[u64], n_spatial: usize) -> Option<usize> {
    (n_spatial..extents.len()).rev().find(|it| extents[*it] > 1)
}

/// Returns the words of rows of that length that may be read at once.
pub(super) fn words(length: u64) -> Vec<u64> {
    WORDS.into_iter().filter(|it| *it <= length).collect()
}

/// Returns whether the rows of an access lie in a few sets of the first-level cache, and push each other out before
/// the rest of a line is read. Rows whose distance a launch decides may do so.
fn shares_sets(access: &Access, vector: usize) -> bool {
    let distance = access.strides[vector].as_ref().and_then(Poly::as_constant);
    distance.is_none_or(|it| (it.unsigned_abs() * WORD_BYTES).is_multiple_of(FEW_SETS_BYTES))
}

/// Returns whether the words that an access reads along the steps of a reduction are side by side in memory.
fn is_transposable(b: &Builder, access: &Access, steps: usize) -> bool {
    let dtype = b.schedule.tensor(access.tensor).tensor.dtype;
    dtype.bytes() == WORD_BYTES
        && access.is_contiguous(steps)
        && !access.conditional
        && !access.indirect
}
