//! Shadow memory of buffers: accesses are ordered within a cluster as in shared memory, and between
//! clusters only by what one releases and the other acquires.

use std::collections::BTreeSet;

use super::shadow::{ConflictKind, Found, Observer, Overflow, ShadowCell, Stamp, cells};

/// Reads or writes of 16 bytes by some CTAs.
#[derive(Clone, Copy, Debug, Default)]
struct CtaAccesses {
    bytes: u16,
    /// The bytes that were accessed by other than atomic operations.
    plain: u16,
    /// The location of the last such access.
    location: u32,
    /// The CTA that accessed each word last, plus one.
    cta: [u32; 4],
}

impl CtaAccesses {
    fn add(&mut self, mask: u16, cta: u32, stamp: &Stamp) {
        self.bytes |= mask;
        self.plain |= if stamp.atomic { 0 } else { mask };
        self.location = stamp.location;
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
            self.location = other.location;
        }
        for (to, from) in self.cta.iter_mut().zip(other.cta) {
            *to = if from == 0 { *to } else { from };
        }
    }

    /// Returns the first byte, and the CTA, that an access conflicts with.
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
    cell: ShadowCell,
    /// The cluster that the cell is about.
    cluster: u32,
    written: CtaAccesses,
    read: CtaAccesses,
    /// Accesses of earlier clusters.
    written_before: CtaAccesses,
    read_before: CtaAccesses,
}

/// The cells of one buffer, up to the last accessed one.
#[derive(Clone, Debug, Default)]
pub(super) struct GlobalShadow {
    entries: Vec<Entry>,
    pool: Vec<Overflow>,
}

/// The CTA that accesses a buffer.
pub(super) struct Accessor<'w> {
    pub(super) cluster: u32,
    pub(super) cta: u32,
    /// CTAs that it comes after.
    pub(super) after: &'w BTreeSet<u32>,
}

impl GlobalShadow {
    /// Checks and records an access by a CTA of a cluster.
    pub(super) fn access(
        &mut self,
        stamp: &Stamp,
        view: &Observer<'_>,
        who: &Accessor<'_>,
        offset: u32,
        bytes: u32,
    ) -> Option<Found> {
        let end = (offset + bytes).div_ceil(16) as usize;
        if self.entries.len() < end {
            self.entries.resize(end.next_power_of_two(), Entry::default());
        }
        for (cell, mask) in cells(offset, bytes) {
            let entry = &mut self.entries[cell as usize];
            entry.enter(who.cluster);
            let conflict = entry
                .before(stamp, mask, who, cell * 16)
                .or_else(|| entry.cell.access(&mut self.pool, stamp, view, mask, cell * 16));
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
    /// Enters a cluster: accesses of the previous one become those of earlier ones.
    fn enter(&mut self, cluster: u32) {
        if self.cluster == cluster {
            return;
        }
        self.written_before.join(&self.written);
        self.read_before.join(&self.read);
        let (written_before, read_before) = (self.written_before, self.read_before);
        *self = Self { cluster, written_before, read_before, ..Self::default() };
    }

    /// Returns a conflict with an earlier cluster.
    fn before(&self, stamp: &Stamp, mask: u16, who: &Accessor<'_>, at: u32) -> Option<Found> {
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
        found.conflict.location = touched.location;
        Some(found)
    }
}
