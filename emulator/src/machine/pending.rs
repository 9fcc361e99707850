//! Asynchronous copies of a warp's threads: their groups, and the copies that were issued and not
//! performed.

use crate::registers::{LANES, lanes};
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

impl Groups {
    /// Commits a group of each of some lanes.
    pub(super) fn commit(&mut self, active: u32) {
        lanes(active).for_each(|lane| self.committed[lane] += 1);
    }

    /// Waits until at most so many groups of a lane are pending; returns the last one that is not.
    pub(super) fn wait(&mut self, lane: usize, pending: u32) -> u32 {
        let done = self.committed[lane].saturating_sub(pending);
        self.waited[lane] = self.waited[lane].max(done);
        done
    }
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
