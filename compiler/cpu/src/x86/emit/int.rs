//! Emission of integer arithmetic and compare-and-branch.

use super::super::encode::{Alu, Condition, Gpr, Label, Mem, RAX, RDX, Rm};
use super::super::inst::{IntOperand, VirtReg};
use super::super::regalloc::Location;
use super::super::registers::ALLOCATABLE_GPRS;
use super::Emitter;

/// Converts a location to an operand.
fn rm(location: Location) -> Rm {
    match location {
        Location::Register(at) => Rm::Reg(ALLOCATABLE_GPRS[at as usize].0),
        Location::Frame(at) => Rm::Mem(Emitter::spilled(at)),
    }
}

impl Emitter<'_> {
    pub(super) fn int_rm(&self, virt: VirtReg) -> Rm {
        rm(self.source(virt))
    }

    /// Returns a source in a register; a spilled one is reloaded into `spare`.
    pub(super) fn int_in(&mut self, virt: VirtReg, spare: Gpr) -> Gpr {
        match self.int_rm(virt) {
            Rm::Reg(reg) => Gpr(reg),
            rm => {
                self.move_to(spare, rm);
                spare
            }
        }
    }

    fn move_to(&mut self, dst: Gpr, from: Rm) {
        match from {
            Rm::Reg(reg) if reg == dst.0 => {}
            Rm::Reg(reg) => self.asm.copy(dst, Gpr(reg)),
            Rm::Mem(mem) | Rm::Broadcast(mem) => self.asm.load(dst, mem),
        }
    }

    /// Writes a target. May use `rdx`.
    pub(super) fn set_int(&mut self, dst: VirtReg, from: Rm) {
        match (rm(self.target(dst)), from) {
            (Rm::Reg(dst), from) => self.move_to(Gpr(dst), from),
            (Rm::Mem(to), Rm::Reg(reg)) => self.asm.store(to, Gpr(reg)),
            (Rm::Mem(to) | Rm::Broadcast(to), from) => {
                self.move_to(RDX, from);
                self.asm.store(to, RDX);
            }
        }
    }

    pub(super) fn load_entry(&mut self, dst: VirtReg, entry: u32) {
        self.load_table();
        self.set_int(dst, Rm::Mem(Mem::at(RAX, 8 * entry as i32)));
    }

    pub(super) fn load_table(&mut self) {
        self.asm.load(RAX, Mem::at(super::RSP, super::TABLE_AT));
    }

    pub(super) fn copy_int(&mut self, dst: VirtReg, src: IntOperand) {
        let value = match src {
            IntOperand::Reg(src) => {
                let src = self.int_rm(src);
                return self.set_int(dst, src);
            }
            IntOperand::Const(value) => value,
        };
        match rm(self.target(dst)) {
            Rm::Reg(reg) => self.asm.constant(Gpr(reg), value),
            Rm::Mem(to) | Rm::Broadcast(to) => match i32::try_from(value) {
                Ok(value) => self.asm.store_constant(to, value),
                Err(_) => {
                    self.asm.constant(RAX, value);
                    self.asm.store(to, RAX);
                }
            },
        }
    }

    /// `dst = dst op src`, where `op` is addition or subtraction.
    pub(super) fn add(&mut self, op: Alu, dst: VirtReg, src: IntOperand) {
        let dst = self.int_rm(dst);
        match src {
            IntOperand::Const(0) => {}
            IntOperand::Const(value) => match i32::try_from(value) {
                Ok(value) => self.asm.alu_constant(op, dst, value),
                Err(_) => {
                    self.asm.constant(RAX, value);
                    self.combine(op, dst, Rm::Reg(RAX.0));
                }
            },
            IntOperand::Reg(src) => {
                let src = self.int_rm(src);
                self.combine(op, dst, src);
            }
        }
    }

    /// `dst = dst op src`; compares for [`Alu::Cmp`]. Uses `rax` if both are in memory.
    fn combine(&mut self, op: Alu, dst: Rm, src: Rm) {
        match (dst, src) {
            (Rm::Reg(dst), src) => self.asm.alu(op, Gpr(dst), src),
            (Rm::Mem(dst) | Rm::Broadcast(dst), Rm::Reg(src)) => {
                self.asm.alu_to_memory(op, dst, Gpr(src));
            }
            (Rm::Mem(dst) | Rm::Broadcast(dst), src) => {
                self.move_to(RAX, src);
                self.asm.alu_to_memory(op, dst, RAX);
            }
        }
    }

    pub(super) fn multiply_add(&mut self, dst: VirtReg, src: VirtReg, by: IntOperand) {
        let source = self.int_rm(src);
        match by {
            IntOperand::Const(0) => return,
            IntOperand::Const(1) => return self.add(Alu::Add, dst, IntOperand::Reg(src)),
            IntOperand::Const(by) if by.count_ones() == 1 && by > 0 => {
                self.move_to(RAX, source);
                self.asm.shift_left(RAX, by.trailing_zeros() as u8);
            }
            IntOperand::Const(by) => match i32::try_from(by) {
                Ok(by) => self.asm.multiply_constant(RAX, source, by),
                Err(_) => {
                    self.asm.constant(RAX, by);
                    self.asm.multiply(RAX, source);
                }
            },
            IntOperand::Reg(by) => {
                self.move_to(RAX, source);
                let by = self.int_rm(by);
                self.asm.multiply(RAX, by);
            }
        }
        let dst = self.int_rm(dst);
        self.combine(Alu::Add, dst, Rm::Reg(RAX.0));
    }

    pub(super) fn divide(&mut self, dst: VirtReg, value: VirtReg, by: IntOperand, remainder: bool) {
        let value = self.int_rm(value);
        let result = match by {
            IntOperand::Const(by) => self.divide_by_constant(value, by.unsigned_abs(), remainder),
            IntOperand::Reg(by) => {
                self.move_to(RAX, value);
                self.asm.constant(RDX, 0);
                let by = self.int_rm(by);
                self.asm.divide(by);
                if remainder { RDX } else { RAX }
            }
        };
        self.set_int(dst, Rm::Reg(result.0));
    }

    /// Divides by a constant: shifts, or multiplies by a reciprocal that is exact for nonnegative
    /// 63-bit integers (Granlund and Montgomery, 1994).
    fn divide_by_constant(&mut self, value: Rm, by: u64, remainder: bool) -> Gpr {
        self.move_to(RAX, value);
        if by.is_power_of_two() {
            if !remainder {
                self.asm.shift_right(RAX, by.trailing_zeros() as u8);
            } else if let Ok(mask) = i32::try_from(by - 1) {
                self.asm.alu_constant(Alu::And, Rm::Reg(RAX.0), mask);
            } else {
                self.asm.constant(RDX, (by - 1).cast_signed());
                self.asm.alu(Alu::And, RAX, Rm::Reg(RDX.0));
            }
            return RAX;
        }
        // 2^(bits - 1) < by < 2^bits, so the reciprocal fits 64 bits.
        let bits = 64 - by.leading_zeros();
        let reciprocal = (1_u128 << (63 + bits)) / u128::from(by) + 1;
        self.asm.constant(RDX, (reciprocal as u64).cast_signed());
        self.asm.multiply_wide(RDX);
        self.asm.shift_right(RDX, bits as u8 - 1);
        if !remainder {
            return RDX;
        }
        match i32::try_from(by) {
            Ok(by) => self.asm.multiply_constant(RAX, Rm::Reg(RDX.0), by),
            Err(_) => {
                self.asm.constant(RAX, by.cast_signed());
                self.asm.multiply(RAX, Rm::Reg(RDX.0));
            }
        }
        self.move_to(RDX, value);
        self.asm.alu(Alu::Sub, RDX, Rm::Reg(RAX.0));
        RDX
    }

    /// Jumps unless `value + plus < bound`.
    pub(super) fn branch_unless_less(
        &mut self,
        value: IntOperand,
        plus: i64,
        bound: IntOperand,
        to: Label,
    ) {
        match (value, bound) {
            (IntOperand::Const(value), IntOperand::Const(bound)) => {
                if value + plus >= bound {
                    self.asm.jump(to);
                }
                return;
            }
            (IntOperand::Reg(value), IntOperand::Const(bound)) => {
                let value = self.int_rm(value);
                match i32::try_from(bound - plus) {
                    Ok(bound) => self.asm.alu_constant(Alu::Cmp, value, bound),
                    Err(_) => {
                        self.asm.constant(RAX, bound - plus);
                        self.combine(Alu::Cmp, value, Rm::Reg(RAX.0));
                    }
                }
            }
            (IntOperand::Const(value), IntOperand::Reg(bound)) => {
                self.asm.constant(RAX, value + plus);
                let bound = self.int_rm(bound);
                self.asm.alu(Alu::Cmp, RAX, bound);
            }
            (IntOperand::Reg(value), IntOperand::Reg(bound)) => {
                self.asm.constant(RAX, plus);
                let (value, bound) = (self.int_rm(value), self.int_rm(bound));
                self.asm.alu(Alu::Add, RAX, value);
                self.asm.alu(Alu::Cmp, RAX, bound);
            }
        }
        self.asm.jump_if(Condition::GreaterOrEqual, to);
    }
}
