//! Emission: machine IR with register assignment to bytes.
//!
//! In: a [`MachineFunction`] and an [`Assignment`]. Out: bytes in an [`Assembler`].
//!
//! The frame, from `rsp` up, which is a multiple of 64: the arguments, the caller's `rsp`, the spill
//! area of integers and masks, then the stack slots of [`MachineFunction::frame`].
//!
//! `rax`, `rdx`, `k6` and `k7` are never allocated: they hold spilled values for one instruction.

mod int;
mod lanes;
mod vector;

use super::encode::{
    Alu, Assembler, Condition, Gpr, Label, Mem, PhysBase, RAX, RCX, RDI, RDX, RSI, RSP, Rm,
};
use super::inst::{
    Argument, Inst, MachineFunction, MemBase, MemOperand, RegClass, StackSlot, VirtReg,
};
use super::lane_ops::LaneOps;
use super::regalloc::{Assignment, Location};
use super::registers::{ALLOCATABLE_GPRS, N_CALLER_SAVED};
use crate::vector::Simd;
use tvmtune_ir::target::Isa;

const TABLE_AT: i32 = 0;
const SCRATCH_AT: i32 = 8;
const FIRST_AT: i32 = 16;
const END_AT: i32 = 24;
const OLD_RSP_AT: i32 = 32;
const SPILLS_AT: u32 = 40;

/// Alignment of innermost loops, in bytes: an instruction fetch block.
const LOOP_ALIGNMENT: usize = 32;

/// Size of a page, in bytes: the step of stack probes.
const PAGE: u32 = 4096;

struct OpenLabels {
    /// The header of a loop, or the second side of a branch.
    label: Label,
    end: Label,
}

/// See the [module documentation](self).
struct Emitter<'a> {
    asm: &'a mut Assembler,
    code: &'a MachineFunction,
    assignment: &'a Assignment,
    isa: Isa,
    ops: &'static LaneOps,
    /// Offset of each stack slot from `rsp`, in bytes.
    stack_offsets: Vec<i32>,
    /// Location of each virtual register at this point.
    locations: Vec<Option<Location>>,
    /// Number of intervals of the assignment that have started.
    assigned: usize,
    /// Program point at which the instruction writes its target.
    writes_at: u32,
    open: Vec<OpenLabels>,
}

pub(super) fn emit(
    asm: &mut Assembler,
    code: &MachineFunction,
    assignment: &Assignment,
    simd: Simd,
) {
    let mut size = SPILLS_AT + assignment.frame_bytes;
    let mut stack_offsets = Vec::with_capacity(code.frame.len());
    for bytes in &code.frame {
        size = size.next_multiple_of(*bytes);
        stack_offsets.push(size as i32);
        size += bytes;
    }
    let mut emit = Emitter {
        asm,
        code,
        assignment,
        isa: simd.isa,
        ops: LaneOps::of(simd.width),
        stack_offsets,
        locations: vec![None; code.classes.len()],
        assigned: 0,
        writes_at: 0,
        open: Vec::new(),
    };
    let saved = emit.saved();
    emit.enter(&saved, size.next_multiple_of(64));
    emit.body();
    emit.leave(&saved);
}

impl Emitter<'_> {
    /// Returns the callee-saved registers that the function changes.
    fn saved(&self) -> Vec<Gpr> {
        let is_used = |at: usize| {
            self.assignment.assigned.iter().any(|it| {
                it.location == Location::Register(at as u8)
                    && self.code.classes[it.virt.0 as usize] == RegClass::Int
            })
        };
        (N_CALLER_SAVED..ALLOCATABLE_GPRS.len())
            .filter(|it| is_used(*it))
            .map(|it| ALLOCATABLE_GPRS[it])
            .collect()
    }

    fn enter(&mut self, saved: &[Gpr], mut size: u32) {
        for reg in saved {
            self.asm.push(*reg);
        }
        self.asm.copy(RAX, RSP);
        // Probe the stack page by page: the guard page must not be skipped.
        while size > PAGE {
            self.asm.alu_constant(Alu::Sub, Rm::Reg(RSP.0), PAGE as i32);
            self.asm.test_byte(Mem::at(RSP, 0), 0);
            size -= PAGE;
        }
        self.asm.alu_constant(Alu::Sub, Rm::Reg(RSP.0), size as i32);
        self.asm.alu_constant(Alu::And, Rm::Reg(RSP.0), -64);
        let arguments = [(TABLE_AT, RDI), (SCRATCH_AT, RSI), (FIRST_AT, RDX), (END_AT, RCX)];
        for (at, reg) in arguments.into_iter().chain([(OLD_RSP_AT, RAX)]) {
            self.asm.store(Mem::at(RSP, at), reg);
        }
    }

    fn leave(&mut self, saved: &[Gpr]) {
        self.asm.vzeroupper();
        self.asm.load(RSP, Mem::at(RSP, OLD_RSP_AT));
        for reg in saved.iter().rev() {
            self.asm.pop(*reg);
        }
        self.asm.ret();
    }

    fn body(&mut self) {
        let code = self.code;
        for (at, inst) in code.insts.iter().enumerate() {
            let point = 2 * at as u32;
            self.take_effect(point);
            self.writes_at = point + 1;
            self.inst(at, inst);
            self.take_effect(point + 1);
        }
    }

    /// Starts the intervals up to a program point.
    fn take_effect(&mut self, until: u32) {
        while let Some(it) =
            self.assignment.assigned.get(self.assigned).filter(|it| it.start <= until)
        {
            self.locations[it.virt.0 as usize] = Some(it.location);
            self.assigned += 1;
        }
    }

    fn source(&self, virt: VirtReg) -> Location {
        self.locations[virt.0 as usize].expect("registers are written before they are read")
    }

    /// Returns the location of a target: that of the interval that starts here, if one does.
    fn target(&self, virt: VirtReg) -> Location {
        match self.assignment.assigned.get(self.assigned) {
            Some(it) if it.virt == virt && it.start == self.writes_at => it.location,
            _ => self.source(virt),
        }
    }

    fn inst(&mut self, at: usize, inst: &Inst) {
        match inst {
            Inst::Vector(it) => self.vector(it),
            Inst::Fma { dst, negated, a, b, c } => {
                let forms = if *negated { self.ops.fnma } else { self.ops.fma };
                self.fma(forms, *dst, [*a, *b, *c]);
            }
            Inst::Zero { dst } => self.zero(*dst),
            Inst::Splat { dst, src } => self.splat(*dst, *src),
            Inst::FirstLane { dst, src } => self.first_lane(*dst, *src),
            Inst::LoadLong { dst, place } => {
                let mem = self.mem(place);
                self.set_int(*dst, Rm::Mem(mem));
            }
            Inst::MaskBits { dst, bits } => self.mask_bits(*dst, *bits),
            Inst::LaneCopy(it) => self.lane_copy(it),
            Inst::Prefetch { place, hint } => {
                let mem = self.mem(place);
                self.asm.prefetch(mem, *hint);
            }
            Inst::LoadEntry { dst, entry } => self.load_entry(*dst, *entry),
            Inst::SplatEntry { dst, entry, bits } => self.splat_entry(*dst, *entry, *bits),
            Inst::LoadArgument { dst, argument } => {
                let at = match argument {
                    Argument::Scratch => SCRATCH_AT,
                    Argument::First => FIRST_AT,
                    Argument::End => END_AT,
                };
                self.set_int(*dst, Rm::Mem(Mem::at(RSP, at)));
            }
            Inst::Copy { dst, src } => self.copy_int(*dst, *src),
            Inst::Add { dst, src } => self.add(Alu::Add, *dst, *src),
            Inst::Sub { dst, src } => self.add(Alu::Sub, *dst, *src),
            Inst::MulAdd { dst, src, by } => self.multiply_add(*dst, *src, *by),
            Inst::Divide { dst, value, by, remainder } => {
                self.divide(*dst, *value, *by, *remainder);
            }
            Inst::LoopBegin { counter, runs } => self.begin_loop(at, *counter, *runs),
            Inst::LoopEnd { counter } => self.end_loop(*counter),
            Inst::IfBegin { value, plus, bound } => {
                let open = OpenLabels { label: self.asm.label(), end: self.asm.label() };
                self.branch_unless_less(*value, *plus, *bound, open.label);
                self.open.push(open);
            }
            Inst::IfAnyBegin { mask } => {
                let open = OpenLabels { label: self.asm.label(), end: self.asm.label() };
                self.branch_unless_any(*mask, open.label);
                self.open.push(open);
            }
            Inst::Else => {
                let open = self.open.last().expect("branches nest");
                if !matches!(self.code.insts[at + 1], Inst::IfEnd) {
                    self.asm.jump(open.end);
                }
                self.asm.bind(open.label);
            }
            Inst::IfEnd => {
                let open = self.open.pop().expect("branches nest");
                self.asm.bind(open.end);
            }
        }
    }

    fn begin_loop(&mut self, at: usize, counter: VirtReg, runs: bool) {
        let open = OpenLabels { label: self.asm.label(), end: self.asm.label() };
        if !runs {
            match self.int_rm(counter) {
                Rm::Reg(reg) => self.asm.test(Gpr(reg)),
                rm => self.asm.alu_constant(Alu::Cmp, rm, 0),
            }
            self.asm.jump_if(Condition::LessOrEqual, open.end);
        }
        let mut inside = self.code.insts[at + 1..].iter();
        let inner = inside.find_map(|it| match it {
            Inst::LoopBegin { .. } => Some(true),
            Inst::LoopEnd { .. } => Some(false),
            _ => None,
        });
        if inner == Some(false) {
            self.asm.align(LOOP_ALIGNMENT);
        }
        self.asm.bind(open.label);
        self.open.push(open);
    }

    fn end_loop(&mut self, counter: VirtReg) {
        let open = self.open.pop().expect("loops nest");
        let counter = self.int_rm(counter);
        self.asm.alu_constant(Alu::Sub, counter, 1);
        self.asm.jump_if(Condition::NotEqual, open.label);
        self.asm.bind(open.end);
    }

    /// Encodes a memory operand; reloads a spilled base into `rax`, and a spilled index into `rdx`.
    fn mem(&mut self, place: &MemOperand) -> Mem {
        let (base, extra) = match place.base {
            MemBase::Int(virt) => (PhysBase::Gpr(self.int_in(virt, RAX)), 0),
            MemBase::Frame(slot) => (PhysBase::Gpr(RSP), self.slot(slot)),
            MemBase::Pool(offset) => (PhysBase::Pool(offset), 0),
        };
        let index = place.index.map(|(virt, scale)| match self.code.classes[virt.0 as usize] {
            RegClass::Int => (self.int_in(virt, RDX).0, scale),
            _ => (self.register(virt), scale),
        });
        Mem { base, index, disp: place.disp + extra }
    }

    fn slot(&self, slot: StackSlot) -> i32 {
        self.stack_offsets[slot.0 as usize]
    }

    /// Returns the number of a vector register.
    fn register(&self, virt: VirtReg) -> u8 {
        vector_register(self.source(virt))
    }

    fn target_register(&self, virt: VirtReg) -> u8 {
        vector_register(self.target(virt))
    }

    /// Returns the memory of a spilled integer or mask.
    fn spilled(at: u32) -> Mem {
        Mem::at(RSP, (SPILLS_AT + at) as i32)
    }
}

fn vector_register(location: Location) -> u8 {
    match location {
        Location::Register(register) => register,
        Location::Frame(_) => unreachable!("vectors in the frame were rewritten"),
    }
}
