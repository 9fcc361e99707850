//! `barrier` of a CTA, and `barrier.cluster`.

use super::warp::{Flow, State, Warp};
use super::{Machine, Result};
use crate::code::{self, Barrier, Reduce, Reduction};
use crate::fault::FaultKind;
use crate::race::ReleaseClock;
use crate::registers::{LANES, Slot, first_lane};

/// One of the 16 barriers of a CTA.
#[derive(Clone, Debug, Default)]
pub(super) struct CtaBarrier {
    /// Warps, the threads of them that have arrived, and whether they wait.
    arrived: Vec<(usize, u32, bool)>,
    /// The clock that arrivals have released.
    released: ReleaseClock,
    /// The number of threads that the first arrival named.
    threads: Option<u32>,
    /// Threads whose predicate of a reduction is true, and all threads that gave one.
    n_true: u32,
    n_voted: u32,
    /// Warps and threads that get the result.
    results: Vec<(usize, u32, Reduce)>,
}

impl CtaBarrier {
    pub(super) fn n_arrived(&self) -> u32 {
        self.arrived.iter().map(|it| it.1.count_ones()).sum()
    }

    pub(super) fn expected(&self, all: u32) -> u32 {
        self.threads.unwrap_or(all)
    }
}

impl Machine<'_> {
    /// Runs a barrier for a split whose lanes are all active.
    pub(super) fn barrier(&mut self, warp: usize, active: u32, barrier: &Barrier) -> Result<Flow> {
        let aligned = match barrier {
            Barrier::Cta(code::CtaBarrier { aligned, .. })
            | Barrier::ClusterArrive { aligned }
            | Barrier::ClusterWait { aligned } => *aligned,
        };
        if aligned && active != self.warps[warp].live {
            return Ok(Flow::Again(State::Collective));
        }
        match barrier {
            Barrier::Cta(it) => self.cta_barrier(warp, active, it),
            Barrier::ClusterArrive { .. } => self.cluster_arrive(warp, active),
            Barrier::ClusterWait { .. } => self.cluster_wait(warp, active),
        }
    }

    fn cta_barrier(&mut self, warp: usize, active: u32, it: &code::CtaBarrier) -> Result<Flow> {
        let code::CtaBarrier { id, threads, wait, reduce, .. } = *it;
        let (all, lane) = (self.n_threads(), first_lane(active));
        let at = &self.warps[warp];
        let word = |slot: Slot| at.registers.words[slot as usize][lane];
        let (id, threads, cta) = (word(id), threads.map(word), at.cta);
        let misuse = |message: String| Err(self.fault(FaultKind::BarrierMisuse, lane, message));
        if id >= 16 {
            return misuse(format!("barrier {id}; there are 16"));
        }
        if let Some(bad) = threads.filter(|it| {
            *it == 0 || it % LANES as u32 != 0 || *it > all.next_multiple_of(LANES as u32)
        }) {
            return misuse(format!("barrier {id} for {bad} threads of {all}"));
        }
        let it = &self.ctas[cta].barriers[id as usize];
        if it.n_arrived() > 0 && it.expected(all) != threads.unwrap_or(all) {
            let (was, is) = (it.expected(all), threads.unwrap_or(all));
            return misuse(format!("barrier {id} for {is} threads, where others wait for {was}"));
        }
        if it.n_arrived() + active.count_ones() > threads.unwrap_or(all) {
            return misuse(format!("barrier {id}: more than {} threads arrive", it.expected(all)));
        }
        let held = reduce.map(|it| (it.predicate.lanes(&at.registers) & active).count_ones());
        let it = &mut self.ctas[cta].barriers[id as usize];
        it.threads = threads;
        it.arrived.push((warp, active, wait));
        if let Some(race) = &mut self.race {
            race.release(warp, active, &mut it.released);
        }
        if let (Some(reduce), Some(held)) = (reduce, held) {
            it.n_true += held;
            it.n_voted += active.count_ones();
            it.results.push((warp, active, reduce));
        }
        if it.n_arrived() < it.expected(all) {
            return Ok(if wait { Flow::Wait(State::Barrier(id)) } else { Flow::Next });
        }
        self.complete_barrier(cta, id);
        Ok(Flow::Next)
    }

    /// Completes a barrier at which all threads have arrived.
    fn complete_barrier(&mut self, cta: usize, id: u32) {
        self.n_barriers += 1;
        let done = std::mem::take(&mut self.ctas[cta].barriers[id as usize]);
        if let Some(race) = &mut self.race {
            let clock = done.released.finish();
            for (warp, mask, _) in done.arrived.iter().filter(|it| it.2) {
                race.replace(*warp, *mask, &clock);
            }
        }
        for (warp, mask, reduce) in &done.results {
            let value = match reduce.op {
                Reduction::Count => done.n_true,
                Reduction::And => u32::from(done.n_true == done.n_voted),
                Reduction::Or => u32::from(done.n_true > 0),
            };
            self.warps[*warp].registers.set_lanes(reduce.to, *mask, &[u64::from(value); LANES]);
        }
        for warp in self.warps.iter_mut().filter(|it| it.cta == cta) {
            warp.wake(State::Barrier(id));
        }
    }

    fn cluster_arrive(&mut self, warp: usize, active: u32) -> Result<Flow> {
        if (self.cluster_arrived[warp] | self.cluster_passed[warp]) & active != 0 {
            let message = "a second arrival at the cluster's barrier without a wait in between";
            return Err(self.fault(FaultKind::BarrierMisuse, first_lane(active), message));
        }
        self.cluster_arrived[warp] |= active;
        if let Some(race) = &mut self.race {
            race.release(warp, active, &mut self.cluster_released);
        }
        self.open_cluster_barrier();
        Ok(Flow::Next)
    }

    /// Completes the cluster barrier if all threads that have not exited have arrived.
    pub(super) fn open_cluster_barrier(&mut self) {
        let all_there = |(warp, arrived): (&Warp, &u32)| warp.live & !arrived == 0;
        let nobody = self.cluster_arrived.iter().all(|it| *it == 0);
        if nobody || !self.warps.iter().zip(&self.cluster_arrived).all(all_there) {
            return;
        }
        self.cluster_clock = self.cluster_released.snapshot();
        for (warp, arrived) in self.cluster_arrived.iter_mut().enumerate() {
            self.cluster_passed[warp] |= std::mem::take(arrived);
            self.warps[warp].wake(State::Cluster);
        }
    }

    fn cluster_wait(&mut self, warp: usize, active: u32) -> Result<Flow> {
        if active & !self.cluster_passed[warp] == 0 {
            self.cluster_passed[warp] &= !active;
            if let Some(race) = &mut self.race {
                race.acquire(warp, active, &self.cluster_clock);
            }
            return Ok(Flow::Next);
        }
        if active & !(self.cluster_passed[warp] | self.cluster_arrived[warp]) != 0 {
            let message = "a wait at the cluster's barrier without an arrival";
            return Err(self.fault(FaultKind::BarrierMisuse, first_lane(active), message));
        }
        Ok(Flow::Again(State::Cluster))
    }
}
