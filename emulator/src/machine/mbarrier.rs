//! Barriers in shared memory: arrivals and bytes are counted, phase by phase.

use std::rc::Rc;

use super::access::{Access, Region, Wanted};
use super::step::{Flow, first};
use super::warp::{State, lanes};
use super::{Machine, Result};
use crate::code::{Arrive, Mbarrier, MbarrierOp, Phase, Space, Strength, Wait};
use crate::fault::{Fault, FaultKind};
use crate::race::{Clock, Release};
use crate::registers::{LANES, Slot};
use crate::space::SHARED_BASE;

/// Bytes and arrivals that an mbarrier can count.
const MAX_COUNT: i64 = (1 << 20) - 1;

/// A barrier that was initialised.
#[derive(Clone, Debug)]
pub(super) struct Count {
    /// Arrivals of each phase, and those that are missing in this one.
    expected: u32,
    missing: u32,
    /// Bytes that are still to come; they may come before anybody expects them.
    bytes: i64,
    /// Phases that are complete.
    pub(super) phase: u64,
    /// What those who arrived let others know: so far, and in the last complete phase.
    released: Release,
    done: Rc<Clock>,
    /// The thread that initialised it, until a fence lets asynchronous copies know.
    unannounced: Option<(usize, usize)>,
    /// Who copies on its behalf, for the race detector.
    pub(super) agent: Option<usize>,
}

impl Count {
    /// What the phase still lacks, in words.
    pub(super) fn missing(&self) -> String {
        format!("{} of {} arrivals and {} bytes are", self.missing, self.expected, self.bytes)
    }
}

impl Machine<'_> {
    pub(super) fn mbarrier(&mut self, warp: usize, active: u32, it: &Mbarrier) -> Result<Flow> {
        let addresses = self.addresses(warp, it.address);
        let space = if it.space == Space::Generic { Space::Generic } else { Space::Shared };
        let access = match it.op {
            MbarrierOp::Init(_) | MbarrierOp::Invalidate => Access::Write,
            MbarrierOp::Wait(_) => Access::Read,
            _ => Access::Atomic,
        };
        let found = self.locate(
            warp,
            Wanted { space, mask: active, bytes: 8, align: 8, access },
            &addresses,
        )?;
        let strong = Strength { strong: access != Access::Write, ..Strength::default() };
        let mut at = [(0, 0); LANES];
        for located in &found {
            let Region::Shared(cta) = located.region else {
                let what = "an mbarrier that is not in shared memory";
                return Err(self.fault(FaultKind::BadInstruction, first(active), what));
            };
            for lane in lanes(located.mask) {
                at[lane] = (cta, located.offsets[lane]);
                if !matches!(it.op, MbarrierOp::Init(_)) {
                    self.known(lane, at[lane])?;
                }
            }
            self.watch(warp, located, 8, access, strong)?;
        }
        if let MbarrierOp::Wait(wait) = it.op {
            return self.mbarrier_wait(warp, active, &at, wait);
        }
        for lane in lanes(active) {
            let word = |slot: Slot| self.warps[warp].registers.words[slot as usize][lane];
            match it.op {
                MbarrierOp::Init(count) => self.mbarrier_init(lane, at[lane], word(count))?,
                MbarrierOp::Invalidate => {
                    let (cta, offset) = at[lane];
                    self.ctas[cta].mbarriers.remove(&offset);
                }
                MbarrierOp::Expect(bytes) => {
                    self.add_bytes(lane, at[lane], i64::from(word(bytes)))?;
                }
                MbarrierOp::Complete(bytes) => {
                    self.add_bytes(lane, at[lane], -i64::from(word(bytes)))?;
                }
                MbarrierOp::Arrive(arrive) => {
                    if let Some(to) = arrive.state {
                        let phase = self.known(lane, at[lane])?.phase;
                        self.warps[warp].registers.doubles[to as usize][lane] = phase;
                    }
                    self.mbarrier_arrive(warp, lane, at[lane], arrive)?;
                }
                MbarrierOp::Wait(_) => {}
            }
        }
        Ok(Flow::Next)
    }

    /// An mbarrier that must be there.
    pub(super) fn known(&self, lane: usize, (cta, offset): (usize, u32)) -> Result<&Count> {
        self.ctas[cta].mbarriers.get(&offset).ok_or_else(|| {
            let what =
                format!("a use of the mbarrier at shared+{offset}, which is not initialised");
            self.fault(FaultKind::BarrierMisuse, lane, what)
        })
    }

    /// An mbarrier that asynchronous copies know of.
    pub(super) fn known_to_copies(&self, lane: usize, at: (usize, u32)) -> Result<()> {
        if self.known(lane, at)?.unannounced.is_some() && self.options.check {
            let what = format!(
                "a copy for the mbarrier at shared+{}, initialised with no `fence.mbarrier_init` since",
                at.1
            );
            return Err(self.fault(FaultKind::MissingProxyFence, lane, what));
        }
        Ok(())
    }

    /// Lets asynchronous copies know of the mbarriers that some threads initialised.
    pub(super) fn announce(&mut self, warp: usize, active: u32) {
        let cta = self.warps[warp].cta;
        for count in self.ctas[cta].mbarriers.values_mut() {
            let is_theirs = |it: &(usize, usize)| it.0 == warp && active >> it.1 & 1 == 1;
            count.unannounced = count.unannounced.filter(|it| !is_theirs(it));
        }
    }

    fn count(&mut self, (cta, offset): (usize, u32)) -> &mut Count {
        self.ctas[cta].mbarriers.get_mut(&offset).expect("its existence was checked")
    }

    fn mbarrier_init(
        &mut self,
        lane: usize,
        (cta, offset): (usize, u32),
        count: u32,
    ) -> Result<()> {
        if count == 0 || i64::from(count) > MAX_COUNT {
            let what = format!("an mbarrier for {count} arrivals");
            return Err(self.fault(FaultKind::BarrierMisuse, lane, what));
        }
        let new = Count {
            expected: count,
            missing: count,
            bytes: 0,
            phase: 0,
            released: Release::default(),
            done: Rc::default(),
            unannounced: Some((self.at.0, lane)),
            agent: None,
        };
        if self.ctas[cta].mbarriers.insert(offset, new).is_some() {
            let what = format!("the mbarrier at shared+{offset} is initialised again");
            return Err(self.fault(FaultKind::BarrierMisuse, lane, what));
        }
        Ok(())
    }

    fn mbarrier_arrive(
        &mut self,
        warp: usize,
        lane: usize,
        at: (usize, u32),
        arrive: Arrive,
    ) -> Result<()> {
        let word = |slot: Slot| self.warps[warp].registers.words[slot as usize][lane];
        let (count, bytes) = (arrive.count.map_or(1, word), arrive.bytes.map_or(0, word));
        if bytes > 0 {
            self.add_bytes(lane, at, i64::from(bytes))?;
        }
        let it = self.ctas[at.0].mbarriers.get_mut(&at.1).expect("its existence was checked");
        if it.missing < count {
            let what = format!(
                "{count} arrivals at the mbarrier at shared+{}, where {} of {} are missing",
                at.1, it.missing, it.expected
            );
            return Err(self.fault(FaultKind::BarrierMisuse, lane, what));
        }
        it.missing -= count;
        if let Some(race) = self.race.as_ref().filter(|_| at.0 != self.warps[warp].cta) {
            self.ctas[at.0].reached.push(race.moment(warp, lane));
        }
        let it = self.ctas[at.0].mbarriers.get_mut(&at.1).expect("its existence was checked");
        if arrive.drop {
            it.expected -= count;
        }
        if let Some(race) = self.race.as_mut().filter(|_| arrive.release) {
            race.release(warp, 1 << lane, &mut it.released);
        }
        self.mbarrier_step(at);
        Ok(())
    }

    /// This phase needs one arrival more.
    pub(super) fn expect_one_more(&mut self, at: (usize, u32)) {
        self.count(at).missing += 1;
    }

    /// The copies of a thread are made: it arrives, and lets others know of them alone.
    pub(super) fn copies_arrive(
        &mut self,
        warp: usize,
        lane: usize,
        at: (usize, u32),
        group: u32,
    ) -> Result<()> {
        self.known(lane, at)?;
        let it = self.ctas[at.0].mbarriers.get_mut(&at.1).expect("its existence was checked");
        if let Some(race) = &self.race {
            it.released.agent(race.slot_of_copies(warp, lane), group);
        }
        if it.missing == 0 {
            let what = format!("one arrival too many at the mbarrier at shared+{}", at.1);
            return Err(self.fault(FaultKind::BarrierMisuse, lane, what));
        }
        it.missing -= 1;
        self.mbarrier_step(at);
        Ok(())
    }

    /// More bytes are expected, or fewer.
    fn add_bytes(&mut self, lane: usize, at: (usize, u32), bytes: i64) -> Result<()> {
        let it = self.count(at);
        it.bytes += bytes;
        if it.bytes.abs() > MAX_COUNT {
            let what = format!("{} bytes at the mbarrier at shared+{}", it.bytes, at.1);
            return Err(self.fault(FaultKind::BarrierMisuse, lane, what));
        }
        self.mbarrier_step(at);
        Ok(())
    }

    /// Bytes that a copy of an earlier phase or this one has brought.
    pub(super) fn bytes_came(&mut self, at: (usize, u32), bytes: u32) {
        let slot = self.ctas[at.0].mbarriers.get(&at.1).and_then(|it| it.agent);
        let slot = slot.and_then(|it| self.race.as_ref().map(|race| race.slot_of_agent(it)));
        let Some(it) = self.ctas[at.0].mbarriers.get_mut(&at.1) else { return };
        it.bytes -= i64::from(bytes);
        if let Some(slot) = slot {
            it.released.agent(slot, it.phase as u32 + 1);
        }
        self.mbarrier_step(at);
    }

    /// Ends the phase if nothing is missing.
    fn mbarrier_step(&mut self, at: (usize, u32)) {
        let it = self.count(at);
        if it.missing == 0 && it.bytes == 0 {
            it.phase += 1;
            it.missing = it.expected;
            it.done = it.released.snapshot();
        }
        self.events += 1;
    }

    fn mbarrier_wait(
        &mut self,
        warp: usize,
        active: u32,
        at: &[(usize, u32); LANES],
        wait: Wait,
    ) -> Result<Flow> {
        let Wait { to, phase, suspend, acquire } = wait;
        let registers = &self.warps[warp].registers;
        let mut complete = 0;
        for lane in lanes(active) {
            let now = self.known(lane, at[lane])?.phase;
            let done = match phase {
                Phase::Parity(slot) => {
                    now & 1 != u64::from(registers.words[slot as usize][lane] & 1)
                }
                Phase::State(slot) => now > registers.doubles[slot as usize][lane],
            };
            complete |= u32::from(done) << lane;
        }
        if complete == 0 && suspend {
            let lane = first(active);
            let (cta, offset) = at[lane];
            let parity = match phase {
                Phase::Parity(slot) => registers.words[slot as usize][lane] & 1 == 1,
                Phase::State(slot) => registers.doubles[slot as usize][lane] & 1 == 1,
            };
            let address = offset + SHARED_BASE as u32;
            return Ok(Flow::Again(State::Mbarrier(cta, address, parity, self.events)));
        }
        self.warps[warp].registers.set_predicate(to, active, complete);
        if acquire && self.race.is_some() {
            let mut left = complete;
            while left != 0 {
                let of = at[first(left)];
                let same = lanes(left).filter(|it| at[*it] == of).fold(0u32, |m, it| m | 1 << it);
                left &= !same;
                let done = Rc::clone(&self.count(of).done);
                if let Some(race) = &mut self.race {
                    race.acquire(warp, same, &done);
                }
            }
        }
        Ok(if complete == active { Flow::Next } else { Flow::Yield })
    }

    /// That a CTA which ends has seen all that others did to its mbarriers: they might come later.
    pub(super) fn check_reached(&self, warp: usize) -> Result<()> {
        let cta = self.warps[warp].cta;
        let own = || (0..self.warps.len()).filter(|it| self.warps[*it].cta == cta);
        let Some(race) = &self.race else { return Ok(()) };
        if own().any(|it| self.warps[it].live != 0) {
            return Ok(());
        }
        let unseen = |(slot, clock): &(usize, u32)| !own().any(|it| race.saw(it, *slot, *clock));
        if self.ctas[cta].reached.iter().any(unseen) {
            let what = "the end of a CTA whose mbarriers others may still arrive at";
            return Err(self.fault(FaultKind::ExitWhilePending, 0, what));
        }
        Ok(())
    }

    /// A fault of an access to the memory of a CTA that has ended.
    pub(super) fn ended(&self, lane: usize, what: &str) -> Box<Fault> {
        let what = format!("{what} of shared memory of a CTA that has ended");
        self.fault(FaultKind::ExitWhilePending, lane, what)
    }
}
