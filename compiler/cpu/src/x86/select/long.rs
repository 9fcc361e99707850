//! Selection of operations on lanes of 64 bits that AVX2 has no instruction for, and of roundings to `f32`.

use super::super::encode::Width;
use super::super::inst::{Inst, Operand, VectorInst, VirtReg};
use super::super::opcode;
use super::Selector;
use crate::vector::VectorBinary;
use tvmtune_ir::target::Isa;
use tvmtune_math::lane::Width as LaneWidth;

impl Selector<'_> {
    /// Returns whether integers of 64 bits lack instructions for products, minima and signed shifts.
    pub(super) fn lacks_long_integers(&self) -> bool {
        self.simd.width == LaneWidth::Bits64 && self.simd.isa == Isa::Avx2
    }

    /// Selects `dst = op(a, b)` where there is no instruction for it; returns whether that is so.
    pub(super) fn combine_long(
        &mut self,
        op: VectorBinary,
        dst: VirtReg,
        a: VirtReg,
        b: Operand,
    ) -> bool {
        let is_lacking = matches!(
            op,
            VectorBinary::MulI
                | VectorBinary::MinI
                | VectorBinary::MaxI
                | VectorBinary::ShiftRightSignedBy
        );
        if !is_lacking {
            return false;
        }
        let b = match b {
            Operand::Reg(b) => b,
            b => {
                let loaded = self.new_vector();
                self.unary(opcode::MOVUPS, loaded, b);
                loaded
            }
        };
        match op {
            VectorBinary::MulI => self.multiply_long(a, b, dst),
            VectorBinary::MinI => self.choose_greater(a, [a, b], dst),
            VectorBinary::MaxI => self.choose_greater(a, [b, a], dst),
            _ => {
                let sign = self.sign(a);
                let positive = self.new_vector();
                self.binary(opcode::PXORQ, positive, a, Operand::Reg(sign));
                let shifted = self.new_vector();
                self.binary(opcode::PSRLVQ, shifted, positive, Operand::Reg(b));
                self.binary(opcode::PXORQ, dst, shifted, Operand::Reg(sign));
            }
        }
        true
    }

    /// Selects an arithmetic shift: of a negative number, its complement is shifted.
    pub(super) fn shift_right_long(&mut self, x: VirtReg, by: u8, dst: VirtReg) {
        let sign = self.sign(x);
        let positive = self.new_vector();
        self.binary(opcode::PXORQ, positive, x, Operand::Reg(sign));
        let shifted = self.new_vector();
        self.immediate(opcode::PSRLQ, shifted, Operand::Reg(positive), by);
        self.binary(opcode::PXORQ, dst, shifted, Operand::Reg(sign));
    }

    /// Returns all bits of each lane that is negative.
    fn sign(&mut self, x: VirtReg) -> VirtReg {
        let (zero, sign) = (self.new_vector(), self.new_vector());
        self.push(Inst::Zero { dst: zero });
        self.binary(opcode::PCMPGTQ, sign, zero, Operand::Reg(x));
        sign
    }

    /// `dst = if a > b { greater } else { other }`, for `b` the one of both that is not `a`.
    fn choose_greater(&mut self, a: VirtReg, [other, greater]: [VirtReg; 2], dst: VirtReg) {
        let b = if other == a { greater } else { other };
        let is_greater = self.new_vector();
        self.binary(opcode::PCMPGTQ, is_greater, a, Operand::Reg(b));
        let inst = self.inst(opcode::BLENDVPD, dst, Operand::Reg(greater));
        self.push(Inst::Vector(VectorInst { a: Some(other), c: Some(is_greater), ..inst }));
    }

    /// Selects a product modulo 2^64: that of the low words, and 2^32 times both products of a low word and
    /// a high one.
    fn multiply_long(&mut self, a: VirtReg, b: VirtReg, dst: VirtReg) {
        let [swapped, mixed, upper, sum, high, low] = std::array::from_fn(|_| self.new_vector());
        self.immediate(opcode::PSHUFD, swapped, Operand::Reg(b), 0xb1);
        self.binary(opcode::PMULLD, mixed, a, Operand::Reg(swapped));
        self.immediate(opcode::PSRLQ, upper, Operand::Reg(mixed), 32);
        self.binary(opcode::PADDD, sum, mixed, Operand::Reg(upper));
        self.immediate(opcode::PSLLQ, high, Operand::Reg(sum), 32);
        self.binary(opcode::PMULUDQ, low, a, Operand::Reg(b));
        self.binary(opcode::PADDQ, dst, low, Operand::Reg(high));
    }

    /// Selects the rounding of doubles to `f32`, and back.
    pub(super) fn single(&mut self, x: VirtReg, dst: VirtReg) {
        let singles = self.new_vector();
        self.unary(opcode::CVTPD2PS, singles, Operand::Reg(x));
        self.unary(opcode::CVTPS2PD, dst, Operand::Reg(singles));
    }

    /// Returns the width of as many elements of `bytes` bytes as there are lanes, 128 bits at least.
    pub(super) fn packed_width(&self, bytes: i64) -> Width {
        match self.simd.lanes() * bytes {
            ..=16 => Width::W128,
            17..=32 => Width::W256,
            _ => Width::W512,
        }
    }
}
