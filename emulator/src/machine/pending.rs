//! Asynchronous copies of a warp's threads: their groups, and the copies that were issued and not
//! performed.

use crate::registers::LANES;
use crate::space::Region;

/// The asynchronous copies of a warp's threads.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    pub(super) groups: Groups,
    pub(super) pending: Vec<Pending>,
    /// Groups of bulk copies.
    pub(super) bulk: Groups,
}

/// Groups of copies, lane by lane.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    /// Committed groups, and those waited for.
    pub(super) committed: [u32; LANES],
    pub(super) waited: [u32; LANES],
    /// The last group that has a copy.
    pub(super) last: [u32; LANES],
}

/// A copy in flight, or an arrival behind it.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) lane: usize,
    pub(super) group: u32,
    pub(super) work: Work,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    Copy { from: Option<(Region, u32)>, source_bytes: u32, to: (Region, u32), bytes: u32 },
    Arrive { at: (usize, u32) },
}
