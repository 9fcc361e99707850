//! mbarriers: pending arrivals and tx-count, phase by phase.

use super::access::{Access, Wanted};
use super::warp::{Flow, State};
use super::{Machine, Result};
use crate::code::{Arrive, Mbarrier, MbarrierOp, Phase, Strength, Wait};
use crate::fault::{Fault, FaultKind};
use crate::race::{ReleaseClock, VectorClock};
use crate::registers::{LANES, Slot, first_lane, lanes, lanes_by_key};
use crate::space::{Region, SHARED_BASE, Space};
use std::rc::Rc;

/// The maximum of an mbarrier's counts.
const MAX_COUNT: i64 = (1 << 20) - 1;

/// An mbarrier that was initialised.
#[derive(Clone, Debug)]
pub(super) struct MbarrierState {
    /// Expected arrivals of each phase, and the pending ones of this phase.
    expected: u32,
    pending: u32,
    /// The tx-count: expected bytes minus completed ones; negative if they complete first.
    tx_count: i64,
    /// Completed phases.
    pub(super) phase: u64,
    /// The clock that arrivals have released, and that of the last completed phase.
    released: ReleaseClock,
    phase_clock: Rc<VectorClock>,
    /// The thread that initialised it, until a fence makes that visible to the asynchronous proxy.
    unfenced_init: Option<(usize, usize)>,
    /// The agent of the race detector for bulk copies that complete on it.
    pub(super) agent: Option<usize>,
}

impl MbarrierState {
    /// Describes what the phase waits for.
    pub(super) fn describe_missing(&self) -> String {
        format!("{} of {} arrivals and {} bytes are", self.pending, self.expected, self.tx_count)
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
        let wanted = Wanted { space, mask: active, bytes: 8, align: 8, access };
        let found = self.locate(warp, wanted, &addresses)?;
        let strong = Strength { strong: access != Access::Write, ..Strength::default() };
        let mut at = [(0, 0); LANES];
        for located in &found {
            let Region::Shared(cta) = located.region else {
                let message = "an mbarrier that is not in shared memory";
                return Err(self.fault(FaultKind::BadInstruction, first_lane(active), message));
            };
            for lane in lanes(located.mask) {
                at[lane] = (cta, located.offsets[lane]);
                if !matches!(it.op, MbarrierOp::Init(_)) {
                    self.require_mbarrier(lane, at[lane])?;
                }
            }
            self.check_access(warp, located, 8, access, strong)?;
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
                MbarrierOp::ExpectTx(bytes) => {
                    self.add_tx(lane, at[lane], i64::from(word(bytes)))?;
                }
                MbarrierOp::CompleteTx(bytes) => {
                    self.add_tx(lane, at[lane], -i64::from(word(bytes)))?;
                }
                MbarrierOp::Arrive(arrive) => {
                    if let Some(to) = arrive.state {
                        let phase = self.require_mbarrier(lane, at[lane])?.phase;
                        self.warps[warp].registers.doubles[to as usize][lane] = phase;
                    }
                    self.mbarrier_arrive(warp, lane, at[lane], arrive)?;
                }
                MbarrierOp::Wait(_) => {}
            }
        }
        Ok(Flow::Next)
    }

    /// Returns an mbarrier that must be initialised.
    pub(super) fn require_mbarrier(
        &self,
        lane: usize,
        (cta, offset): (usize, u32),
    ) -> Result<&MbarrierState> {
        self.ctas[cta].mbarriers.get(&offset).ok_or_else(|| {
            let message =
                format!("a use of the mbarrier at shared+{offset}, which is not initialised");
            self.fault(FaultKind::BarrierMisuse, lane, message)
        })
    }

    /// Checks that the initialisation of an mbarrier is visible to the asynchronous proxy.
    pub(super) fn require_fenced_mbarrier(&self, lane: usize, at: (usize, u32)) -> Result<()> {
        if self.require_mbarrier(lane, at)?.unfenced_init.is_some() && self.options.check {
            let message = format!(
                "a copy for the mbarrier at shared+{}, initialised with no `fence.mbarrier_init` since",
                at.1
            );
            return Err(self.fault(FaultKind::MissingProxyFence, lane, message));
        }
        Ok(())
    }

    /// Makes the mbarriers that some threads initialised visible to the asynchronous proxy.
    pub(super) fn fence_mbarrier_init(&mut self, warp: usize, active: u32) {
        let cta = self.warps[warp].cta;
        for state in self.ctas[cta].mbarriers.values_mut() {
            let is_theirs = |it: &(usize, usize)| it.0 == warp && active >> it.1 & 1 == 1;
            state.unfenced_init = state.unfenced_init.filter(|it| !is_theirs(it));
        }
    }

    fn state(&mut self, (cta, offset): (usize, u32)) -> &mut MbarrierState {
        self.ctas[cta].mbarriers.get_mut(&offset).expect("its existence was checked")
    }

    fn mbarrier_init(
        &mut self,
        lane: usize,
        (cta, offset): (usize, u32),
        count: u32,
    ) -> Result<()> {
        if count == 0 || i64::from(count) > MAX_COUNT {
            let message = format!("an mbarrier for {count} arrivals");
            return Err(self.fault(FaultKind::BarrierMisuse, lane, message));
        }
        let new = MbarrierState {
            expected: count,
            pending: count,
            tx_count: 0,
            phase: 0,
            released: ReleaseClock::default(),
            phase_clock: Rc::default(),
            unfenced_init: Some((self.at.0, lane)),
            agent: None,
        };
        if self.ctas[cta].mbarriers.insert(offset, new).is_some() {
            let message = format!("the mbarrier at shared+{offset} is initialised again");
            return Err(self.fault(FaultKind::BarrierMisuse, lane, message));
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
            self.add_tx(lane, at, i64::from(bytes))?;
        }
        let it = self.ctas[at.0].mbarriers.get_mut(&at.1).expect("its existence was checked");
        if it.pending < count {
            let message = format!(
                "{count} arrivals at the mbarrier at shared+{}, where {} of {} are missing",
                at.1, it.pending, it.expected
            );
            return Err(self.fault(FaultKind::BarrierMisuse, lane, message));
        }
        it.pending -= count;
        if let Some(race) = self.race.as_ref().filter(|_| at.0 != self.warps[warp].cta) {
            self.ctas[at.0].remote_arrivals.push(race.moment(warp, lane));
        }
        let it = self.ctas[at.0].mbarriers.get_mut(&at.1).expect("its existence was checked");
        if arrive.drop {
            it.expected -= count;
        }
        if let Some(race) = self.race.as_mut().filter(|_| arrive.release) {
            race.release(warp, 1 << lane, &mut it.released);
        }
        self.end_phase_if_complete(at);
        Ok(())
    }

    /// Adds a pending arrival to this phase.
    pub(super) fn expect_one_more(&mut self, at: (usize, u32)) {
        self.state(at).pending += 1;
    }

    /// Arrives for the completed copies of a thread, and releases these alone.
    pub(super) fn copies_arrive(
        &mut self,
        warp: usize,
        lane: usize,
        at: (usize, u32),
        group: u32,
    ) -> Result<()> {
        self.require_mbarrier(lane, at)?;
        let it = self.ctas[at.0].mbarriers.get_mut(&at.1).expect("its existence was checked");
        if let Some(race) = &self.race {
            it.released.agent(race.slot_of_copies(warp, lane), group);
        }
        if it.pending == 0 {
            let message = format!("one arrival too many at the mbarrier at shared+{}", at.1);
            return Err(self.fault(FaultKind::BarrierMisuse, lane, message));
        }
        it.pending -= 1;
        self.end_phase_if_complete(at);
        Ok(())
    }

    /// Adds to the tx-count, or subtracts from it.
    fn add_tx(&mut self, lane: usize, at: (usize, u32), bytes: i64) -> Result<()> {
        let it = self.state(at);
        it.tx_count += bytes;
        if it.tx_count.abs() > MAX_COUNT {
            let message = format!("{} bytes at the mbarrier at shared+{}", it.tx_count, at.1);
            return Err(self.fault(FaultKind::BarrierMisuse, lane, message));
        }
        self.end_phase_if_complete(at);
        Ok(())
    }

    /// Completes bytes of a copy: complete-tx.
    pub(super) fn complete_tx(&mut self, at: (usize, u32), bytes: u32) {
        let slot = self.ctas[at.0].mbarriers.get(&at.1).and_then(|it| it.agent);
        let slot = slot.and_then(|it| self.race.as_ref().map(|race| race.slot_of_agent(it)));
        let Some(it) = self.ctas[at.0].mbarriers.get_mut(&at.1) else { return };
        it.tx_count -= i64::from(bytes);
        if let Some(slot) = slot {
            it.released.agent(slot, it.phase as u32 + 1);
        }
        self.end_phase_if_complete(at);
    }

    /// Completes the phase if nothing is pending.
    fn end_phase_if_complete(&mut self, at: (usize, u32)) {
        let it = self.state(at);
        if it.pending == 0 && it.tx_count == 0 {
            it.phase += 1;
            it.pending = it.expected;
            it.phase_clock = it.released.snapshot();
        }
        self.mbarrier_events += 1;
    }

    fn mbarrier_wait(
        &mut self,
        warp: usize,
        active: u32,
        at: &[(usize, u32); LANES],
        wait: Wait,
    ) -> Result<Flow> {
        let Wait { to, phase, suspend, acquire } = wait;
        let gives_up = suspend && self.gives_up();
        let registers = &self.warps[warp].registers;
        let mut complete = 0;
        for lane in lanes(active) {
            let now = self.require_mbarrier(lane, at[lane])?.phase;
            let done = match phase {
                Phase::Parity(slot) => {
                    now & 1 != u64::from(registers.words[slot as usize][lane] & 1)
                }
                Phase::State(slot) => now > registers.doubles[slot as usize][lane],
            };
            complete |= u32::from(done) << lane;
        }
        if complete == 0 && suspend && !gives_up {
            let lane = first_lane(active);
            let (cta, offset) = at[lane];
            let parity = match phase {
                Phase::Parity(slot) => registers.words[slot as usize][lane] & 1 == 1,
                Phase::State(slot) => registers.doubles[slot as usize][lane] & 1 == 1,
            };
            let address = offset + SHARED_BASE as u32;
            return Ok(Flow::Again(State::Mbarrier(cta, address, parity, self.mbarrier_events)));
        }
        self.warps[warp].registers.set_predicate(to, active, complete);
        if acquire && self.race.is_some() {
            for (at, same) in lanes_by_key(complete, |it| at[it]) {
                let done = Rc::clone(&self.state(at).phase_clock);
                if let Some(race) = &mut self.race {
                    race.acquire(warp, same, &done);
                }
            }
        }
        Ok(if complete == active { Flow::Next } else { Flow::Yield })
    }

    /// Returns whether `try_wait` ends before the phase does: it may, after a time that nobody promises.
    fn gives_up(&mut self) -> bool {
        self.completion_rng.as_mut().is_some_and(|it| it.below(4) == 0)
    }

    /// Checks that a CTA which exits has seen all remote arrivals at its mbarriers: they might come
    /// later.
    pub(super) fn check_remote_arrivals(&self, warp: usize) -> Result<()> {
        let cta = self.warps[warp].cta;
        let own = || (0..self.warps.len()).filter(|it| self.warps[*it].cta == cta);
        let Some(race) = &self.race else { return Ok(()) };
        if own().any(|it| self.warps[it].live != 0) {
            return Ok(());
        }
        let unseen = |(slot, clock): &(usize, u32)| !own().any(|it| race.saw(it, *slot, *clock));
        if self.ctas[cta].remote_arrivals.iter().any(unseen) {
            let message = "the end of a CTA whose mbarriers others may still arrive at";
            return Err(self.fault(FaultKind::ExitWhilePending, 0, message));
        }
        Ok(())
    }

    /// Returns a fault of an access to shared memory of a CTA that has exited.
    pub(super) fn ended(&self, lane: usize, action: &str) -> Box<Fault> {
        let message = format!("{action} of shared memory of a CTA that has ended");
        self.fault(FaultKind::ExitWhilePending, lane, message)
    }
}
