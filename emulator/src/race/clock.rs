//! Vector clocks.

use std::rc::Rc;

use crate::registers::LANES;

/// How far each actor's accesses have been seen, and seen behind a proxy fence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    seen: Vec<u32>,
    fenced: Vec<u32>,
    /// The least of what was seen of each row of 32 threads: most questions are about all of them.
    least: Vec<u32>,
}

impl Clock {
    /// Nothing was seen of `n` threads, of their copies, and of their bulk copies; fences are for
    /// the first two.
    pub(super) fn new(n: usize) -> Self {
        Self { seen: vec![0; 3 * n], fenced: vec![0; 2 * n], least: Vec::new() }
    }

    /// What was seen of all slots of a row, at least.
    #[inline]
    pub(super) fn least(&self, row: usize) -> u32 {
        self.least.get(row).copied().unwrap_or(0)
    }

    /// Finds the least of each row, when nothing changes any more.
    fn sealed(mut self) -> Self {
        let rows = self.seen.chunks(LANES).take(self.fenced.len() / 2 * 3 / LANES);
        self.least = rows.map(|it| it.iter().copied().min().unwrap_or(0)).collect();
        self
    }

    /// What was seen of a slot.
    #[inline]
    pub(super) fn seen(&self, slot: usize) -> u32 {
        self.seen.get(slot).copied().unwrap_or(0)
    }

    /// What of it was behind a fence.
    pub(super) fn fenced(&self, slot: usize) -> u32 {
        self.fenced.get(slot).copied().unwrap_or(0)
    }

    pub(super) fn set(&mut self, slot: usize, clock: u32) {
        if self.seen.len() <= slot {
            self.seen.resize(slot + 1, 0);
        }
        self.seen[slot] = self.seen[slot].max(clock);
    }

    fn join(&mut self, other: &Self) {
        maximum(&mut self.seen, &other.seen);
        maximum(&mut self.fenced, &other.fenced);
    }

    pub(super) fn joined(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.join(other);
        both.sealed()
    }

    /// Keeps only what the other one has seen too.
    pub(super) fn meet(&mut self, other: &Self) {
        minimum(&mut self.seen, &other.seen);
        minimum(&mut self.fenced, &other.fenced);
        minimum(&mut self.least, &other.least);
    }

    /// All that was seen is behind a fence now.
    pub(super) fn all_fenced(&self) -> Self {
        let n = self.fenced.len();
        Self { fenced: self.seen[..n].to_vec(), ..self.clone() }
    }
}

fn maximum(a: &mut Vec<u32>, b: &[u32]) {
    if a.len() < b.len() {
        a.resize(b.len(), 0);
    }
    for (a, b) in a.iter_mut().zip(b) {
        *a = (*a).max(*b);
    }
}

fn minimum(a: &mut Vec<u32>, b: &[u32]) {
    a.truncate(b.len());
    for (a, b) in a.iter_mut().zip(b) {
        *a = (*a).min(*b);
    }
}

/// What those who arrived somewhere let others know.
#[derive(Clone, Debug, Default)]
pub(crate) struct Release {
    clock: Clock,
    /// Views that are part of the clock already: most threads share one.
    joined: Vec<Rc<Clock>>,
}

impl Release {
    pub(super) fn join(&mut self, view: &Rc<Clock>) {
        if !self.joined.iter().any(|it| Rc::ptr_eq(it, view)) {
            self.clock.join(view);
            self.joined.push(Rc::clone(view));
        }
    }

    pub(super) fn set(&mut self, seen: &[(usize, u32)], fenced: &[(usize, u32)]) {
        seen.iter().for_each(|(slot, clock)| self.clock.set(*slot, *clock));
        for (slot, clock) in fenced {
            if self.clock.fenced.len() <= *slot {
                self.clock.fenced.resize(slot + 1, 0);
            }
            self.clock.fenced[*slot] = self.clock.fenced[*slot].max(*clock);
        }
    }

    /// Adds what an agent has done.
    pub(crate) fn agent(&mut self, slot: usize, clock: u32) {
        self.clock.set(slot, clock);
    }

    /// What was gathered so far, for those who wait.
    pub(crate) fn snapshot(&mut self) -> Rc<Clock> {
        self.joined.clear();
        Rc::new(self.clock.clone().sealed())
    }

    /// All of it.
    pub(crate) fn finish(self) -> Rc<Clock> {
        Rc::new(self.clock.sealed())
    }
}
