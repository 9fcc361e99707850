//! Recognition of stores of bytes whose values bytes determine.
//!
//! A store keeps the low byte of each lane. The low byte of a sum, a difference or a bit operation follows from
//! those of its operands; minima, maxima and comparisons are those of bytes where both operands are known to be
//! bytes. A truth value is a byte, 0 or 1.
//!
//! # Source
//!
//! Demanded bits (LLVM's `DemandedBits`).

use super::transpose::reads;
use crate::vector::{
    Address, LaneStride, Reg, Stmt, Storage, Value, VectorBinary, VectorCompare, VectorUnary,
};

/// Registers that are set for one store, at most.
const MAX_SETS: usize = 8;

/// The numbers that a value may be, beside its low byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Range {
    /// Those of `i8` and of `u8`.
    Both,
    I8,
    U8,
    /// Only the low byte is that of the operation on bytes.
    Any,
    /// A truth value.
    Truth,
}

/// The numbers of assignments to a register and of operands that are that register.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uses {
    sets: usize,
    reads: usize,
}

/// A register that holds bytes for one store.
pub(super) struct ByteSet<'a> {
    pub(super) reg: Reg,
    pub(super) value: &'a Value,
    range: Range,
}

/// A store of contiguous bytes that follow from bytes, after assignments that nothing else reads.
pub(super) struct ByteStore<'a> {
    pub(super) sets: Vec<ByteSet<'a>>,
    pub(super) address: &'a Address,
    pub(super) value: &'a Value,
}

impl Range {
    /// Returns the range of a minimum or maximum; `None` if it is not that of bytes.
    fn of_both(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Range::Any | Range::Truth, _) | (_, Range::Any | Range::Truth) => None,
            (Range::Both, it) | (it, Range::Both) => Some(it),
            (a, b) => (a == b).then_some(a),
        }
    }

    /// Returns the range of a bit operation, or of one of two values.
    fn of_bits(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Range::Truth, Range::Truth) => Some(Range::Truth),
            (Range::Truth, _) | (_, Range::Truth) => None,
            (a, b) => Some(a.of_both(b).unwrap_or(Range::Any)),
        }
    }
}

impl Uses {
    pub(super) fn is_set_once(self) -> bool {
        self.sets == 1
    }

    /// Counts those of each register in a list of statements, and in blocks inside.
    pub(super) fn count(body: &[Stmt], uses: &mut [Self]) {
        for stmt in body {
            if let Stmt::Set { reg, .. } = stmt {
                uses[reg.0 as usize].sets += 1;
            }
            stmt.operands()
                .for_each(|it| it.for_each_read(&mut |reg| uses[reg.0 as usize].reads += 1));
            stmt.blocks().for_each(|it| Self::count(it, uses));
        }
    }
}

/// Returns the value whose low byte a value is, with its sign.
pub(super) fn signed(value: &Value) -> Option<&Value> {
    let Value::Unary(VectorUnary::ShiftRightSigned(24), shifted) = value else { return None };
    match &**shifted {
        Value::Unary(VectorUnary::ShiftLeft(24), inner) => Some(inner),
        _ => None,
    }
}

/// Returns whether an operation with a value negates a truth value.
pub(super) fn is_not(op: VectorBinary, value: &Value) -> bool {
    op == VectorBinary::Xor && *value == Value::Splat(u32::MAX.into())
}

fn is_further(address: &Address, next: &Address, bytes: i64) -> bool {
    let mut expected = address.clone();
    expected.offset.constant += bytes;
    expected == *next
}

impl<'a> ByteStore<'a> {
    /// Matches the first statements; lanes have 32 bits.
    pub(super) fn of(stmts: &'a [Stmt], uses: &[Uses]) -> Option<Self> {
        let mut sets: Vec<ByteSet<'a>> = Vec::new();
        for stmt in stmts.iter().take(MAX_SETS + 1) {
            match stmt {
                Stmt::Set { reg, value, mask: None } if uses[reg.0 as usize].is_set_once() => {
                    sets.push(ByteSet { reg: *reg, value, range: range(value, &sets)? });
                }
                Stmt::Store {
                    address,
                    lanes: LaneStride::Contiguous,
                    storage: storage @ (Storage::I8 | Storage::U8 | Storage::Bool),
                    value,
                    mask: None,
                } => {
                    let is_truth = range(value, &sets)? == Range::Truth;
                    let store = Self { sets, address, value };
                    let fits = is_truth == (*storage == Storage::Bool) && store.has_all_reads(uses);
                    return fits.then_some(store);
                }
                _ => return None,
            }
        }
        None
    }

    /// Returns the number of statements.
    pub(super) fn n_stmts(&self) -> usize {
        self.sets.len() + 1
    }

    pub(super) fn range(&self, value: &Value) -> Option<Range> {
        range(value, &self.sets)
    }

    fn values(&self) -> impl Iterator<Item = &'a Value> {
        self.sets.iter().map(|it| it.value).chain([self.value])
    }

    /// Returns whether no other statement reads the registers.
    fn has_all_reads(&self, uses: &[Uses]) -> bool {
        self.sets.iter().all(|it| {
            let mut n = 0;
            self.values().for_each(|value| {
                value.for_each_read(&mut |reg| n += usize::from(reg == it.reg));
            });
            n == uses[it.reg.0 as usize].reads
        })
    }

    /// Returns whether another store is the same of elements so many bytes further on, and reads nothing that
    /// this one writes.
    pub(super) fn is_before(&self, next: &Self, bytes: i64) -> bool {
        self.sets.len() == next.sets.len()
            && is_further(self.address, next.address, bytes)
            && self.values().zip(next.values()).all(|(a, b)| self.follows(next, (a, b), bytes))
            && !next.values().any(|it| reads(it, self.address.base))
    }

    /// Returns whether a value of another store is one of this store, of elements that are so many bytes
    /// further on.
    fn follows(&self, next: &Self, (value, other): (&Value, &Value), bytes: i64) -> bool {
        let position = |store: &Self, reg: Reg| store.sets.iter().position(|it| it.reg == reg);
        let same_shape = match (value, other) {
            (
                Value::Load { address, lanes: LaneStride::Contiguous, storage, mask: None },
                Value::Load {
                    address: to,
                    lanes: LaneStride::Contiguous,
                    storage: too,
                    mask: None,
                },
            ) => return storage == too && is_further(address, to, bytes),
            (Value::Reg(a), Value::Reg(b)) => return position(self, *a) == position(next, *b),
            (Value::Unary(op, _), Value::Unary(too, _)) => op == too,
            (Value::Binary(op, ..), Value::Binary(too, ..)) => op == too,
            (Value::Compare(op, ..), Value::Compare(too, ..)) => op == too,
            (Value::Select { .. }, Value::Select { .. }) => true,
            (value, other) => return value == other,
        };
        let mut operands = value.operands().zip(other.operands());
        same_shape && operands.all(|it| self.follows(next, it, bytes))
    }
}

/// Returns the range of a value whose low byte follows from bytes; `None` for other values.
fn range(value: &Value, sets: &[ByteSet<'_>]) -> Option<Range> {
    if let Some(inner) = signed(value) {
        return range(inner, sets)?.of_bits(Range::I8).and(Some(Range::I8));
    }
    match value {
        Value::Splat(0..=0x7f) => Some(Range::Both),
        Value::Splat(0x80..=0xff) => Some(Range::U8),
        Value::Splat(0xffff_ff80..=0xffff_ffff) => Some(Range::I8),
        Value::Splat(_) => Some(Range::Any),
        Value::Reg(reg) => sets.iter().find(|it| it.reg == *reg).map(|it| it.range),
        Value::Load {
            lanes: LaneStride::Contiguous | LaneStride::Uniform,
            storage,
            mask: None,
            ..
        } => match storage {
            Storage::I8 => Some(Range::I8),
            Storage::U8 => Some(Range::U8),
            Storage::Bool => Some(Range::Truth),
            _ => None,
        },
        Value::Binary(VectorBinary::And, a, b) if **b == Value::Splat(0xff) => {
            range(a, sets)?.of_bits(Range::U8).and(Some(Range::U8))
        }
        Value::Binary(op, a, b) => {
            let (a, with) = (range(a, sets)?, range(b, sets)?);
            match op {
                VectorBinary::Xor if a == Range::Truth && is_not(*op, b) => Some(Range::Truth),
                VectorBinary::And | VectorBinary::Or | VectorBinary::Xor => a.of_bits(with),
                VectorBinary::AddI | VectorBinary::SubI => {
                    (a != Range::Truth && with != Range::Truth).then_some(Range::Any)
                }
                VectorBinary::MinI | VectorBinary::MaxI => a.of_both(with),
                _ => None,
            }
        }
        Value::Compare(VectorCompare::LtI | VectorCompare::EqI, a, b) => {
            range(a, sets)?.of_both(range(b, sets)?).and(Some(Range::Truth))
        }
        Value::Select { condition, then, otherwise } => {
            let is_truth = range(condition, sets)? == Range::Truth;
            let both = range(then, sets)?.of_bits(range(otherwise, sets)?);
            both.filter(|_| is_truth)
        }
        _ => None,
    }
}
