//! The loops around a statement.

use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_schedule::LoopKind;

/// A loop that is open where a statement stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenLoop {
    pub(super) var: VarId,
    /// Its largest extent.
    pub(super) extent: u64,
    pub(super) kind: LoopKind,
}

/// Returns the largest value of an extent, in `1..=2^40`.
pub(super) fn max_extent(extent: &Poly, facts: &Facts) -> u64 {
    extent.interval(facts).hi.clamp(1, 1 << 40) as u64
}
