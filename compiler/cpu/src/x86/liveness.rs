//! Live intervals of virtual registers.
//!
//! In: the machine IR of a phase. Out: [`LiveInterval`]s. Next: [`super::regalloc`].
//!
//! Live ranges are split at definitions (renaming): a register that is written several times has
//! several intervals, each with a location of its own. At merges of control flow the locations have
//! to agree, so a loop-carried value is live throughout the loop, and a value that a branch may change
//! is live throughout the branch.
//!
//! ```text
//! upward-exposed uses and definitions of each region   (forward pass, `RegionScan`)
//! live intervals                                       (backward pass, `IntervalBuilder`)
//! ```
//!
//! # Invariants
//!
//! - Instruction `i` reads at program point `2 * i` and writes at `2 * i + 1`, so that a target may
//!   share the register of a source that dies.
//! - Intervals of one register do not overlap; all are sorted by start.

use std::collections::BTreeMap;

use super::inst::{Inst, MachineFunction, VirtReg};

/// A range of program points in which a virtual register keeps one location.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LiveInterval {
    pub virt: VirtReg,
    pub start: u32,
    /// The last program point at which the location is used.
    pub end: u32,
    /// Spill weight: uses and definitions, each times [`ESTIMATED_TRIP_COUNT`] to the power of its
    /// loop depth; those in rare branches count less.
    pub weight: f32,
}

/// Iterations that a loop is assumed to have.
const ESTIMATED_TRIP_COUNT: f32 = 8.0;

/// The assumed frequency of a rare branch.
const ESTIMATED_SHARE_OF_RARE: f32 = 1.0 / 64.0;

/// Uses and definitions of global registers in a loop or branch.
#[derive(Default)]
struct Region {
    /// Upward-exposed uses: read before a definition that dominates the use.
    upward_exposed: Vec<VirtReg>,
    /// Defined inside.
    written: Vec<VirtReg>,
    /// Defined on both sides of a branch, and not before it.
    written_on_both: Vec<VirtReg>,
}

/// Finds the intervals of all registers.
pub(super) fn live_intervals(code: &MachineFunction) -> Vec<LiveInterval> {
    let n = code.classes.len();
    let mut scan = IntervalBuilder {
        regions: regions(code),
        ends: vec![None; n],
        weights: vec![0.0; n],
        pins: vec![0; n],
        pinned: Vec::new(),
        live_intervals: Vec::new(),
    };
    scan.run(&code.insts);
    scan.live_intervals
}

/// Regions by the index of their last instruction; branches also by the index of their `Else`.
type Regions = BTreeMap<usize, Region>;

struct OpenRegion {
    start: usize,
    /// Length of the log where the region opened.
    log: usize,
    is_loop: bool,
    region: Region,
    /// Definitions on the first side of a branch.
    then: Vec<VirtReg>,
}

struct RegionScan<'a> {
    code: &'a MachineFunction,
    /// Registers that occur in more than one block.
    is_global: Vec<bool>,
    /// One more than the position of the last dominating definition; 0 for none.
    written_at: Vec<usize>,
    /// Former values of `written_at`, restored where control flow merges.
    log: Vec<(VirtReg, usize)>,
    open: Vec<OpenRegion>,
    closed: Regions,
}

fn regions(code: &MachineFunction) -> Regions {
    let mut scan = RegionScan {
        code,
        is_global: is_global(code),
        written_at: vec![0; code.classes.len()],
        log: Vec::new(),
        open: Vec::new(),
        closed: BTreeMap::new(),
    };
    scan.run();
    scan.closed
}

/// Finds the registers that occur in more than one block.
fn is_global(code: &MachineFunction) -> Vec<bool> {
    let mut block = 0;
    let mut home = vec![None; code.classes.len()];
    let mut result = vec![false; code.classes.len()];
    for inst in &code.insts {
        let mut occurs = |virt: VirtReg| {
            let at = virt.0 as usize;
            result[at] |= *home[at].get_or_insert(block) != block;
        };
        inst.for_each_use(&mut occurs);
        if let Some((virt, _)) = inst.def() {
            occurs(virt);
        }
        if let Inst::LoopBegin { .. }
        | Inst::LoopEnd { .. }
        | Inst::IfBegin { .. }
        | Inst::IfAnyBegin { .. }
        | Inst::Else
        | Inst::IfEnd = inst
        {
            block += 1;
        }
    }
    result
}

impl RegionScan<'_> {
    fn run(&mut self) {
        let code = self.code;
        for (at, inst) in code.insts.iter().enumerate() {
            inst.for_each_use(&mut |virt| self.read(virt));
            if let Some((virt, _)) = inst.def() {
                self.write(virt, at);
            }
            match inst {
                Inst::LoopBegin { .. } => self.enter(at, true),
                Inst::IfBegin { .. } | Inst::IfAnyBegin { .. } => self.enter(at, false),
                Inst::Else => self.enter_else(at),
                Inst::IfEnd => self.close_branch(at),
                Inst::LoopEnd { .. } => self.close_loop(at),
                _ => {}
            }
        }
    }

    fn read(&mut self, virt: VirtReg) {
        let written = self.written_at[virt.0 as usize];
        if !self.is_global[virt.0 as usize] {
            return;
        }
        for open in self.open.iter_mut().rev().take_while(|it| it.start >= written) {
            if open.is_loop && open.region.upward_exposed.last() != Some(&virt) {
                open.region.upward_exposed.push(virt);
            }
        }
    }

    fn write(&mut self, virt: VirtReg, at: usize) {
        if !self.is_global[virt.0 as usize] {
            return;
        }
        let written = &mut self.written_at[virt.0 as usize];
        self.log.push((virt, *written));
        *written = at + 1;
        if let Some(open) = self.open.last_mut() {
            open.region.written.push(virt);
        }
    }

    fn enter(&mut self, start: usize, is_loop: bool) {
        let (region, then) = (Region::default(), Vec::new());
        self.open.push(OpenRegion { start, log: self.log.len(), is_loop, region, then });
    }

    /// Restores `written_at` to the state at length `len` of the log; returns the undone registers.
    fn undo(&mut self, len: usize) -> Vec<VirtReg> {
        let undone: Vec<_> = self.log.drain(len..).rev().collect();
        for (virt, written) in &undone {
            self.written_at[virt.0 as usize] = *written;
        }
        undone.into_iter().map(|it| it.0).collect()
    }

    /// Begins the second side of a branch.
    fn enter_else(&mut self, at: usize) {
        let log = self.open.last().expect("regions nest").log;
        let then = self.undo(log);
        let open = self.open.last_mut().expect("regions nest");
        open.then = then;
        let written = sort_dedup(&mut open.region.written);
        self.closed.insert(at, Region { written, ..Region::default() });
    }

    fn close_branch(&mut self, at: usize) {
        let mut open = self.open.pop().expect("regions nest");
        let otherwise = self.undo(open.log);
        let mut both = open.then;
        both.sort_unstable();
        both.dedup();
        both.retain(|it| otherwise.contains(it));
        for virt in both {
            let written = &mut self.written_at[virt.0 as usize];
            if *written == 0 {
                open.region.written_on_both.push(virt);
            }
            self.log.push((virt, *written));
            *written = at + 1;
        }
        self.close(at, open.region);
    }

    fn close_loop(&mut self, at: usize) {
        let open = self.open.pop().expect("regions nest");
        if !is_executed(&self.code.insts[open.start]) {
            self.undo(open.log);
        }
        self.close(at, open.region);
    }

    fn close(&mut self, at: usize, mut region: Region) {
        sort_dedup(&mut region.written);
        sort_dedup(&mut region.upward_exposed);
        if let Some(outer) = self.open.last_mut() {
            outer.region.written.extend(&region.written);
        }
        self.closed.insert(at, region);
    }
}

fn sort_dedup(virts: &mut Vec<VirtReg>) -> Vec<VirtReg> {
    virts.sort_unstable();
    virts.dedup();
    virts.clone()
}

/// Returns whether a loop has at least one iteration.
fn is_executed(begin: &Inst) -> bool {
    matches!(begin, Inst::LoopBegin { runs: true, .. })
}

/// The backward pass.
struct IntervalBuilder {
    regions: Regions,
    /// Ends of the open intervals, by register.
    ends: Vec<Option<u32>>,
    weights: Vec<f32>,
    /// Number of open regions in which a register is live throughout.
    pins: Vec<u32>,
    /// The pinned registers of each open region.
    pinned: Vec<Vec<VirtReg>>,
    live_intervals: Vec<LiveInterval>,
}

impl IntervalBuilder {
    fn run(&mut self, insts: &[Inst]) {
        let starts = matching_ends(insts);
        let mut weight = 1.0;
        for (at, inst) in insts.iter().enumerate().rev() {
            let now = 2 * at as u32;
            match inst {
                Inst::LoopEnd { .. } => {
                    weight *= ESTIMATED_TRIP_COUNT;
                    self.enter_loop(at, is_executed(&insts[starts[&at]]));
                }
                Inst::IfEnd => {
                    if is_rare(&insts[starts[&at]]) {
                        weight *= ESTIMATED_SHARE_OF_RARE;
                    }
                    self.enter_branch(at);
                }
                Inst::Else => self.keep_in_first_side(at),
                Inst::LoopBegin { .. } => {
                    weight /= ESTIMATED_TRIP_COUNT;
                    self.leave();
                }
                Inst::IfBegin { .. } | Inst::IfAnyBegin { .. } => {
                    if is_rare(inst) {
                        weight /= ESTIMATED_SHARE_OF_RARE;
                    }
                    self.leave();
                    let region = self.regions.remove(&starts[&at]).unwrap_or_default();
                    region.written_on_both.into_iter().for_each(|it| self.close(it, now));
                }
                _ => {}
            }
            if let Some((virt, updates)) = inst.def() {
                self.open(virt, now + 1);
                self.weights[virt.0 as usize] += weight;
                if !updates {
                    self.close(virt, now + 1);
                }
            }
            inst.for_each_use(&mut |virt| {
                self.open(virt, now);
                self.weights[virt.0 as usize] += weight;
            });
        }
        for virt in 0..self.ends.len() as u32 {
            self.close(VirtReg(virt), 0);
        }
        self.live_intervals.reverse();
    }

    fn open(&mut self, virt: VirtReg, end: u32) {
        self.ends[virt.0 as usize].get_or_insert(end);
    }

    /// Closes an interval at its start, unless the register is pinned by a region.
    fn close(&mut self, virt: VirtReg, start: u32) {
        let at = virt.0 as usize;
        if self.pins[at] > 0 {
            return;
        }
        if let Some(end) = self.ends[at].take() {
            let weight = std::mem::take(&mut self.weights[at]);
            self.live_intervals.push(LiveInterval { virt, start, end, weight });
        }
    }

    fn pin(&mut self, virts: Vec<VirtReg>, end: u32) {
        for virt in &virts {
            self.open(*virt, end);
            self.pins[virt.0 as usize] += 1;
        }
        self.pinned.push(virts);
    }

    fn enter_loop(&mut self, at: usize, is_executed: bool) {
        let Region { mut upward_exposed, written, .. } =
            self.regions.remove(&at).unwrap_or_default();
        // If the loop may run zero times, its definitions merge with earlier ones.
        let kept = |it: &VirtReg| !is_executed && self.ends[it.0 as usize].is_some();
        upward_exposed.extend(written.into_iter().filter(kept));
        self.pin(sort_dedup(&mut upward_exposed), 2 * at as u32 + 1);
    }

    fn enter_branch(&mut self, at: usize) {
        let written = self.regions.get(&at).map(|it| it.written.clone()).unwrap_or_default();
        let live = self.live(written);
        self.pin(live, 2 * at as u32 + 1);
    }

    /// Keeps live-ins of the second side live throughout the first.
    fn keep_in_first_side(&mut self, at: usize) {
        let written = self.regions.remove(&at).unwrap_or_default().written;
        let live = self.live(written);
        for virt in &live {
            self.pins[virt.0 as usize] += 1;
        }
        self.pinned.last_mut().expect("regions nest").extend(live);
    }

    fn live(&self, mut virts: Vec<VirtReg>) -> Vec<VirtReg> {
        virts.retain(|it| self.ends[it.0 as usize].is_some());
        virts
    }

    fn leave(&mut self) {
        for virt in self.pinned.pop().expect("regions nest") {
            self.pins[virt.0 as usize] -= 1;
        }
    }
}

/// Returns whether a branch is rarely taken.
fn is_rare(begin: &Inst) -> bool {
    matches!(begin, Inst::IfAnyBegin { .. })
}

/// Maps each end of a loop or branch to its begin, and each begin of a branch to its end.
fn matching_ends(insts: &[Inst]) -> BTreeMap<usize, usize> {
    let mut open = Vec::new();
    let mut result = BTreeMap::new();
    for (at, inst) in insts.iter().enumerate() {
        match inst {
            Inst::LoopBegin { .. } | Inst::IfBegin { .. } | Inst::IfAnyBegin { .. } => {
                open.push(at);
            }
            Inst::LoopEnd { .. } => {
                result.insert(at, open.pop().expect("regions nest"));
            }
            Inst::IfEnd => {
                let begin = open.pop().expect("regions nest");
                result.extend([(begin, at), (at, begin)]);
            }
            _ => {}
        }
    }
    result
}
