//! Accesses to buffers: ordered within a cluster as shared memory is, and by nothing between
//! clusters.

use super::shadow::{ConflictKind, Found, Granule, More, Stamp, View, found, granules};

/// Accesses to four bytes by earlier clusters: the CTA plus one, and where.
#[derive(Clone, Copy, Debug, Default)]
struct Foreign {
    cta: u32,
    place: u32,
    atomic: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    granule: Granule,
    /// The cluster that the granule is about, and the CTAs that wrote and read last.
    cluster: u32,
    writer: Foreign,
    reader: Foreign,
    foreign_write: Foreign,
    foreign_read: Foreign,
}

/// The granules of one buffer; as many as were accessed so far.
#[derive(Clone, Debug, Default)]
pub(super) struct GlobalShadow {
    entries: Vec<Entry>,
    pool: Vec<More>,
}

impl GlobalShadow {
    /// Checks and remembers an access by a CTA of a cluster.
    pub(super) fn access(
        &mut self,
        stamp: &Stamp,
        view: &View<'_>,
        (cluster, cta): (u32, u32),
        offset: u32,
        bytes: u32,
    ) -> Option<Found> {
        let end = (offset + bytes).div_ceil(4) as usize;
        if self.entries.len() < end {
            self.entries.resize(end.next_power_of_two(), Entry::default());
        }
        for (granule, mask) in granules(offset, bytes) {
            let entry = &mut self.entries[granule as usize];
            entry.enter(cluster);
            let conflict = entry
                .foreign(stamp, granule * 4)
                .or_else(|| entry.granule.access(&mut self.pool, stamp, view, mask, granule * 4));
            if conflict.is_some() {
                return conflict;
            }
            let who = Foreign { cta: cta + 1, place: stamp.place, atomic: stamp.atomic };
            if stamp.write { entry.writer = who } else { entry.reader = who }
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
        if self.writer.cta != 0 {
            self.foreign_write = self.writer;
        }
        if self.reader.cta != 0 {
            self.foreign_read = self.reader;
        }
        let (foreign_write, foreign_read) = (self.foreign_write, self.foreign_read);
        *self = Self { cluster, foreign_write, foreign_read, ..Self::default() };
    }

    /// A conflict with an earlier cluster.
    fn foreign(&self, stamp: &Stamp, offset: u32) -> Option<Found> {
        let conflicts = |it: &Foreign| it.cta != 0 && !(it.atomic && stamp.atomic);
        let (other, write) = if conflicts(&self.foreign_write) {
            (self.foreign_write, true)
        } else if stamp.write && conflicts(&self.foreign_read) {
            (self.foreign_read, false)
        } else {
            return None;
        };
        let mut found = found(ConflictKind::CrossCta, stamp, offset, &Default::default(), write);
        found.conflict.cta = Some(other.cta - 1);
        found.conflict.place = other.place;
        Some(found)
    }
}
