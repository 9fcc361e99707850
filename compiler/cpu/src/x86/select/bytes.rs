//! Selection of stores of bytes whose values bytes determine ([`super::byte_values`]): whole vectors of bytes,
//! with no lane of 32 bits for each.
//!
//! ```text
//! t2[0].n = AddI(t0[0].n, t1[0].n); t2[16].n = AddI(t0[16].n, t1[16].n); ..
//!     =>   zmm = vmovups t0[0]; zmm = vpaddb zmm, t1[0]; vmovups t2[0], zmm
//! ```
//!
//! Truth values are bytes, 0 or 1, on every instruction set: masks would have a bit for each of 64 lanes.
//!
//! # Source
//!
//! Superword-level parallelism (Larsen and Amarasinghe, 2000).

use super::super::encode::Width;
use super::super::inst::{Inst, MemOperand, Operand, VectorInst, VirtReg};
use super::super::opcode::{self, Opcode};
use super::Selector;
use super::byte_values::{ByteStore, Range, is_not, signed};
use crate::vector::{Address, LaneStride, Stmt, Storage, Value, VectorBinary, VectorCompare};
use tvmtune_ir::target::Isa;
use tvmtune_math::lane::Width as LaneWidth;

/// Stores that are selected as one.
struct ByteCode<'a> {
    /// The first of them.
    store: ByteStore<'a>,
    /// The width of all.
    width: Width,
    /// The registers of its assignments, as many as were selected.
    vectors: Vec<VirtReg>,
}

impl Selector<'_> {
    /// Selects the first statements as one store of bytes, if they are, and returns the others.
    pub(super) fn bytes<'a>(&mut self, stmts: &'a [Stmt]) -> Option<&'a [Stmt]> {
        if self.simd.width != LaneWidth::Bits32 {
            return None;
        }
        let lanes = self.simd.lanes();
        let store = ByteStore::of(stmts, &self.uses)?;
        let n_stmts = store.n_stmts();
        let is_next = |(n, it): (i64, &'a [Stmt])| {
            let next = ByteStore::of(it, &self.uses);
            next.is_some_and(|it| store.is_before(&it, n * lanes))
        };
        let others = stmts.chunks_exact(n_stmts).skip(1);
        let n_alike = 1 + (1..4).zip(others).take_while(|it| is_next(*it)).count();
        // A vector of bytes has four times as many elements as one of lanes.
        let (n, width) = match (self.simd.isa, n_alike) {
            (Isa::Avx512, 4..) => (4, Width::W512),
            (Isa::Avx512, 2..) => (2, Width::W256),
            (Isa::Avx512, _) => (1, Width::W128),
            (Isa::Avx2, 4..) => (4, Width::W256),
            (Isa::Avx2, 2..) => (2, Width::W128),
            (Isa::Avx2, _) => return None,
        };
        let mut code = ByteCode { store, width, vectors: Vec::new() };
        for n in 0..n_stmts - 1 {
            let vector = self.byte_vector(code.store.sets[n].value, &code);
            code.vectors.push(vector);
        }
        let value = self.byte_vector(code.store.value, &code);
        let place = self.mem_operand(code.store.address);
        let inst = VectorInst::new(opcode::MOVUPS_STORE, width);
        let (a, b) = (Some(value), Some(Operand::Mem(place)));
        self.push(Inst::Vector(VectorInst { a, b, ..inst }));
        Some(&stmts[n * n_stmts..])
    }

    /// Selects the low bytes of a value into a register.
    fn byte_vector(&mut self, value: &Value, code: &ByteCode<'_>) -> VirtReg {
        if let Some(inner) = signed(value) {
            return self.byte_vector(inner, code);
        }
        match value {
            Value::Binary(VectorBinary::And, a, b) if **b == Value::Splat(0xff) => {
                self.byte_vector(a, code)
            }
            Value::Binary(op, a, b) => {
                let range = code.store.range(value);
                let first = self.byte_vector(a, code);
                let second = match range {
                    Some(Range::Truth) if is_not(*op, b) => self.byte_splat(1),
                    _ => self.byte_operand(b, code),
                };
                let op = opcode_of(*op, range == Some(Range::I8));
                self.byte_inst(op, Some(first), second, code.width)
            }
            Value::Compare(op, a, b) => self.compare_bytes(*op, (a, b), code),
            Value::Select { condition, then, otherwise } => {
                self.choose_bytes(condition, (then, otherwise), code)
            }
            Value::Load { storage: Storage::Bool, lanes, address, .. } => {
                let loaded = self.loaded_bytes(address, *lanes, code.width);
                let loaded = self.byte_register(loaded, code.width);
                self.is_not_zero(loaded, code.width)
            }
            _ => {
                let operand = self.byte_operand(value, code);
                self.byte_register(operand, code.width)
            }
        }
    }

    fn byte_register(&mut self, operand: Operand, width: Width) -> VirtReg {
        match operand {
            Operand::Reg(reg) => reg,
            place => self.byte_inst(opcode::MOVUPS, None, place, width),
        }
    }

    /// Selects the low bytes of a value as the last source of an instruction.
    fn byte_operand(&mut self, value: &Value, code: &ByteCode<'_>) -> Operand {
        match value {
            Value::Splat(bits) => self.byte_splat(*bits as u8),
            Value::Reg(reg) => {
                let n = code.store.sets.iter().position(|it| it.reg == *reg);
                let n = n.unwrap_or_else(|| unreachable!("{reg:?} is set before the store"));
                Operand::Reg(code.vectors[n])
            }
            Value::Load { storage: Storage::I8 | Storage::U8, lanes, address, .. } => {
                self.loaded_bytes(address, *lanes, code.width)
            }
            _ => Operand::Reg(self.byte_vector(value, code)),
        }
    }

    fn loaded_bytes(&mut self, address: &Address, lanes: LaneStride, width: Width) -> Operand {
        let place = Operand::Mem(self.mem_operand(address));
        match lanes {
            LaneStride::Contiguous => place,
            _ => Operand::Reg(self.byte_inst(opcode::PBROADCASTB, None, place, width)),
        }
    }

    fn byte_splat(&mut self, byte: u8) -> Operand {
        let word = u32::from(byte) * 0x0101_0101;
        Operand::Mem(MemOperand::pool(self.constant_words(|_| word)))
    }

    /// Returns 1 in the bytes that are not 0, and 0 in the others.
    fn is_not_zero(&mut self, bytes: VirtReg, width: Width) -> VirtReg {
        let one = self.byte_splat(1);
        self.byte_inst(opcode::PMINUB, Some(bytes), one, width)
    }

    /// Selects a comparison: bytes differ where their exclusive or is not 0, and one is less than another that
    /// differs from it as the maximum does.
    fn compare_bytes(
        &mut self,
        op: VectorCompare,
        (a, b): (&Value, &Value),
        code: &ByteCode<'_>,
    ) -> VirtReg {
        let is_signed = [a, b].iter().any(|it| code.store.range(it) == Some(Range::I8));
        let (first, mut second) = (self.byte_vector(a, code), self.byte_operand(b, code));
        if op == VectorCompare::LtI {
            let greatest = opcode_of(VectorBinary::MaxI, is_signed);
            second = Operand::Reg(self.byte_inst(greatest, Some(first), second, code.width));
        }
        let differing = self.byte_inst(opcode::PXOR, Some(first), second, code.width);
        let differs = self.is_not_zero(differing, code.width);
        if op == VectorCompare::LtI {
            return differs;
        }
        let one = self.byte_splat(1);
        self.byte_inst(opcode::PXOR, Some(differs), one, code.width)
    }

    /// Selects one of two values in each byte: the bits in which they differ are flipped where it is not the
    /// other.
    fn choose_bytes(
        &mut self,
        condition: &Value,
        (then, otherwise): (&Value, &Value),
        code: &ByteCode<'_>,
    ) -> VirtReg {
        let is_truth = code.store.range(then) == Some(Range::Truth);
        let truth = self.byte_vector(condition, code);
        if (then, otherwise) == (&Value::Splat(1), &Value::Splat(0)) {
            return truth;
        }
        let bits = if is_truth {
            truth
        } else {
            let zero = self.new_vector();
            self.push(Inst::Zero { dst: zero });
            self.byte_inst(opcode::PSUBB, Some(zero), Operand::Reg(truth), code.width)
        };
        if *otherwise == Value::Splat(0) {
            let then = self.byte_operand(then, code);
            return self.byte_inst(opcode::PAND, Some(bits), then, code.width);
        }
        let otherwise = self.byte_vector(otherwise, code);
        let then = self.byte_operand(then, code);
        let differing = self.byte_inst(opcode::PXOR, Some(otherwise), then, code.width);
        let flipped = self.byte_inst(opcode::PAND, Some(differing), Operand::Reg(bits), code.width);
        self.byte_inst(opcode::PXOR, Some(otherwise), Operand::Reg(flipped), code.width)
    }

    pub(super) fn byte_inst(
        &mut self,
        op: Opcode,
        a: Option<VirtReg>,
        b: Operand,
        width: Width,
    ) -> VirtReg {
        let dst = self.new_vector();
        let inst = VectorInst { dst: Some(dst), a, b: Some(b), ..VectorInst::new(op, width) };
        self.push(Inst::Vector(inst));
        dst
    }
}

/// Returns the instruction of an operation on bytes; minima and maxima are those of numbers with a sign or
/// without.
fn opcode_of(op: VectorBinary, is_signed: bool) -> Opcode {
    match (op, is_signed) {
        (VectorBinary::AddI, _) => opcode::PADDB,
        (VectorBinary::SubI, _) => opcode::PSUBB,
        (VectorBinary::Or, _) => opcode::POR,
        (VectorBinary::Xor, _) => opcode::PXOR,
        (VectorBinary::MinI, true) => opcode::PMINSB,
        (VectorBinary::MinI, false) => opcode::PMINUB,
        (VectorBinary::MaxI, true) => opcode::PMAXSB,
        (VectorBinary::MaxI, false) => opcode::PMAXUB,
        _ => opcode::PAND,
    }
}
