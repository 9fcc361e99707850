//! Selection of stores of bytes whose values bytes determine: whole vectors of bytes, with no lane of 32 bits
//! for each.
//!
//! ```text
//! t2[0].n = AddI(t0[0].n, t1[0].n); t2[16].n = AddI(t0[16].n, t1[16].n); ..
//!     =>   zmm = vmovups t0[0]; zmm = vpaddb zmm, t1[0]; vmovups t2[0], zmm
//! ```
//!
//! A store keeps the low byte of each lane. The low byte of a sum, a difference or a bit operation follows from
//! those of its operands; minima and maxima are those of bytes where both operands are known to be bytes.
//!
//! # Source
//!
//! Demanded bits (LLVM's `DemandedBits`), and superword-level parallelism (Larsen and Amarasinghe, 2000).

use super::super::encode::Width;
use super::super::inst::{Inst, MemOperand, Operand, VectorInst, VirtReg};
use super::super::opcode::{self, Opcode};
use super::Selector;
use super::transpose::reads;
use crate::vector::{Address, LaneStride, Stmt, Storage, Value, VectorBinary, VectorUnary};
use tvmtune_ir::target::Isa;
use tvmtune_math::lane::Width as LaneWidth;

/// The numbers that a value may be, beside its low byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Range {
    /// Those of `i8` and of `u8`.
    Both,
    I8,
    U8,
    /// Only the low byte is that of the operation on bytes.
    Any,
}

impl Range {
    /// Returns the range of a minimum or maximum; `None` if it is not that of bytes.
    fn of_both(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Range::Any, _) | (_, Range::Any) => None,
            (Range::Both, it) | (it, Range::Both) => Some(it),
            (a, b) => (a == b).then_some(a),
        }
    }
}

/// Returns the range of a value whose low byte follows from bytes; `None` for other values.
fn range(value: &Value) -> Option<Range> {
    if let Some(inner) = signed(value) {
        return range(inner).map(|_| Range::I8);
    }
    match value {
        Value::Splat(0..=0x7f) => Some(Range::Both),
        Value::Splat(0x80..=0xff) => Some(Range::U8),
        Value::Splat(0xffff_ff80..=0xffff_ffff) => Some(Range::I8),
        Value::Splat(_) => Some(Range::Any),
        Value::Load {
            lanes: LaneStride::Contiguous | LaneStride::Uniform,
            storage,
            mask: None,
            ..
        } => match storage {
            Storage::I8 => Some(Range::I8),
            Storage::U8 => Some(Range::U8),
            _ => None,
        },
        Value::Binary(VectorBinary::And, a, b) if **b == Value::Splat(0xff) => {
            range(a).map(|_| Range::U8)
        }
        Value::Binary(op, a, b) => {
            let (a, b) = (range(a)?, range(b)?);
            match op {
                VectorBinary::AddI | VectorBinary::SubI => Some(Range::Any),
                VectorBinary::And | VectorBinary::Or | VectorBinary::Xor => {
                    Some(a.of_both(b).unwrap_or(Range::Any))
                }
                VectorBinary::MinI | VectorBinary::MaxI => a.of_both(b),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns the value whose low byte a value is, with its sign.
fn signed(value: &Value) -> Option<&Value> {
    let Value::Unary(VectorUnary::ShiftRightSigned(24), shifted) = value else { return None };
    match &**shifted {
        Value::Unary(VectorUnary::ShiftLeft(24), inner) => Some(inner),
        _ => None,
    }
}

/// Returns whether a value is another one, of elements that are so many bytes further on.
fn follows(value: &Value, next: &Value, bytes: i64) -> bool {
    match (value, next) {
        (
            Value::Load { address, lanes: LaneStride::Contiguous, storage, mask: None },
            Value::Load { address: to, lanes: LaneStride::Contiguous, storage: too, mask: None },
        ) => storage == too && is_further(address, to, bytes),
        (Value::Unary(op, a), Value::Unary(too, b)) => op == too && follows(a, b, bytes),
        (Value::Binary(op, a, b), Value::Binary(too, c, d)) => {
            op == too && follows(a, c, bytes) && follows(b, d, bytes)
        }
        (value, next) => value == next,
    }
}

fn is_further(address: &Address, next: &Address, bytes: i64) -> bool {
    let mut expected = address.clone();
    expected.offset.constant += bytes;
    expected == *next
}

/// A store of contiguous bytes that follow from bytes.
struct ByteStore<'a> {
    address: &'a Address,
    value: &'a Value,
}

impl<'a> ByteStore<'a> {
    fn of(stmt: &'a Stmt) -> Option<Self> {
        match stmt {
            Stmt::Store {
                address,
                lanes: LaneStride::Contiguous,
                storage: Storage::I8 | Storage::U8,
                value,
                mask: None,
            } if range(value).is_some() => Some(Self { address, value }),
            _ => None,
        }
    }

    /// Returns whether another store is the same of elements so many bytes further on, and reads nothing that
    /// this one writes.
    fn is_before(&self, next: &Self, bytes: i64) -> bool {
        is_further(self.address, next.address, bytes)
            && follows(self.value, next.value, bytes)
            && !reads(next.value, self.address.base)
    }
}

impl Selector<'_> {
    /// Selects the first statements as one store of bytes, if they are, and returns the others.
    pub(super) fn bytes<'a>(&mut self, stmts: &'a [Stmt]) -> Option<&'a [Stmt]> {
        if self.simd.width != LaneWidth::Bits32 {
            return None;
        }
        let lanes = self.simd.lanes();
        let first = ByteStore::of(stmts.first()?)?;
        let is_next = |(n, it): (i64, &Stmt)| {
            ByteStore::of(it).is_some_and(|it| first.is_before(&it, n * lanes))
        };
        let n_alike = 1 + (1..4).zip(&stmts[1..]).take_while(|it| is_next(*it)).count();
        // A vector of bytes has four times as many elements as one of lanes.
        let (n, width) = match (self.simd.isa, n_alike) {
            (Isa::Avx512, 4..) => (4, Width::W512),
            (Isa::Avx512, 2..) => (2, Width::W256),
            (Isa::Avx512, _) => (1, Width::W128),
            (Isa::Avx2, 4..) => (4, Width::W256),
            (Isa::Avx2, 2..) => (2, Width::W128),
            (Isa::Avx2, _) => return None,
        };
        let value = self.byte_vector(first.value, width);
        let (a, b) = (Some(value), Some(Operand::Mem(self.mem_operand(first.address))));
        self.push(Inst::Vector(VectorInst {
            a,
            b,
            ..VectorInst::new(opcode::MOVUPS_STORE, width)
        }));
        Some(&stmts[n..])
    }

    /// Selects the low bytes of a value into a register.
    fn byte_vector(&mut self, value: &Value, width: Width) -> VirtReg {
        if let Some(inner) = signed(value) {
            return self.byte_vector(inner, width);
        }
        match value {
            Value::Binary(VectorBinary::And, a, b) if **b == Value::Splat(0xff) => {
                self.byte_vector(a, width)
            }
            Value::Binary(op, a, b) => {
                let is_signed = range(value) == Some(Range::I8);
                let first = self.byte_vector(a, width);
                let second = self.byte_operand(b, width);
                self.byte_inst(opcode_of(*op, is_signed), Some(first), second, width)
            }
            _ => match self.byte_operand(value, width) {
                Operand::Reg(reg) => reg,
                place => self.byte_inst(opcode::MOVUPS, None, place, width),
            },
        }
    }

    /// Selects the low bytes of a value as the last source of an instruction.
    fn byte_operand(&mut self, value: &Value, width: Width) -> Operand {
        match value {
            Value::Splat(bits) => {
                let word = u32::from(*bits as u8) * 0x0101_0101;
                Operand::Mem(MemOperand::pool(self.constant_words(|_| word)))
            }
            Value::Load { address, lanes: LaneStride::Contiguous, .. } => {
                Operand::Mem(self.mem_operand(address))
            }
            Value::Load { address, .. } => {
                let element = Operand::Mem(self.mem_operand(address));
                Operand::Reg(self.byte_inst(opcode::PBROADCASTB, None, element, width))
            }
            _ => Operand::Reg(self.byte_vector(value, width)),
        }
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
