//! Vector clocks.

use std::rc::Rc;

use crate::registers::LANES;

/// A vector clock: up to where each actor's accesses were seen, and up to where behind a proxy
/// fence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VectorClock {
    seen: Vec<u32>,
    fenced: Vec<u32>,
    /// The minimum of each row of 32 threads: most comparisons are with all of them.
    row_minimum: Vec<u32>,
}

impl VectorClock {
    /// Returns the zero clock of `n` threads, of their copies, and of their bulk copies; fences are
    /// for the first two.
    pub(super) fn new(n: usize) -> Self {
        Self { seen: vec![0; 3 * n], fenced: vec![0; 2 * n], row_minimum: Vec::new() }
    }

    /// Returns the minimum of all slots of a row.
    #[inline]
    pub(super) fn row_minimum(&self, row: usize) -> u32 {
        self.row_minimum.get(row).copied().unwrap_or(0)
    }

    /// Computes the minimum of each row, once the clock is final.
    fn sealed(mut self) -> Self {
        let rows = self.seen.chunks(LANES).take(self.fenced.len() / 2 * 3 / LANES);
        self.row_minimum = rows.map(|it| it.iter().copied().min().unwrap_or(0)).collect();
        self
    }

    /// Returns a slot's component.
    #[inline]
    pub(super) fn seen(&self, slot: usize) -> u32 {
        self.seen.get(slot).copied().unwrap_or(0)
    }

    /// Returns a slot's component behind a proxy fence.
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

    /// Takes the minimum with another clock, slot by slot.
    pub(super) fn meet(&mut self, other: &Self) {
        minimum(&mut self.seen, &other.seen);
        minimum(&mut self.fenced, &other.fenced);
        minimum(&mut self.row_minimum, &other.row_minimum);
    }

    /// Returns the clock after a proxy fence: all that was seen is behind it.
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

/// The clock of a synchronization object: the join of all clocks that were released to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReleaseClock {
    clock: VectorClock,
    /// Clocks that are joined already: most threads share one.
    joined: Vec<Rc<VectorClock>>,
}

impl ReleaseClock {
    pub(super) fn join(&mut self, view: &Rc<VectorClock>) {
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

    /// Adds the accesses of an agent up to a clock.
    pub(crate) fn agent(&mut self, slot: usize, clock: u32) {
        self.clock.set(slot, clock);
    }

    /// Returns the clock so far, for threads to acquire.
    pub(crate) fn snapshot(&mut self) -> Rc<VectorClock> {
        self.joined.clear();
        Rc::new(self.clock.clone().sealed())
    }

    /// Returns the final clock.
    pub(crate) fn finish(self) -> Rc<VectorClock> {
        Rc::new(self.clock.sealed())
    }
}
