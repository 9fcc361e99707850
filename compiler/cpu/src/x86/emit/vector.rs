//! Emission of vector and mask instructions.

use super::super::encode::{Fields, Mem, RAX, Rm, Width};
use super::super::inst::{Operand, RegClass, VectorInst, VirtReg};
use super::super::opcode::{self, Form, Opcode};
use super::super::regalloc::Location;
use super::super::registers::{ALLOCATABLE_GPRS, ALLOCATABLE_MASKS};
use super::Emitter;
use crate::vector::ScalarBits;
use tvmtune_ir::target::Isa;

/// Reserved mask registers, for spilled masks.
const SPARE: u8 = 7;
const OTHER_SPARE: u8 = 6;

impl Emitter<'_> {
    fn width(&self) -> Width {
        if self.isa == Isa::Avx512 { Width::W512 } else { Width::W256 }
    }

    /// Emits an unmasked instruction.
    pub(super) fn plain(&mut self, op: Opcode, width: Width, reg: u8, vvvv: u8, rm: Rm) {
        self.encode(op, width, Fields { reg, vvvv, rm, mask: 0, zeroing: false, imm: None });
    }

    fn encode(&mut self, op: Opcode, width: Width, fields: Fields) {
        if op.vex_only {
            // Moves, tests and negations of masks take the length 0, logic of two masks the length 1.
            let is_short = (0x90..0x99).contains(&op.byte) || op.byte == opcode::KNOTW.byte;
            self.asm.vex(op, if is_short { Width::W128 } else { Width::W256 }, fields);
        } else if self.isa == Isa::Avx512 {
            self.asm.evex(op, width, fields);
        } else {
            self.asm.vex(op, width, fields);
        }
    }

    /// Returns the number of a vector or mask register; a spilled mask is reloaded into `spare`.
    pub(super) fn any_register(&mut self, virt: VirtReg, spare: u8) -> u8 {
        match (self.code.classes[virt.0 as usize], self.source(virt)) {
            (RegClass::Mask, Location::Register(at)) => ALLOCATABLE_MASKS[at as usize],
            (RegClass::Mask, Location::Frame(at)) => {
                self.plain(opcode::KMOVW, Width::W128, spare, 0, Rm::Mem(Self::spilled(at)));
                spare
            }
            _ => self.register(virt),
        }
    }

    fn operand(&mut self, operand: &Operand) -> Rm {
        match operand {
            Operand::Reg(virt) => Rm::Reg(self.any_register(*virt, OTHER_SPARE)),
            Operand::Mem(place) => Rm::Mem(self.mem(place)),
            Operand::Broadcast(place) => Rm::Broadcast(self.mem(place)),
        }
    }

    pub(super) fn vector(&mut self, it: &VectorInst) {
        let a = it.a.map(|virt| self.any_register(virt, SPARE));
        let c = it.c.map(|virt| self.register(virt));
        let mask = it.mask.map_or(0, |virt| self.any_register(virt, SPARE));
        let b = it.b.as_ref().map(|b| self.operand(b));
        let (dst, to_frame) = match it.dst {
            Some(virt) => self.any_target(virt),
            None => (0, None),
        };
        let is_move = it.op == opcode::MOVAPS || it.op == opcode::KMOVW;
        if is_move && mask == 0 && to_frame.is_none() && b == Some(Rm::Reg(dst)) {
            return;
        }
        let (reg, vvvv, rm) = match it.op.form {
            Form::Rvm => (dst, a.unwrap_or(0), b.unwrap_or(Rm::Reg(0))),
            Form::Mr => (a.unwrap_or(0), c.unwrap_or(0), b.unwrap_or(Rm::Reg(dst))),
            Form::Vm(digit) => (digit, dst, b.unwrap_or(Rm::Reg(0))),
        };
        // The third source of a blend is encoded as an immediate.
        let choice = c.filter(|_| it.op.form == Form::Rvm).map(|c| c << 4);
        let imm = it.imm.or(choice);
        self.encode(it.op, it.width, Fields { reg, vvvv, rm, mask, zeroing: it.zeroing, imm });
        if let Some(at) = to_frame {
            self.plain(opcode::KMOVW_STORE, Width::W128, dst, 0, Rm::Mem(Self::spilled(at)));
        }
    }

    /// Returns the number of a target, and the spill offset of a spilled mask.
    fn any_target(&mut self, virt: VirtReg) -> (u8, Option<u32>) {
        match (self.code.classes[virt.0 as usize], self.target(virt)) {
            (RegClass::Mask, Location::Register(at)) => (ALLOCATABLE_MASKS[at as usize], None),
            (RegClass::Mask, Location::Frame(at)) => (SPARE, Some(at)),
            _ => (self.target_register(virt), None),
        }
    }

    /// Emits `dst = a * b + c`, or `c - a * b`, in the 132, 213 or 231 form that needs the fewest moves.
    pub(super) fn fma(&mut self, forms: [Opcode; 3], dst: VirtReg, sources: [Operand; 3]) {
        let [a, b, c] = sources.map(|it| self.operand(&it));
        let dst = self.target_register(dst);
        let width = self.width();
        let [by_132, by_213, by_231] = forms;
        let (op, other, rm) = match (a, b, c) {
            (Rm::Reg(a), Rm::Reg(b), Rm::Reg(c)) if dst == a && dst != c => (by_213, b, Rm::Reg(c)),
            (Rm::Reg(a), Rm::Reg(b), Rm::Reg(c)) if dst == b && dst != c => (by_213, a, Rm::Reg(c)),
            (Rm::Reg(a), factor, Rm::Reg(c)) | (factor, Rm::Reg(a), Rm::Reg(c)) => {
                if dst == a && dst != c {
                    (by_132, c, factor)
                } else {
                    self.copy_vector(dst, c);
                    (by_231, a, factor)
                }
            }
            (Rm::Reg(a), Rm::Reg(b), sum) => {
                let (mine, other) = if dst == b { (b, a) } else { (a, b) };
                self.copy_vector(dst, mine);
                (by_213, other, sum)
            }
            _ => unreachable!("at most one source is in memory"),
        };
        self.plain(op, width, dst, other, rm);
    }

    fn copy_vector(&mut self, dst: u8, src: u8) {
        if dst != src {
            self.plain(opcode::MOVAPS, self.width(), dst, 0, Rm::Reg(src));
        }
    }

    pub(super) fn zero(&mut self, dst: VirtReg) {
        let dst = self.target_register(dst);
        let fields =
            Fields { reg: dst, vvvv: dst, rm: Rm::Reg(dst), mask: 0, zeroing: false, imm: None };
        // A 128-bit write zeroes the upper lanes.
        if dst < 16 {
            self.asm.vex(opcode::PXOR, Width::W128, fields);
        } else {
            self.asm.evex(opcode::PXOR, Width::W128, fields);
        }
    }

    pub(super) fn splat(&mut self, dst: VirtReg, src: VirtReg) {
        let (dst, width, ops) = (self.target_register(dst), self.width(), self.ops);
        match self.source(src) {
            Location::Frame(at) => {
                self.plain(ops.splat, width, dst, 0, Rm::Mem(Self::spilled(at)));
            }
            Location::Register(at) => {
                let src = Rm::Reg(ALLOCATABLE_GPRS[at as usize].0);
                if self.isa == Isa::Avx512 {
                    self.plain(ops.splat_int, width, dst, 0, src);
                } else {
                    self.plain(ops.insert_int, Width::W128, dst, 0, src);
                    self.plain(ops.splat, width, dst, 0, Rm::Reg(dst));
                }
            }
        }
    }

    pub(super) fn splat_entry(&mut self, dst: VirtReg, entry: u32, bits: ScalarBits) {
        self.load_table();
        let dst = self.target_register(dst);
        let word = match bits {
            ScalarBits::Low => 0,
            ScalarBits::HighWord => 4,
        };
        let from = Rm::Mem(Mem::at(RAX, 8 * entry as i32 + word));
        self.plain(self.ops.broadcast, self.width(), dst, 0, from);
    }

    pub(super) fn mask_bits(&mut self, dst: VirtReg, bits: u16) {
        let (dst, to_frame) = self.any_target(dst);
        self.asm.constant(RAX, bits.into());
        match to_frame {
            None => self.plain(opcode::KMOVW_FROM_GPR, Width::W128, dst, 0, Rm::Reg(RAX.0)),
            Some(at) => self.asm.store(Self::spilled(at), RAX),
        }
    }
}
