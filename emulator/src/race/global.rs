//! Accesses to buffers: ordered within a cluster as shared memory is, and between clusters only by
//! what one releases and the other acquires.

use std::collections::BTreeSet;

use super::shadow::{ConflictKind, Found, Granule, More, Stamp, View, granules};

/// Reads or writes of 16 bytes by some CTAs.
#[derive(Clone, Copy, Debug, Default)]
struct Touched {
    bytes: u16,
    /// Those of them that were accessed by other than atomic operations.
    plain: u16,
    /// Where that was last.
    place: u32,
    /// The CTA that accessed each word last, plus one.
    cta: [u32; 4],
}

impl Touched {
    fn add(&mut self, mask: u16, cta: u32, stamp: &Stamp) {
        self.bytes |= mask;
        self.plain |= if stamp.atomic { 0 } else { mask };
        self.place = stamp.place;
        for (word, to) in self.cta.iter_mut().enumerate() {
            if mask >> (4 * word) & 15 != 0 {
                *to = cta + 1;
            }
        }
    }

    fn join(&mut self, other: &Self) {
        self.bytes |= other.bytes;
        self.plain |= other.plain;
        if other.bytes != 0 {
            self.place = other.place;
        }
        for (to, from) in self.cta.iter_mut().zip(other.cta) {
            *to = if from == 0 { *to } else { from };
        }
    }

    /// The first byte, and the CTA, that an access conflicts with.
    fn conflict(&self, stamp: &Stamp, mask: u16, after: &BTreeSet<u32>) -> Option<(u32, u32)> {
        let both = mask & if stamp.atomic { self.plain } else { self.bytes };
        let mut words = (0..4).filter(|it| both >> (4 * it) & 15 != 0);
        let word = words.find(|it| !after.contains(&(self.cta[*it] - 1)))?;
        let first = (both & 15 << (4 * word)).trailing_zeros();
        Some((first, self.cta[word] - 1))
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    granule: Granule,
    /// The cluster that the granule is about.
    cluster: u32,
    written: Touched,
    read: Touched,
    /// What earlier clusters did.
    written_before: Touched,
    read_before: Touched,
}

/// The granules of one buffer; as many as were accessed so far.
#[derive(Clone, Debug, Default)]
pub(super) struct GlobalShadow {
    entries: Vec<Entry>,
    pool: Vec<More>,
}

/// Which CTA accesses a buffer.
pub(super) struct Who<'w> {
    pub(super) cluster: u32,
    pub(super) cta: u32,
    /// CTAs that it comes after.
    pub(super) after: &'w BTreeSet<u32>,
}

impl GlobalShadow {
    /// Checks and remembers an access by a CTA of a cluster.
    pub(super) fn access(
        &mut self,
        stamp: &Stamp,
        view: &View<'_>,
        who: &Who<'_>,
        offset: u32,
        bytes: u32,
    ) -> Option<Found> {
        let end = (offset + bytes).div_ceil(16) as usize;
        if self.entries.len() < end {
            self.entries.resize(end.next_power_of_two(), Entry::default());
        }
        for (granule, mask) in granules(offset, bytes) {
            let entry = &mut self.entries[granule as usize];
            entry.enter(who.cluster);
            let conflict = entry
                .before(stamp, mask, who, granule * 16)
                .or_else(|| entry.granule.access(&mut self.pool, stamp, view, mask, granule * 16));
            if conflict.is_some() {
                return conflict;
            }
            let touched = if stamp.write { &mut entry.written } else { &mut entry.read };
            touched.add(mask, who.cta, stamp);
        }
        None
    }
}

impl Entry {
    /// What an earlier cluster did becomes what others did.
    fn enter(&mut self, cluster: u32) {
        if self.cluster == cluster {
            return;
        }
        self.written_before.join(&self.written);
        self.read_before.join(&self.read);
        let (written_before, read_before) = (self.written_before, self.read_before);
        *self = Self { cluster, written_before, read_before, ..Self::default() };
    }

    /// A conflict with an earlier cluster.
    fn before(&self, stamp: &Stamp, mask: u16, who: &Who<'_>, at: u32) -> Option<Found> {
        let write = self.written_before.conflict(stamp, mask, who.after);
        let read = || match stamp.write {
            true => self.read_before.conflict(stamp, mask, who.after),
            false => None,
        };
        let (byte, cta) = write.or_else(read)?;
        let mut found = Found::new(ConflictKind::CrossCta, stamp, at + byte);
        found.conflict.cta = Some(cta);
        found.conflict.write = write.is_some();
        let touched = if write.is_some() { &self.written_before } else { &self.read_before };
        found.conflict.place = touched.place;
        Some(found)
    }
}
