//! A warp: its registers, and the control flow of its threads.
//!
//! Threads that are at the same instruction run as one *warp split* (Meng, Tarjan and Skadron,
//! 2010). Of several, the one with the lowest address runs first, so that threads reconverge as
//! soon as the code allows.

use super::pending::Copies;
use crate::registers::Registers;

/// Threads of a warp that run together.
#[derive(Clone, Debug)]
pub(super) struct Split {
    pub(super) pc: usize,
    pub(super) mask: u32,
    /// The call stack: the index of each call.
    pub(super) stack: Vec<usize>,
    pub(super) state: State,
    /// Time slices that it used up while others could have run.
    pub(super) turns: u32,
}

/// The event that a split waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    /// The other threads of a warp-wide instruction.
    Collective,
    /// A barrier of the CTA.
    Barrier(u32),
    /// The barrier of the cluster.
    Cluster,
    /// A phase of an mbarrier: CTA, address, parity. Tested again when the event counter moves.
    Mbarrier(usize, u32, bool, u64),
    /// The other warps of a warpgroup.
    Warpgroup,
    /// So many registers for each thread.
    Registers(u32),
}

/// The continuation after an instruction.
pub(super) enum Flow {
    /// The next instruction.
    Next,
    /// The same instruction, once the split is ready.
    Again(State),
    /// The next instruction, once the split is ready.
    Wait(State),
    /// The next instruction, after a turn of other splits.
    Yield,
}

pub(super) struct Warp {
    pub(super) cta: usize,
    /// Within the CTA.
    pub(super) number: u32,
    pub(super) registers: Registers,
    /// Registers that each thread may have.
    pub(super) n_registers: u32,
    /// Local memory: one thread after the other.
    pub(super) local: Vec<u8>,
    /// Threads that have not ended.
    pub(super) live: u32,
    pub(super) splits: Vec<Split>,
    /// Asynchronous copies of its threads.
    pub(super) copies: Copies,
}

impl Warp {
    /// Returns the split that runs next.
    pub(super) fn next(&mut self) -> Option<usize> {
        if self.splits.len() > 1 {
            self.merge();
        }
        let ready = self.splits.iter().enumerate().filter(|(_, it)| it.state == State::Ready);
        let key = |it: &Split| (it.turns, usize::MAX - it.stack.len(), it.pc);
        ready.min_by_key(|(_, it)| key(it)).map(|(n, _)| n)
    }

    /// Merges splits that have reconverged.
    fn merge(&mut self) {
        let mut n = 0;
        while n < self.splits.len() {
            let meets = |state| matches!(state, State::Ready | State::Collective);
            let mut m = n + 1;
            while m < self.splits.len() {
                let (a, b) = (&self.splits[n], &self.splits[m]);
                let same = a.pc == b.pc && a.stack == b.stack && meets(a.state) && meets(b.state);
                if same {
                    let other = self.splits.remove(m);
                    let split = &mut self.splits[n];
                    split.mask |= other.mask;
                    split.state = State::Ready;
                    split.turns = split.turns.max(other.turns);
                } else {
                    m += 1;
                }
            }
            n += 1;
        }
    }

    /// Returns the address where a split must stop, since others are there or may run before it.
    pub(super) fn stop(&self, split: usize) -> usize {
        let pc = self.splits[split].pc;
        let others = self.splits.iter().map(|it| it.pc).filter(|it| *it > pc);
        others.min().unwrap_or(usize::MAX)
    }

    /// Moves threads of a split into a new one.
    pub(super) fn divide(&mut self, split: usize, mask: u32, pc: usize) {
        self.splits[split].mask &= !mask;
        let new = Split { pc, mask, state: State::Ready, ..self.splits[split].clone() };
        self.splits.push(new);
    }

    /// Makes splits that are in a state ready.
    pub(super) fn wake(&mut self, state: State) {
        for split in self.splits.iter_mut().filter(|it| it.state == state) {
            split.state = State::Ready;
        }
    }

    /// Ends threads of a split.
    pub(super) fn end(&mut self, split: usize, mask: u32) {
        self.live &= !mask;
        self.splits[split].mask &= !mask;
        if self.splits[split].mask == 0 {
            self.splits.remove(split);
        }
        // Splits that wait for all live threads may be complete now.
        self.wake(State::Collective);
    }
}
