//! Which accesses are ordered, and which are not: vector clocks, after FastTrack (Flanagan and
//! Freund, 2009).
//!
//! Every thread has a clock, and so has everything that accesses memory on its own: the copies of a
//! thread, the loads that complete on an mbarrier, the products of a warpgroup. An access is stamped
//! with the clock of who made it; it is ordered before another one if whoever makes that one has
//! *seen* the stamp: by passing a barrier that the first one had reached, or by waiting for the
//! copy. Accesses are checked when they are issued, so that no luck with timing hides a race.
//!
//! What reads shared memory asynchronously sees ordinary writes only behind a proxy fence.
//! Therefore clocks come in two kinds: what was seen, and what of it was behind such a fence.

mod clock;
mod global;
mod shadow;
mod sync;

pub(crate) use clock::{Clock, Release};
pub(crate) use shadow::{Conflict, ConflictKind};

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::registers::{LANES, lanes};
use global::{GlobalShadow, Who};
use shadow::{Shadow, Stamp, View};
use sync::Places;

/// Who makes an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    /// Threads of a warp.
    Threads(usize),
    /// `cp.async` of threads of a warp.
    Copies(usize),
    /// Bulk copies that threads of a warp commit in groups.
    Bulk(usize),
    /// What has one clock for all it does: see [`Race::agent`].
    Agent(usize),
}

/// An access by lanes of a warp, or on behalf of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) actor: Actor,
    /// The stamp; for threads their own clock is taken.
    pub(crate) clock: u32,
    pub(crate) write: bool,
    pub(crate) atomic: bool,
    /// The instruction's place in the source.
    pub(crate) place: u32,
    /// The warp that issues it, and the CTA's number in the grid.
    pub(crate) warp: usize,
    pub(crate) cta: u32,
}

/// The clocks of a cluster, and who accessed what.
pub(crate) struct Race {
    n_warps: usize,
    /// What each thread has seen.
    views: Vec<Rc<Clock>>,
    /// The clock of each warp's threads: it moves for all of them when it moves for one.
    now: Vec<u32>,
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
    /// Places in memory that order what is around them, and which threads have used fences.
    published: Places,
    has_fenced: Vec<bool>,
    /// Which CTAs of earlier clusters each CTA comes after.
    after: BTreeMap<u32, BTreeSet<u32>>,
}

impl Race {
    pub(crate) fn new(n_buffers: usize) -> Self {
        Self {
            n_warps: 0,
            views: Vec::new(),
            now: Vec::new(),
            fenced: Vec::new(),
            copies_done: Vec::new(),
            bulk_done: Vec::new(),
            agents: Vec::new(),
            shared: Vec::new(),
            global: (0..n_buffers).map(|_| GlobalShadow::default()).collect(),
            cluster: 0,
            published: Places::new(),
            has_fenced: Vec::new(),
            after: BTreeMap::new(),
        }
    }

    /// Begins a cluster: nobody has done anything there.
    pub(crate) fn start(&mut self, n_ctas: usize, n_warps: usize, shared_bytes: usize) {
        let n = n_warps * LANES;
        self.n_warps = n_warps;
        let nothing = Rc::new(Clock::new(n));
        self.views = (0..n).map(|_| Rc::clone(&nothing)).collect();
        self.now = vec![1; n_warps];
        self.fenced = vec![0; 2 * n];
        self.copies_done = vec![0; n];
        self.bulk_done = vec![0; n];
        self.agents.clear();
        self.has_fenced = vec![false; n];
        self.forget_shared();
        self.shared.resize_with(n_ctas, Shadow::default);
        self.shared.iter_mut().for_each(|it| it.reset(shared_bytes));
        self.cluster += 1;
    }

    /// A new agent, by the name it has in faults.
    pub(crate) fn agent(&mut self, name: String) -> usize {
        self.agents.push(name);
        self.agents.len() - 1
    }

    /// The name of whoever made an access that is not of a thread.
    pub(crate) fn agent_name(&self, agent: usize) -> &str {
        &self.agents[agent]
    }

    /// Some threads let others know what they did and saw.
    pub(crate) fn release(&mut self, warp: usize, mask: u32, to: &mut Release) {
        let n = self.n_warps * LANES;
        for lane in lanes(mask) {
            let thread = warp * LANES + lane;
            to.join(&self.views[thread]);
            let own = [
                (thread, self.now[warp]),
                (n + thread, self.copies_done[thread]),
                (2 * n + thread, self.bulk_done[thread]),
            ];
            let fenced = [thread, n + thread].map(|it| (it, self.fenced[it]));
            to.set(&own, &fenced);
        }
        self.now[warp] += 1;
    }

    /// Some threads learn what others did.
    pub(crate) fn acquire(&mut self, warp: usize, mask: u32, from: &Rc<Clock>) {
        let mut last: Option<(Rc<Clock>, Rc<Clock>)> = None;
        for lane in lanes(mask) {
            let view = &mut self.views[warp * LANES + lane];
            let new = match &last {
                Some((old, new)) if Rc::ptr_eq(old, view) => Rc::clone(new),
                _ => Rc::new(view.joined(from)),
            };
            last = Some((Rc::clone(view), Rc::clone(&new)));
            *view = new;
        }
    }

    /// The same for threads whose own views are part of what they learn.
    pub(crate) fn replace(&mut self, warp: usize, mask: u32, from: &Rc<Clock>) {
        for lane in lanes(mask) {
            self.views[warp * LANES + lane] = Rc::clone(from);
        }
    }

    /// Threads of one warp wait for each other.
    pub(crate) fn sync_warp(&mut self, warp: usize, mask: u32) {
        let mut all = Release::default();
        self.release(warp, mask, &mut all);
        let all = all.finish();
        self.replace(warp, mask, &all);
    }

    /// `fence.proxy.async`: what these threads did and saw is behind it.
    pub(crate) fn fence(&mut self, warp: usize, mask: u32) {
        let n = self.n_warps * LANES;
        let mut last: Option<(Rc<Clock>, Rc<Clock>)> = None;
        for lane in lanes(mask) {
            let thread = warp * LANES + lane;
            self.fenced[thread] = self.now[warp];
            self.fenced[n + thread] = self.copies_done[thread];
            let view = &mut self.views[thread];
            let new = match &last {
                Some((old, new)) if Rc::ptr_eq(old, view) => Rc::clone(new),
                _ => Rc::new(view.all_fenced()),
            };
            last = Some((Rc::clone(view), Rc::clone(&new)));
            *view = new;
        }
        self.now[warp] += 1;
    }

    /// A thread has waited for its groups of copies up to one.
    pub(crate) fn copies_done(&mut self, warp: usize, lane: usize, group: u32) {
        let done = &mut self.copies_done[warp * LANES + lane];
        *done = group.max(*done);
    }

    /// A thread has waited for its groups of bulk copies up to one.
    pub(crate) fn bulk_done(&mut self, warp: usize, lane: usize, group: u32) {
        let done = &mut self.bulk_done[warp * LANES + lane];
        *done = group.max(*done);
    }

    /// Threads have waited for what an agent did up to a clock.
    pub(crate) fn agent_done(&mut self, warp: usize, mask: u32, agent: usize, clock: u32) {
        let slot = self.slot_of_agent(agent);
        let mut one = Clock::new(0);
        one.set(slot, clock);
        self.acquire(warp, mask, &Rc::new(one));
    }

    /// A thread's slot in clocks, and its clock.
    pub(crate) fn moment(&self, warp: usize, lane: usize) -> (usize, u32) {
        (warp * LANES + lane, self.now[warp])
    }

    /// Whether some thread of a warp has seen what another had done by a clock.
    pub(crate) fn saw(&self, warp: usize, slot: usize, clock: u32) -> bool {
        self.views[warp * LANES..][..LANES].iter().any(|it| it.seen(slot) >= clock)
    }

    /// The slot of a thread's copies in clocks.
    pub(crate) fn slot_of_copies(&self, warp: usize, lane: usize) -> usize {
        (self.n_warps + warp) * LANES + lane
    }

    /// The slot of an agent in clocks.
    pub(crate) fn slot_of_agent(&self, agent: usize) -> usize {
        3 * self.n_warps * LANES + agent
    }

    /// What all threads of some warps have seen, their own deed not included.
    pub(crate) fn meet(&self, warps: std::ops::Range<usize>) -> Clock {
        let mut views = self.views[warps.start * LANES..warps.end * LANES].iter();
        let first = views.next().map(|it| (**it).clone());
        let mut meet = first.unwrap_or_else(|| Clock::new(0));
        let mut last = &self.views[warps.start * LANES];
        for view in views {
            if !Rc::ptr_eq(view, last) {
                meet.meet(view);
                last = view;
            }
        }
        meet
    }

    /// Accesses of lanes to shared memory: offsets by lane, all of one size.
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

    /// An access to bytes of shared memory that are next to each other: by lanes of a warp, or by
    /// an agent that has seen what `view` says.
    pub(crate) fn span(
        &mut self,
        cta: usize,
        access: Access,
        (group, view): (u32, Option<&Clock>),
        (offset, bytes): (u32, u32),
    ) -> Option<Conflict> {
        let mut shadow = std::mem::take(&mut self.shared[cta]);
        let view = self.view(access, group, view);
        let found = shadow.access(&self.stamp(access, group), &view, offset, bytes);
        self.shared[cta] = shadow;
        found.map(|it| it.resolve(self.n_warps))
    }

    /// Accesses of lanes to a buffer.
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
        let who = Who { cluster: self.cluster, cta: access.cta, after };
        let found = groups(mask, offsets, access.write).find_map(|(group, offset)| {
            shadow.access(&self.stamp(access, group), &view, &who, offset, bytes)
        });
        self.global[buffer] = shadow;
        found.map(|it| it.resolve(self.n_warps))
    }

    /// An access to bytes of a buffer that are next to each other.
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
            Actor::Threads(warp) => (warp, self.now[warp]),
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
            place: access.place,
        }
    }

    fn view<'v>(&'v self, access: Access, group: u32, clock: Option<&'v Clock>) -> View<'v> {
        let first = access.warp * LANES;
        let threads = first..first + LANES;
        let views = &self.views[threads.clone()];
        let one = &views[group.trailing_zeros() as usize & (LANES - 1)];
        let same = lanes(group).all(|lane| Rc::ptr_eq(&views[lane], one));
        View {
            clock,
            common: clock.or(same.then_some(&**one)),
            views,
            fenced: &self.fenced[threads.clone()],
            copies_fenced: &self.fenced[self.n_warps * LANES..][threads.clone()],
            copies_done: &self.copies_done[threads.clone()],
            bulk_done: &self.bulk_done[threads],
            warp: access.warp,
            n_warps: self.n_warps,
        }
    }
}

/// Lanes in a row that read the same bytes are one access: who they are, and where. Lanes that
/// write are alone, each against the others.
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
