//! Who accessed what: for each 16 bytes the accesses that later ones must be ordered after.

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
    /// Of all lanes, if theirs is the same.
    pub(super) common: Option<&'v Clock>,
    pub(super) views: &'v [Rc<Clock>],
    pub(super) fenced: &'v [u32],
    pub(super) copies_fenced: &'v [u32],
    pub(super) copies_done: &'v [u32],
    pub(super) bulk_done: &'v [u32],
    pub(super) warp: usize,
    pub(super) n_warps: usize,
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
    pub(super) fn new(kind: ConflictKind, stamp: &Stamp, offset: u32) -> Self {
        let conflict = Conflict {
            kind,
            offset,
            lane: stamp.lanes.trailing_zeros() as usize & (LANES - 1),
            actor: Actor::Agent(0),
            other_lane: 0,
            write: true,
            place: 0,
            cta: None,
        };
        Self { conflict, row: 0 }
    }

    fn with(mut self, by: By, of: u32, write: bool) -> Self {
        self.row = by.row;
        self.conflict.other_lane = of.trailing_zeros() as usize & (LANES - 1);
        self.conflict.write = write;
        self.conflict.place = by.place;
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

/// Bytes of a granule.
const BYTES: u32 = 16;

/// Who made an access, and when.
#[derive(Clone, Copy, Debug, Default)]
struct By {
    clock: u32,
    place: u32,
    row: u16,
    flags: u8,
}

const ATOMIC: u8 = 1;
const ASYNCHRONOUS: u8 = 2;

impl By {
    fn is_same(&self, other: &Self) -> bool {
        self.row == other.row && self.clock == other.clock && self.flags == other.flags
    }

    fn both_atomic(&self, stamp: &Stamp) -> bool {
        stamp.atomic && self.flags & ATOMIC != 0
    }
}

/// Writes of one actor to some bytes of a granule.
#[derive(Clone, Copy, Debug, Default)]
struct Write {
    by: By,
    bytes: u16,
    /// Which lane wrote each byte.
    lane: [u8; BYTES as usize],
}

/// Reads of one actor of some bytes of a granule.
#[derive(Clone, Copy, Debug, Default)]
struct Read {
    by: By,
    bytes: u16,
    /// Which lanes read each word.
    lanes: [u32; 4],
}

/// 16 bytes: which of them were ever written, who wrote them last, and who read them since.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Granule {
    write: Write,
    read: Read,
    /// Further accesses, in the pool; none is 0.
    more: u32,
    initialised: u16,
}

/// Further accesses to one granule.
#[derive(Clone, Debug, Default)]
pub(super) struct More {
    writes: Vec<Write>,
    reads: Vec<Read>,
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
        self.granules.resize(bytes.div_ceil(BYTES as usize), Granule::default());
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
                let first = (mask & !it.initialised).trailing_zeros();
                let at = granule * BYTES + first;
                return Some(Found::new(ConflictKind::Uninitialised, stamp, at));
            }
            let conflict = it.access(&mut self.pool, stamp, view, mask, granule * BYTES);
            if conflict.is_some() {
                return conflict;
            }
        }
        None
    }
}

/// The granules of some bytes, with a bit for each byte.
pub(super) fn granules(offset: u32, bytes: u32) -> impl Iterator<Item = (u32, u16)> {
    let end = offset + bytes;
    (offset / BYTES..end.div_ceil(BYTES)).map(move |granule| {
        let start = granule * BYTES;
        let (from, to) = (offset.max(start) - start, end.min(start + BYTES) - start);
        (granule, (u16::MAX << from) & (u16::MAX >> (BYTES - to)))
    })
}

impl Write {
    /// The lanes that wrote some bytes.
    fn lanes(&self, mask: u16) -> u32 {
        let mask = self.bytes & mask;
        let of = |it: usize| if mask >> it & 1 == 1 { 1 << self.lane[it] } else { 0 };
        (0..BYTES as usize).fold(0, |all, it| all | of(it))
    }

    /// Whether an access must come after this write and does not.
    fn conflict(&self, stamp: &Stamp, view: &View<'_>, mask: u16, at: u32) -> Option<Found> {
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
    /// The lanes that read some bytes.
    fn lanes(&self, mask: u16) -> u32 {
        let of = |word: usize| if mask >> (4 * word) & 15 == 0 { 0 } else { self.lanes[word] };
        (0..4).fold(0, |all, word| all | of(word))
    }

    fn add(&mut self, mask: u16, group: u32) {
        self.bytes |= mask;
        for (word, lanes) in self.lanes.iter_mut().enumerate() {
            if mask >> (4 * word) & 15 != 0 {
                *lanes |= group;
            }
        }
    }

    /// Whether a write must come after this read and does not.
    fn conflict(&self, stamp: &Stamp, view: &View<'_>, mask: u16, at: u32) -> Option<Found> {
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

    /// Whether reads can be remembered as one: lanes are known for whole words only.
    fn merges(&self, by: &By, mask: u16) -> bool {
        self.bytes != 0
            && self.by.is_same(by)
            && (self.bytes == mask || whole_words(self.bytes) && whole_words(mask))
    }

    /// Forgets bytes that a later read stands for.
    fn forget(&mut self, mask: u16, view: &View<'_>, group: u32) {
        let both = self.bytes & mask;
        if both != 0 && view.is_after(self.by, || self.lanes(both), group) {
            self.bytes &= !mask;
            self.keep_lanes();
        }
    }

    /// Words that are no longer remembered were read by nobody.
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

impl Granule {
    /// Checks and remembers an access to the bytes of `mask`.
    pub(super) fn access(
        &mut self,
        pool: &mut Vec<More>,
        stamp: &Stamp,
        view: &View<'_>,
        mask: u16,
        at: u32,
    ) -> Option<Found> {
        let mut found = self.write.conflict(stamp, view, mask, at);
        if stamp.write {
            found = found.or_else(|| self.read.conflict(stamp, view, mask, at));
        }
        if self.more > 0 && found.is_none() {
            let more = &pool[self.more as usize - 1];
            found = more.writes.iter().find_map(|it| it.conflict(stamp, view, mask, at));
            if stamp.write && found.is_none() {
                found = more.reads.iter().find_map(|it| it.conflict(stamp, view, mask, at));
            }
        }
        if found.is_some() {
            return found;
        }
        let by = By {
            clock: stamp.clock,
            place: stamp.place,
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

    /// Remembers a write: what it overwrites need not be.
    fn written(&mut self, pool: &mut Vec<More>, by: By, mask: u16, group: u32) {
        let lane = group.trailing_zeros() as u8 & (LANES as u8 - 1);
        let forget_read = |it: &mut Read| {
            it.bytes &= !mask;
            it.keep_lanes();
        };
        forget_read(&mut self.read);
        if self.more > 0 {
            let more = &mut pool[self.more as usize - 1];
            more.reads.iter_mut().for_each(forget_read);
            more.reads.retain(|it| it.bytes != 0);
            more.writes.iter_mut().for_each(|it| it.bytes &= !mask);
            more.writes.retain(|it| it.bytes != 0);
        }
        if !self.write.by.is_same(&by) {
            self.write.bytes &= !mask;
        }
        let write = if self.write.bytes == 0 || self.write.by.is_same(&by) {
            &mut self.write
        } else {
            let writes = &mut self.more(pool).writes;
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

    /// Remembers a read: those that are ordered before it need not be.
    fn was_read(&mut self, pool: &mut Vec<More>, by: By, mask: u16, group: u32, view: &View<'_>) {
        if self.read.merges(&by, mask) {
            self.read.add(mask, group);
            return;
        }
        self.read.forget(mask, view, group);
        if self.more > 0 {
            let reads = &mut pool[self.more as usize - 1].reads;
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
            self.more(pool).reads.push(new);
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
    #[inline]
    fn is_after(&self, by: By, of: impl Fn() -> u32, group: u32) -> bool {
        self.common.is_some_and(|it| it.least(usize::from(by.row)) >= by.clock)
            || self.is_after_each(by, of(), group)
    }

    fn is_after_each(&self, by: By, of: u32, group: u32) -> bool {
        let row = usize::from(by.row);
        if let Some(clock) = self.clock {
            return self.saw(clock, row, of, by.clock);
        }
        if row >= 3 * self.n_warps || row % self.n_warps != self.warp {
            if let Some(common) = self.common {
                return self.saw(common, row, of, by.clock);
            }
            return lanes(group).all(|it| self.saw(&self.views[it], row, of, by.clock));
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
            self.saw(&self.views[lane], row, others, by.clock)
        })
    }

    fn saw(&self, view: &Clock, row: usize, of: u32, clock: u32) -> bool {
        if row >= 3 * self.n_warps {
            let slot = 3 * self.n_warps * LANES + (row - 3 * self.n_warps);
            return view.seen(slot) >= clock;
        }
        lanes(of).all(|lane| view.seen(row * LANES + lane) >= clock)
    }

    /// Whether a write, which may be one of `cp.async`, is behind a proxy fence for whoever has this
    /// view.
    fn is_fenced(&self, by: By, of: u32, group: u32) -> bool {
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
                fenced.max(self.views[lane].fenced(slot(it))) >= by.clock
            })
        })
    }
}
