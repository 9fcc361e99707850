//! Emission of scalarized gathers and scatters, and of branches on lanes.

use super::super::encode::{Alu, Condition, Label, Mem, RAX, RDX, RSP, Rm, Width};
use super::super::inst::{IntOperand, LaneCopy, LaneMask, RegClass, VirtReg};
use super::super::opcode;
use super::Emitter;
use crate::vector::Storage;

impl Emitter<'_> {
    /// Jumps if a truth value holds in no lane.
    pub(super) fn branch_unless_any(&mut self, mask: VirtReg, to: Label) {
        let reg = self.any_register(mask, 7);
        if self.code.classes[mask.0 as usize] == RegClass::Mask {
            self.plain(opcode::KORTESTW, Width::W128, reg, 0, Rm::Reg(reg));
        } else {
            self.plain(self.ops.signs, Width::W256, RAX.0, 0, Rm::Reg(reg));
            self.asm.test(RAX);
        }
        self.asm.jump_if(Condition::Equal, to);
    }

    pub(super) fn first_lane(&mut self, dst: VirtReg, src: VirtReg) {
        let src = self.register(src);
        if self.ops.storage == Storage::Long {
            self.plain(opcode::MOVQ_TO_GPR, Width::W128, src, 0, Rm::Reg(RAX.0));
        } else {
            self.plain(opcode::MOVD_STORE, Width::W128, src, 0, Rm::Reg(RAX.0));
            self.asm.sign_extend(RAX, RAX);
        }
        self.set_int(dst, Rm::Reg(RAX.0));
    }

    pub(super) fn lane_copy(&mut self, it: &LaneCopy) {
        let packed = self.slot(it.packed);
        let bits = self.slot(it.bits);
        if let LaneMask::Where(mask) = it.mask {
            let reg = self.any_register(mask, 7);
            let to = Mem::at(RSP, bits);
            if self.code.classes[mask.0 as usize] == RegClass::Mask {
                self.plain(opcode::KMOVW_STORE, Width::W128, reg, 0, Rm::Mem(to));
            } else {
                self.plain(self.ops.signs, Width::W256, RAX.0, 0, Rm::Reg(reg));
                self.asm.store(to, RAX);
            }
            if !it.stores {
                for at in 0..(it.lanes * u32::from(it.size)).div_ceil(8) {
                    self.asm.store_constant(Mem::at(RSP, packed + 8 * at as i32), 0);
                }
            }
        }
        let start = self.mem(&it.strided);
        self.asm.lea(RAX, start);
        let size = i32::from(it.size);
        for lane in 0..it.lanes as i32 {
            let skip = self.asm.label();
            if it.mask != LaneMask::All {
                self.asm.test_byte(Mem::at(RSP, bits + lane / 8), 1 << (lane % 8));
                self.asm.jump_if(Condition::Equal, skip);
            }
            let packed = Mem::at(RSP, packed + lane * size);
            let strided = match it.step {
                IntOperand::Const(step) => Mem::at(RAX, lane * step as i32),
                IntOperand::Reg(_) => Mem::at(RAX, 0),
            };
            let (from, to) = if it.stores { (packed, strided) } else { (strided, packed) };
            self.asm.load_small(it.size, RDX, from);
            self.asm.store_small(it.size, to, RDX);
            self.asm.bind(skip);
            if let IntOperand::Reg(step) = it.step {
                let step = self.int_rm(step);
                self.asm.alu(Alu::Add, RAX, step);
            }
        }
    }
}
