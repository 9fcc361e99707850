//! Variants of the register tile: the vectorized axis, the unrolled one, and operands that are packed
//! or copied so that lanes are contiguous.
//!
//! `enumerate.rs` makes them; `tile.rs` applies one.

use super::register_tile::{RegisterTile, Windows};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::dag::access::Access;

/// A variant of the register tile.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TileVariant {
    /// The vectorized axis.
    pub(super) vector: usize,
    /// The unrolled axis.
    pub(super) row: Option<usize>,
    /// Weights to pack so that the vectorized axis comes last, with the dimension it indexes.
    pub(super) packed: Vec<(TensorId, usize)>,
    /// The operands that are copied, all in the same scope.
    pub(super) copied: Vec<OperandCopy>,
    /// Set if operands that lie across the vectors are read in place, and transposed in registers: the words of
    /// each row that are read at once.
    pub(super) transposed: Option<u64>,
    /// Padded copies of operands that padding makes conditional.
    pub(super) padded: Vec<Padded>,
    pub(super) sharing: Sharing,
    pub(super) tile: RegisterTile,
    /// Windows whose rows overlap: they may be unrolled.
    pub(super) windows: Option<Windows>,
    /// Set if tiles of a task reduce block by block; else each tile reduces at once.
    pub(super) block: Option<ReductionBlock>,
    /// Estimated cycles; variants are tried in this order.
    pub(super) cost: f64,
}

/// A block of iterations of a reduce axis, which all tiles of a task take before the next one: the
/// elements that they share stay in the first-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReductionBlock {
    /// The reduce axis.
    pub(super) axis: usize,
    /// Iterations of a block.
    pub(super) length: u64,
}

/// A padded copy. It is made in any case, so that its layout is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Padded {
    pub(super) tensor: TensorId,
    /// Elements so many apart in the last dimension are contiguous in the copy.
    pub(super) stride: u64,
}

/// The tasks that read the same elements of a padded operand, but for the edges of windows. Where there
/// is one such task only, it may as well make its own copy, right before it reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Some do, or nothing is padded.
    Any,
    /// None, however tasks are made.
    None,
    /// None, where tasks differ along the last outer axis only.
    NoneAlongOuter,
}

impl Sharing {
    /// Classifies the tasks of a variant, for axes of those extents.
    pub(super) fn classify(variant: &TileVariant, accesses: &[Access], extents: &[u64]) -> Self {
        let padded: Vec<&Access> = accesses.iter().filter(|it| it.conditional).collect();
        let of_all = |axis: usize| padded.iter().all(|it| it.depends_on(axis));
        let long = || (0..extents.len()).filter(|it| extents[*it] > 1);
        let tiled = |axis: &usize| [Some(variant.vector), variant.row].contains(&Some(*axis));
        let last_outer = variant.last_outer(extents);
        let is_outer = |axis: usize| Some(axis) == last_outer && of_all(axis);
        match () {
            () if padded.is_empty() => Sharing::Any,
            () if long().all(of_all) => Sharing::None,
            () if of_all(variant.vector) && long().all(|it| tiled(&it) || is_outer(it)) => {
                Sharing::NoneAlongOuter
            }
            () => Sharing::Any,
        }
    }
}

/// A copy of an operand along the vectorized axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OperandCopy {
    /// The read, by its number.
    pub(super) read: u32,
    /// The dimension of the copy that the vectorized axis indexes.
    pub(super) dim: usize,
    pub(super) scope: CopyScope,
}

/// The part of an operand that is copied at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyScope {
    /// In each task, as much as one column of tiles reads.
    Panel,
    /// All of it once, before all tasks.
    Whole,
}

impl TileVariant {
    /// Returns whether a padded copy of a tensor has a layout of its own.
    pub(super) fn is_strided(&self, tensor: TensorId) -> bool {
        self.padded.iter().any(|it| it.tensor == tensor && it.stride > 1)
    }

    /// Returns whether a tensor is neither packed nor padded.
    pub(super) fn lies_as_given(&self, tensor: TensorId) -> bool {
        let is_packed = self.packed.iter().any(|it| it.0 == tensor);
        !is_packed && !self.padded.iter().any(|it| it.tensor == tensor)
    }

    /// Returns the largest stride of a padded copy: at least that many steps of the reduction are
    /// unrolled, so that offsets into the copy are constants.
    pub(super) fn stride(&self) -> u64 {
        self.padded.iter().map(|it| it.stride).max().unwrap_or(1)
    }

    /// Returns the parts of operands that are copied at once; `None` if none is.
    pub(super) fn copy_scope(&self) -> Option<CopyScope> {
        self.copied.first().map(|it| it.scope)
    }

    /// Returns the last of the axes that are neither vectorized nor unrolled.
    pub(super) fn last_outer(&self, extents: &[u64]) -> Option<usize> {
        let tiled = [Some(self.vector), self.row];
        (0..extents.len()).rfind(|it| !tiled.contains(&Some(*it)) && extents[*it] > 1)
    }
}
