//! `cp.async`: copies that threads wait for in groups.

use super::access::{Access, Region, Wanted};
use super::step::Flow;
use super::warp::lanes;
use super::{Machine, Result};
use crate::code::{Copy, CopyArrive, CopyGroup, Space, Strength};
use crate::fault::FaultKind;
use crate::launch::Completion;
use crate::race::{self, Actor};
use crate::registers::LANES;

/// The copies that threads of a warp have issued.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    groups: Groups,
    pending: Vec<Pending>,
    /// The same of bulk copies.
    pub(super) bulk: Groups,
}

/// Groups of copies, lane by lane.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    /// How many were committed, and how many waited for.
    pub(super) committed: [u32; LANES],
    pub(super) waited: [u32; LANES],
    /// The last group that has a copy.
    pub(super) last: [u32; LANES],
}

/// A copy that was issued and not made, or an arrival behind it.
#[derive(Clone, Debug)]
struct Pending {
    lane: usize,
    group: u32,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Copy { from: Option<(Region, u32)>, source_bytes: u32, to: (Region, u32), bytes: u32 },
    Arrive { at: (usize, u32) },
}

impl Machine<'_> {
    pub(super) fn copy(&mut self, warp: usize, active: u32, copy: &Copy) -> Result<Flow> {
        let (to, from) = (self.addresses(warp, copy.to), self.addresses(warp, copy.from));
        let registers = &self.warps[warp].registers;
        let ignored = copy.ignored.map_or(0, |it| it.of(registers));
        let wanted: [u32; LANES] = std::array::from_fn(|lane| {
            let asked =
                copy.source_bytes.map_or(copy.bytes, |it| registers.words[it as usize][lane]);
            if ignored >> lane & 1 == 1 { 0 } else { asked }
        });
        if let Some(lane) = lanes(active).find(|it| wanted[*it] > copy.bytes) {
            let what = format!("a copy of {} bytes from {}", copy.bytes, wanted[lane]);
            return Err(self.fault(FaultKind::BadInstruction, lane, what));
        }
        let mut sources = [None; LANES];
        // Lanes that read the same number of bytes are checked together.
        let mut left = lanes(active).filter(|it| wanted[*it] > 0).fold(0u32, |m, it| m | 1 << it);
        while left != 0 {
            let bytes = wanted[left.trailing_zeros() as usize];
            let same =
                lanes(left).filter(|it| wanted[*it] == bytes).fold(0u32, |m, it| m | 1 << it);
            left &= !same;
            let found = self.locate(
                warp,
                Wanted {
                    space: Space::Global,
                    mask: same,
                    bytes,
                    align: copy.bytes,
                    access: Access::Read,
                },
                &from,
            )?;
            for located in &found {
                self.watch(warp, located, bytes, Access::Read, Strength::default())?;
                lanes(located.mask).for_each(|lane| {
                    sources[lane] = Some((located.region, located.offsets[lane]));
                });
            }
        }
        let found = self.locate(
            warp,
            Wanted {
                space: Space::Shared,
                mask: active,
                bytes: copy.bytes,
                align: copy.bytes,
                access: Access::Write,
            },
            &to,
        )?;
        for located in &found {
            self.measure(located, copy.bytes, Access::Write);
            self.watch_copies(warp, located.region, located.mask, &located.offsets, copy.bytes)?;
            for lane in lanes(located.mask) {
                let copies = &mut self.warps[warp].copies;
                let group = copies.groups.committed[lane] + 1;
                copies.groups.last[lane] = group;
                let what = What::Copy {
                    from: sources[lane],
                    source_bytes: wanted[lane],
                    to: (located.region, located.offsets[lane]),
                    bytes: copy.bytes,
                };
                copies.pending.push(Pending { lane, group, what });
            }
        }
        if self.options.completion == Completion::Eager {
            self.make_copies(warp, |_| true)?;
        }
        Ok(Flow::Next)
    }

    /// `cp.async.mbarrier.arrive`: from here on the mbarrier knows about the copies so far.
    pub(super) fn copy_arrive(
        &mut self,
        warp: usize,
        active: u32,
        arrive: &CopyArrive,
    ) -> Result<Flow> {
        let addresses = self.addresses(warp, arrive.address);
        let access = Access::Atomic;
        let wanted = Wanted { space: Space::Shared, mask: active, bytes: 8, align: 8, access };
        for located in self.locate(warp, wanted, &addresses)? {
            let Region::Shared(cta) = located.region else { continue };
            for lane in lanes(located.mask) {
                let at = (cta, located.offsets[lane]);
                self.known(lane, at)?;
                if !arrive.counted {
                    self.expect_one_more(at);
                }
                let copies = &mut self.warps[warp].copies;
                let group = copies.groups.committed[lane] + 1;
                copies.groups.last[lane] = copies.groups.waited[lane];
                copies.pending.push(Pending { lane, group, what: What::Arrive { at } });
            }
            let strong = Strength { strong: true, ..Strength::default() };
            self.watch(warp, &located, 8, Access::Atomic, strong)?;
        }
        if self.options.completion == Completion::Eager {
            self.make_copies(warp, |_| true)?;
        }
        Ok(Flow::Next)
    }

    /// Looks for races of what copies write.
    fn watch_copies(
        &mut self,
        warp: usize,
        region: Region,
        mask: u32,
        offsets: &[u32; LANES],
        bytes: u32,
    ) -> Result<()> {
        let (place, number) = (self.place(), self.linear_cta(self.warps[warp].cta));
        let Region::Shared(cta) = region else { return Ok(()) };
        let committed = self.warps[warp].copies.groups.committed;
        let mut left = mask;
        while left != 0 {
            let Some(race) = &mut self.race else { return Ok(()) };
            let group = committed[left.trailing_zeros() as usize];
            let same =
                lanes(left).filter(|it| committed[*it] == group).fold(0u32, |m, it| m | 1 << it);
            left &= !same;
            let access = race::Access {
                actor: Actor::Copies(warp),
                clock: group + 1,
                write: true,
                atomic: false,
                place,
                warp,
                cta: number,
            };
            if let Some(conflict) = race.shared(cta, access, same, offsets, bytes) {
                return Err(self.conflict(region, "write of `cp.async`", &conflict));
            }
        }
        Ok(())
    }

    pub(super) fn copy_group(
        &mut self,
        warp: usize,
        active: u32,
        group: CopyGroup,
    ) -> Result<Flow> {
        let copies = &mut self.warps[warp].copies;
        let pending = match group {
            CopyGroup::Commit => {
                lanes(active).for_each(|lane| copies.groups.committed[lane] += 1);
                return Ok(Flow::Next);
            }
            CopyGroup::Wait(n) => n,
            CopyGroup::WaitAll => {
                lanes(active).for_each(|lane| copies.groups.committed[lane] += 1);
                0
            }
        };
        for lane in lanes(active) {
            let done = copies.groups.committed[lane].saturating_sub(pending);
            copies.groups.waited[lane] = copies.groups.waited[lane].max(done);
            if let Some(race) = &mut self.race {
                race.copies_done(warp, lane, done);
            }
        }
        let waited = copies.groups.waited;
        self.make_copies(warp, |it| active >> it.lane & 1 == 1 && it.group <= waited[it.lane])?;
        Ok(Flow::Next)
    }

    /// Makes the pending copies that are wanted. Arrivals wait for the copies before them.
    fn make_copies(&mut self, warp: usize, mut wanted: impl FnMut(&Pending) -> bool) -> Result<()> {
        let pending = std::mem::take(&mut self.warps[warp].copies.pending);
        let (mut now, mut later, mut held) = (Vec::new(), Vec::new(), 0u32);
        for it in pending {
            let must_wait = matches!(it.what, What::Arrive { .. }) && held >> it.lane & 1 == 1;
            if !must_wait && wanted(&it) {
                now.push(it);
            } else {
                held |= 1 << it.lane;
                later.push(it);
            }
        }
        self.warps[warp].copies.pending = later;
        for Pending { lane, group, what } in now {
            match what {
                What::Arrive { at } => self.copies_arrive(warp, lane, at, group)?,
                What::Copy { from, source_bytes, to, bytes: n } => {
                    let mut bytes = [0; 16];
                    if let Some((region, at)) = from {
                        let n = source_bytes as usize;
                        bytes[..n].copy_from_slice(&self.bytes(warp, region)[at as usize..][..n]);
                    }
                    if let (Region::Shared(cta), at) = to {
                        let n = n as usize;
                        self.ctas[cta].shared[at as usize..][..n].copy_from_slice(&bytes[..n]);
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes some copies, by luck.
    pub(super) fn copy_some(&mut self) -> Result<()> {
        let Some(mut luck) = self.luck.take() else { return Ok(()) };
        for warp in 0..self.warps.len() {
            if !self.warps[warp].copies.pending.is_empty() {
                self.make_copies(warp, |_| luck.below(2) == 0)?;
            }
        }
        self.luck = Some(luck);
        Ok(())
    }

    /// Makes the copies of a warp that an mbarrier is told of; whether there were any.
    pub(super) fn copy_one(&mut self) -> Result<bool> {
        let tells = |it: &Pending| matches!(it.what, What::Arrive { .. });
        let found = self.warps.iter().position(|it| it.copies.pending.iter().any(tells));
        if let Some(warp) = found {
            self.make_copies(warp, |_| true)?;
        }
        Ok(found.is_some())
    }

    /// That threads which end have waited for their copies.
    pub(super) fn check_copies(&mut self, warp: usize, active: u32) -> Result<()> {
        if !self.options.check {
            return Ok(());
        }
        let copies = &self.warps[warp].copies;
        for (of, what) in [(&copies.groups, "`cp.async`"), (&copies.bulk, "bulk copies")] {
            if let Some(lane) = lanes(active).find(|it| of.last[*it] > of.waited[*it]) {
                let what = format!("the end before a wait for {what}");
                return Err(self.fault(FaultKind::ExitWhilePending, lane, what));
            }
        }
        Ok(())
    }
}
