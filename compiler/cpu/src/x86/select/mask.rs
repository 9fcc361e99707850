//! Selection of truth values and masks: opmask registers on AVX-512, vectors on AVX2.

use super::super::induction::ActiveLanes;
use super::super::inst::{Inst, IntOperand, MemOperand, Operand, RegClass, VectorInst, VirtReg};
use super::super::opcode::{self, Opcode};
use super::memory::Element;
use super::{PhaseConstant, Selector};
use crate::vector::{
    Count, EntryId, LaneStride, Mask, Reg, Stmt, Storage, Value, VectorBinary, VectorCompare,
};
use tvmtune_math::lane::Width as LaneWidth;

/// Returns the immediate of `vcmpps` or `vpcmpd` for a comparison, with operands swapped or not.
fn predicate(op: VectorCompare, swapped: bool) -> u8 {
    match (op, swapped) {
        (VectorCompare::LtF, false) => 0x11,
        (VectorCompare::LtF, true) => 0x1e,
        (VectorCompare::LeF, false) => 0x12,
        (VectorCompare::LeF, true) => 0x1d,
        (VectorCompare::EqF | VectorCompare::EqI, _) => 0x00,
        (VectorCompare::NeF, _) => 0x04,
        (VectorCompare::LtI, false) => 0x01,
        (VectorCompare::LtI, true) => 0x06,
    }
}

fn logic(op: VectorBinary) -> Option<Opcode> {
    match op {
        VectorBinary::And => Some(opcode::KANDW),
        VectorBinary::Or => Some(opcode::KORW),
        VectorBinary::Xor => Some(opcode::KXORW),
        _ => None,
    }
}

/// Calls `visit` for each assignment to a register, with its value and its mask, in order.
fn for_each_set(body: &[Stmt], visit: &mut dyn FnMut(Reg, &Value, Option<&Mask>)) {
    for stmt in body {
        if let Stmt::Set { reg, value, mask } = stmt {
            visit(*reg, value, mask.as_ref());
        }
        stmt.blocks().for_each(|it| for_each_set(it, visit));
    }
}

impl Selector<'_> {
    pub(super) fn new_mask(&mut self) -> VirtReg {
        self.code.new_virt_reg(RegClass::Mask)
    }

    /// Finds the registers that are truth values and never anything else: on AVX-512, they are mask registers.
    pub(super) fn find_truth_values(&mut self, body: &[Stmt]) {
        if !self.is_avx512() {
            return;
        }
        let mut n_sets = vec![0; self.regs.len()];
        for_each_set(body, &mut |reg, value, mask| {
            let n = reg.0 as usize;
            n_sets[n] += 1;
            self.truth_values[n] = n_sets[n] == 1 && mask.is_none() && self.is_condition(value);
        });
        for (n, is_truth) in self.truth_values.iter().enumerate() {
            if *is_truth {
                self.code.classes[self.regs[n].0 as usize] = RegClass::Mask;
            }
        }
    }

    /// Returns whether AVX-512 computes a truth value in a mask register.
    pub(super) fn is_condition(&self, value: &Value) -> bool {
        match value {
            Value::Compare(..)
            | Value::Lanes(_)
            | Value::Load { storage: Storage::Bool, .. }
            | Value::LoadAt { storage: Storage::Bool, .. } => true,
            Value::Reg(reg) => self.truth_values[reg.0 as usize],
            Value::Binary(op, x, y) => {
                logic(*op).is_some()
                    && self.is_condition(x)
                    && (self.is_condition(y) || self.is_not(*op, y))
            }
            _ => false,
        }
    }

    /// Returns whether an operation with a value negates a truth value.
    fn is_not(&self, op: VectorBinary, value: &Value) -> bool {
        let all = match self.simd.width {
            LaneWidth::Bits32 => u64::from(u32::MAX),
            LaneWidth::Bits64 => u64::MAX,
        };
        op == VectorBinary::Xor && matches!(value, Value::Splat(bits) if *bits == all)
    }

    /// Selects a truth value into a mask register; AVX-512 only.
    pub(super) fn condition(&mut self, value: &Value) -> VirtReg {
        if let Value::Reg(reg) = value
            && self.truth_values[reg.0 as usize]
        {
            return self.regs[reg.0 as usize];
        }
        if let Value::Lanes(bits) = value {
            return self.phase_constant(PhaseConstant::Lanes(*bits));
        }
        let dst = self.new_mask();
        self.condition_into(value, dst);
        dst
    }

    /// Selects a truth value into a given mask register; AVX-512 only.
    pub(super) fn condition_into(&mut self, value: &Value, dst: VirtReg) {
        match value {
            Value::Reg(reg) if self.truth_values[reg.0 as usize] => {
                self.unary(opcode::KMOVW, dst, Operand::Reg(self.regs[reg.0 as usize]));
            }
            Value::Lanes(bits) => self.push(Inst::MaskBits { dst, bits: *bits }),
            Value::Compare(op, x, y) => {
                let swap = self.folds(x) && !self.folds(y);
                let (x, y) = if swap { (y, x) } else { (x, y) };
                let (a, b) = self.sources(x, y);
                let opcode = match op {
                    VectorCompare::LtI | VectorCompare::EqI => self.ops.compare,
                    _ => self.ops.compare_f,
                };
                let (inst, imm) = (self.inst(opcode, dst, b), Some(predicate(*op, swap)));
                self.push(Inst::Vector(VectorInst { a: Some(a), imm, ..inst }));
            }
            Value::Load { address, lanes, storage: Storage::Bool, mask } => {
                self.load_condition(Element { address, index: None }, *lanes, mask.as_ref(), dst);
            }
            Value::LoadAt { address, index, lanes, storage: Storage::Bool, mask } => {
                let index = Some(self.first_lane(index));
                self.load_condition(Element { address, index }, *lanes, mask.as_ref(), dst);
            }
            Value::Binary(op, x, y) if self.is_condition(x) && self.is_not(*op, y) => {
                let x = self.condition(x);
                let not = match self.simd.width {
                    LaneWidth::Bits32 => opcode::KNOTW,
                    LaneWidth::Bits64 => opcode::KNOTB,
                };
                self.unary(not, dst, Operand::Reg(x));
            }
            Value::Binary(op, x, y) if self.is_condition(x) || self.is_condition(y) => {
                match logic(*op) {
                    Some(logic) => {
                        let (x, y) = (self.condition(x), self.condition(y));
                        self.binary(logic, dst, x, Operand::Reg(y));
                    }
                    None => self.condition_of_vector(value, dst),
                }
            }
            _ => self.condition_of_vector(value, dst),
        }
    }

    fn load_condition(
        &mut self,
        element: Element<'_>,
        lanes: LaneStride,
        mask: Option<&Mask>,
        dst: VirtReg,
    ) {
        let bytes = self.new_vector();
        self.load(element, (lanes, Storage::U8), mask, bytes);
        self.binary(self.ops.test, dst, bytes, Operand::Reg(bytes));
    }

    fn condition_of_vector(&mut self, value: &Value, dst: VirtReg) {
        let vector = self.vector(value);
        self.unary(self.ops.mask_of, dst, Operand::Reg(vector));
    }

    /// Selects a comparison into a vector; AVX2 only.
    pub(super) fn compare_vectors(
        &mut self,
        op: VectorCompare,
        x: &Value,
        y: &Value,
        dst: VirtReg,
    ) {
        let swap = self.folds(x) && !self.folds(y);
        match op {
            VectorCompare::LtI => {
                // Only "greater than" exists.
                let (a, b) = self.sources(y, x);
                self.binary(self.ops.greater, dst, a, b);
            }
            VectorCompare::EqI => {
                let (a, b) = if swap { self.sources(y, x) } else { self.sources(x, y) };
                self.binary(self.ops.equal, dst, a, b);
            }
            _ => {
                let (a, b) = if swap { self.sources(y, x) } else { self.sources(x, y) };
                let inst = self.inst(self.ops.compare_f, dst, b);
                let imm = Some(predicate(op, swap));
                self.push(Inst::Vector(VectorInst { a: Some(a), imm, ..inst }));
            }
        }
    }

    /// Selects the mask of a statement into a register; `None` if all lanes are active.
    pub(super) fn lane_mask(&mut self, mask: Option<&Mask>) -> Option<VirtReg> {
        self.mask_register(ActiveLanes::of(mask, self.simd))
    }

    /// Selects a mask into a register; `None` if all lanes are active.
    pub(super) fn mask_register(&mut self, active: ActiveLanes<'_>) -> Option<VirtReg> {
        Some(match active {
            ActiveLanes::All => return None,
            ActiveLanes::Known(bits) => self.phase_constant(PhaseConstant::Lanes(bits)),
            ActiveLanes::First(entry) => self.phase_constant(PhaseConstant::First(entry)),
            ActiveLanes::Where(value) if self.is_avx512() => self.condition(value),
            ActiveLanes::Where(value) => self.vector(value),
        })
    }

    /// Copies a mask for an instruction that clobbers it; all lanes if there is none.
    pub(super) fn clobbered_mask(&mut self, mask: Option<VirtReg>) -> VirtReg {
        let dst = if self.is_avx512() { self.new_mask() } else { self.new_vector() };
        match (mask, self.is_avx512()) {
            (Some(mask), true) => self.unary(opcode::KMOVW, dst, Operand::Reg(mask)),
            (Some(mask), false) => self.unary(opcode::MOVAPS, dst, Operand::Reg(mask)),
            (None, true) => self.push(Inst::MaskBits { dst, bits: u16::MAX }),
            (None, false) => {
                let all = MemOperand::pool(self.constant_lanes(|_| -1));
                self.unary(opcode::MOVUPS, dst, Operand::Mem(all));
            }
        }
        dst
    }

    /// Makes the mask of the first lanes, as many as a parameter says.
    pub(super) fn first_lanes(&mut self, entry: EntryId, dst: VirtReg) {
        let src = self.phase_constant(PhaseConstant::Param(entry));
        let n = self.new_vector();
        self.push(Inst::Splat { dst: n, src });
        let lanes = Operand::Mem(MemOperand::pool(self.constant_lanes(|lane| lane)));
        if self.is_avx512() {
            let inst = self.inst(self.ops.compare, dst, lanes);
            // Not less or equal: `n > lane`.
            self.push(Inst::Vector(VectorInst { a: Some(n), imm: Some(6), ..inst }));
        } else {
            self.binary(self.ops.greater, dst, n, lanes);
        }
    }

    /// Makes a mask that is known.
    pub(super) fn known_lanes(&mut self, bits: u16, dst: VirtReg) {
        if self.is_avx512() {
            self.push(Inst::MaskBits { dst, bits });
        } else {
            let place = MemOperand::pool(self.constant_lanes(|lane| -i64::from(bits >> lane & 1)));
            self.unary(opcode::MOVUPS, dst, Operand::Mem(place));
        }
    }

    /// Makes the vector of lane offsets of a strided access.
    pub(super) fn multiples(&mut self, count: Count, dst: VirtReg) {
        match self.count(count) {
            IntOperand::Const(step) => {
                let lanes = self.constant_lanes(|lane| lane * step);
                self.unary(opcode::MOVUPS, dst, Operand::Mem(MemOperand::pool(lanes)));
            }
            IntOperand::Reg(src) => {
                let step = self.new_vector();
                self.push(Inst::Splat { dst: step, src });
                let lanes = Operand::Mem(MemOperand::pool(self.constant_lanes(|lane| lane)));
                // Offsets of lanes fit 31 bits.
                let multiply = match self.simd.width {
                    LaneWidth::Bits32 => opcode::PMULLD,
                    LaneWidth::Bits64 => opcode::PMULDQ,
                };
                self.binary(multiply, dst, step, lanes);
            }
        }
    }
}
