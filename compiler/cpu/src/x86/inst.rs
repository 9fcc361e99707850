//! Machine IR: instructions on virtual registers, between selection and register allocation.
//!
//! The code of a phase is a linear list. Loops and branches are bracketed by instructions that nest,
//! so that a position in the list is a program point of live intervals.
//!
//! # Invariants
//!
//! - An instruction reads all its sources before it writes its target, unless it says otherwise.
//! - A value carried by a loop or merged by a branch has one virtual register, as there are no phis;
//!   other virtual registers are written once and read in the same block.

use super::encode::Width;
use super::opcode::Opcode;
use crate::vector::PrefetchHint;
use crate::vector::ScalarBits;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct VirtReg(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegClass {
    /// A vector of the instruction set's width.
    Vector,
    /// One bit for each lane; AVX-512 only.
    Mask,
    /// A 64-bit integer or address.
    Int,
}

/// A stack slot, by position in [`MachineFunction::frame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StackSlot(pub u32);

/// The base of a memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemBase {
    Int(VirtReg),
    Frame(StackSlot),
    /// An offset into the constant pool behind the code, in bytes.
    Pool(u32),
}

/// A memory operand: `base + index * scale + disp`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemOperand {
    pub base: MemBase,
    /// The index register (an integer, or the vector of a gather or scatter) and the scale: 1, 2, 4, 8.
    pub index: Option<(VirtReg, u8)>,
    pub disp: i32,
}

impl MemOperand {
    pub(super) fn pool(offset: u32) -> Self {
        Self { base: MemBase::Pool(offset), index: None, disp: 0 }
    }

    pub(super) fn frame(slot: StackSlot) -> Self {
        Self { base: MemBase::Frame(slot), index: None, disp: 0 }
    }
}

/// A source that may be in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    Reg(VirtReg),
    Mem(MemOperand),
    /// An embedded broadcast of an element; AVX-512 only.
    Broadcast(MemOperand),
}

/// A VEX or EVEX instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct VectorInst {
    pub op: Opcode,
    pub width: Width,
    pub dst: Option<VirtReg>,
    /// `dst` is read too: by merge-masking, or as an operand.
    pub updates: bool,
    /// The first source: `vvvv`, or the value of a store.
    pub a: Option<VirtReg>,
    /// The last source, or the target of a store.
    pub b: Option<Operand>,
    /// The third source: the selector of a blend, the mask of an AVX2 masked store.
    pub c: Option<VirtReg>,
    /// The opmask of active lanes; AVX-512 only.
    pub mask: Option<VirtReg>,
    /// Zero-masking: lanes masked off become 0.
    pub zeroing: bool,
    pub imm: Option<u8>,
}

impl VectorInst {
    /// Makes an instruction without operands.
    pub(super) fn new(op: Opcode, width: Width) -> Self {
        Self {
            op,
            width,
            dst: None,
            updates: false,
            a: None,
            b: None,
            c: None,
            mask: None,
            zeroing: false,
            imm: None,
        }
    }
}

/// An integer source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntOperand {
    Const(i64),
    Reg(VirtReg),
}

/// An argument beside the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    Scratch,
    First,
    End,
}

/// The active lanes of a scalarized copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneMask {
    All,
    /// A mask register, or a vector of truth values.
    Where(VirtReg),
}

/// A scalarized gather or scatter: a copy between packed elements in the frame and strided memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneCopy {
    /// The packed elements; those of inactive lanes are loaded as 0.
    pub packed: StackSlot,
    /// The first strided element.
    pub strided: MemOperand,
    /// Stride, in bytes.
    pub step: IntOperand,
    /// Size of an element in bytes: 1, 2, 4 or 8.
    pub size: u8,
    pub lanes: u32,
    pub mask: LaneMask,
    /// Stack slot of the mask, one bit per lane.
    pub bits: StackSlot,
    /// The copy is a scatter: it writes the strided elements.
    pub stores: bool,
}

/// An instruction, or a pseudo-instruction that expands to a short sequence.
#[derive(Clone, Copy, Debug)]
pub(super) enum Inst {
    /// A VEX or EVEX instruction.
    Vector(VectorInst),
    /// `dst = a * b + c`, or `c - a * b`; at most one source is in memory.
    Fma { dst: VirtReg, negated: bool, a: Operand, b: Operand, c: Operand },
    /// `dst = 0`
    Zero { dst: VirtReg },
    /// A broadcast of an integer, or of its low 32 bits in lanes of these.
    Splat { dst: VirtReg, src: VirtReg },
    /// `dst = src[0]`, sign-extended.
    FirstLane { dst: VirtReg, src: VirtReg },
    /// `dst` = the 64-bit integer in memory.
    LoadLong { dst: VirtReg, place: MemOperand },
    /// A constant mask.
    MaskBits { dst: VirtReg, bits: u16 },
    /// A scalarized gather or scatter.
    LaneCopy(LaneCopy),
    /// Prefetches a cache line.
    Prefetch { place: MemOperand, hint: PrefetchHint },
    /// Loads an entry of the argument table: 8 bytes.
    LoadEntry { dst: VirtReg, entry: u32 },
    /// Broadcasts an entry of the argument table, or 4 bytes of it in lanes of these.
    SplatEntry { dst: VirtReg, entry: u32, bits: ScalarBits },
    /// Loads an argument beside the table.
    LoadArgument { dst: VirtReg, argument: Argument },
    /// `dst = src`
    Copy { dst: VirtReg, src: IntOperand },
    /// `dst = dst + src`
    Add { dst: VirtReg, src: IntOperand },
    /// `dst = dst - src`
    Sub { dst: VirtReg, src: IntOperand },
    /// `dst = dst + src * by`
    MulAdd { dst: VirtReg, src: VirtReg, by: IntOperand },
    /// `dst = value / by`, or the remainder; `value >= 0`, `by >= 1`.
    Divide { dst: VirtReg, value: VirtReg, by: IntOperand, remainder: bool },
    /// Begins a loop of `counter` iterations, counting down; at least one if `runs`.
    LoopBegin { counter: VirtReg, runs: bool },
    /// Ends a loop.
    LoopEnd { counter: VirtReg },
    /// Begins the branch taken if `value + plus < bound`.
    IfBegin { value: IntOperand, plus: i64, bound: IntOperand },
    /// Begins the branch taken if a truth value holds in any lane, which is rare.
    IfAnyBegin { mask: VirtReg },
    /// Begins the other branch.
    Else,
    /// Ends a branch.
    IfEnd,
}

/// The machine IR of a phase.
pub(super) struct MachineFunction {
    pub insts: Vec<Inst>,
    /// The class of each virtual register.
    pub classes: Vec<RegClass>,
    /// The size of each stack slot, in bytes; a multiple of 8.
    pub frame: Vec<u32>,
}

impl MachineFunction {
    pub(super) fn new_virt_reg(&mut self, class: RegClass) -> VirtReg {
        self.classes.push(class);
        VirtReg(self.classes.len() as u32 - 1)
    }

    pub(super) fn new_stack_slot(&mut self, bytes: u32) -> StackSlot {
        self.frame.push(bytes);
        StackSlot(self.frame.len() as u32 - 1)
    }
}

impl MemOperand {
    fn for_each_use(&self, visit: &mut dyn FnMut(VirtReg)) {
        if let MemBase::Int(virt) = self.base {
            visit(virt);
        }
        if let Some((virt, _)) = self.index {
            visit(virt);
        }
    }
}

impl Operand {
    fn for_each_use(&self, visit: &mut dyn FnMut(VirtReg)) {
        match self {
            Operand::Reg(virt) => visit(*virt),
            Operand::Mem(place) | Operand::Broadcast(place) => place.for_each_use(visit),
        }
    }
}

impl IntOperand {
    fn for_each_use(self, visit: &mut dyn FnMut(VirtReg)) {
        if let IntOperand::Reg(virt) = self {
            visit(virt);
        }
    }
}

impl Inst {
    /// Calls `visit` for each use, repeats included; also for a target that is read.
    pub(super) fn for_each_use(&self, visit: &mut dyn FnMut(VirtReg)) {
        match self {
            Inst::Vector(it) => {
                it.dst.filter(|_| it.updates).into_iter().for_each(&mut *visit);
                it.a.into_iter().chain(it.c).chain(it.mask).for_each(&mut *visit);
                if let Some(b) = &it.b {
                    b.for_each_use(visit);
                }
            }
            Inst::Fma { a, b, c, .. } => {
                for operand in [a, b, c] {
                    operand.for_each_use(visit);
                }
            }
            Inst::LaneCopy(it) => {
                it.strided.for_each_use(visit);
                it.step.for_each_use(visit);
                if let LaneMask::Where(mask) = it.mask {
                    visit(mask);
                }
            }
            Inst::Prefetch { place, .. } | Inst::LoadLong { place, .. } => {
                place.for_each_use(visit);
            }
            Inst::Splat { src, .. } | Inst::FirstLane { src, .. } => visit(*src),
            Inst::Copy { src, .. } => src.for_each_use(visit),
            Inst::Add { dst, src } | Inst::Sub { dst, src } => {
                visit(*dst);
                src.for_each_use(visit);
            }
            Inst::MulAdd { dst, src, by } => {
                visit(*dst);
                visit(*src);
                by.for_each_use(visit);
            }
            Inst::Divide { value, by, .. } => {
                visit(*value);
                by.for_each_use(visit);
            }
            Inst::LoopBegin { counter, .. } | Inst::LoopEnd { counter } => visit(*counter),
            Inst::IfAnyBegin { mask } => visit(*mask),
            Inst::IfBegin { value, bound, .. } => {
                value.for_each_use(visit);
                bound.for_each_use(visit);
            }
            Inst::Zero { .. }
            | Inst::MaskBits { .. }
            | Inst::LoadEntry { .. }
            | Inst::SplatEntry { .. }
            | Inst::LoadArgument { .. }
            | Inst::Else
            | Inst::IfEnd => {}
        }
    }

    /// Returns the register that is defined, and whether it is read too.
    pub(super) fn def(&self) -> Option<(VirtReg, bool)> {
        match self {
            Inst::Vector(it) => it.dst.map(|dst| (dst, it.updates)),
            Inst::Fma { dst, .. }
            | Inst::Zero { dst }
            | Inst::Splat { dst, .. }
            | Inst::FirstLane { dst, .. }
            | Inst::LoadLong { dst, .. }
            | Inst::MaskBits { dst, .. }
            | Inst::LoadEntry { dst, .. }
            | Inst::SplatEntry { dst, .. }
            | Inst::LoadArgument { dst, .. }
            | Inst::Copy { dst, .. }
            | Inst::Divide { dst, .. } => Some((*dst, false)),
            Inst::Add { dst, .. } | Inst::Sub { dst, .. } | Inst::MulAdd { dst, .. } => {
                Some((*dst, true))
            }
            Inst::LoopEnd { counter } => Some((*counter, true)),
            Inst::LaneCopy(_)
            | Inst::Prefetch { .. }
            | Inst::LoopBegin { .. }
            | Inst::IfBegin { .. }
            | Inst::IfAnyBegin { .. }
            | Inst::Else
            | Inst::IfEnd => None,
        }
    }
}
