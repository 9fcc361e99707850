//! Instructions with places to bytes.
//!
//! In: [`Code`] and an [`Assignment`]. Out: bytes in an [`Assembler`].
//!
//! The frame, from `rsp` up, which is a multiple of 64: what the caller passed, what `rsp` was,
//! spilled integers and masks, then the parts that [`Code::frame`] lists.
//!
//! `rax`, `rdx`, `k6` and `k7` are never allocated: they hold spilled values for one instruction.

mod int;
mod lanes;
mod vector;

use super::encode::{
    Alu, Anchor, Assembler, Condition, Gpr, Label, Mem, RAX, RCX, RDI, RDX, RSI, RSP, Rm,
};
use super::inst::{Argument, Class, Code, FrameSlot, Inst, Origin, Place, Virt};
use super::regalloc::{Assignment, Location};
use super::registers::{INTS, N_CALLER_SAVED};
use tvmtune_ir::target::Isa;

const TABLE_AT: i32 = 0;
const SCRATCH_AT: i32 = 8;
const FIRST_AT: i32 = 16;
const END_AT: i32 = 24;
const OLD_RSP_AT: i32 = 32;
const SPILLS_AT: u32 = 40;

/// Loops without loops inside start at a multiple of this, so that their first instructions are
/// fetched together.
const LOOP_ALIGNMENT: usize = 32;

/// A page: what the stack may grow by at once.
const PAGE: u32 = 4096;

/// The labels of an open loop or branch.
struct Open {
    /// The top of a loop, or the second side of a branch.
    label: Label,
    end: Label,
}

/// See the [module documentation](self).
struct Emit<'a> {
    asm: &'a mut Assembler,
    code: &'a Code,
    assignment: &'a Assignment,
    isa: Isa,
    /// Where each part of the frame is.
    slots: Vec<i32>,
    /// Where each virtual register is now.
    now: Vec<Option<Location>>,
    /// How many of the assignment's places are in effect.
    placed: usize,
    /// When the present instruction writes its target.
    writes_at: u32,
    open: Vec<Open>,
}

/// Appends the code of a phase, from its entry to its return.
pub(super) fn emit(asm: &mut Assembler, code: &Code, assignment: &Assignment, isa: Isa) {
    let mut size = SPILLS_AT + assignment.frame_bytes;
    let mut slots = Vec::with_capacity(code.frame.len());
    for bytes in &code.frame {
        size = size.next_multiple_of(*bytes);
        slots.push(size as i32);
        size += bytes;
    }
    let mut emit = Emit {
        asm,
        code,
        assignment,
        isa,
        slots,
        now: vec![None; code.classes.len()],
        placed: 0,
        writes_at: 0,
        open: Vec::new(),
    };
    let saved = emit.saved();
    emit.enter(&saved, size.next_multiple_of(64));
    emit.body();
    emit.leave(&saved);
}

impl Emit<'_> {
    /// The registers of the caller that this code changes.
    fn saved(&self) -> Vec<Gpr> {
        let is_used = |at: usize| {
            self.assignment.placed.iter().any(|it| {
                it.location == Location::Register(at as u8)
                    && self.code.classes[it.virt.0 as usize] == Class::Int
            })
        };
        (N_CALLER_SAVED..INTS.len()).filter(|it| is_used(*it)).map(|it| INTS[it]).collect()
    }

    fn enter(&mut self, saved: &[Gpr], mut size: u32) {
        for reg in saved {
            self.asm.push(*reg);
        }
        self.asm.copy(RAX, RSP);
        // The stack grows page by page: none may be skipped.
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
            let now = 2 * at as u32;
            self.take_effect(now);
            self.writes_at = now + 1;
            self.inst(at, inst);
            self.take_effect(now + 1);
        }
    }

    /// Has the places that start until then in effect.
    fn take_effect(&mut self, until: u32) {
        while let Some(it) = self.assignment.placed.get(self.placed).filter(|it| it.start <= until)
        {
            self.now[it.virt.0 as usize] = Some(it.location);
            self.placed += 1;
        }
    }

    /// Where a source is.
    fn source(&self, virt: Virt) -> Location {
        self.now[virt.0 as usize].expect("registers are written before they are read")
    }

    /// Where a target goes: its new place if it gets one.
    fn target(&self, virt: Virt) -> Location {
        match self.assignment.placed.get(self.placed) {
            Some(it) if it.virt == virt && it.start == self.writes_at => it.location,
            _ => self.source(virt),
        }
    }

    fn inst(&mut self, at: usize, inst: &Inst) {
        match inst {
            Inst::Vector(it) => self.vector(it),
            Inst::Fma { dst, a, b, c } => self.fma(*dst, [*a, *b, *c]),
            Inst::Zero { dst } => self.zero(*dst),
            Inst::Splat { dst, src } => self.splat(*dst, *src),
            Inst::MaskBits { dst, bits } => self.mask_bits(*dst, *bits),
            Inst::LaneCopy(it) => self.lane_copy(it),
            Inst::Prefetch { place } => {
                let mem = self.mem(place);
                self.asm.prefetch(mem);
            }
            Inst::LoadEntry { dst, entry } => self.load_entry(*dst, *entry),
            Inst::SplatEntry { dst, entry } => self.splat_entry(*dst, *entry),
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
            Inst::Quotient { dst, value, by, remainder } => {
                self.quotient(*dst, *value, *by, *remainder);
            }
            Inst::LoopBegin { counter, runs } => self.begin_loop(at, *counter, *runs),
            Inst::LoopEnd { counter } => self.end_loop(*counter),
            Inst::IfBegin { value, plus, bound } => {
                let open = Open { label: self.asm.label(), end: self.asm.label() };
                self.branch_unless_less(*value, *plus, *bound, open.label);
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

    fn begin_loop(&mut self, at: usize, counter: Virt, runs: bool) {
        let open = Open { label: self.asm.label(), end: self.asm.label() };
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

    fn end_loop(&mut self, counter: Virt) {
        let open = self.open.pop().expect("loops nest");
        let counter = self.int_rm(counter);
        self.asm.alu_constant(Alu::Sub, counter, 1);
        self.asm.jump_if(Condition::NotEqual, open.label);
        self.asm.bind(open.end);
    }

    /// A memory operand. Uses `rax` for an origin and `rdx` for an index that are in the frame.
    fn mem(&mut self, place: &Place) -> Mem {
        let (anchor, extra) = match place.origin {
            Origin::Int(virt) => (Anchor::Gpr(self.int_in(virt, RAX)), 0),
            Origin::Frame(slot) => (Anchor::Gpr(RSP), self.slot(slot)),
            Origin::Pool(offset) => (Anchor::Pool(offset), 0),
        };
        let index = place.index.map(|(virt, scale)| match self.code.classes[virt.0 as usize] {
            Class::Int => (self.int_in(virt, RDX).0, scale),
            _ => (self.register(virt), scale),
        });
        Mem { anchor, index, disp: place.disp + extra }
    }

    fn slot(&self, slot: FrameSlot) -> i32 {
        self.slots[slot.0 as usize]
    }

    /// The number of a vector register.
    fn register(&self, virt: Virt) -> u8 {
        match self.source(virt) {
            Location::Register(register) => register,
            Location::Frame(_) => unreachable!("vectors in the frame were rewritten"),
        }
    }

    fn target_register(&self, virt: Virt) -> u8 {
        match self.target(virt) {
            Location::Register(register) => register,
            Location::Frame(_) => unreachable!("vectors in the frame were rewritten"),
        }
    }

    /// A spilled integer or mask.
    fn spilled(at: u32) -> Mem {
        Mem::at(RSP, (SPILLS_AT + at) as i32)
    }
}
