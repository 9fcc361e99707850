//! Shadow memory: for each 16 bytes the accesses that later ones must be ordered after.

use std::rc::Rc;

use super::access::Actor;
use super::clock::VectorClock;
use crate::registers::{LANES, lanes};

/// An access with its epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    /// Lanewise of 32 slots of clocks: threads, then their copies, then their bulk copies, by warp;
    /// then agents, which have one slot each.
    pub(super) row: u16,
    pub(super) clock: u32,
    pub(super) lanes: u32,
    pub(super) write: bool,
    pub(super) atomic: bool,
    /// By the asynchronous proxy.
    pub(super) asynchronous: bool,
    pub(super) location: u32,
}

/// The vector clocks of the threads, or of the agent, that make an access.
pub(super) struct Observer<'v> {
    /// The clock of an agent; `None` for lanes, which have their own.
    pub(super) clock: Option<&'v VectorClock>,
    /// The clock of all lanes, if they share it.
    pub(super) common: Option<&'v VectorClock>,
    pub(super) thread_clocks: &'v [Rc<VectorClock>],
    pub(super) fenced: &'v [u32],
    pub(super) copies_fenced: &'v [u32],
    pub(super) copies_done: &'v [u32],
    pub(super) bulk_done: &'v [u32],
    pub(super) warp: usize,
    pub(super) n_warps: usize,
}

/// The rule that an access breaks.
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
    /// The offset in the region, and the lane of the warp.
    pub(crate) offset: u32,
    pub(crate) lane: usize,
    /// The actor of the earlier access.
    pub(crate) actor: Actor,
    pub(crate) other_lane: usize,
    pub(crate) write: bool,
    pub(crate) location: u32,
    /// For accesses of other clusters: the CTA, by its linear index.
    pub(crate) cta: Option<u32>,
}

/// A conflict whose actor is still the row of a clock.
pub(super) struct Found {
    pub(super) conflict: Conflict,
    pub(super) row: u16,
}

impl Found {
    pub(super) fn new(kind: ConflictKind, stamp: &Stamp, offset: u32) -> Self {
        let conflict = Conflict {
            kind,
            offset,
            lane: stamp.lanes.trailing_zeros() as usize & (LANES - 1),
            actor: Actor::Agent(0),
            other_lane: 0,
            write: true,
            location: 0,
            cta: None,
        };
        Self { conflict, row: 0 }
    }

    fn with(mut self, by: Epoch, of: u32, write: bool) -> Self {
        self.row = by.row;
        self.conflict.other_lane = of.trailing_zeros() as usize & (LANES - 1);
        self.conflict.write = write;
        self.conflict.location = by.location;
        self
    }

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

/// Bytes of a shadow cell.
const BYTES: u32 = 16;

/// The epoch of an access: its actor's row, and that actor's clock.
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    clock: u32,
    location: u32,
    row: u16,
    flags: u8,
}

const ATOMIC: u8 = 1;
const ASYNCHRONOUS: u8 = 2;

impl Epoch {
    fn is_same(&self, other: &Self) -> bool {
        self.row == other.row && self.clock == other.clock && self.flags == other.flags
    }

    fn both_atomic(&self, stamp: &Stamp) -> bool {
        stamp.atomic && self.flags & ATOMIC != 0
    }
}

/// Writes of one actor to some bytes of a cell.
#[derive(Clone, Copy, Debug, Default)]
struct Write {
    by: Epoch,
    bytes: u16,
    /// The lane that wrote each byte.
    lane: [u8; BYTES as usize],
}

/// Reads of one actor of some bytes of a cell.
#[derive(Clone, Copy, Debug, Default)]
struct Read {
    by: Epoch,
    bytes: u16,
    /// The lanes that read each word.
    lanes: [u32; 4],
}

/// The shadow of 16 bytes: the last writes, the reads since, and which bytes were ever written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShadowCell {
    write: Write,
    read: Read,
    /// The index of further accesses in the pool, plus one; 0 for none.
    overflow: u32,
    initialised: u16,
}

/// Further accesses to one cell.
#[derive(Clone, Debug, Default)]
pub(super) struct Overflow {
    writes: Vec<Write>,
    reads: Vec<Read>,
}

/// The shadow of one CTA's shared memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Shadow {
    cells: Vec<ShadowCell>,
    pool: Vec<Overflow>,
}

impl Shadow {
    pub(super) fn reset(&mut self, bytes: usize) {
        self.cells.clear();
        self.cells.resize(bytes.div_ceil(BYTES as usize), ShadowCell::default());
        self.pool.clear();
    }

    /// Checks and records an access.
    pub(super) fn access(
        &mut self,
        stamp: &Stamp,
        view: &Observer<'_>,
        offset: u32,
        bytes: u32,
    ) -> Option<Found> {
        for (cell, mask) in cells(offset, bytes) {
            let it = &mut self.cells[cell as usize];
            if stamp.write {
                it.initialised |= mask;
            } else if it.initialised & mask != mask {
                let first = (mask & !it.initialised).trailing_zeros();
                let at = cell * BYTES + first;
                return Some(Found::new(ConflictKind::Uninitialised, stamp, at));
            }
            let conflict = it.access(&mut self.pool, stamp, view, mask, cell * BYTES);
            if conflict.is_some() {
                return conflict;
            }
        }
        None
    }
}

/// Returns the cells of some bytes, with a bit for each byte.
pub(super) fn cells(offset: u32, bytes: u32) -> impl Iterator<Item = (u32, u16)> {
    let end = offset + bytes;
    (offset / BYTES..end.div_ceil(BYTES)).map(move |cell| {
        let start = cell * BYTES;
        let (from, to) = (offset.max(start) - start, end.min(start + BYTES) - start);
        (cell, (u16::MAX << from) & (u16::MAX >> (BYTES - to)))
    })
}

impl Write {
    /// Returns the lanes that wrote some bytes.
    fn lanes(&self, mask: u16) -> u32 {
        let mask = self.bytes & mask;
        let writer = |it: usize| if mask >> it & 1 == 1 { 1 << self.lane[it] } else { 0 };
        (0..BYTES as usize).fold(0, |all, it| all | writer(it))
    }

    /// Returns the conflict with an access that is not ordered after this write.
    fn conflict(&self, stamp: &Stamp, view: &Observer<'_>, mask: u16, at: u32) -> Option<Found> {
        let both = self.bytes & mask;
        if both == 0 || self.by.both_atomic(stamp) {
            return None;
        }
        let found = |kind| {
            let found = Found::new(kind, stamp, at + both.trailing_zeros());
            Some(found.with(self.by, self.lanes(mask), true))
        };
        if !view.is_after(self.by, || self.lanes(mask), stamp.lanes) {
            return found(ConflictKind::Race);
        }
        let through_proxy = stamp.asynchronous && !stamp.write && self.by.flags & ASYNCHRONOUS == 0;
        if through_proxy && !view.is_fenced(self.by, self.lanes(mask), stamp.lanes) {
            return found(ConflictKind::ProxyFence);
        }
        None
    }
}

impl Read {
    /// Returns the lanes that read some bytes.
    fn lanes(&self, mask: u16) -> u32 {
        let readers = |word: usize| if mask >> (4 * word) & 15 == 0 { 0 } else { self.lanes[word] };
        (0..4).fold(0, |all, word| all | readers(word))
    }

    fn add(&mut self, mask: u16, group: u32) {
        self.bytes |= mask;
        for (word, lanes) in self.lanes.iter_mut().enumerate() {
            if mask >> (4 * word) & 15 != 0 {
                *lanes |= group;
            }
        }
    }

    /// Returns the conflict with a write that is not ordered after this read.
    fn conflict(&self, stamp: &Stamp, view: &Observer<'_>, mask: u16, at: u32) -> Option<Found> {
        let both = self.bytes & mask;
        if both == 0
            || self.by.both_atomic(stamp)
            || view.is_after(self.by, || self.lanes(both), stamp.lanes)
        {
            return None;
        }
        let found = Found::new(ConflictKind::Race, stamp, at + both.trailing_zeros());
        Some(found.with(self.by, self.lanes(both), false))
    }

    /// Returns whether reads can be merged: lanes are known for whole words only.
    fn merges(&self, by: &Epoch, mask: u16) -> bool {
        self.bytes != 0
            && self.by.is_same(by)
            && (self.bytes == mask || whole_words(self.bytes) && whole_words(mask))
    }

    /// Drops bytes that a later read covers.
    fn forget(&mut self, mask: u16, view: &Observer<'_>, group: u32) {
        let both = self.bytes & mask;
        if both != 0 && view.is_after(self.by, || self.lanes(both), group) {
            self.bytes &= !mask;
            self.keep_lanes();
        }
    }

    /// Drops the lanes of words without bytes.
    fn keep_lanes(&mut self) {
        for (word, lanes) in self.lanes.iter_mut().enumerate() {
            if self.bytes >> (4 * word) & 15 == 0 {
                *lanes = 0;
            }
        }
    }
}

fn whole_words(mask: u16) -> bool {
    let any = (mask | mask >> 1 | mask >> 2 | mask >> 3) & 0x1111;
    mask == any * 15
}

impl ShadowCell {
    /// Checks and records an access to the bytes of `mask`.
    pub(super) fn access(
        &mut self,
        pool: &mut Vec<Overflow>,
        stamp: &Stamp,
        view: &Observer<'_>,
        mask: u16,
        at: u32,
    ) -> Option<Found> {
        let mut found = self.write.conflict(stamp, view, mask, at);
        if stamp.write {
            found = found.or_else(|| self.read.conflict(stamp, view, mask, at));
        }
        if self.overflow > 0 && found.is_none() {
            let overflow = &pool[self.overflow as usize - 1];
            found = overflow.writes.iter().find_map(|it| it.conflict(stamp, view, mask, at));
            if stamp.write && found.is_none() {
                found = overflow.reads.iter().find_map(|it| it.conflict(stamp, view, mask, at));
            }
        }
        if found.is_some() {
            return found;
        }
        let by = Epoch {
            clock: stamp.clock,
            location: stamp.location,
            row: stamp.row,
            flags: u8::from(stamp.atomic) * ATOMIC + u8::from(stamp.asynchronous) * ASYNCHRONOUS,
        };
        if stamp.write {
            self.written(pool, by, mask, stamp.lanes);
        } else {
            self.was_read(pool, by, mask, stamp.lanes, view);
        }
        None
    }

    /// Records a write; drops the accesses that it covers.
    fn written(&mut self, pool: &mut Vec<Overflow>, by: Epoch, mask: u16, group: u32) {
        let lane = group.trailing_zeros() as u8 & (LANES as u8 - 1);
        let forget_read = |it: &mut Read| {
            it.bytes &= !mask;
            it.keep_lanes();
        };
        forget_read(&mut self.read);
        if self.overflow > 0 {
            let overflow = &mut pool[self.overflow as usize - 1];
            overflow.reads.iter_mut().for_each(forget_read);
            overflow.reads.retain(|it| it.bytes != 0);
            overflow.writes.iter_mut().for_each(|it| it.bytes &= !mask);
            overflow.writes.retain(|it| it.bytes != 0);
        }
        if !self.write.by.is_same(&by) {
            self.write.bytes &= !mask;
        }
        let write = if self.write.bytes == 0 || self.write.by.is_same(&by) {
            &mut self.write
        } else {
            let writes = &mut self.overflow(pool).writes;
            let n = writes.iter().position(|it| it.by.is_same(&by)).unwrap_or(writes.len());
            if n == writes.len() {
                writes.push(Write::default());
            }
            &mut writes[n]
        };
        write.by = by;
        write.bytes |= mask;
        for (byte, to) in write.lane.iter_mut().enumerate() {
            if mask >> byte & 1 == 1 {
                *to = lane;
            }
        }
    }

    /// Records a read; drops those that are ordered before it.
    fn was_read(
        &mut self,
        pool: &mut Vec<Overflow>,
        by: Epoch,
        mask: u16,
        group: u32,
        view: &Observer<'_>,
    ) {
        if self.read.merges(&by, mask) {
            self.read.add(mask, group);
            return;
        }
        self.read.forget(mask, view, group);
        if self.overflow > 0 {
            let reads = &mut pool[self.overflow as usize - 1].reads;
            if let Some(same) = reads.iter_mut().find(|it| it.merges(&by, mask)) {
                same.add(mask, group);
                return;
            }
            reads.iter_mut().for_each(|it| it.forget(mask, view, group));
            reads.retain(|it| it.bytes != 0);
        }
        let mut new = Read { by, bytes: 0, lanes: [0; 4] };
        new.add(mask, group);
        if self.read.bytes == 0 {
            self.read = new;
        } else {
            self.overflow(pool).reads.push(new);
        }
    }

    fn overflow<'p>(&mut self, pool: &'p mut Vec<Overflow>) -> &'p mut Overflow {
        if self.overflow == 0 {
            pool.push(Overflow::default());
            self.overflow = pool.len() as u32;
        }
        &mut pool[self.overflow as usize - 1]
    }
}

impl Observer<'_> {
    /// Returns whether the observer comes after all of an earlier access.
    #[inline]
    fn is_after(&self, by: Epoch, of: impl Fn() -> u32, group: u32) -> bool {
        self.common.is_some_and(|it| it.row_minimum(usize::from(by.row)) >= by.clock)
            || self.is_after_each(by, of(), group)
    }

    fn is_after_each(&self, by: Epoch, of: u32, group: u32) -> bool {
        let row = usize::from(by.row);
        if let Some(clock) = self.clock {
            return self.saw(clock, row, of, by.clock);
        }
        if row >= 3 * self.n_warps || row % self.n_warps != self.warp {
            if let Some(common) = self.common {
                return self.saw(common, row, of, by.clock);
            }
            return lanes(group).all(|it| self.saw(&self.thread_clocks[it], row, of, by.clock));
        }
        lanes(group).all(|lane| {
            let mut others = of;
            if of >> lane & 1 == 1 {
                // Its own access: program order, or a wait of its own.
                others &= !(1 << lane);
                let done = match row / self.n_warps {
                    0 => true,
                    1 => self.copies_done[lane] >= by.clock,
                    _ => self.bulk_done[lane] >= by.clock,
                };
                if !done {
                    return false;
                }
            }
            self.saw(&self.thread_clocks[lane], row, others, by.clock)
        })
    }

    fn saw(&self, view: &VectorClock, row: usize, of: u32, clock: u32) -> bool {
        if row >= 3 * self.n_warps {
            let slot = 3 * self.n_warps * LANES + (row - 3 * self.n_warps);
            return view.seen(slot) >= clock;
        }
        lanes(of).all(|lane| view.seen(row * LANES + lane) >= clock)
    }

    /// Returns whether a write, which may be one of `cp.async`, is behind a proxy fence for the
    /// view.
    fn is_fenced(&self, by: Epoch, of: u32, group: u32) -> bool {
        let row = usize::from(by.row);
        if row >= 2 * self.n_warps {
            return true;
        }
        let slot = |lane: usize| row * LANES + lane;
        if let Some(clock) = self.clock {
            return lanes(of).all(|it| clock.fenced(slot(it)) >= by.clock);
        }
        let fenced = if row < self.n_warps { self.fenced } else { self.copies_fenced };
        lanes(group).all(|lane| {
            lanes(of).all(|it| {
                let own = row % self.n_warps == self.warp && it == lane;
                let fenced = if own { fenced[lane] } else { 0 };
                fenced.max(self.thread_clocks[lane].fenced(slot(it))) >= by.clock
            })
        })
    }
}
