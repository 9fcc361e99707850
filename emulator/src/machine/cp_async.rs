//! `cp.async`: asynchronous copies in groups.

use super::access::{Access, Located, Wanted};
use super::pending::{Pending, Work};
use super::warp::Flow;
use super::{Machine, Result};
use crate::code::{CpAsync, CpAsyncArrive, CpAsyncGroup, Strength};
use crate::fault::FaultKind;
use crate::launch::Completion;
use crate::race::{self, Actor};
use crate::registers::{LANES, lanes, lanes_by_key, lanes_where};
use crate::space::{Region, Space};

impl Machine<'_> {
    pub(super) fn cp_async(&mut self, warp: usize, active: u32, copy: &CpAsync) -> Result<Flow> {
        let (to, from) = (self.addresses(warp, copy.to), self.addresses(warp, copy.from));
        let registers = &self.warps[warp].registers;
        let ignored = copy.ignored.map_or(0, |it| it.lanes(registers));
        let wanted: [u32; LANES] = std::array::from_fn(|lane| {
            let asked =
                copy.source_bytes.map_or(copy.bytes, |it| registers.words[it as usize][lane]);
            if ignored >> lane & 1 == 1 { 0 } else { asked }
        });
        if let Some(lane) = lanes(active).find(|it| wanted[*it] > copy.bytes) {
            let message = format!("a copy of {} bytes from {}", copy.bytes, wanted[lane]);
            return Err(self.fault(FaultKind::BadInstruction, lane, message));
        }
        let mut sources = [None; LANES];
        // Lanes that read the same number of bytes are checked together.
        let reading = lanes_where(active, |it| wanted[it] > 0);
        for (bytes, same) in lanes_by_key(reading, |it| wanted[it]) {
            let (space, access) = (Space::Global, Access::Read);
            let wanted = Wanted { space, mask: same, bytes, align: copy.bytes, access };
            for located in &self.locate(warp, wanted, &from)? {
                self.check_access(warp, located, bytes, access, Strength::default())?;
                lanes(located.mask).for_each(|lane| {
                    sources[lane] = Some((located.region, located.offsets[lane]));
                });
            }
        }
        let (space, bytes, access) = (Space::Shared, copy.bytes, Access::Write);
        let target = Wanted { space, mask: active, bytes, align: bytes, access };
        for located in &self.locate(warp, target, &to)? {
            self.count_cost(located, bytes, access);
            self.check_cp_async(warp, located, bytes)?;
            for lane in lanes(located.mask) {
                let copies = &mut self.warps[warp].copies;
                let group = copies.groups.committed[lane] + 1;
                copies.groups.last[lane] = group;
                let work = Work::Copy {
                    from: sources[lane],
                    source_bytes: wanted[lane],
                    to: (located.region, located.offsets[lane]),
                    bytes,
                };
                copies.pending.push(Pending { lane, group, work });
            }
        }
        if self.options.completion == Completion::Eager {
            self.complete_copies(warp, |_| true)?;
        }
        Ok(Flow::Next)
    }

    /// Executes `cp.async.mbarrier.arrive`: an arrival once the copies so far have completed.
    pub(super) fn cp_async_arrive(
        &mut self,
        warp: usize,
        active: u32,
        arrive: &CpAsyncArrive,
    ) -> Result<Flow> {
        let addresses = self.addresses(warp, arrive.address);
        let access = Access::Atomic;
        let wanted = Wanted { space: Space::Shared, mask: active, bytes: 8, align: 8, access };
        for located in self.locate(warp, wanted, &addresses)? {
            let Region::Shared(cta) = located.region else { continue };
            for lane in lanes(located.mask) {
                let at = (cta, located.offsets[lane]);
                self.require_mbarrier(lane, at)?;
                if !arrive.counted {
                    self.expect_one_more(at);
                }
                let copies = &mut self.warps[warp].copies;
                let group = copies.groups.committed[lane] + 1;
                copies.groups.last[lane] = copies.groups.waited[lane];
                copies.pending.push(Pending { lane, group, work: Work::Arrive { at } });
            }
            let strong = Strength { strong: true, ..Strength::default() };
            self.check_access(warp, &located, 8, Access::Atomic, strong)?;
        }
        if self.options.completion == Completion::Eager {
            self.complete_copies(warp, |_| true)?;
        }
        Ok(Flow::Next)
    }

    /// Checks writes of copies for races.
    fn check_cp_async(&mut self, warp: usize, located: &Located, bytes: u32) -> Result<()> {
        let Located { region, mask, ref offsets } = *located;
        let Region::Shared(cta) = region else { return Ok(()) };
        let committed = self.warps[warp].copies.groups.committed;
        for (group, same) in lanes_by_key(mask, |it| committed[it]) {
            let access = self.race_access(warp, Actor::Copies(warp), group + 1);
            let access = race::Access { write: true, ..access };
            let Some(race) = &mut self.race else { return Ok(()) };
            if let Some(conflict) = race.shared(cta, access, same, offsets, bytes) {
                return Err(self.conflict(region, "write of `cp.async`", &conflict));
            }
        }
        Ok(())
    }

    pub(super) fn cp_async_group(
        &mut self,
        warp: usize,
        active: u32,
        group: CpAsyncGroup,
    ) -> Result<Flow> {
        let groups = &mut self.warps[warp].copies.groups;
        if matches!(group, CpAsyncGroup::Commit | CpAsyncGroup::WaitAll) {
            groups.commit(active);
        }
        let pending = match group {
            CpAsyncGroup::Commit => return Ok(Flow::Next),
            CpAsyncGroup::Wait(n) => n,
            CpAsyncGroup::WaitAll => 0,
        };
        for lane in lanes(active) {
            let done = groups.wait(lane, pending);
            if let Some(race) = &mut self.race {
                race.copies_done(warp, lane, done);
            }
        }
        let waited = groups.waited;
        self.complete_copies(warp, |it| active >> it.lane & 1 == 1 && it.group <= waited[it.lane])?;
        Ok(Flow::Next)
    }

    /// Completes the selected copies. Arrivals wait for the copies before them.
    fn complete_copies(
        &mut self,
        warp: usize,
        mut wanted: impl FnMut(&Pending) -> bool,
    ) -> Result<()> {
        let pending = std::mem::take(&mut self.warps[warp].copies.pending);
        let (mut now, mut later, mut held) = (Vec::new(), Vec::new(), 0u32);
        for it in pending {
            let must_wait = matches!(it.work, Work::Arrive { .. }) && held >> it.lane & 1 == 1;
            if !must_wait && wanted(&it) {
                now.push(it);
            } else {
                held |= 1 << it.lane;
                later.push(it);
            }
        }
        self.warps[warp].copies.pending = later;
        for Pending { lane, group, work } in now {
            match work {
                Work::Arrive { at } => self.copies_arrive(warp, lane, at, group)?,
                Work::Copy { from, source_bytes, to, bytes: n } => {
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

    /// Makes some copies, by rng.
    pub(super) fn complete_random_copies(&mut self) -> Result<()> {
        let Some(mut rng) = self.completion_rng.take() else { return Ok(()) };
        for warp in 0..self.warps.len() {
            if !self.warps[warp].copies.pending.is_empty() {
                self.complete_copies(warp, |_| rng.below(2) == 0)?;
            }
        }
        self.completion_rng = Some(rng);
        Ok(())
    }

    /// Completes the copies of a warp that has an mbarrier arrival pending; returns whether there
    /// is one.
    pub(super) fn complete_copies_of_mbarrier(&mut self) -> Result<bool> {
        let tells = |it: &Pending| matches!(it.work, Work::Arrive { .. });
        let found = self.warps.iter().position(|it| it.copies.pending.iter().any(tells));
        if let Some(warp) = found {
            self.complete_copies(warp, |_| true)?;
        }
        Ok(found.is_some())
    }

    /// Checks that threads which exit have waited for their copies.
    pub(super) fn check_copies_waited(&mut self, warp: usize, active: u32) -> Result<()> {
        if !self.options.check {
            return Ok(());
        }
        let copies = &self.warps[warp].copies;
        for (groups, copies) in [(&copies.groups, "`cp.async`"), (&copies.bulk, "bulk copies")] {
            if let Some(lane) = lanes(active).find(|it| groups.last[*it] > groups.waited[*it]) {
                let message = format!("the end before a wait for {copies}");
                return Err(self.fault(FaultKind::ExitWhilePending, lane, message));
            }
        }
        Ok(())
    }
}
