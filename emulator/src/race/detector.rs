//! The race detector of a launch: the vector clocks of a cluster, and the shadow memory of its CTAs
//! and of all buffers.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::access::{Access, Actor};
use super::clock::{ReleaseClock, VectorClock};
use super::global::{Accessor, GlobalShadow};
use super::shadow::{Conflict, Observer, Shadow, Stamp};
use super::sync::{SyncAddress, SyncVariables};
use crate::registers::{LANES, lanes};

/// The vector clocks of a cluster, and shadow memory.
pub(crate) struct Race {
    n_warps: usize,
    /// The vector clock of each thread.
    thread_clocks: Vec<Rc<VectorClock>>,
    /// The epoch of each warp's threads: it advances for all of them at once.
    epochs: Vec<u32>,
    /// Up to which clock each thread's own accesses, and after those of all threads their copies,
    /// are behind a proxy fence.
    fenced: Vec<u32>,
    /// Groups of copies that each thread has waited for.
    copies_done: Vec<u32>,
    bulk_done: Vec<u32>,
    agents: Vec<String>,
    shared: Vec<Shadow>,
    global: Vec<GlobalShadow>,
    cluster: u32,
    /// Addresses that threads synchronize by, and the threads that have used fences.
    sync_variables: SyncVariables,
    has_fenced: Vec<bool>,
    /// For each CTA, the CTAs of earlier clusters that it comes after.
    after: BTreeMap<u32, BTreeSet<u32>>,
}

impl Race {
    pub(crate) fn new(n_buffers: usize) -> Self {
        Self {
            n_warps: 0,
            thread_clocks: Vec::new(),
            epochs: Vec::new(),
            fenced: Vec::new(),
            copies_done: Vec::new(),
            bulk_done: Vec::new(),
            agents: Vec::new(),
            shared: Vec::new(),
            global: (0..n_buffers).map(|_| GlobalShadow::default()).collect(),
            cluster: 0,
            sync_variables: SyncVariables::default(),
            has_fenced: Vec::new(),
            after: BTreeMap::new(),
        }
    }

    /// Begins a cluster, without any accesses.
    pub(crate) fn start(&mut self, n_ctas: usize, n_warps: usize, shared_bytes: usize) {
        let n = n_warps * LANES;
        self.n_warps = n_warps;
        let nothing = Rc::new(VectorClock::new(n));
        self.thread_clocks = (0..n).map(|_| Rc::clone(&nothing)).collect();
        self.epochs = vec![1; n_warps];
        self.fenced = vec![0; 2 * n];
        self.copies_done = vec![0; n];
        self.bulk_done = vec![0; n];
        self.agents.clear();
        self.has_fenced = vec![false; n];
        self.sync_variables.forget_shared();
        self.shared.resize_with(n_ctas, Shadow::default);
        self.shared.iter_mut().for_each(|it| it.reset(shared_bytes));
        self.cluster += 1;
    }

    /// Adds an agent, by its name in faults.
    pub(crate) fn agent(&mut self, name: String) -> usize {
        self.agents.push(name);
        self.agents.len() - 1
    }

    /// Returns the name of an agent.
    pub(crate) fn agent_name(&self, agent: usize) -> &str {
        &self.agents[agent]
    }

    /// Releases: joins the clocks of some threads into that of a synchronization object.
    pub(crate) fn release(&mut self, warp: usize, mask: u32, to: &mut ReleaseClock) {
        let n = self.n_warps * LANES;
        for lane in lanes(mask) {
            let thread = warp * LANES + lane;
            to.join(&self.thread_clocks[thread]);
            let own = [
                (thread, self.epochs[warp]),
                (n + thread, self.copies_done[thread]),
                (2 * n + thread, self.bulk_done[thread]),
            ];
            let fenced = [thread, n + thread].map(|it| (it, self.fenced[it]));
            to.set(&own, &fenced);
        }
        self.epochs[warp] += 1;
    }

    /// Acquires: joins the clock of a synchronization object into those of some threads.
    pub(crate) fn acquire(&mut self, warp: usize, mask: u32, from: &Rc<VectorClock>) {
        self.change_clocks(warp, mask, |it| it.joined(from));
    }

    /// Changes the clocks of some threads; adjacent ones that shared theirs go on to.
    fn change_clocks(
        &mut self,
        warp: usize,
        mask: u32,
        change: impl Fn(&VectorClock) -> VectorClock,
    ) {
        let mut last: Option<(Rc<VectorClock>, Rc<VectorClock>)> = None;
        for lane in lanes(mask) {
            let view = &mut self.thread_clocks[warp * LANES + lane];
            let new = match &last {
                Some((old, new)) if Rc::ptr_eq(old, view) => Rc::clone(new),
                _ => Rc::new(change(view)),
            };
            last = Some((Rc::clone(view), Rc::clone(&new)));
            *view = new;
        }
    }

    /// The same for threads whose own thread_clocks are part of what they learn.
    pub(crate) fn replace(&mut self, warp: usize, mask: u32, from: &Rc<VectorClock>) {
        for lane in lanes(mask) {
            self.thread_clocks[warp * LANES + lane] = Rc::clone(from);
        }
    }

    /// Synchronizes threads of one warp.
    pub(crate) fn sync_warp(&mut self, warp: usize, mask: u32) {
        let mut all = ReleaseClock::default();
        self.release(warp, mask, &mut all);
        let all = all.finish();
        self.replace(warp, mask, &all);
    }

    /// Executes `fence.proxy.async`: all that these threads did and saw is behind it.
    pub(crate) fn fence(&mut self, warp: usize, mask: u32) {
        let n = self.n_warps * LANES;
        for thread in lanes(mask).map(|lane| warp * LANES + lane) {
            self.fenced[thread] = self.epochs[warp];
            self.fenced[n + thread] = self.copies_done[thread];
        }
        self.change_clocks(warp, mask, VectorClock::all_fenced);
        self.epochs[warp] += 1;
    }

    /// Records that a thread has waited for its `cp.async` groups up to one.
    pub(crate) fn copies_done(&mut self, warp: usize, lane: usize, group: u32) {
        let done = &mut self.copies_done[warp * LANES + lane];
        *done = group.max(*done);
    }

    /// Records that a thread has waited for its bulk groups up to one.
    pub(crate) fn bulk_done(&mut self, warp: usize, lane: usize, group: u32) {
        let done = &mut self.bulk_done[warp * LANES + lane];
        *done = group.max(*done);
    }

    /// Records that threads have waited for an agent's accesses up to a clock.
    pub(crate) fn agent_done(&mut self, warp: usize, mask: u32, agent: usize, clock: u32) {
        let slot = self.slot_of_agent(agent);
        let mut one = VectorClock::new(0);
        one.set(slot, clock);
        self.acquire(warp, mask, &Rc::new(one));
    }

    /// Returns a thread's slot in vector clocks, and its epoch.
    pub(crate) fn moment(&self, warp: usize, lane: usize) -> (usize, u32) {
        (warp * LANES + lane, self.epochs[warp])
    }

    /// Returns whether some thread of a warp has seen the accesses of another up to a clock.
    pub(crate) fn saw(&self, warp: usize, slot: usize, clock: u32) -> bool {
        self.thread_clocks[warp * LANES..][..LANES].iter().any(|it| it.seen(slot) >= clock)
    }

    /// Returns the slot of a thread's `cp.async` in vector clocks.
    pub(crate) fn slot_of_copies(&self, warp: usize, lane: usize) -> usize {
        (self.n_warps + warp) * LANES + lane
    }

    /// Returns the slot of an agent in vector clocks.
    pub(crate) fn slot_of_agent(&self, agent: usize) -> usize {
        3 * self.n_warps * LANES + agent
    }

    /// Returns the minimum of the vector clocks of some warps' threads, without their own epochs.
    pub(crate) fn meet(&self, warps: std::ops::Range<usize>) -> VectorClock {
        let mut thread_clocks = self.thread_clocks[warps.start * LANES..warps.end * LANES].iter();
        let first = thread_clocks.next().map(|it| (**it).clone());
        let mut meet = first.unwrap_or_else(|| VectorClock::new(0));
        let mut last = &self.thread_clocks[warps.start * LANES];
        for view in thread_clocks {
            if !Rc::ptr_eq(view, last) {
                meet.meet(view);
                last = view;
            }
        }
        meet
    }

    /// Records a fence of threads: a strong write releases what they did before.
    pub(crate) fn memory_fence(&mut self, warp: usize, mask: u32) {
        lanes(mask).for_each(|lane| self.has_fenced[warp * LANES + lane] = true);
    }

    /// Releases by a strong write of a thread to an address.
    pub(crate) fn publish(
        &mut self,
        warp: usize,
        lane: usize,
        cta: u32,
        at: SyncAddress,
        release: bool,
    ) {
        if !release && !self.has_fenced[warp * LANES + lane] {
            return;
        }
        let mut variables = std::mem::take(&mut self.sync_variables);
        let variable = variables.of_cluster(at, self.cluster);
        self.release(warp, 1 << lane, &mut variable.released);
        variable.ctas.insert(cta);
        variable.ctas.extend(self.after.get(&cta).into_iter().flatten());
        self.sync_variables = variables;
    }

    /// Acquires by a strong read of a thread from an address.
    pub(crate) fn observe(&mut self, warp: usize, lane: usize, cta: u32, at: SyncAddress) {
        let Some((ctas, clock)) = self.sync_variables.acquire(at, self.cluster) else { return };
        self.after.entry(cta).or_default().extend(ctas);
        if let Some(clock) = clock {
            self.acquire(warp, 1 << lane, &clock);
        }
    }

    /// Checks and records accesses of lanes to shared memory: offsets by lane, all of one size.
    pub(crate) fn shared(
        &mut self,
        cta: usize,
        access: Access,
        mask: u32,
        offsets: &[u32; LANES],
        bytes: u32,
    ) -> Option<Conflict> {
        let mut shadow = std::mem::take(&mut self.shared[cta]);
        let view = self.view(access, mask, None);
        let found = groups(mask, offsets, access.write).find_map(|(group, offset)| {
            shadow.access(&self.stamp(access, group), &view, offset, bytes)
        });
        self.shared[cta] = shadow;
        found.map(|it| it.resolve(self.n_warps))
    }

    /// Checks and records an access to contiguous bytes of shared memory: by lanes of a warp, or by
    /// an agent with the vector clock `view`.
    pub(crate) fn span(
        &mut self,
        cta: usize,
        access: Access,
        (group, view): (u32, Option<&VectorClock>),
        (offset, bytes): (u32, u32),
    ) -> Option<Conflict> {
        let mut shadow = std::mem::take(&mut self.shared[cta]);
        let view = self.view(access, group, view);
        let found = shadow.access(&self.stamp(access, group), &view, offset, bytes);
        self.shared[cta] = shadow;
        found.map(|it| it.resolve(self.n_warps))
    }

    /// Checks and records accesses of lanes to a buffer.
    pub(crate) fn global(
        &mut self,
        buffer: usize,
        access: Access,
        mask: u32,
        offsets: &[u32; LANES],
        bytes: u32,
    ) -> Option<Conflict> {
        let mut shadow = std::mem::take(&mut self.global[buffer]);
        let view = self.view(access, mask, None);
        let nobody = BTreeSet::new();
        let after = self.after.get(&access.cta).unwrap_or(&nobody);
        let who = Accessor { cluster: self.cluster, cta: access.cta, after };
        let found = groups(mask, offsets, access.write).find_map(|(group, offset)| {
            shadow.access(&self.stamp(access, group), &view, &who, offset, bytes)
        });
        self.global[buffer] = shadow;
        found.map(|it| it.resolve(self.n_warps))
    }

    /// Checks and records an access to contiguous bytes of a buffer.
    pub(crate) fn global_span(
        &mut self,
        buffer: usize,
        access: Access,
        group: u32,
        offset: u32,
        bytes: u32,
    ) -> Option<Conflict> {
        self.global(buffer, access, group, &[offset; LANES], bytes)
    }

    fn stamp(&self, access: Access, group: u32) -> Stamp {
        let (row, clock) = match access.actor {
            Actor::Threads(warp) => (warp, self.epochs[warp]),
            Actor::Copies(warp) => (self.n_warps + warp, access.clock),
            Actor::Bulk(warp) => (2 * self.n_warps + warp, access.clock),
            Actor::Agent(agent) => (3 * self.n_warps + agent, access.clock),
        };
        Stamp {
            row: row as u16,
            clock,
            lanes: group,
            write: access.write,
            atomic: access.atomic,
            asynchronous: !matches!(access.actor, Actor::Threads(_) | Actor::Copies(_)),
            location: access.location,
        }
    }

    fn view<'v>(
        &'v self,
        access: Access,
        group: u32,
        clock: Option<&'v VectorClock>,
    ) -> Observer<'v> {
        let first = access.warp * LANES;
        let threads = first..first + LANES;
        let thread_clocks = &self.thread_clocks[threads.clone()];
        let one = &thread_clocks[group.trailing_zeros() as usize & (LANES - 1)];
        let same = lanes(group).all(|lane| Rc::ptr_eq(&thread_clocks[lane], one));
        Observer {
            clock,
            common: clock.or(same.then_some(&**one)),
            thread_clocks,
            fenced: &self.fenced[threads.clone()],
            copies_fenced: &self.fenced[self.n_warps * LANES..][threads.clone()],
            copies_done: &self.copies_done[threads.clone()],
            bulk_done: &self.bulk_done[threads],
            warp: access.warp,
            n_warps: self.n_warps,
        }
    }
}

/// Returns groups of lanes, with the offset of each: adjacent lanes that read the same bytes. Lanes
/// that write are alone, each against the others.
fn groups(mask: u32, offsets: &[u32; LANES], alone: bool) -> impl Iterator<Item = (u32, u32)> {
    let mut left = mask;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let offset = offsets[left.trailing_zeros() as usize];
        let mut group = 0;
        while left != 0 && offsets[left.trailing_zeros() as usize] == offset {
            group |= left & left.wrapping_neg();
            left &= left - 1;
            if alone {
                break;
            }
        }
        Some((group, offset))
    })
}
