//! Vector instructions for expressions.
//!
//! Of the sources of an instruction one may be in memory: loads, splats and scalars are folded
//! into it where they fit. Where both sources of an instruction need registers, the one that needs
//! more is computed first (Sethi and Ullman, 1970).

use super::super::encode::Width;
use super::super::inst::{Inst, IntOperand, Operand, Place, VectorInst, Virt};
use super::super::opcode::{self, Opcode};
use super::{Hoisted, Select};
use crate::kernel::{Lanes, Linear, Storage, Value, VectorBinary, VectorUnary};
use tvmtune_ir::target::Isa;

/// How deep [`needs`] looks: it only orders evaluation, and must not make selection quadratic.
const DEPTH: u32 = 6;

/// About how many registers a value takes while it is computed.
fn needs(value: &Value, depth: u32) -> u32 {
    let Some(depth) = depth.checked_sub(1) else { return 2 };
    let both = |a: &Value, b: &Value| {
        let (a, b) = (needs(a, depth), needs(b, depth));
        if a == b { a + 1 } else { a.max(b) }
    };
    match value {
        Value::Reg(_) | Value::Splat(_) | Value::Scalar(_) => 0,
        Value::Load { .. } | Value::Index { .. } => 1,
        Value::Gather { index, .. } => needs(index, depth).max(3),
        Value::Unary(_, x) => needs(x, depth).max(1),
        Value::Reduce(_, x) => needs(x, depth).max(2),
        Value::Binary(_, a, b) | Value::Compare(_, a, b) => both(a, b),
        Value::Fma(a, b, c) | Value::Select { condition: a, then: b, otherwise: c } => {
            let ab = both(a, b);
            let c = needs(c, depth);
            if ab == c { ab + 1 } else { ab.max(c) }
        }
    }
}

/// Whether `a` should be computed before `b`.
fn comes_first(a: &Value, b: &Value) -> bool {
    needs(a, DEPTH) >= needs(b, DEPTH)
}

/// The instruction of an operation, which the instruction set must have.
fn opcode_of(isa: Isa, op: VectorBinary) -> Opcode {
    debug_assert!(
        op != VectorBinary::ScaleF || isa.scales(),
        "lowered for another instruction set"
    );
    match op {
        VectorBinary::AddF => opcode::ADDPS,
        VectorBinary::SubF => opcode::SUBPS,
        VectorBinary::MulF => opcode::MULPS,
        VectorBinary::DivF => opcode::DIVPS,
        VectorBinary::ScaleF => opcode::SCALEFPS,
        VectorBinary::MinF => opcode::MINPS,
        VectorBinary::MaxF => opcode::MAXPS,
        VectorBinary::AddI => opcode::PADDD,
        VectorBinary::SubI => opcode::PSUBD,
        VectorBinary::MulI => opcode::PMULLD,
        VectorBinary::MinI => opcode::PMINSD,
        VectorBinary::MaxI => opcode::PMAXSD,
        VectorBinary::And => opcode::PAND,
        VectorBinary::Or => opcode::POR,
        VectorBinary::Xor => opcode::PXOR,
    }
}

/// Whether the operands may change places. Minima and maxima of floats tell them apart.
fn commutes(op: VectorBinary) -> bool {
    !matches!(
        op,
        VectorBinary::SubF
            | VectorBinary::DivF
            | VectorBinary::ScaleF
            | VectorBinary::MinF
            | VectorBinary::MaxF
            | VectorBinary::SubI
    )
}

impl Select<'_> {
    /// Whether a value can be the last source of an instruction without taking a register.
    pub(super) fn folds(&self, value: &Value) -> bool {
        match value {
            Value::Splat(_) => true,
            Value::Load { lanes, storage: Storage::Word, mask: None, .. } => match lanes {
                Lanes::Contiguous => true,
                Lanes::Uniform => self.is_avx512(),
                Lanes::Strided(_) => false,
            },
            _ => false,
        }
    }

    /// A value as the last source of an instruction.
    pub(super) fn operand(&mut self, value: &Value) -> Operand {
        match value {
            Value::Splat(bits) if self.is_avx512() => {
                Operand::Broadcast(Place::pool(self.constants.place(&[*bits])))
            }
            Value::Splat(bits) => Operand::Place(Place::pool(self.constant_lanes(|_| *bits))),
            Value::Load { address, lanes, .. } if self.folds(value) => {
                let place = self.place(address);
                match lanes {
                    Lanes::Uniform => Operand::Broadcast(place),
                    _ => Operand::Place(place),
                }
            }
            _ => Operand::Reg(self.vector(value)),
        }
    }

    /// A value in a register: that of the kernel, or a new one.
    pub(super) fn vector(&mut self, value: &Value) -> Virt {
        match value {
            Value::Reg(reg) => self.regs[reg.0 as usize],
            Value::Scalar(slot) => self.hoist(Hoisted::Scalar(*slot)),
            _ => {
                let dst = self.vector_virt();
                self.into(value, dst);
                dst
            }
        }
    }

    /// The first source in a register, the second wherever it fits.
    pub(super) fn sources(&mut self, a: &Value, b: &Value) -> (Virt, Operand) {
        if self.folds(b) || comes_first(a, b) {
            let a = self.vector(a);
            (a, self.operand(b))
        } else {
            let b = self.operand(b);
            (self.vector(a), b)
        }
    }

    /// Computes a value into a register, which only the last instruction writes.
    pub(super) fn into(&mut self, value: &Value, dst: Virt) {
        if self.is_avx512() && self.is_condition(value) {
            let mask = self.condition(value);
            self.unary(opcode::PMOVM2D, dst, Operand::Reg(mask));
            return;
        }
        match value {
            Value::Splat(0) => self.push(Inst::Zero { dst }),
            Value::Splat(bits) => {
                let place = Place::pool(self.constants.place(&[*bits]));
                self.unary(opcode::BROADCASTSS, dst, Operand::Place(place));
            }
            Value::Reg(_) | Value::Scalar(_) => {
                let b = Operand::Reg(self.vector(value));
                self.unary(opcode::MOVAPS, dst, b);
            }
            Value::Load { address, lanes, storage, mask } => {
                self.load(address, *lanes, *storage, mask.as_ref(), dst);
            }
            Value::Gather { address, index, mask, .. } => {
                let index = self.vector(index);
                let mask = self.lane_mask(mask.as_ref());
                let place = self.indexed_place(address, (index, 4));
                self.gather(place, mask, dst);
            }
            Value::Index { base, step } => self.index(base, *step, dst),
            Value::Unary(op, x) => self.unary_value(*op, x, dst),
            Value::Binary(op, x, y) => self.binary_value(*op, x, y, dst),
            Value::Fma(a, b, c) => self.fma(a, b, c, dst),
            Value::Compare(op, x, y) => self.compare_vectors(*op, x, y, dst),
            Value::Select { condition, then, otherwise } => {
                self.select_value(condition, then, otherwise, dst);
            }
            Value::Reduce(op, x) => self.reduce(*op, x, dst),
        }
    }

    fn unary_value(&mut self, op: VectorUnary, x: &Value, dst: Virt) {
        match op {
            VectorUnary::SqrtF | VectorUnary::IntToFloat | VectorUnary::FloatToInt => {
                let b = self.operand(x);
                let op = match op {
                    VectorUnary::SqrtF => opcode::SQRTPS,
                    VectorUnary::IntToFloat => opcode::CVTDQ2PS,
                    _ => opcode::CVTTPS2DQ,
                };
                self.unary(op, dst, b);
            }
            VectorUnary::RoundF | VectorUnary::FloorF | VectorUnary::CeilF => {
                let b = self.operand(x);
                // Bit 3 keeps the inexact exception quiet.
                let mode = match op {
                    VectorUnary::RoundF => 8,
                    VectorUnary::FloorF => 9,
                    _ => 10,
                };
                self.immediate(opcode::ROUNDPS, dst, b, mode);
            }
            VectorUnary::ShiftLeft(by)
            | VectorUnary::ShiftRight(by)
            | VectorUnary::ShiftRightSigned(by) => {
                let b = Operand::Reg(self.vector(x));
                let op = match op {
                    VectorUnary::ShiftLeft(_) => opcode::PSLLD,
                    VectorUnary::ShiftRight(_) => opcode::PSRLD,
                    _ => opcode::PSRAD,
                };
                self.immediate(op, dst, b, by);
            }
        }
    }

    fn binary_value(&mut self, op: VectorBinary, x: &Value, y: &Value, dst: Virt) {
        let (x, y) = if commutes(op) && self.folds(x) && !self.folds(y) { (y, x) } else { (x, y) };
        if self.is_avx512() && op == VectorBinary::And {
            // A comparison and a vector: the vector, where the comparison holds.
            let (condition, value) = if self.is_condition(y) { (y, x) } else { (x, y) };
            if self.is_condition(condition) {
                let mask = self.condition(condition);
                let b = self.operand(value);
                self.masked_move(dst, b, mask, false);
                return;
            }
        }
        let (a, b) = self.sources(x, y);
        self.binary(opcode_of(self.isa, op), dst, a, b);
    }

    /// `dst = op(b)`, 0 in lanes masked off.
    pub(super) fn masked(&mut self, op: Opcode, dst: Virt, b: Operand, mask: Virt) {
        let inst = VectorInst { mask: Some(mask), zeroing: true, ..self.inst(op, dst, b) };
        self.push(Inst::Vector(inst));
    }

    /// `dst = b` in the lanes of the mask; the others keep what they had, or become 0.
    pub(super) fn masked_move(&mut self, dst: Virt, b: Operand, mask: Virt, merge: bool) {
        // Moves broadcast by another name.
        let (op, b) = match b {
            Operand::Broadcast(place) => (opcode::BROADCASTSS, Operand::Place(place)),
            b => (opcode::MOVUPS, b),
        };
        let inst = self.inst(op, dst, b);
        let inst = VectorInst { mask: Some(mask), updates: merge, zeroing: !merge, ..inst };
        self.push(Inst::Vector(inst));
    }

    fn fma(&mut self, a: &Value, b: &Value, c: &Value, dst: Virt) {
        // At most one source is folded: a factor rather than the sum, which is often a register
        // that is the target too.
        let folded = [b, a, c].into_iter().find(|it| self.folds(it));
        let is_folded = |it: &Value| folded.is_some_and(|folded| std::ptr::eq(folded, it));
        let mut order = [(0, a), (1, b), (2, c)];
        order.sort_by_key(|(_, it)| (is_folded(it), std::cmp::Reverse(needs(it, DEPTH))));
        let mut sources = [Operand::Reg(dst); 3];
        for (at, value) in order {
            sources[at] = if is_folded(value) {
                self.operand(value)
            } else {
                Operand::Reg(self.vector(value))
            };
        }
        let [a, b, c] = sources;
        self.push(Inst::Fma { dst, a, b, c });
    }

    fn select_value(&mut self, condition: &Value, then: &Value, otherwise: &Value, dst: Virt) {
        if !self.is_avx512() {
            let condition = self.vector(condition);
            let (a, b) = self.sources(otherwise, then);
            let inst = self.inst(opcode::BLENDVPS, dst, b);
            self.push(Inst::Vector(VectorInst { a: Some(a), c: Some(condition), ..inst }));
            return;
        }
        let mask = self.condition(condition);
        if *otherwise == Value::Splat(0) {
            let b = self.operand(then);
            self.masked_move(dst, b, mask, false);
            return;
        }
        let (a, b) = self.sources(otherwise, then);
        let inst = self.inst(opcode::BLENDMPS, dst, b);
        self.push(Inst::Vector(VectorInst { a: Some(a), mask: Some(mask), ..inst }));
    }

    /// Combines each lane with that half the width away, then a quarter, and so on.
    fn reduce(&mut self, op: VectorBinary, x: &Value, dst: Virt) {
        let avx512 = [(opcode::SHUFF32X4, 0x4e), (opcode::SHUFF32X4, 0xb1)];
        let avx2 = [(opcode::PERM2F128, 0x01)];
        let within = [(opcode::PERMILPS, 0x4e), (opcode::PERMILPS, 0xb1)];
        let across: &[(Opcode, u8)] = if self.is_avx512() { &avx512 } else { &avx2 };
        let mut value = self.vector(x);
        for (n, (shuffle, imm)) in across.iter().chain(&within).enumerate() {
            let other = self.vector_virt();
            // Shuffles across the whole vector take two sources, here the same one twice.
            let a = (n < across.len()).then_some(value);
            let inst = self.inst(*shuffle, other, Operand::Reg(value));
            self.push(Inst::Vector(VectorInst { a, imm: Some(*imm), ..inst }));
            let last = n + 1 == across.len() + within.len();
            let next = if last { dst } else { self.vector_virt() };
            self.binary(opcode_of(self.isa, op), next, value, Operand::Reg(other));
            value = next;
        }
    }

    fn index(&mut self, base: &Linear, step: i32, dst: Virt) {
        let start = base.constant as u32;
        let lanes = self.constant_lanes(|lane| start.wrapping_add(lane.wrapping_mul(step as u32)));
        let lanes = Operand::Place(Place::pool(lanes));
        match self.linear(base) {
            IntOperand::Const(_) => self.unary(opcode::MOVUPS, dst, lanes),
            IntOperand::Reg(src) => {
                let splat = self.vector_virt();
                self.push(Inst::Splat { dst: splat, src });
                self.binary(opcode::PADDD, dst, splat, lanes);
            }
        }
    }

    /// The width whose vectors hold as many halves, or quarters, as there are lanes.
    pub(super) fn narrower(&self, quarter: bool) -> Width {
        match (self.is_avx512(), quarter) {
            (true, false) => Width::W256,
            (true, true) | (false, _) => Width::W128,
        }
    }
}
