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
use tvmtune_math::lane::{self, FALSE, TRUE};
use tvmtune_math::{Arithmetic, Fallback};

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

/// The operation of a node: [`super::Value`] with nodes for operands. A register has the number of
/// writes before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Op {
    Splat(u32),
    Scalar(EntryId),
    Reg(Reg, u32),
    Load(MemRef, LaneStride),
    Gather(MemRef, ValueId),
    LoadAt(MemRef, LaneStride, ValueId),
    Index {
        base: u32,
        step: i32,
    },
    Unary(VectorUnary, ValueId),
    Binary(VectorBinary, ValueId, ValueId),
    Fma(ValueId, ValueId, ValueId),
    Compare(VectorCompare, ValueId, ValueId),
    Select(ValueId, ValueId, ValueId),
    /// Selects the fallback of `x` if the condition holds, else the usual value; see [`super::fallback`].
    Fallback {
        fallback: Fallback,
        condition: ValueId,
        x: ValueId,
        usual: ValueId,
    },
    Reduce(VectorBinary, ValueId),
}

#[derive(Debug, Default)]
pub(super) struct Interned {
    pub(super) addresses: Interner<Address>,
    pub(super) linears: Interner<Linear>,
}

/// Distinct values, known by number.
#[derive(Debug)]
pub(super) struct Interner<T> {
    values: Vec<T>,
    ids: BTreeMap<T, u32>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { values: Vec::new(), ids: BTreeMap::new() }
    }
}

impl<T: Clone + Ord> Interner<T> {
    pub(super) fn id(&mut self, value: T) -> u32 {
        if let Some(id) = self.ids.get(&value) {
            return *id;
        }
        self.values.push(value.clone());
        let id = self.values.len() as u32 - 1;
        self.ids.insert(value, id);
        id
    }

    pub(super) fn get(&self, id: u32) -> T {
        self.value(id).clone()
    }

    pub(super) fn value(&self, id: u32) -> &T {
        &self.values[id as usize]
    }
}

#[derive(Debug)]
pub(super) struct ValueGraph {
    pub(super) isa: Isa,
    pub(super) ops: Vec<Op>,
    ids: BTreeMap<Op, ValueId>,
}

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
            Op::Gather(place, index) | Op::LoadAt(place, _, index) => {
                (Some(*index), masked(place), None)
            }
            Op::Unary(_, a) | Op::Reduce(_, a) => (Some(*a), None, None),
            Op::Binary(_, a, b) | Op::Compare(_, a, b) => (Some(*a), Some(*b), None),
            Op::Fma(a, b, c)
            | Op::Select(a, b, c)
            | Op::Fallback { condition: a, x: b, usual: c, .. } => (Some(*a), Some(*b), Some(*c)),
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
        self.splat(lane::truth(value))
    }

    pub(super) fn unary(&mut self, op: VectorUnary, a: ValueId) -> ValueId {
        match self.constant_bits(a) {
            Some(bits) => self.splat(lane::unary(op, bits)),
            None => self.node(Op::Unary(op, a)),
        }
    }

    pub(super) fn binary(&mut self, op: VectorBinary, a: ValueId, b: ValueId) -> ValueId {
        let (known_a, known_b) = (self.constant_bits(a), self.constant_bits(b));
        if let (Some(x), Some(y)) = (known_a, known_b)
            && (op != VectorBinary::ScaleF || lane::is_finite(x) && lane::is_finite(y))
        {
            return self.splat(lane::binary(op, x, y));
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
            return self.splat(lane::compare(op, x, y));
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

impl Arithmetic for ValueGraph {
    type Value = ValueId;

    fn scales(&self) -> bool {
        self.isa.scales()
    }

    fn constant_bits(&self, value: ValueId) -> Option<u32> {
        self.constant_bits(value)
    }

    fn splat(&mut self, bits: u32) -> ValueId {
        self.splat(bits)
    }

    fn unary(&mut self, op: VectorUnary, x: ValueId) -> ValueId {
        self.unary(op, x)
    }

    fn binary(&mut self, op: VectorBinary, x: ValueId, y: ValueId) -> ValueId {
        self.binary(op, x, y)
    }

    fn fma(&mut self, x: ValueId, y: ValueId, z: ValueId) -> ValueId {
        self.fma(x, y, z)
    }

    fn compare(&mut self, op: VectorCompare, x: ValueId, y: ValueId) -> ValueId {
        self.compare(op, x, y)
    }

    fn select(&mut self, condition: ValueId, then: ValueId, otherwise: ValueId) -> ValueId {
        self.select(condition, then, otherwise)
    }

    fn with_fallback(&mut self, usual: ValueId, fallback: Fallback, x: ValueId) -> ValueId {
        let condition = fallback.condition(self, x);
        match self.constant_bits(condition) {
            Some(FALSE) => usual,
            Some(_) => fallback.value(self, x),
            None => self.node(Op::Fallback { fallback, condition, x, usual }),
        }
    }
}
