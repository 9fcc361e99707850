//! Machine instructions on virtual registers: what selection makes and allocation places.
//!
//! The code of a phase is one flat list. Loops and branches are marked in it by instructions that
//! nest, so that a position in the list is a point in time for liveness.
//!
//! # Invariants
//!
//! - An instruction reads all its sources before it writes its target, unless it says otherwise.
//! - A register that a loop or a branch carries has one virtual register; anything else is written
//!   once and read in the same block.

use super::encode::Width;
use super::opcode::Opcode;

/// A register before allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Virt(pub u32);

/// The kinds of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// A vector of the instruction set's width.
    Vector,
    /// One bit for each lane; AVX-512 only.
    Mask,
    /// A 64-bit integer or address.
    Int,
}

/// A part of the stack frame, by position in [`Code::frame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameSlot(pub u32);

/// What a place is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Int(Virt),
    Frame(FrameSlot),
    /// The constants behind the code.
    Pool(u32),
}

/// A place in memory: `origin + index * scale + disp`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub origin: Origin,
    /// An integer, or the vector of a gather or scatter; and 1, 2, 4 or 8.
    pub index: Option<(Virt, u8)>,
    pub disp: i32,
}

impl Place {
    pub(super) fn pool(offset: u32) -> Self {
        Self { origin: Origin::Pool(offset), index: None, disp: 0 }
    }

    pub(super) fn frame(slot: FrameSlot) -> Self {
        Self { origin: Origin::Frame(slot), index: None, disp: 0 }
    }
}

/// The source that may be in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    Reg(Virt),
    Place(Place),
    /// 32 bits of memory in every lane; AVX-512 only.
    Broadcast(Place),
}

/// A VEX or EVEX instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct VectorInst {
    pub op: Opcode,
    pub width: Width,
    pub dst: Option<Virt>,
    /// Whether what `dst` held is read too: by merging, or because the instruction adds to it.
    pub updates: bool,
    /// The first source: `vvvv`, or of a store, what is stored.
    pub a: Option<Virt>,
    /// The last source, or the target of a store.
    pub b: Option<Operand>,
    /// A third source: the choice of a blend, the mask of a masked move to memory.
    pub c: Option<Virt>,
    /// The lanes that take part; AVX-512 only.
    pub mask: Option<Virt>,
    /// Whether lanes masked off become 0.
    pub zeroing: bool,
    pub imm: Option<u8>,
}

/// An integer source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntOperand {
    Const(i64),
    Reg(Virt),
}

/// What the caller passes beside the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    Scratch,
    First,
    End,
}

/// Which lanes a lane-by-lane copy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneMask {
    All,
    /// A mask register, or a vector of truth values.
    Where(Virt),
}

/// An element-by-element copy between packed elements in the frame and strided memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneCopy {
    /// Where the packed elements are, or go; masked off ones are 0 there.
    pub packed: FrameSlot,
    /// Where the first of the strided elements is.
    pub strided: Place,
    /// Bytes between those.
    pub step: IntOperand,
    /// Bytes of an element: 1, 2 or 4.
    pub size: u8,
    pub lanes: u32,
    pub mask: LaneMask,
    /// Keeps one bit for each lane while the copy runs.
    pub bits: FrameSlot,
    /// Whether it writes the strided elements, and does not read them.
    pub stores: bool,
}

/// One instruction, or a short fixed sequence.
#[derive(Clone, Copy, Debug)]
pub(super) enum Inst {
    Vector(VectorInst),
    /// `dst = a * b + c`; at most one source is in memory.
    Fma {
        dst: Virt,
        a: Operand,
        b: Operand,
        c: Operand,
    },
    /// A vector of zeros.
    Zero {
        dst: Virt,
    },
    /// The low 32 bits of an integer in every lane.
    Splat {
        dst: Virt,
        src: Virt,
    },
    /// A mask known when the code is generated.
    MaskBits {
        dst: Virt,
        bits: u16,
    },
    LaneCopy(LaneCopy),
    /// Brings the line of a place into the first-level cache.
    Prefetch {
        place: Place,
    },

    /// Entry of the argument table, all 8 bytes.
    LoadEntry {
        dst: Virt,
        entry: u32,
    },
    /// Entry of the argument table, its low 4 bytes in every lane.
    SplatEntry {
        dst: Virt,
        entry: u32,
    },
    LoadArgument {
        dst: Virt,
        argument: Argument,
    },
    Copy {
        dst: Virt,
        src: IntOperand,
    },
    /// `dst = dst + src`
    Add {
        dst: Virt,
        src: IntOperand,
    },
    /// `dst = dst - src`
    Sub {
        dst: Virt,
        src: IntOperand,
    },
    /// `dst = dst + src * by`
    MulAdd {
        dst: Virt,
        src: Virt,
        by: IntOperand,
    },
    /// `dst = value / by`, or the remainder; both are positive.
    Quotient {
        dst: Virt,
        value: Virt,
        by: IntOperand,
        remainder: bool,
    },

    /// Runs what follows `counter` times, which counts down. Unless `runs`, that may be never.
    LoopBegin {
        counter: Virt,
        runs: bool,
    },
    LoopEnd {
        counter: Virt,
    },
    /// Runs what follows if `value + plus < bound`.
    IfBegin {
        value: IntOperand,
        plus: i64,
        bound: IntOperand,
    },
    Else,
    IfEnd,
}

/// The code of one phase, before allocation.
pub(super) struct Code {
    pub insts: Vec<Inst>,
    /// The class of each virtual register.
    pub classes: Vec<Class>,
    /// The size of each part of the frame, in bytes; a multiple of 8.
    pub frame: Vec<u32>,
}

impl Code {
    pub(super) fn virt(&mut self, class: Class) -> Virt {
        self.classes.push(class);
        Virt(self.classes.len() as u32 - 1)
    }

    pub(super) fn slot(&mut self, bytes: u32) -> FrameSlot {
        self.frame.push(bytes);
        FrameSlot(self.frame.len() as u32 - 1)
    }
}

impl Place {
    fn each_use(&self, visit: &mut dyn FnMut(Virt)) {
        if let Origin::Int(virt) = self.origin {
            visit(virt);
        }
        if let Some((virt, _)) = self.index {
            visit(virt);
        }
    }
}

impl Operand {
    fn each_use(&self, visit: &mut dyn FnMut(Virt)) {
        match self {
            Operand::Reg(virt) => visit(*virt),
            Operand::Place(place) | Operand::Broadcast(place) => place.each_use(visit),
        }
    }
}

impl IntOperand {
    fn each_use(self, visit: &mut dyn FnMut(Virt)) {
        if let IntOperand::Reg(virt) = self {
            visit(virt);
        }
    }
}

impl Inst {
    /// Calls `visit` for each register that is read, repeats included; also for a target that is
    /// updated.
    pub(super) fn each_use(&self, visit: &mut dyn FnMut(Virt)) {
        match self {
            Inst::Vector(it) => {
                it.dst.filter(|_| it.updates).into_iter().for_each(&mut *visit);
                it.a.into_iter().chain(it.c).chain(it.mask).for_each(&mut *visit);
                if let Some(b) = &it.b {
                    b.each_use(visit);
                }
            }
            Inst::Fma { a, b, c, .. } => {
                for operand in [a, b, c] {
                    operand.each_use(visit);
                }
            }
            Inst::LaneCopy(it) => {
                it.strided.each_use(visit);
                it.step.each_use(visit);
                if let LaneMask::Where(mask) = it.mask {
                    visit(mask);
                }
            }
            Inst::Prefetch { place } => place.each_use(visit),
            Inst::Splat { src, .. } => visit(*src),
            Inst::Copy { src, .. } => src.each_use(visit),
            Inst::Add { dst, src } | Inst::Sub { dst, src } => {
                visit(*dst);
                src.each_use(visit);
            }
            Inst::MulAdd { dst, src, by } => {
                visit(*dst);
                visit(*src);
                by.each_use(visit);
            }
            Inst::Quotient { value, by, .. } => {
                visit(*value);
                by.each_use(visit);
            }
            Inst::LoopBegin { counter, .. } | Inst::LoopEnd { counter } => visit(*counter),
            Inst::IfBegin { value, bound, .. } => {
                value.each_use(visit);
                bound.each_use(visit);
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

    /// The register that is written, and whether what it held counts too.
    pub(super) fn target(&self) -> Option<(Virt, bool)> {
        match self {
            Inst::Vector(it) => it.dst.map(|dst| (dst, it.updates)),
            Inst::Fma { dst, .. }
            | Inst::Zero { dst }
            | Inst::Splat { dst, .. }
            | Inst::MaskBits { dst, .. }
            | Inst::LoadEntry { dst, .. }
            | Inst::SplatEntry { dst, .. }
            | Inst::LoadArgument { dst, .. }
            | Inst::Copy { dst, .. }
            | Inst::Quotient { dst, .. } => Some((*dst, false)),
            Inst::Add { dst, .. } | Inst::Sub { dst, .. } | Inst::MulAdd { dst, .. } => {
                Some((*dst, true))
            }
            Inst::LoopEnd { counter } => Some((*counter, true)),
            Inst::LaneCopy(_)
            | Inst::Prefetch { .. }
            | Inst::LoopBegin { .. }
            | Inst::IfBegin { .. }
            | Inst::Else
            | Inst::IfEnd => None,
        }
    }
}
