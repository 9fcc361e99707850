//! Linear-scan register allocation over split live intervals, with spill weights.
//!
//! In: a [`MachineFunction`]. Out: the function with spill code for vectors, and an [`Assignment`].
//! Next: [`super::emit`].
//!
//! Spilled integers and masks need no spill code: the emitter reloads them through reserved scratch
//! registers. No vector register is reserved, so vector spills rewrite instructions
//! ([`super::spill`]), and allocation starts over until all vectors fit. Before the first spill, values of
//! the prologue move to where they are used ([`super::sink`]).
//!
//! # Source
//!
//! Poletto and Sarkar, "Linear Scan Register Allocation" (1999). The spilled interval is the one of
//! least weight (estimated uses, as in Chaitin, 1982), not the one that ends last.

use super::inst::{Inst, IntOperand, MachineFunction, Operand, RegClass, VirtReg};
use super::liveness::{LiveInterval, live_intervals};
use super::registers::RegisterFile;
use super::sink::sink;
use super::spill::{self, StackSlots};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// An allocatable register of its class, by index.
    Register(u8),
    /// An offset in the spill area for integers and masks, in bytes.
    Frame(u32),
}

/// An interval with its location.
#[derive(Clone, Copy, Debug)]
pub(super) struct Assigned {
    pub virt: VirtReg,
    pub start: u32,
    pub location: Location,
}

/// Locations of all intervals, by start.
pub(super) struct Assignment {
    pub assigned: Vec<Assigned>,
    /// Size of the spill area for integers and masks, in bytes.
    pub frame_bytes: u32,
    /// Number of spilled vector intervals.
    pub spills: u32,
}

/// Allocates registers; inserts spill code until all vectors fit.
pub(super) fn allocate(
    code: &mut MachineFunction,
    file: RegisterFile,
    vector_bytes: u32,
) -> Assignment {
    let mut spills = 0;
    let mut may_sink = true;
    // Registers made by spill code live for one instruction: spilling them again would not help.
    let spillable = code.classes.len() as u32;
    loop {
        let live_intervals = live_intervals(code);
        let mut scan = LinearScan::new(code, file, spillable);
        for (at, interval) in live_intervals.iter().enumerate() {
            scan.place(&live_intervals, at, interval);
        }
        let spilled: Vec<LiveInterval> = (live_intervals.iter().zip(&scan.assigned_registers))
            .filter(|(it, place)| {
                place.is_none() && code.classes[it.virt.0 as usize] == RegClass::Vector
            })
            .map(|(it, _)| *it)
            .collect();
        if spilled.is_empty() {
            return finish(&live_intervals, &scan.assigned_registers, spills);
        }
        if std::mem::take(&mut may_sink) && sink(code) {
            continue;
        }
        spills += spilled.len() as u32;
        spill::rewrite(code, &spilled, vector_bytes);
    }
}

fn finish(
    live_intervals: &[LiveInterval],
    assigned_registers: &[Option<u8>],
    spills: u32,
) -> Assignment {
    let mut slots = StackSlots::default();
    let mut assigned = Vec::with_capacity(live_intervals.len());
    for (interval, place) in live_intervals.iter().zip(assigned_registers) {
        let location = match place {
            Some(register) => Location::Register(*register),
            None => Location::Frame(slots.take(interval) * 8),
        };
        assigned.push(Assigned { virt: interval.virt, start: interval.start, location });
    }
    Assignment { assigned, frame_bytes: slots.len() * 8, spills }
}

struct LinearScan<'a> {
    code: &'a MachineFunction,
    spillable: u32,
    /// The active interval of each register, by class.
    files: [Vec<Option<usize>>; 3],
    /// The register of each interval so far; `None` if spilled.
    assigned_registers: Vec<Option<u8>>,
    /// The last register of each virtual register, for hints.
    last_register: Vec<Option<u8>>,
}

impl<'a> LinearScan<'a> {
    fn new(code: &'a MachineFunction, file: RegisterFile, spillable: u32) -> Self {
        let sizes = [file.vectors, file.masks, file.ints];
        let files = sizes.map(|it| vec![None; it]);
        Self {
            code,
            spillable,
            files,
            assigned_registers: Vec::new(),
            last_register: vec![None; code.classes.len()],
        }
    }

    fn place(&mut self, live_intervals: &[LiveInterval], at: usize, interval: &LiveInterval) {
        let class = self.code.classes[interval.virt.0 as usize] as usize;
        for active in &mut self.files[class] {
            if active.is_some_and(|it| live_intervals[it].end < interval.start) {
                *active = None;
            }
        }
        let place = self
            .free(class, interval)
            .or_else(|| self.spill_cheapest(live_intervals, class, interval));
        self.assigned_registers.push(place);
        self.last_register[interval.virt.0 as usize] = place;
        if let Some(register) = place {
            self.files[class][register as usize] = Some(at);
        }
    }

    /// Finds a free register, preferably one of the hints (coalescing).
    fn free(&self, class: usize, interval: &LiveInterval) -> Option<u8> {
        let file = &self.files[class];
        let is_free = |it: &u8| file[*it as usize].is_none();
        let hints = hints(&self.code.insts[interval.start as usize / 2]);
        let hint = hints.into_iter().flatten().find_map(|it| {
            let same_class = self.code.classes[it.0 as usize] as usize == class;
            self.last_register[it.0 as usize].filter(|it| same_class && is_free(it))
        });
        hint.or_else(|| (0..file.len() as u8).find(is_free))
    }

    /// Spills the active interval of least weight and returns its register; `None` if the new interval
    /// weighs least.
    fn spill_cheapest(
        &mut self,
        live_intervals: &[LiveInterval],
        class: usize,
        new: &LiveInterval,
    ) -> Option<u8> {
        // Intervals of spill code for vectors must have registers.
        let is_vector = class == RegClass::Vector as usize;
        let is_short = |it: &LiveInterval| it.virt.0 >= self.spillable || it.end <= it.start + 1;
        let can_spill = |it: &LiveInterval| !is_vector || !is_short(it);
        // Masks of edges live through a whole phase: one that is spilled leaves its register to many of
        // those that conditions of the program make.
        let is_mask = class == RegClass::Mask as usize;
        let length = |it: &LiveInterval| if is_mask { (it.end - it.start + 1) as f32 } else { 1.0 };
        let cost = |it: &LiveInterval| (it.weight / length(it), std::cmp::Reverse(it.end));
        let active = self.files[class].iter().enumerate();
        let cheapest = active
            .filter_map(|(register, it)| Some((register as u8, (*it)?)))
            .filter(|(_, it)| can_spill(&live_intervals[*it]))
            .min_by(|a, b| {
                let (a, b) = (cost(&live_intervals[a.1]), cost(&live_intervals[b.1]));
                a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
            });
        let (register, victim) = match cheapest {
            Some(it) if !can_spill(new) || cost(&live_intervals[it.1]) < cost(new) => it,
            Some(_) => return None,
            None if can_spill(new) => return None,
            None => unreachable!("an instruction needs more registers than there are"),
        };
        self.assigned_registers[victim] = None;
        Some(register)
    }
}

/// Register hints of an instruction's target, best first.
fn hints(inst: &Inst) -> [Option<VirtReg>; 3] {
    let register = |it: &Operand| if let Operand::Reg(virt) = it { Some(*virt) } else { None };
    match inst {
        Inst::Fma { a, b, c, .. } => [register(c), register(a), register(b)],
        Inst::Vector(it) => [it.dst.filter(|_| it.updates), it.a, it.b.as_ref().and_then(register)],
        Inst::Copy { src: IntOperand::Reg(src), .. } => [Some(*src), None, None],
        _ => [None; 3],
    }
}

#[cfg(test)]
mod tests {
    use tvmtune_ir::target::Isa;

    use super::super::encode::Width;
    use super::super::inst::VectorInst;
    use super::super::opcode;
    use super::*;

    const COUNTER: VirtReg = VirtReg(0);

    fn vector(dst: Option<VirtReg>, mask: Option<VirtReg>) -> Inst {
        Inst::Vector(VectorInst { dst, mask, ..VectorInst::new(opcode::PTESTMD, Width::W512) })
    }

    #[test]
    fn masks_of_a_whole_phase_are_spilled_before_one_of_few_instructions() {
        let long: Vec<VirtReg> = (1..=6).map(VirtReg).collect();
        let short = VirtReg(7);
        let begin = Inst::LoopBegin { counter: COUNTER, runs: true };
        let end = Inst::LoopEnd { counter: COUNTER };
        let mut insts: Vec<Inst> = long.iter().map(|it| vector(Some(*it), None)).collect();
        insts.extend([begin, vector(Some(short), None), vector(None, Some(short)), end, begin]);
        insts.extend(long.iter().cycle().take(30).map(|it| vector(None, Some(*it))));
        insts.push(end);
        let mut classes = vec![RegClass::Mask; 8];
        classes[0] = RegClass::Int;
        let mut code = MachineFunction { insts, classes, frame: Vec::new() };
        let assignment = allocate(&mut code, RegisterFile::of(Isa::Avx512), 64);
        let is_spilled = |it: &&Assigned| matches!(it.location, Location::Frame(_));
        let spilled = assignment.assigned.iter().filter(is_spilled).map(|it| it.virt);
        // The one for which there is no register, and the one whose register the short one takes.
        assert_eq!(spilled.clone().count(), 2);
        assert!(!spilled.clone().any(|it| it == short));
    }
}
