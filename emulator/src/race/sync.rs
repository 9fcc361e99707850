//! Synchronization through memory: a strong read that observes a strong write behind a fence comes
//! after it (release and acquire patterns of the PTX memory model).
//!
//! Within a cluster that order is a matter of vector clocks. Clusters run one after the other;
//! between them the detector remembers which CTAs a CTA comes after. A fence on the reading side is
//! not required.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::clock::{ReleaseClock, VectorClock};

/// An address in memory: in a buffer or in the shared memory of a CTA, its number, and the offset.
pub(crate) type SyncAddress = (bool, usize, u32);

/// The writers of an address that readers of it come after.
#[derive(Clone, Debug, Default)]
pub(super) struct SyncVariable {
    /// The cluster that the clock is about.
    cluster: u32,
    pub(super) released: ReleaseClock,
    pub(super) ctas: BTreeSet<u32>,
}

/// All addresses that threads have released by.
#[derive(Clone, Debug, Default)]
pub(super) struct SyncVariables(BTreeMap<SyncAddress, SyncVariable>);

impl SyncVariables {
    /// Returns the variable at an address, with an empty clock if another cluster wrote it last.
    pub(super) fn of_cluster(&mut self, at: SyncAddress, cluster: u32) -> &mut SyncVariable {
        let variable = self.0.entry(at).or_default();
        if variable.cluster != cluster {
            variable.cluster = cluster;
            variable.released = ReleaseClock::default();
        }
        variable
    }

    /// Returns the CTAs that have released by an address, and the clock if it is about the cluster.
    pub(super) fn acquire(
        &mut self,
        at: SyncAddress,
        cluster: u32,
    ) -> Option<(&BTreeSet<u32>, Option<Rc<VectorClock>>)> {
        let variable = self.0.get_mut(&at)?;
        let is_of_cluster = variable.cluster == cluster;
        let clock = is_of_cluster.then(|| variable.released.snapshot());
        Some((&variable.ctas, clock))
    }

    /// Drops variables in shared memory, which does not outlive its cluster.
    pub(super) fn forget_shared(&mut self) {
        self.0.retain(|(in_buffer, ..), _| *in_buffer);
    }
}
