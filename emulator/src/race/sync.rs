//! Order by memory itself: who reads what another one wrote behind a fence, both by atomic or
//! volatile operations, comes after it.
//!
//! Within a cluster that is a matter of clocks. Clusters run one after the other; between them it
//! is remembered which CTAs a CTA comes after. A fence on the reading side is not asked for.

use std::collections::{BTreeMap, BTreeSet};

use super::clock::Release;
use super::{Race, lanes};
use crate::registers::LANES;

/// What can be learned from a place in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Published {
    /// The cluster that the release is about.
    cluster: u32,
    released: Release,
    ctas: BTreeSet<u32>,
}

/// A place in memory: in a buffer or in the shared memory of a CTA, its number, and the offset.
pub(crate) type Place = (bool, usize, u32);

/// Places that were published.
pub(super) type Places = BTreeMap<Place, Published>;

impl Race {
    /// A fence of threads: others may learn what they did.
    pub(crate) fn memory_fence(&mut self, warp: usize, mask: u32) {
        lanes(mask).for_each(|lane| self.has_fenced[warp * LANES + lane] = true);
    }

    /// A thread has written a place that others may wait for.
    pub(crate) fn publish(&mut self, warp: usize, lane: usize, cta: u32, at: Place, release: bool) {
        if !release && !self.has_fenced[warp * LANES + lane] {
            return;
        }
        let mut published = self.published.remove(&at).unwrap_or_default();
        if published.cluster != self.cluster {
            published.cluster = self.cluster;
            published.released = Release::default();
        }
        self.release(warp, 1 << lane, &mut published.released);
        published.ctas.insert(cta);
        published.ctas.extend(self.after.get(&cta).into_iter().flatten());
        self.published.insert(at, published);
    }

    /// A thread has read such a place.
    pub(crate) fn observe(&mut self, warp: usize, lane: usize, cta: u32, at: Place) {
        let Some(published) = self.published.get_mut(&at) else { return };
        self.after.entry(cta).or_default().extend(&published.ctas);
        if published.cluster == self.cluster {
            let clock = published.released.snapshot();
            self.acquire(warp, 1 << lane, &clock);
        }
    }

    /// Shared memory does not outlive its cluster.
    pub(super) fn forget_shared(&mut self) {
        self.published.retain(|(in_buffer, ..), _| *in_buffer);
    }
}
