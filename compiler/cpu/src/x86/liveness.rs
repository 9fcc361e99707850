//! When each virtual register holds something that is still needed.
//!
//! In: the instructions of a phase. Out: [`Interval`]s, each to live in one place. Next:
//! [`super::regalloc`].
//!
//! A register that is written several times has several intervals where it can: they need not
//! share a place. Where control flow joins, they must, so a value that a loop carries stays
//! throughout the loop, and one that a branch may change stays throughout the branch.
//!
//! # Invariants
//!
//! - Instruction `i` reads at time `2 * i` and writes at time `2 * i + 1`, so that a target may
//!   take the place of a source that is read for the last time.
//! - Intervals of one register do not overlap; all are sorted by start.

use std::collections::BTreeMap;

use super::inst::{Code, Inst, Virt};

/// A stretch of time for which a register keeps one place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    pub virt: Virt,
    pub start: u32,
    /// The last time at which the place is used.
    pub end: u32,
    /// How often it is read and written, guessed from the depth of loops.
    pub weight: f32,
}

/// Iterations that a loop is guessed to have.
const TRIPS: f32 = 8.0;

/// What a loop or branch does to the registers that outlive a block.
#[derive(Default)]
struct Region {
    /// Read before they are written for certain: they come from before, or around the loop.
    exposed: Vec<Virt>,
    /// Written somewhere inside.
    written: Vec<Virt>,
    /// Written on both sides of a branch, and not before it.
    fresh: Vec<Virt>,
}

/// Finds the intervals of all registers.
pub(super) fn intervals(code: &Code) -> Vec<Interval> {
    let regions = Regions::find(code);
    let n = code.classes.len();
    let mut scan = Scan {
        regions,
        ends: vec![None; n],
        weights: vec![0.0; n],
        pins: vec![0; n],
        pinned: Vec::new(),
        found: Vec::new(),
    };
    scan.run(&code.insts);
    scan.found
}

/// The regions, by the instruction that closes them; of a branch, also by its `Else`.
struct Regions(BTreeMap<usize, Region>);

/// An open region during the walk.
struct Open {
    start: usize,
    /// How many entries the log had.
    log: usize,
    is_loop: bool,
    region: Region,
    /// What the first side of a branch wrote.
    then: Vec<Virt>,
}

struct Find<'a> {
    code: &'a Code,
    /// Whether a register occurs in more than one block.
    outlives: Vec<bool>,
    /// One more than where each register was last written for certain; 0 is never.
    written_at: Vec<usize>,
    /// What `written_at` was, to be undone where control flow joins.
    log: Vec<(Virt, usize)>,
    open: Vec<Open>,
    closed: BTreeMap<usize, Region>,
}

impl Regions {
    fn find(code: &Code) -> Self {
        let n = code.classes.len();
        let mut find = Find {
            code,
            outlives: outlives(code),
            written_at: vec![0; n],
            log: Vec::new(),
            open: Vec::new(),
            closed: BTreeMap::new(),
        };
        find.run();
        Regions(find.closed)
    }
}

/// Which registers occur in more than one block.
fn outlives(code: &Code) -> Vec<bool> {
    let mut block = 0;
    let mut home = vec![None; code.classes.len()];
    let mut result = vec![false; code.classes.len()];
    for inst in &code.insts {
        let mut occurs = |virt: Virt| {
            let at = virt.0 as usize;
            result[at] |= *home[at].get_or_insert(block) != block;
        };
        inst.each_use(&mut occurs);
        if let Some((virt, _)) = inst.target() {
            occurs(virt);
        }
        if is_boundary(inst) {
            block += 1;
        }
    }
    result
}

fn is_boundary(inst: &Inst) -> bool {
    matches!(
        inst,
        Inst::LoopBegin { .. }
            | Inst::LoopEnd { .. }
            | Inst::IfBegin { .. }
            | Inst::Else
            | Inst::IfEnd
    )
}

impl Find<'_> {
    fn run(&mut self) {
        let code = self.code;
        for (at, inst) in code.insts.iter().enumerate() {
            inst.each_use(&mut |virt| self.read(virt));
            if let Some((virt, _)) = inst.target() {
                self.write(virt, at);
            }
            match inst {
                Inst::LoopBegin { .. } => self.enter(at, true),
                Inst::IfBegin { .. } => self.enter(at, false),
                Inst::Else => self.turn(at),
                Inst::IfEnd => self.join(at),
                Inst::LoopEnd { .. } => self.leave_loop(at),
                _ => {}
            }
        }
    }

    fn read(&mut self, virt: Virt) {
        let written = self.written_at[virt.0 as usize];
        if !self.outlives[virt.0 as usize] {
            return;
        }
        for open in self.open.iter_mut().rev().take_while(|it| it.start >= written) {
            if open.is_loop && open.region.exposed.last() != Some(&virt) {
                open.region.exposed.push(virt);
            }
        }
    }

    fn write(&mut self, virt: Virt, at: usize) {
        if !self.outlives[virt.0 as usize] {
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
        self.open.push(Open { start, log: self.log.len(), is_loop, region, then });
    }

    /// Forgets what was written for certain since the log had `len` entries.
    fn undo(&mut self, len: usize) -> Vec<Virt> {
        let undone: Vec<_> = self.log.drain(len..).rev().collect();
        for (virt, written) in &undone {
            self.written_at[virt.0 as usize] = *written;
        }
        undone.into_iter().map(|it| it.0).collect()
    }

    /// From the first side of a branch to the second.
    fn turn(&mut self, at: usize) {
        let log = self.open.last().expect("regions nest").log;
        let then = self.undo(log);
        let open = self.open.last_mut().expect("regions nest");
        open.then = then;
        let written = tidy(&mut open.region.written);
        self.closed.insert(at, Region { written, ..Region::default() });
    }

    fn join(&mut self, at: usize) {
        let mut open = self.open.pop().expect("regions nest");
        let otherwise = self.undo(open.log);
        let mut both = open.then;
        both.sort_unstable();
        both.dedup();
        both.retain(|it| otherwise.contains(it));
        for virt in both {
            let written = &mut self.written_at[virt.0 as usize];
            if *written == 0 {
                open.region.fresh.push(virt);
            }
            self.log.push((virt, *written));
            *written = at + 1;
        }
        self.close(at, open.region);
    }

    fn leave_loop(&mut self, at: usize) {
        let open = self.open.pop().expect("regions nest");
        if !runs(&self.code.insts[open.start]) {
            self.undo(open.log);
        }
        self.close(at, open.region);
    }

    fn close(&mut self, at: usize, mut region: Region) {
        tidy(&mut region.written);
        tidy(&mut region.exposed);
        if let Some(outer) = self.open.last_mut() {
            outer.region.written.extend(&region.written);
        }
        self.closed.insert(at, region);
    }
}

fn tidy(virts: &mut Vec<Virt>) -> Vec<Virt> {
    virts.sort_unstable();
    virts.dedup();
    virts.clone()
}

fn runs(begin: &Inst) -> bool {
    matches!(begin, Inst::LoopBegin { runs: true, .. })
}

/// The walk from the last instruction to the first.
struct Scan {
    regions: Regions,
    /// When the interval that is open ends.
    ends: Vec<Option<u32>>,
    weights: Vec<f32>,
    /// How many open regions a register must stay throughout.
    pins: Vec<u32>,
    /// For each open region, which those are.
    pinned: Vec<Vec<Virt>>,
    found: Vec<Interval>,
}

impl Scan {
    fn run(&mut self, insts: &[Inst]) {
        let starts = loop_starts(insts);
        let mut weight = 1.0;
        for (at, inst) in insts.iter().enumerate().rev() {
            let now = 2 * at as u32;
            match inst {
                Inst::LoopEnd { .. } => {
                    weight *= TRIPS;
                    self.enter_loop(at, runs(&insts[starts[&at]]));
                }
                Inst::IfEnd => self.enter_branch(at),
                Inst::Else => self.keep_in_first_side(at),
                Inst::LoopBegin { .. } => {
                    weight /= TRIPS;
                    self.leave();
                }
                Inst::IfBegin { .. } => {
                    self.leave();
                    for virt in
                        self.regions.0.remove(&starts[&at]).into_iter().flat_map(|it| it.fresh)
                    {
                        self.close(virt, now);
                    }
                }
                _ => {}
            }
            if let Some((virt, updates)) = inst.target() {
                self.open(virt, now + 1);
                self.weights[virt.0 as usize] += weight;
                if !updates {
                    self.close(virt, now + 1);
                }
            }
            inst.each_use(&mut |virt| {
                self.open(virt, now);
                self.weights[virt.0 as usize] += weight;
            });
        }
        for virt in 0..self.ends.len() as u32 {
            self.close(Virt(virt), 0);
        }
        self.found.reverse();
    }

    fn open(&mut self, virt: Virt, end: u32) {
        self.ends[virt.0 as usize].get_or_insert(end);
    }

    /// Ends, that is begins, an interval, unless the register must stay.
    fn close(&mut self, virt: Virt, start: u32) {
        let at = virt.0 as usize;
        if self.pins[at] > 0 {
            return;
        }
        if let Some(end) = self.ends[at].take() {
            let weight = std::mem::take(&mut self.weights[at]);
            self.found.push(Interval { virt, start, end, weight });
        }
    }

    fn pin(&mut self, virts: Vec<Virt>, end: u32) {
        for virt in &virts {
            self.open(*virt, end);
            self.pins[virt.0 as usize] += 1;
        }
        self.pinned.push(virts);
    }

    fn enter_loop(&mut self, at: usize, runs: bool) {
        let Region { mut exposed, written, .. } = self.regions.0.remove(&at).unwrap_or_default();
        // If the loop may not run, what it writes may be what was there before.
        let kept = |it: &Virt| !runs && self.ends[it.0 as usize].is_some();
        exposed.extend(written.into_iter().filter(kept));
        self.pin(tidy(&mut exposed), 2 * at as u32 + 1);
    }

    fn enter_branch(&mut self, at: usize) {
        let written = self.regions.0.get(&at).map(|it| it.written.clone()).unwrap_or_default();
        let live = |it: &Virt| self.ends[it.0 as usize].is_some();
        self.pin(written.into_iter().filter(live).collect(), 2 * at as u32 + 1);
    }

    /// What the second side needs, the first side must not lose.
    fn keep_in_first_side(&mut self, at: usize) {
        let written = self.regions.0.remove(&at).unwrap_or_default().written;
        let live: Vec<Virt> =
            written.into_iter().filter(|it| self.ends[it.0 as usize].is_some()).collect();
        for virt in &live {
            self.pins[virt.0 as usize] += 1;
        }
        self.pinned.last_mut().expect("regions nest").extend(live);
    }

    fn leave(&mut self) {
        for virt in self.pinned.pop().expect("regions nest") {
            self.pins[virt.0 as usize] -= 1;
        }
    }
}

/// For each end of a loop, where it begins; for each begin of a branch, where it ends.
fn loop_starts(insts: &[Inst]) -> BTreeMap<usize, usize> {
    let mut open = Vec::new();
    let mut result = BTreeMap::new();
    for (at, inst) in insts.iter().enumerate() {
        match inst {
            Inst::LoopBegin { .. } | Inst::IfBegin { .. } => open.push(at),
            Inst::LoopEnd { .. } => {
                result.insert(at, open.pop().expect("regions nest"));
            }
            Inst::IfEnd => {
                result.insert(open.pop().expect("regions nest"), at);
            }
            _ => {}
        }
    }
    result
}
