//! Local value numbering of a basic block, with constant folding.
//!
//! Expressions are hash-consed: equal expressions are one node. A read of a register or of memory
//! carries the number of earlier writes to that register or buffer in the block, as memory SSA
//! does, so that reads before and after a write are different nodes. [`super::cse`] turns the nodes of a block into statements.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Address, Count, EntryId, LaneStride, Linear, Reg, ScalarBits, Simd, Storage, VectorBinary,
    VectorCompare, VectorUnary,
};
use tvmtune_math::lane::{self, Width};
use tvmtune_math::{Arithmetic, Fallback, lane64};

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
    Splat(u64),
    Scalar(EntryId, ScalarBits),
    Reg(Reg, u32),
    Load(MemRef, LaneStride),
    Gather(MemRef, ValueId),
    LoadAt(MemRef, LaneStride, ValueId),
    /// A truth value that is known for each lane, and not the same in all of them.
    Lanes(u16),
    /// An integer: `first + lane * step`.
    Ramp {
        first: i64,
        step: i32,
    },
    /// An integer that depends on variables or parameters.
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
    pub(super) simd: Simd,
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
            Op::Splat(_)
            | Op::Scalar(..)
            | Op::Lanes(_)
            | Op::Reg(..)
            | Op::Ramp { .. }
            | Op::Index { .. } => (None, None, None),
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
    pub(super) fn new(simd: Simd) -> Self {
        Self { simd, ops: Vec::new(), ids: BTreeMap::new() }
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

    /// Returns whether a value is the same in all lanes, as far as is known in this block.
    pub(super) fn is_uniform(&self, id: ValueId) -> bool {
        let (mut open, mut seen) = (vec![id], BTreeSet::new());
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            let op = self.op(id);
            match op {
                Op::Splat(_) | Op::Scalar(..) | Op::Reduce(..) => continue,
                Op::Ramp { step: 0, .. } | Op::Index { step: 0, .. } => continue,
                Op::Load(place, LaneStride::Uniform)
                | Op::LoadAt(place, LaneStride::Uniform, _)
                    if !matches!(place.mask, MaskRef::First(_)) => {}
                Op::Unary(..) | Op::Binary(..) | Op::Fma(..) | Op::Compare(..) | Op::Select(..) => {
                }
                _ => return false,
            }
            open.extend(op.children());
        }
        true
    }

    /// Returns the bits of a constant that is the same in all lanes.
    pub(super) fn constant_bits(&self, id: ValueId) -> Option<u64> {
        match self.op(id) {
            Op::Splat(bits) => Some(bits),
            _ => None,
        }
    }

    pub(super) fn splat(&mut self, bits: u64) -> ValueId {
        self.node(Op::Splat(bits))
    }

    /// Makes a float of the lanes' width.
    pub(super) fn float(&mut self, value: f32) -> ValueId {
        match self.simd.width {
            Width::Bits32 => self.splat(value.to_bits().into()),
            Width::Bits64 => self.splat(f64::from(value).to_bits()),
        }
    }

    /// Makes an integer of the lanes' width.
    pub(super) fn int(&mut self, value: i32) -> ValueId {
        self.long(value.into())
    }

    /// Makes an integer of the lanes' width, which it fits.
    pub(super) fn long(&mut self, value: i64) -> ValueId {
        self.splat(int_bits(value, self.simd.width))
    }

    /// Returns the bits of a truth value.
    pub(super) fn truth_bits(&self, value: bool) -> u64 {
        match self.simd.width {
            Width::Bits32 => lane::truth(value).into(),
            Width::Bits64 => lane64::truth(value),
        }
    }

    pub(super) fn truth(&mut self, value: bool) -> ValueId {
        self.splat(self.truth_bits(value))
    }

    /// Returns the truth value that a node is known to be.
    pub(super) fn known_truth(&self, id: ValueId) -> Option<bool> {
        self.constant_bits(id).map(|it| it != lane64::FALSE)
    }

    /// Makes a truth value that is known for each lane.
    fn lanes(&mut self, bits: u16) -> ValueId {
        match bits {
            0 => self.truth(false),
            _ if bits == first_lanes(self.simd.lanes()) => self.truth(true),
            bits => self.node(Op::Lanes(bits)),
        }
    }

    /// Returns the lanes in which a truth value holds, if they are known.
    fn known_lanes(&self, id: ValueId) -> Option<u16> {
        match self.op(id) {
            Op::Lanes(bits) => Some(bits),
            Op::Splat(bits) if bits == self.truth_bits(false) => Some(0),
            Op::Splat(bits) if bits == self.truth_bits(true) => {
                Some(first_lanes(self.simd.lanes()))
            }
            _ => None,
        }
    }

    /// Returns the bits of each lane of a value, if they are known.
    fn known_bits(&self, id: ValueId) -> Option<impl Fn(i64) -> u64 + use<>> {
        let width = self.simd.width;
        let at_first = match self.op(id) {
            Op::Splat(bits) => (bits, None),
            Op::Ramp { first, step } => (0, Some((first, i64::from(step)))),
            _ => return None,
        };
        Some(move |lane: i64| match at_first {
            (bits, None) => bits,
            (_, Some((first, step))) => int_bits(first + lane * step, width),
        })
    }

    /// Returns the mask of the lanes in which a truth value holds.
    pub(super) fn mask_of(&self, id: ValueId) -> MaskRef {
        let prefix = |it: &u16| it.trailing_ones() == it.count_ones();
        match self.known_lanes(id).filter(prefix).map(|it| i64::from(it.count_ones())) {
            Some(n) if n == self.simd.lanes() => MaskRef::All,
            Some(n) => MaskRef::First(Count::Const(n)),
            None => MaskRef::Where(id),
        }
    }

    pub(super) fn unary(&mut self, op: VectorUnary, a: ValueId) -> ValueId {
        match self.constant_bits(a) {
            Some(bits) => self.splat(match self.simd.width {
                Width::Bits32 => lane::unary(op, bits as u32).into(),
                Width::Bits64 => lane64::unary(op, bits),
            }),
            None => self.node(Op::Unary(op, a)),
        }
    }

    pub(super) fn binary(&mut self, op: VectorBinary, a: ValueId, b: ValueId) -> ValueId {
        let (known_a, known_b) = (self.constant_bits(a), self.constant_bits(b));
        if let (Some(x), Some(y)) = (known_a, known_b)
            && let Some(bits) = self.folded(op, x, y)
        {
            return self.splat(bits);
        }
        if let (Some(x), Some(y)) = (self.known_lanes(a), self.known_lanes(b)) {
            match op {
                VectorBinary::And => return self.lanes(x & y),
                VectorBinary::Or => return self.lanes(x | y),
                VectorBinary::Xor => return self.lanes(x ^ y),
                _ => {}
            }
        }
        let is = |known: Option<u64>, value| known == Some(self.truth_bits(value));
        match (op, known_a, known_b) {
            (VectorBinary::And, a, _) if is(a, true) => b,
            (VectorBinary::And, _, b) if is(b, true) => a,
            (VectorBinary::And, known, _) if is(known, false) => a,
            (VectorBinary::And, _, known) if is(known, false) => b,
            (VectorBinary::Or, a, _) if is(a, false) => b,
            (VectorBinary::Or, _, b) if is(b, false) => a,
            (VectorBinary::Or, known, _) if is(known, true) => a,
            (VectorBinary::Or, _, known) if is(known, true) => b,
            (VectorBinary::AddI, Some(0), _) => b,
            (VectorBinary::AddI | VectorBinary::SubI, _, Some(0)) => a,
            (VectorBinary::MulI, Some(1), _) => b,
            (VectorBinary::MulI, _, Some(1)) => a,
            _ => self.node(Op::Binary(op, a, b)),
        }
    }

    /// Computes an operation on constants, unless it depends on the machine.
    fn folded(&self, op: VectorBinary, x: u64, y: u64) -> Option<u64> {
        match self.simd.width {
            Width::Bits64 => Some(lane64::binary(op, x, y)),
            Width::Bits32 => {
                let (x, y) = (x as u32, y as u32);
                let is_same =
                    op != VectorBinary::ScaleF || lane::is_finite(x) && lane::is_finite(y);
                is_same.then(|| lane::binary(op, x, y).into())
            }
        }
    }

    /// Computes `a * b + c`, rounded once.
    pub(super) fn fma(&mut self, a: ValueId, b: ValueId, c: ValueId) -> ValueId {
        self.node(Op::Fma(a, b, c))
    }

    pub(super) fn compare(&mut self, op: VectorCompare, a: ValueId, b: ValueId) -> ValueId {
        if let (Some(x), Some(y)) = (self.known_bits(a), self.known_bits(b)) {
            let is_true = |lane: &i64| match self.simd.width {
                Width::Bits32 => lane::compare(op, x(*lane) as u32, y(*lane) as u32) != lane::FALSE,
                Width::Bits64 => lane64::compare(op, x(*lane), y(*lane)) != lane64::FALSE,
            };
            let bits = (0..self.simd.lanes()).filter(is_true).map(|lane| 1 << lane).sum();
            return self.lanes(bits);
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
        let then = match self.op(then) {
            Op::Select(same, then, _) if same == condition => then,
            _ => then,
        };
        match self.known_truth(condition) {
            Some(false) => otherwise,
            Some(true) => then,
            None if then == otherwise => then,
            // Lanes that a load leaves out are 0.
            None if self.op(otherwise) == Op::Splat(0) && self.is_loaded_where(then, condition) => {
                then
            }
            None => self.node(Op::Select(condition, then, otherwise)),
        }
    }

    /// Returns whether a value is a load of no other lanes than those in which a condition holds.
    fn is_loaded_where(&self, value: ValueId, condition: ValueId) -> bool {
        let (Op::Load(place, _) | Op::Gather(place, _) | Op::LoadAt(place, _, _)) = self.op(value)
        else {
            return false;
        };
        match place.mask {
            MaskRef::All => false,
            MaskRef::First(Count::Const(n)) => self.holds_in(first_lanes(n), condition),
            MaskRef::First(Count::Param(_)) => false,
            MaskRef::Where(mask) => self.implies(mask, condition),
        }
    }

    /// Returns whether a condition is known to hold in some lanes.
    fn holds_in(&self, lanes: u16, condition: ValueId) -> bool {
        self.known_lanes(condition).is_some_and(|it| lanes & !it == 0)
    }

    /// Returns whether a conjunction has a condition among its terms.
    fn implies(&self, conjunction: ValueId, condition: ValueId) -> bool {
        conjunction == condition
            || match self.op(conjunction) {
                Op::Lanes(lanes) => self.holds_in(lanes, condition),
                Op::Binary(VectorBinary::And, a, b) => {
                    self.implies(a, condition) || self.implies(b, condition)
                }
                _ => false,
            }
    }

    pub(super) fn reduce(&mut self, op: VectorBinary, a: ValueId) -> ValueId {
        self.node(Op::Reduce(op, a))
    }
}

impl Arithmetic for ValueGraph {
    type Value = ValueId;

    fn width(&self) -> Width {
        self.simd.width
    }

    fn scales(&self) -> bool {
        self.simd.scales()
    }

    fn constant_bits(&self, value: ValueId) -> Option<u64> {
        self.constant_bits(value)
    }

    fn splat(&mut self, bits: u64) -> ValueId {
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
        match self.known_truth(condition) {
            Some(false) => usual,
            Some(true) => fallback.value(self, x),
            None => self.node(Op::Fallback { fallback, condition, x, usual }),
        }
    }
}

/// Returns the bits of the first lanes.
pub(crate) fn first_lanes(n: i64) -> u16 {
    ((1_u32 << n.clamp(0, 16)) - 1) as u16
}

/// Returns the bits of an integer in a lane, which it fits.
pub(crate) fn int_bits(value: i64, width: Width) -> u64 {
    match width {
        Width::Bits32 => (value as u32).into(),
        Width::Bits64 => value.cast_unsigned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tvmtune_ir::target::Isa;

    #[test]
    fn a_load_needs_no_choice_where_all_of_its_lanes_are_chosen() {
        let mut graph = ValueGraph::new(Simd { isa: Isa::Avx512, width: Width::Bits32 });
        let mask = MaskRef::First(Count::Const(5));
        let place = MemRef { address: 0, storage: Storage::Word, mask, epoch: 0 };
        let load = graph.node(Op::Load(place, LaneStride::Contiguous));
        let zero = graph.int(0);
        for (lanes, is_load) in
            [(0b1_1111, true), (0b111_1111, true), (0b1111, false), (0x8010, false)]
        {
            let condition = graph.lanes(lanes);
            assert_eq!(graph.select(condition, load, zero) == load, is_load, "{lanes:#b}");
        }
    }

    #[test]
    fn known_lanes_are_combined_and_compared() {
        for isa in [Isa::Avx2, Isa::Avx512] {
            let mut graph = ValueGraph::new(Simd { isa, width: Width::Bits32 });
            let ramp = graph.node(Op::Ramp { first: -3, step: 2 });
            let zero = graph.int(0);
            let negative = graph.compare(VectorCompare::LtI, ramp, zero);
            assert_eq!(graph.op(negative), Op::Lanes(0b11));
            assert_eq!(graph.mask_of(negative), MaskRef::First(Count::Const(2)));
            let others = graph.not(negative);
            assert_eq!(graph.mask_of(others), MaskRef::Where(others));
            let all = graph.binary(VectorBinary::Or, negative, others);
            assert_eq!(graph.mask_of(all), MaskRef::All);
            let none = graph.binary(VectorBinary::And, negative, others);
            assert_eq!(graph.known_truth(none), Some(false));
        }
    }
}
