//! Selection of vector instructions for expressions.
//!
//! Loads and splats are folded into memory operands. Of two sources, the one with the greater
//! Sethi-Ullman number is evaluated first (Sethi and Ullman, 1970).

use super::super::inst::{Inst, IntOperand, MemOperand, Operand, VectorInst, VirtReg};
use super::super::lane_ops::LaneOps;
use super::super::opcode::{self, Form, Opcode};
use super::memory::Element;
use super::{PhaseConstant, Selector};
use crate::vector::{LaneStride, Linear, Reg, Value, VectorBinary, VectorUnary};
use tvmtune_math::lane::Width as LaneWidth;

/// Recursion limit of [`register_need`], which would else make selection quadratic.
const DEPTH: u32 = 6;

/// Estimates the Sethi-Ullman number of a value.
fn register_need(value: &Value, depth: u32) -> u32 {
    let Some(depth) = depth.checked_sub(1) else { return 2 };
    let both = |a: &Value, b: &Value| {
        let (a, b) = (register_need(a, depth), register_need(b, depth));
        if a == b { a + 1 } else { a.max(b) }
    };
    match value {
        Value::Reg(_) | Value::Splat(_) | Value::Scalar(..) | Value::Lanes(_) => 0,
        Value::Load { .. } | Value::Index { .. } => 1,
        Value::Gather { index, .. } => register_need(index, depth).max(3),
        Value::LoadAt { index, .. } => register_need(index, depth).max(1),
        Value::Unary(_, x) => register_need(x, depth).max(1),
        Value::Reduce(_, x) => register_need(x, depth).max(2),
        Value::Binary(_, a, b) | Value::Compare(_, a, b) => both(a, b),
        Value::Fma(a, b, c) | Value::Select { condition: a, then: b, otherwise: c } => {
            let ab = both(a, b);
            let c = register_need(c, depth);
            if ab == c { ab + 1 } else { ab.max(c) }
        }
    }
}

fn evaluates_first(a: &Value, b: &Value) -> bool {
    register_need(a, DEPTH) >= register_need(b, DEPTH)
}

/// Returns the instruction of an operation, which the instruction set must have.
fn opcode_of(ops: &LaneOps, op: VectorBinary) -> Opcode {
    match op {
        VectorBinary::AddF => ops.add_f,
        VectorBinary::SubF => ops.sub_f,
        VectorBinary::MulF => ops.mul_f,
        VectorBinary::DivF => ops.div_f,
        VectorBinary::ScaleF => opcode::SCALEFPS,
        VectorBinary::MinF => ops.min_f,
        VectorBinary::MaxF => ops.max_f,
        VectorBinary::AddI => ops.add,
        VectorBinary::SubI => ops.sub,
        VectorBinary::MulI => ops.mul,
        VectorBinary::DotHalves => opcode::PMADDWD,
        VectorBinary::MinI => ops.min,
        VectorBinary::MaxI => ops.max,
        VectorBinary::And => ops.and,
        VectorBinary::Or => ops.or,
        VectorBinary::Xor => ops.xor,
        VectorBinary::ShiftLeftBy => ops.shift_left_by,
        VectorBinary::ShiftRightBy => ops.shift_right_by,
        VectorBinary::ShiftRightSignedBy => ops.shift_right_signed_by,
    }
}

/// Returns whether an operation commutes. Float minima and maxima do not: of NaNs and zeros.
fn commutes(op: VectorBinary) -> bool {
    !matches!(
        op,
        VectorBinary::SubF
            | VectorBinary::DivF
            | VectorBinary::ScaleF
            | VectorBinary::MinF
            | VectorBinary::MaxF
            | VectorBinary::SubI
            | VectorBinary::ShiftLeftBy
            | VectorBinary::ShiftRightBy
            | VectorBinary::ShiftRightSignedBy
    )
}

/// Returns the bits that an operation with any value leaves as it is; `None` where that depends on the value,
/// as a sum with a zero depends on its sign.
fn identity(op: VectorBinary, width: LaneWidth) -> Option<u64> {
    match (op, width) {
        (VectorBinary::MulF, LaneWidth::Bits32) => Some(1.0_f32.to_bits().into()),
        (VectorBinary::MulF, LaneWidth::Bits64) => Some(1.0_f64.to_bits()),
        (VectorBinary::MulI, _) => Some(1),
        (VectorBinary::AddI | VectorBinary::Or | VectorBinary::Xor, _) => Some(0),
        _ => None,
    }
}

impl Selector<'_> {
    /// Returns whether a value folds into a memory operand.
    pub(super) fn folds(&self, value: &Value) -> bool {
        match value {
            Value::Splat(_) => true,
            Value::Load { lanes, storage, mask: None, .. } if *storage == self.ops.storage => {
                match lanes {
                    LaneStride::Contiguous => true,
                    LaneStride::Uniform => self.is_avx512(),
                    LaneStride::Strided(_) => false,
                }
            }
            _ => false,
        }
    }

    /// Selects a value as the last source of an instruction.
    pub(super) fn operand(&mut self, value: &Value) -> Operand {
        match value {
            Value::Splat(bits) if self.is_avx512() => {
                Operand::Broadcast(MemOperand::pool(self.constant_lane(*bits)))
            }
            Value::Splat(bits) => {
                Operand::Mem(MemOperand::pool(self.constant_lanes(|_| bits.cast_signed())))
            }
            Value::Load { address, lanes, .. } if self.folds(value) => {
                let place = self.mem_operand(address);
                match lanes {
                    LaneStride::Uniform => Operand::Broadcast(place),
                    _ => Operand::Mem(place),
                }
            }
            _ => Operand::Reg(self.vector(value)),
        }
    }

    /// Selects a value into a register.
    pub(super) fn vector(&mut self, value: &Value) -> VirtReg {
        match value {
            Value::Reg(reg) if !self.is_condition(value) => self.regs[reg.0 as usize],
            Value::Lanes(bits) if !self.is_avx512() => {
                self.phase_constant(PhaseConstant::Lanes(*bits))
            }
            Value::Scalar(entry, bits) => self.phase_constant(PhaseConstant::Scalar(*entry, *bits)),
            _ => {
                let dst = self.new_vector();
                self.into(value, dst);
                dst
            }
        }
    }

    /// Selects two sources: the first into a register, the second folded if possible.
    pub(super) fn sources(&mut self, a: &Value, b: &Value) -> (VirtReg, Operand) {
        if self.folds(b) || evaluates_first(a, b) {
            let a = self.vector(a);
            (a, self.operand(b))
        } else {
            let b = self.operand(b);
            (self.vector(a), b)
        }
    }

    /// Selects a value into a given register, which only the last instruction writes.
    pub(super) fn into(&mut self, value: &Value, dst: VirtReg) {
        if self.is_avx512() && self.is_condition(value) {
            let mask = self.condition(value);
            self.unary(self.ops.expand_mask, dst, Operand::Reg(mask));
            return;
        }
        match value {
            Value::Splat(0) => self.push(Inst::Zero { dst }),
            Value::Splat(bits) => {
                let place = MemOperand::pool(self.constant_lane(*bits));
                self.unary(self.ops.broadcast, dst, Operand::Mem(place));
            }
            Value::Reg(_) | Value::Scalar(..) | Value::Lanes(_) => {
                let b = Operand::Reg(self.vector(value));
                self.unary(opcode::MOVAPS, dst, b);
            }
            Value::Load { address, lanes, storage, mask } => {
                let element = Element { address, index: None };
                self.load(element, (*lanes, *storage), mask.as_ref(), dst);
            }
            Value::LoadAt { address, index, lanes, storage, mask } => {
                let index = Some(self.first_lane(index));
                self.load(Element { address, index }, (*lanes, *storage), mask.as_ref(), dst);
            }
            Value::Gather { address, index, mask, .. } => {
                let index = self.vector(index);
                let mask = self.lane_mask(mask.as_ref());
                let place = self.gather_operand(address, (index, self.ops.storage.bytes() as u8));
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

    fn unary_value(&mut self, op: VectorUnary, x: &Value, dst: VirtReg) {
        let ops = self.ops;
        let (op, imm) = match op {
            VectorUnary::SqrtF => (ops.sqrt, None),
            VectorUnary::IntToFloat => (ops.int_to_float, None),
            VectorUnary::FloatToInt => (ops.float_to_int, None),
            // Bit 3 keeps the inexact exception quiet.
            VectorUnary::RoundF => (ops.round, Some(8)),
            VectorUnary::FloorF => (ops.round, Some(9)),
            VectorUnary::CeilF => (ops.round, Some(10)),
            VectorUnary::ShiftLeft(by) => (ops.shift_left, Some(by)),
            VectorUnary::ShiftRight(by) => (ops.shift_right, Some(by)),
            VectorUnary::ShiftRightSigned(by) => {
                if self.lacks_long_integers() {
                    let x = self.vector(x);
                    return self.shift_right_long(x, by, dst);
                }
                (ops.shift_right_signed, Some(by))
            }
            VectorUnary::SingleF => {
                let x = self.vector(x);
                return self.single(x, dst);
            }
        };
        let b = match op.form {
            Form::Vm(_) => Operand::Reg(self.vector(x)),
            Form::Rvm | Form::Mr => self.operand(x),
        };
        let inst = VectorInst { imm, ..self.inst(op, dst, b) };
        self.push(Inst::Vector(inst));
    }

    fn binary_value(&mut self, op: VectorBinary, x: &Value, y: &Value, dst: VirtReg) {
        let (x, y) = if commutes(op) && self.folds(x) && !self.folds(y) { (y, x) } else { (x, y) };
        if op == VectorBinary::DotHalves {
            // It broadcasts no operand from memory.
            let (a, b) = (self.vector(x), self.vector(y));
            return self.binary(opcode::PMADDWD, dst, a, Operand::Reg(b));
        }
        if self.is_avx512() && op == VectorBinary::And {
            // `And` of a truth value and a vector is a zero-masked move.
            let (condition, value) = if self.is_condition(y) { (y, x) } else { (x, y) };
            if self.is_condition(condition) {
                let mask = self.condition(condition);
                let b = self.operand(value);
                self.masked_move(dst, b, mask, false);
                return;
            }
        }
        let (a, b) = self.sources(x, y);
        self.combine(op, dst, a, b);
    }

    /// `dst = op(a, b)`
    fn combine(&mut self, op: VectorBinary, dst: VirtReg, a: VirtReg, b: Operand) {
        if self.lacks_long_integers() && self.combine_long(op, dst, a, b) {
            return;
        }
        self.binary(opcode_of(self.ops, op), dst, a, b);
    }

    /// Selects `reg = op(reg, if condition { x } else { identity })` as one operation that leaves the other
    /// lanes as they are; returns whether the value is that. AVX-512 only.
    pub(super) fn combine_where(&mut self, reg: Reg, value: &Value) -> bool {
        let Value::Binary(op, a, b) = value else { return false };
        let ((Value::Reg(of), other) | (other, Value::Reg(of))) = (&**a, &**b) else {
            return false;
        };
        let Value::Select { condition, then, otherwise } = other else { return false };
        let identity = identity(*op, self.simd.width).map(Value::Splat);
        if *of != reg || identity.as_ref() != Some(&**otherwise) || !self.is_avx512() {
            return false;
        }
        let dst = self.regs[reg.0 as usize];
        let mask = self.condition(condition);
        let b = self.operand(then);
        let inst = self.inst(opcode_of(self.ops, *op), dst, b);
        let (a, mask) = (Some(dst), Some(mask));
        self.push(Inst::Vector(VectorInst { a, mask, updates: true, ..inst }));
        true
    }

    /// Selects `reg = if condition { x * y + reg } else { reg }` as one operation that leaves the other lanes as
    /// they are; returns whether the value is that. AVX-512 only.
    pub(super) fn fma_where(&mut self, reg: Reg, value: &Value) -> bool {
        let Value::Select { condition, then, otherwise } = value else { return false };
        let Value::Fma(x, y, sum) = &**then else { return false };
        let is_own = |it: &Value| matches!(it, Value::Reg(of) if *of == reg);
        if !is_own(sum) || !is_own(otherwise) || !self.is_avx512() {
            return false;
        }
        let dst = self.regs[reg.0 as usize];
        let mask = self.condition(condition);
        let (x, y) = if self.folds(x) && !self.folds(y) { (y, x) } else { (x, y) };
        let (a, b) = self.sources(x, y);
        let [_, _, dst_plus_product] = self.ops.fma;
        let inst = self.inst(dst_plus_product, dst, b);
        let (a, mask) = (Some(a), Some(mask));
        self.push(Inst::Vector(VectorInst { a, mask, updates: true, ..inst }));
        true
    }

    /// `dst = op(b)`, 0 in lanes masked off.
    pub(super) fn masked(&mut self, op: Opcode, dst: VirtReg, b: Operand, mask: VirtReg) {
        let inst = VectorInst { mask: Some(mask), zeroing: true, ..self.inst(op, dst, b) };
        self.push(Inst::Vector(inst));
    }

    /// Selects `dst = b` in the lanes of the mask; the others keep their values, or become 0.
    pub(super) fn masked_move(&mut self, dst: VirtReg, b: Operand, mask: VirtReg, merge: bool) {
        // A broadcasting move is another opcode.
        let (op, b) = match b {
            Operand::Broadcast(place) => (self.ops.broadcast, Operand::Mem(place)),
            b => (self.ops.load, b),
        };
        let inst = self.inst(op, dst, b);
        let inst = VectorInst { mask: Some(mask), updates: merge, zeroing: !merge, ..inst };
        self.push(Inst::Vector(inst));
    }

    fn fma(&mut self, a: &Value, b: &Value, c: &Value, dst: VirtReg) {
        let (a, b, negated) = match (self.negated(a), self.negated(b)) {
            (Some(a), _) => (a, b, true),
            (None, Some(b)) => (a, b, true),
            (None, None) => (a, b, false),
        };
        // At most one source is folded: a factor rather than the addend, which is often the target's
        // register.
        let folded = [b, a, c].into_iter().find(|it| self.folds(it));
        let is_folded = |it: &Value| folded.is_some_and(|folded| std::ptr::eq(folded, it));
        let mut order = [(0, a), (1, b), (2, c)];
        order.sort_by_key(|(_, it)| (is_folded(it), std::cmp::Reverse(register_need(it, DEPTH))));
        let mut sources = [Operand::Reg(dst); 3];
        for (at, value) in order {
            sources[at] = if is_folded(value) {
                self.operand(value)
            } else {
                Operand::Reg(self.vector(value))
            };
        }
        let [a, b, c] = sources;
        self.push(Inst::Fma { dst, negated, a, b, c });
    }

    /// Returns the value of which another is the negative.
    fn negated<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        let sign_bit = match self.simd.width {
            LaneWidth::Bits32 => 1 << 31,
            LaneWidth::Bits64 => 1 << 63,
        };
        match value {
            Value::Binary(VectorBinary::Xor, x, y) if **y == Value::Splat(sign_bit) => Some(x),
            Value::Binary(VectorBinary::Xor, x, y) if **x == Value::Splat(sign_bit) => Some(y),
            _ => None,
        }
    }

    fn select_value(&mut self, condition: &Value, then: &Value, otherwise: &Value, dst: VirtReg) {
        if !self.is_avx512() {
            let condition = self.vector(condition);
            let (a, b) = self.sources(otherwise, then);
            let inst = self.inst(self.ops.blend, dst, b);
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
        let inst = self.inst(self.ops.blend_masked, dst, b);
        self.push(Inst::Vector(VectorInst { a: Some(a), mask: Some(mask), ..inst }));
    }

    /// Reduces over lanes by a butterfly: steps of half the width, a quarter, and so on.
    fn reduce(&mut self, op: VectorBinary, x: &Value, dst: VirtReg) {
        let avx512 = [(opcode::SHUFF32X4, 0x4e), (opcode::SHUFF32X4, 0xb1)];
        let avx2 = [(opcode::PERM2F128, 0x01)];
        let within = [(opcode::PERMILPS, 0x4e), (opcode::PERMILPS, 0xb1)];
        // In lanes of 64 bits, 128 bits have no more than two.
        let within = match self.simd.width {
            LaneWidth::Bits32 => &within[..],
            LaneWidth::Bits64 => &within[..1],
        };
        let across: &[(Opcode, u8)] = if self.is_avx512() { &avx512 } else { &avx2 };
        let mut value = self.vector(x);
        for (n, (shuffle, imm)) in across.iter().chain(within).enumerate() {
            let other = self.new_vector();
            // Shuffles across 128-bit lanes take two sources: here the same one twice.
            let a = (n < across.len()).then_some(value);
            let inst = self.inst(*shuffle, other, Operand::Reg(value));
            self.push(Inst::Vector(VectorInst { a, imm: Some(*imm), ..inst }));
            let last = n + 1 == across.len() + within.len();
            let next = if last { dst } else { self.new_vector() };
            self.combine(op, next, value, Operand::Reg(other));
            value = next;
        }
    }

    fn index(&mut self, base: &Linear, step: i32, dst: VirtReg) {
        let (start, step) = (base.constant, i64::from(step));
        let lanes = self.constant_lanes(|lane| start.wrapping_add(lane.wrapping_mul(step)));
        let lanes = Operand::Mem(MemOperand::pool(lanes));
        match self.linear(base) {
            IntOperand::Const(_) => self.unary(opcode::MOVUPS, dst, lanes),
            IntOperand::Reg(src) => {
                let splat = self.new_vector();
                self.push(Inst::Splat { dst: splat, src });
                self.binary(self.ops.add, dst, splat, lanes);
            }
        }
    }
}
