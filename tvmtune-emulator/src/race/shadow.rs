//! Who accessed what: for each four bytes the accesses that later ones must be ordered after.

use std::rc::Rc;

use super::Actor;
use super::clock::Clock;
use crate::registers::{LANES, lanes};

/// An access as it is remembered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    /// Rows of 32 slots of clocks: threads, then their copies, then their bulk copies, by warp; then
    /// agents, which have one slot each.
    pub(super) row: u16,
    pub(super) clock: u32,
    pub(super) lanes: u32,
    pub(super) write: bool,
    pub(super) atomic: bool,
    /// By the asynchronous proxy.
    pub(super) asynchronous: bool,
    pub(super) place: u32,
}

/// What whoever makes an access has seen.
pub(super) struct View<'v> {
    /// Of an agent; else that of the lanes counts.
    pub(super) clock: Option<&'v Clock>,
    pub(super) views: &'v [Rc<Clock>],
    pub(super) fenced: &'v [u32],
    pub(super) copies_done: &'v [u32],
    pub(super) bulk_done: &'v [u32],
    pub(super) warp: usize,
    pub(super) n_warps: usize,
    pub(super) group: u32,
}

/// What is wrong with an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConflictKind {
    Race,
    CrossCta,
    ProxyFence,
    Uninitialised,
}

/// An access that conflicts with an earlier one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conflict {
    pub(crate) kind: ConflictKind,
    /// Where in the region, and by which lane of the warp.
    pub(crate) offset: u32,
    pub(crate) lane: usize,
    /// Who made the earlier one.
    pub(crate) actor: Actor,
    pub(crate) other_lane: usize,
    pub(crate) write: bool,
    pub(crate) place: u32,
    /// For accesses of other clusters: the CTA, by its linear index.
    pub(crate) cta: Option<u32>,
}

/// A conflict whose actor is still the row of a clock.
pub(super) struct Found {
    pub(super) conflict: Conflict,
    pub(super) row: u16,
}

impl Found {
    pub(super) fn resolve(self, n_warps: usize) -> Conflict {
        let row = usize::from(self.row);
        let actor = match row.checked_div(n_warps) {
            Some(0) => Actor::Threads(row),
            Some(1) => Actor::Copies(row - n_warps),
            Some(2) => Actor::Bulk(row - 2 * n_warps),
            _ => Actor::Agent(row - 3 * n_warps),
        };
        Conflict { actor, ..self.conflict }
    }
}

/// An access to some of four bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    clock: u32,
    pub(super) place: u32,
    pub(super) lanes: u32,
    pub(super) row: u16,
    pub(super) bytes: u8,
    pub(super) flags: u8,
}

pub(super) const ATOMIC: u8 = 1;
const ASYNCHRONOUS: u8 = 2;

/// Four bytes: which of them were ever written, who wrote them last, and who read them since.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Granule {
    pub(super) write: Cell,
    pub(super) read: Cell,
    /// Further accesses, in the pool; none is 0.
    more: u32,
    initialised: u8,
}

/// Further accesses to one granule.
#[derive(Clone, Debug, Default)]
pub(super) struct More {
    pub(super) writes: Vec<Cell>,
    pub(super) reads: Vec<Cell>,
}

/// The granules of one region.
#[derive(Clone, Debug, Default)]
pub(super) struct Shadow {
    granules: Vec<Granule>,
    pool: Vec<More>,
}

impl Shadow {
    pub(super) fn reset(&mut self, bytes: usize) {
        self.granules.clear();
        self.granules.resize(bytes.div_ceil(4), Granule::default());
        self.pool.clear();
    }

    /// Checks and remembers an access.
    pub(super) fn access(
        &mut self,
        stamp: &Stamp,
        view: &View<'_>,
        offset: u32,
        bytes: u32,
    ) -> Option<Found> {
        for (granule, mask) in granules(offset, bytes) {
            let it = &mut self.granules[granule as usize];
            if stamp.write {
                it.initialised |= mask;
            } else if it.initialised & mask != mask {
                return Some(found(
                    ConflictKind::Uninitialised,
                    stamp,
                    granule * 4,
                    &Cell::default(),
                    true,
                ));
            }
            let conflict = it.access(&mut self.pool, stamp, view, mask, granule * 4);
            if conflict.is_some() {
                return conflict;
            }
        }
        None
    }
}

/// The granules of some bytes, with a bit for each byte.
pub(super) fn granules(offset: u32, bytes: u32) -> impl Iterator<Item = (u32, u8)> {
    let end = offset + bytes;
    (offset / 4..end.div_ceil(4)).map(move |granule| {
        let (from, to) =
            (offset.max(granule * 4) - granule * 4, end.min(granule * 4 + 4) - granule * 4);
        (granule, (0xFu8 << from) & (0xF >> (4 - to)))
    })
}

pub(super) fn found(
    kind: ConflictKind,
    stamp: &Stamp,
    offset: u32,
    cell: &Cell,
    write: bool,
) -> Found {
    let conflict = Conflict {
        kind,
        offset,
        lane: stamp.lanes.trailing_zeros() as usize & (LANES - 1),
        actor: Actor::Agent(0),
        other_lane: cell.lanes.trailing_zeros() as usize & (LANES - 1),
        write,
        place: cell.place,
        cta: None,
    };
    Found { conflict, row: cell.row }
}

impl Granule {
    /// Checks and remembers an access to the bytes of `mask`.
    pub(super) fn access(
        &mut self,
        pool: &mut Vec<More>,
        stamp: &Stamp,
        view: &View<'_>,
        mask: u8,
        offset: u32,
    ) -> Option<Found> {
        let nothing = More::default();
        let more = if self.more > 0 { &pool[self.more as usize - 1] } else { &nothing };
        for cell in std::iter::once(&self.write).chain(&more.writes) {
            if cell.bytes & mask == 0 || stamp.atomic && cell.flags & ATOMIC != 0 {
                continue;
            }
            if !view.is_after(cell) {
                return Some(found(ConflictKind::Race, stamp, offset, cell, true));
            }
            let through_proxy =
                stamp.asynchronous && !stamp.write && cell.flags & ASYNCHRONOUS == 0;
            if through_proxy && !view.is_fenced(cell) {
                return Some(found(ConflictKind::ProxyFence, stamp, offset, cell, true));
            }
        }
        if stamp.write {
            for cell in std::iter::once(&self.read).chain(&more.reads) {
                let both_atomic = stamp.atomic && cell.flags & ATOMIC != 0;
                if cell.bytes & mask != 0 && !both_atomic && !view.is_after(cell) {
                    return Some(found(ConflictKind::Race, stamp, offset, cell, false));
                }
            }
        }
        let cell = Cell {
            clock: stamp.clock,
            place: stamp.place,
            lanes: stamp.lanes,
            row: stamp.row,
            bytes: mask,
            flags: u8::from(stamp.atomic) * ATOMIC + u8::from(stamp.asynchronous) * ASYNCHRONOUS,
        };
        if stamp.write {
            self.written(pool, cell)
        } else {
            self.was_read(pool, cell, view)
        }
        None
    }

    /// Remembers a write: what it overwrites need not be.
    fn written(&mut self, pool: &mut Vec<More>, cell: Cell) {
        let keep = !cell.bytes;
        self.write.bytes &= keep;
        self.read.bytes &= keep;
        if self.more > 0 {
            let more = &mut pool[self.more as usize - 1];
            for list in [&mut more.writes, &mut more.reads] {
                list.iter_mut().for_each(|it| it.bytes &= keep);
                list.retain(|it| it.bytes != 0);
            }
        }
        if self.write.bytes == 0 {
            self.write = cell;
        } else {
            self.more(pool).writes.push(cell);
        }
    }

    /// Remembers a read: those that are ordered before it need not be.
    fn was_read(&mut self, pool: &mut Vec<More>, cell: Cell, view: &View<'_>) {
        let merges = |old: &Cell| {
            old.row == cell.row
                && old.clock == cell.clock
                && old.bytes == cell.bytes
                && old.flags == cell.flags
        };
        let covered = |old: &Cell| old.bytes & !cell.bytes == 0 && view.is_after(old);
        if merges(&self.read) {
            self.read.lanes |= cell.lanes;
            self.read.place = cell.place;
            return;
        }
        if self.more > 0 {
            let reads = &mut pool[self.more as usize - 1].reads;
            if let Some(same) = reads.iter_mut().find(|it| merges(it)) {
                same.lanes |= cell.lanes;
                return;
            }
            reads.retain(|it| !covered(it));
        }
        if covered(&self.read) {
            self.read = cell;
        } else {
            self.more(pool).reads.push(cell);
        }
    }

    fn more<'p>(&mut self, pool: &'p mut Vec<More>) -> &'p mut More {
        if self.more == 0 {
            pool.push(More::default());
            self.more = pool.len() as u32;
        }
        &mut pool[self.more as usize - 1]
    }
}

impl View<'_> {
    /// Whether whoever has this view comes after all of an earlier access.
    fn is_after(&self, cell: &Cell) -> bool {
        if cell.bytes == 0 {
            return true;
        }
        let row = usize::from(cell.row);
        if let Some(clock) = self.clock {
            return self.saw(clock, row, cell.lanes, cell.clock);
        }
        let own = row < 3 * self.n_warps && row % self.n_warps == self.warp;
        let mut last: Option<&Rc<Clock>> = None;
        for lane in lanes(self.group) {
            let view = &self.views[lane];
            let mut others = cell.lanes;
            if own && cell.lanes >> lane & 1 == 1 {
                // Its own access: program order, or a wait of its own.
                others &= !(1 << lane);
                let done = match row / self.n_warps {
                    0 => true,
                    1 => self.copies_done[lane] >= cell.clock,
                    _ => self.bulk_done[lane] >= cell.clock,
                };
                if !done {
                    return false;
                }
            } else if last.is_some_and(|it| Rc::ptr_eq(it, view)) {
                continue;
            }
            if !self.saw(view, row, others, cell.clock) {
                return false;
            }
            last = (others == cell.lanes).then_some(view);
        }
        true
    }

    fn saw(&self, view: &Clock, row: usize, of: u32, clock: u32) -> bool {
        if row >= 3 * self.n_warps {
            let slot = 3 * self.n_warps * LANES + (row - 3 * self.n_warps);
            return view.seen(slot) >= clock;
        }
        lanes(of).all(|lane| view.seen(row * LANES + lane) >= clock)
    }

    /// Whether a write of threads is behind a proxy fence for whoever has this view.
    fn is_fenced(&self, cell: &Cell) -> bool {
        let row = usize::from(cell.row);
        // `cp.async` writes like the thread itself does; who waited for it has fenced it.
        let warp = row % self.n_warps;
        if row >= 2 * self.n_warps {
            return true;
        }
        if row >= self.n_warps {
            return true;
        }
        if let Some(clock) = self.clock {
            return lanes(cell.lanes).all(|it| clock.fenced(warp * LANES + it) >= cell.clock);
        }
        lanes(self.group).all(|lane| {
            lanes(cell.lanes).all(|it| {
                let own = warp == self.warp && it == lane;
                let fenced = if own { self.fenced[lane] } else { 0 };
                fenced.max(self.views[lane].fenced(warp * LANES + it)) >= cell.clock
            })
        })
    }
}
