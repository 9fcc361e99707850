//! Local value numbering of a basic block, with constant folding.
//!
//! Expressions are hash-consed: equal expressions are one node. A read of a register or of memory
//! carries the number of earlier writes to that register or buffer in the block, as memory SSA
//! does, so that reads before and after a write are different nodes. [`super::cse`] turns the nodes of a block into statements.

use std::collections::BTreeMap;

use super::{
    Address, Count, EntryId, LaneStride, Linear, Reg, Storage, VectorBinary, VectorCompare,
    VectorUnary,
};
use tvmtune_ir::target::Isa;

/// The id of a node of a [`ValueGraph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ValueId(pub(super) u32);

/// The mask of active lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MaskRef {
    All,
    First(Count),
    Where(ValueId),
}

/// A memory reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MemRef {
    /// Index into [`Interned::addresses`].
    pub(super) address: u32,
    pub(super) storage: Storage,
    pub(super) mask: MaskRef,
    /// Number of writes to the buffer before the read.
    pub(super) epoch: u32,
}

/// The operation of a node: [`super::Value`] with nodes for operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Op {
    Splat(u32),
    Scalar(EntryId),
    /// A register, after a number of writes.
    Reg(Reg, u32),
    Load(MemRef, LaneStride),
    Gather(MemRef, ValueId),
    Index {
        base: u32,
        step: i32,
    },
    Unary(VectorUnary, ValueId),
    Binary(VectorBinary, ValueId, ValueId),
    Fma(ValueId, ValueId, ValueId),
    Compare(VectorCompare, ValueId, ValueId),
    Select(ValueId, ValueId, ValueId),
    Reduce(VectorBinary, ValueId),
}

/// Interned addresses and linear forms.
#[derive(Debug, Default)]
pub(super) struct Interned {
    pub(super) addresses: Vec<Address>,
    pub(super) linears: Vec<Linear>,
    address_ids: BTreeMap<Address, u32>,
    linear_ids: BTreeMap<Linear, u32>,
}

impl Interned {
    pub(super) fn address(&mut self, address: Address) -> u32 {
        if let Some(id) = self.address_ids.get(&address) {
            return *id;
        }
        self.addresses.push(address.clone());
        let id = self.addresses.len() as u32 - 1;
        self.address_ids.insert(address, id);
        id
    }

    pub(super) fn linear(&mut self, linear: Linear) -> u32 {
        if let Some(id) = self.linear_ids.get(&linear) {
            return *id;
        }
        self.linears.push(linear.clone());
        let id = self.linears.len() as u32 - 1;
        self.linear_ids.insert(linear, id);
        id
    }
}

/// The value graph of a block.
#[derive(Debug)]
pub(super) struct ValueGraph {
    pub(super) isa: Isa,
    pub(super) ops: Vec<Op>,
    ids: BTreeMap<Op, ValueId>,
}

/// Bits of a lane that is true.
pub(super) const TRUE: u32 = u32::MAX;
/// Bits of a lane that is false.
pub(super) const FALSE: u32 = 0;

impl Op {
    /// Returns the operands.
    pub(super) fn children(&self) -> impl Iterator<Item = ValueId> + use<> {
        let masked = |place: &MemRef| match place.mask {
            MaskRef::Where(id) => Some(id),
            _ => None,
        };
        let (a, b, c) = match self {
            Op::Splat(_) | Op::Scalar(_) | Op::Reg(..) | Op::Index { .. } => (None, None, None),
            Op::Load(place, _) => (masked(place), None, None),
            Op::Gather(place, index) => (Some(*index), masked(place), None),
            Op::Unary(_, a) | Op::Reduce(_, a) => (Some(*a), None, None),
            Op::Binary(_, a, b) | Op::Compare(_, a, b) => (Some(*a), Some(*b), None),
            Op::Fma(a, b, c) | Op::Select(a, b, c) => (Some(*a), Some(*b), Some(*c)),
        };
        [a, b, c].into_iter().flatten()
    }
}

impl ValueGraph {
    pub(super) fn new(isa: Isa) -> Self {
        Self { isa, ops: Vec::new(), ids: BTreeMap::new() }
    }

    pub(super) fn op(&self, id: ValueId) -> Op {
        self.ops[id.0 as usize]
    }

    pub(super) fn node(&mut self, op: Op) -> ValueId {
        let next = ValueId(self.ops.len() as u32);
        let id = *self.ids.entry(op).or_insert(next);
        if id == next {
            self.ops.push(op);
        }
        id
    }

    /// Returns the bits of a constant that is the same in all lanes.
    pub(super) fn constant_bits(&self, id: ValueId) -> Option<u32> {
        match self.op(id) {
            Op::Splat(bits) => Some(bits),
            _ => None,
        }
    }

    pub(super) fn splat(&mut self, bits: u32) -> ValueId {
        self.node(Op::Splat(bits))
    }

    pub(super) fn float(&mut self, value: f32) -> ValueId {
        self.splat(value.to_bits())
    }

    pub(super) fn int(&mut self, value: i32) -> ValueId {
        self.splat(value as u32)
    }

    pub(super) fn truth(&mut self, value: bool) -> ValueId {
        self.splat(if value { TRUE } else { FALSE })
    }

    pub(super) fn unary(&mut self, op: VectorUnary, a: ValueId) -> ValueId {
        match self.constant_bits(a).and_then(|bits| fold_unary(op, bits)) {
            Some(bits) => self.splat(bits),
            None => self.node(Op::Unary(op, a)),
        }
    }

    pub(super) fn binary(&mut self, op: VectorBinary, a: ValueId, b: ValueId) -> ValueId {
        let (known_a, known_b) = (self.constant_bits(a), self.constant_bits(b));
        if let (Some(x), Some(y)) = (known_a, known_b)
            && let Some(bits) = fold_binary(op, x, y)
        {
            return self.splat(bits);
        }
        match (op, known_a, known_b) {
            (VectorBinary::And, Some(TRUE), _) | (VectorBinary::Or, Some(FALSE), _) => b,
            (VectorBinary::And, _, Some(TRUE)) | (VectorBinary::Or, _, Some(FALSE)) => a,
            (VectorBinary::And, Some(FALSE), _) | (VectorBinary::Or, Some(TRUE), _) => a,
            (VectorBinary::And, _, Some(FALSE)) | (VectorBinary::Or, _, Some(TRUE)) => b,
            (VectorBinary::AddI, Some(0), _) => b,
            (VectorBinary::AddI | VectorBinary::SubI, _, Some(0)) => a,
            (VectorBinary::MulI, Some(1), _) => b,
            (VectorBinary::MulI, _, Some(1)) => a,
            _ => self.node(Op::Binary(op, a, b)),
        }
    }

    /// Computes `a * b + c`, rounded once.
    pub(super) fn fma(&mut self, a: ValueId, b: ValueId, c: ValueId) -> ValueId {
        self.node(Op::Fma(a, b, c))
    }

    pub(super) fn compare(&mut self, op: VectorCompare, a: ValueId, b: ValueId) -> ValueId {
        if let (Some(x), Some(y)) = (self.constant_bits(a), self.constant_bits(b)) {
            return self.truth(fold_compare(op, x, y));
        }
        self.node(Op::Compare(op, a, b))
    }

    pub(super) fn not(&mut self, a: ValueId) -> ValueId {
        let all = self.truth(true);
        self.binary(VectorBinary::Xor, a, all)
    }

    pub(super) fn select(
        &mut self,
        condition: ValueId,
        then: ValueId,
        otherwise: ValueId,
    ) -> ValueId {
        match self.constant_bits(condition) {
            Some(FALSE) => otherwise,
            Some(_) => then,
            None if then == otherwise => then,
            None => self.node(Op::Select(condition, then, otherwise)),
        }
    }

    pub(super) fn reduce(&mut self, op: VectorBinary, a: ValueId) -> ValueId {
        self.node(Op::Reduce(op, a))
    }
}

fn fold_unary(op: VectorUnary, bits: u32) -> Option<u32> {
    let x = f32::from_bits(bits);
    Some(match op {
        VectorUnary::SqrtF => libm::sqrtf(x).to_bits(),
        VectorUnary::RoundF => libm::rintf(x).to_bits(),
        VectorUnary::FloorF => libm::floorf(x).to_bits(),
        VectorUnary::CeilF => libm::ceilf(x).to_bits(),
        VectorUnary::IntToFloat => (bits as i32 as f32).to_bits(),
        VectorUnary::FloatToInt if x.abs() < 2e9 => x as i32 as u32,
        VectorUnary::FloatToInt => i32::MIN as u32,
        VectorUnary::ShiftLeft(by) => bits << by,
        VectorUnary::ShiftRight(by) => bits >> by,
        VectorUnary::ShiftRightSigned(by) => ((bits as i32) >> by) as u32,
    })
    .filter(|_| !(op == VectorUnary::FloatToInt && (2e9..2.2e9).contains(&x.abs())))
}

/// Folds [`VectorBinary::ScaleF`]; `None` for infinities and NaNs.
fn scaled(x: f32, y: f32) -> Option<u32> {
    // In double precision no relevant power is out of range, and the product is exact.
    let power = || libm::exp2(f64::from(libm::floorf(y).clamp(-1000.0, 1000.0)));
    (x.is_finite() && y.is_finite()).then(|| ((f64::from(x) * power()) as f32).to_bits())
}

fn fold_binary(op: VectorBinary, a: u32, b: u32) -> Option<u32> {
    let (x, y) = (f32::from_bits(a), f32::from_bits(b));
    let (i, j) = (a as i32, b as i32);
    Some(match op {
        VectorBinary::AddF => (x + y).to_bits(),
        VectorBinary::SubF => (x - y).to_bits(),
        VectorBinary::MulF => (x * y).to_bits(),
        VectorBinary::DivF => (x / y).to_bits(),
        VectorBinary::ScaleF => return scaled(x, y),
        VectorBinary::MinF => {
            if x < y {
                a
            } else {
                b
            }
        }
        VectorBinary::MaxF => {
            if x > y {
                a
            } else {
                b
            }
        }
        VectorBinary::AddI => a.wrapping_add(b),
        VectorBinary::SubI => a.wrapping_sub(b),
        VectorBinary::MulI => a.wrapping_mul(b),
        VectorBinary::MinI => i.min(j) as u32,
        VectorBinary::MaxI => i.max(j) as u32,
        VectorBinary::And => a & b,
        VectorBinary::Or => a | b,
        VectorBinary::Xor => a ^ b,
    })
}

fn fold_compare(op: VectorCompare, a: u32, b: u32) -> bool {
    let (x, y) = (f32::from_bits(a), f32::from_bits(b));
    match op {
        VectorCompare::LtF => x < y,
        VectorCompare::LeF => x <= y,
        VectorCompare::EqF => x == y,
        VectorCompare::NeF => x != y,
        VectorCompare::LtI => (a as i32) < (b as i32),
        VectorCompare::EqI => a == b,
    }
}
