//! Strength reduction of addresses: induction variables for the affine sums of a phase.
//!
//! ```text
//! for i { load [a + 64*i]; load [a + 64*i + 4] }
//!     =>   p = a; for i { load [p]; load [p + 4]; p += 64 }
//! ```
//!
//! In: the statements of a phase. Out: an [`InductionPlan`]: the induction variables of each loop and
//! each `Let`. Next: [`super::select`] keeps them in registers.
//!
//! Addresses that differ by a constant share an induction variable and differ in displacement. Those
//! that differ by a parameter (rows of a matrix of dynamic width) share one too: the parameter
//! becomes the index register of the access.
//!
//! # Invariants
//!
//! - An induction variable belongs to the innermost scope whose variable its sum contains, and
//!   starts at the sum without that variable, which an outer scope keeps.
//! - Scopes are numbered in program order, here and in selection.
//!
//! # Source
//!
//! Allen, Cocke and Kennedy, "Reduction of Operator Strength" (1981); LLVM's loop strength reduction.

use std::collections::{BTreeMap, BTreeSet};

use crate::vector::{
    Address, Base, Count, EntryId, LaneStride, Linear, Mask, Simd, Stmt, Storage, Value,
    first_lanes,
};
use tvmtune_ir::poly::VarId;
use tvmtune_ir::target::Isa;

/// `base + param + sum of var * stride`: a [`Linear`] or [`Address`] without its constant.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AffineSum {
    pub base: Option<Base>,
    pub param: Option<EntryId>,
    pub strides: Vec<(VarId, Count)>,
}

/// An [`AffineSum`], by position in [`InductionPlan::sums`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SumId(pub u32);

/// An induction variable: a sum that changes with the variable of a scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct InductionVar {
    pub sum: SumId,
    /// Its value where the scope's variable is 0.
    pub start: SumId,
    /// Its increment per increment of the scope's variable.
    pub stride: Count,
}

/// The active lanes of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ActiveLanes<'a> {
    All,
    /// A bit for each lane, known when code is generated.
    Known(u16),
    /// The first lanes, as many as a parameter says.
    First(EntryId),
    /// Those in which a truth value is true.
    Where(&'a Value),
}

impl<'a> ActiveLanes<'a> {
    pub(super) fn of(mask: Option<&'a Mask>, simd: Simd) -> Self {
        match mask {
            None => ActiveLanes::All,
            Some(Mask::First(Count::Const(n))) if *n >= simd.lanes() => ActiveLanes::All,
            Some(Mask::First(Count::Const(n))) => ActiveLanes::Known(first_lanes(*n)),
            Some(Mask::First(Count::Param(entry))) => ActiveLanes::First(*entry),
            Some(Mask::Where(value)) => match &**value {
                Value::Lanes(bits) => ActiveLanes::Known(*bits),
                value => ActiveLanes::Where(value),
            },
        }
    }

    /// Returns whether some lane is known to be active.
    fn has_some(self, simd: Simd) -> bool {
        match self {
            ActiveLanes::All => true,
            ActiveLanes::Known(bits) => bits & first_lanes(simd.lanes()) != 0,
            ActiveLanes::First(_) | ActiveLanes::Where(_) => false,
        }
    }

    fn is_known(self) -> bool {
        matches!(self, ActiveLanes::All | ActiveLanes::Known(_))
    }
}

/// Canonicalizes a stride of one element to contiguous.
pub(super) fn canonical_lanes(lanes: LaneStride, storage: Storage) -> LaneStride {
    match lanes {
        LaneStride::Strided(Count::Const(step)) if step == storage.bytes() => {
            LaneStride::Contiguous
        }
        lanes => lanes,
    }
}

/// Returns how many words elements of a load are apart, if contiguous loads and permutations of them are faster
/// than a gather: one of each for as many words, up to eight by judgement.
pub(super) fn permuted_stride(
    isa: Isa,
    lanes: LaneStride,
    storage: Storage,
    active: ActiveLanes<'_>,
) -> Option<u32> {
    let LaneStride::Strided(Count::Const(step)) = lanes else { return None };
    let words = u32::try_from(step / 4).ok().filter(|_| step % 4 == 0)?;
    let is_fast = match words {
        2 | 3 | 5 | 7 => active.is_known() || isa == Isa::Avx512,
        4 | 6 | 8 => isa == Isa::Avx512,
        _ => false,
    };
    (storage == Storage::Word && is_fast).then_some(words)
}

/// Elements of one byte, a constant number of bytes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BytesApart {
    pub step: u32,
    /// A bit for each active lane.
    pub active: u16,
    /// The first active lane.
    pub first: u32,
    /// Bytes from the first active element to the last one, with both.
    pub span: u32,
}

/// The greatest number of bytes between elements up to which a load and a shuffle for each 16 of them are faster
/// than a copy of each; chosen by judgement.
const MAX_BYTES_APART: u32 = 16;
/// The fewest bytes that one load takes.
const MIN_BYTES_LOADED: u32 = 8;

/// Returns how elements of a load are apart, if they are bytes that are loaded together and shuffled to their
/// lanes.
pub(super) fn shuffled_bytes(
    simd: Simd,
    lanes: LaneStride,
    storage: Storage,
    active: ActiveLanes<'_>,
) -> Option<BytesApart> {
    let LaneStride::Strided(Count::Const(step)) = lanes else { return None };
    let step = u32::try_from(step).ok().filter(|it| (2..=MAX_BYTES_APART).contains(it))?;
    let active = match active {
        ActiveLanes::All => first_lanes(simd.lanes()),
        ActiveLanes::Known(bits) => bits & first_lanes(simd.lanes()),
        ActiveLanes::First(_) | ActiveLanes::Where(_) => return None,
    };
    let first = active.trailing_zeros();
    let last = active.checked_ilog2()?;
    let span = step * (last - first) + 1;
    (storage.bytes() == 1 && span >= MIN_BYTES_LOADED).then_some(BytesApart {
        step,
        active,
        first,
        span,
    })
}

/// Returns whether a load is of words in reverse: one load and permutations are faster than a gather.
pub(super) fn loads_reversed(lanes: LaneStride, storage: Storage, active: ActiveLanes<'_>) -> bool {
    let is_whole = active == ActiveLanes::All;
    lanes == LaneStride::Strided(Count::Const(-4)) && storage == Storage::Word && is_whole
}

/// Returns whether a load is a gather, whose index register is a vector.
pub(super) fn is_gather(
    simd: Simd,
    lanes: LaneStride,
    storage: Storage,
    active: ActiveLanes<'_>,
) -> bool {
    let isa = simd.isa;
    storage == Storage::of_lanes(simd.width)
        && match canonical_lanes(lanes, storage) {
            LaneStride::Uniform => isa == Isa::Avx2 && !active.has_some(simd),
            LaneStride::Contiguous => false,
            LaneStride::Strided(_) => {
                permuted_stride(isa, lanes, storage, active).is_none()
                    && !loads_reversed(lanes, storage, active)
            }
        }
}

pub(super) fn is_scatter(simd: Simd, lanes: LaneStride, storage: Storage) -> bool {
    let strided = matches!(canonical_lanes(lanes, storage), LaneStride::Strided(_));
    storage == Storage::of_lanes(simd.width) && simd.isa == Isa::Avx512 && strided
}

/// The trip count of a loop, as far as selection depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trips {
    Never,
    Once,
    /// More than one, or unknown.
    Many,
}

impl Trips {
    pub(super) fn of(count: Count) -> Self {
        match count {
            Count::Const(..=0) => Trips::Never,
            Count::Const(1) => Trips::Once,
            _ => Trips::Many,
        }
    }
}

/// Variables in scope, innermost last, with the number of their scope; `None` for variables that
/// are always 0.
#[derive(Default)]
pub(super) struct ActiveVars(Vec<(VarId, Option<usize>)>);

impl ActiveVars {
    pub(super) fn push(&mut self, var: VarId, scope: Option<usize>) {
        self.0.push((var, scope));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    fn scope(&self, var: VarId) -> Option<usize> {
        self.0.iter().rev().find(|it| it.0 == var).expect("variables are in scope").1
    }

    /// Returns the innermost scope that a sum depends on, and the index of its stride.
    fn innermost(&self, sum: &AffineSum) -> Option<(usize, usize)> {
        let scopes = sum.strides.iter().enumerate();
        scopes.filter_map(|(at, it)| Some((self.scope(it.0)?, at))).max()
    }
}

/// Parameters of the accesses with the same base and strides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Params {
    /// All have the same parameter, or none.
    One(Option<EntryId>),
    Several,
}

/// See the [module documentation](self).
#[derive(Default)]
pub(super) struct InductionPlan {
    sums: Vec<AffineSum>,
    ids: BTreeMap<AffineSum, SumId>,
    params: BTreeMap<AffineSum, Params>,
    seen: BTreeSet<(usize, SumId)>,
    /// Induction variables of each scope, in order of first use.
    scopes: Vec<Vec<InductionVar>>,
}

impl InductionPlan {
    /// Plans a phase. `lets` stand before `body`, in the scope of `task`, which has number 0.
    pub(super) fn new(simd: Simd, task: VarId, lets: &[Stmt], body: &[Stmt]) -> Self {
        let mut plan = InductionPlan::default();
        for collecting in [true, false] {
            plan.scopes.clear();
            let active = ActiveVars::default();
            Planner { simd, plan: &mut plan, active, collecting }.phase(task, lets, body);
        }
        plan
    }

    pub(super) fn sum(&self, id: SumId) -> &AffineSum {
        &self.sums[id.0 as usize]
    }

    pub(super) fn n_sums(&self) -> usize {
        self.sums.len()
    }

    pub(super) fn induction_vars(&self, scope: usize) -> &[InductionVar] {
        &self.scopes[scope]
    }

    /// Returns the sum of an address, and the parameter that the access adds as an index register.
    pub(super) fn address(
        &self,
        address: &Address,
        active: &ActiveVars,
        indexable: bool,
    ) -> (SumId, Option<EntryId>) {
        let (sum, index) = self.split(address, active, indexable);
        (self.ids[&sum], index)
    }

    pub(super) fn linear(&self, linear: &Linear, active: &ActiveVars) -> SumId {
        self.ids[&AffineSum::of(None, linear, active)]
    }

    fn split(
        &self,
        address: &Address,
        active: &ActiveVars,
        indexable: bool,
    ) -> (AffineSum, Option<EntryId>) {
        let full = AffineSum::of(Some(address.base), &address.offset, active);
        let group = AffineSum { param: None, ..full.clone() };
        match self.params.get(&group) {
            Some(Params::Several) if indexable => (group, full.param),
            _ => (full, None),
        }
    }

    fn intern(&mut self, sum: AffineSum) -> SumId {
        if let Some(id) = self.ids.get(&sum) {
            return *id;
        }
        let id = SumId(self.sums.len() as u32);
        self.sums.push(sum.clone());
        self.ids.insert(sum, id);
        id
    }
}

impl AffineSum {
    fn of(base: Option<Base>, linear: &Linear, active: &ActiveVars) -> Self {
        let moves = |it: &&(VarId, Count)| it.1 != Count::Const(0) && active.scope(it.0).is_some();
        let strides = linear.strides.iter().filter(moves).copied().collect();
        Self { base, param: linear.param, strides }
    }

    /// Returns whether the sum is 0.
    pub(super) fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

/// A traversal of a phase: the first collects parameters, the second makes induction variables.
struct Planner<'a> {
    simd: Simd,
    plan: &'a mut InductionPlan,
    active: ActiveVars,
    collecting: bool,
}

impl Planner<'_> {
    fn phase(&mut self, task: VarId, lets: &[Stmt], body: &[Stmt]) {
        self.enter(task);
        self.stmts(lets);
        self.stmts(body);
    }

    fn enter(&mut self, var: VarId) {
        self.active.push(var, Some(self.plan.scopes.len()));
        self.plan.scopes.push(Vec::new());
    }

    fn block(&mut self, body: &[Stmt]) {
        let depth = self.active.len();
        self.stmts(body);
        self.active.truncate(depth);
    }

    fn stmts(&mut self, body: &[Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::Loop { var, count, body } => {
                    let depth = self.active.len();
                    match Trips::of(*count) {
                        Trips::Never => continue,
                        Trips::Once => self.active.push(*var, None),
                        Trips::Many => self.enter(*var),
                    }
                    self.block(body);
                    self.active.truncate(depth);
                }
                Stmt::If { value, bound, then, otherwise } => {
                    self.linear(value);
                    self.linear(bound);
                    self.block(then);
                    self.block(otherwise);
                }
                Stmt::IfAny { condition, then } => {
                    self.value(condition);
                    self.block(then);
                }
                Stmt::Choose { var, value, less, body, .. } => {
                    let depth = self.active.len();
                    self.value(value);
                    self.linear(less);
                    self.enter(*var);
                    self.block(body);
                    self.active.truncate(depth);
                }
                Stmt::Between { var, from, to, body, .. } => {
                    let depth = self.active.len();
                    for bound in from.iter().chain(to) {
                        self.value(&bound.value);
                        self.linear(&bound.less);
                    }
                    self.enter(*var);
                    self.block(body);
                    self.active.truncate(depth);
                }
                Stmt::Let { var, value, .. } => {
                    self.linear(value);
                    self.enter(*var);
                }
                Stmt::Set { .. } => stmt.operands().for_each(|it| self.value(it)),
                Stmt::Store { address, lanes, storage, .. } => {
                    stmt.operands().for_each(|it| self.value(it));
                    self.address(address, !is_scatter(self.simd, *lanes, *storage));
                }
                Stmt::Prefetch { address, .. } => self.address(address, true),
            }
        }
    }

    fn value(&mut self, value: &Value) {
        value.operands().for_each(|it| self.value(it));
        match value {
            Value::Load { address, lanes, storage, mask } => {
                let active = ActiveLanes::of(mask.as_ref(), self.simd);
                self.address(address, !is_gather(self.simd, *lanes, *storage, active));
            }
            Value::Gather { address, .. } | Value::LoadAt { address, .. } => {
                self.address(address, false);
            }
            Value::Index { base, .. } => self.linear(base),
            _ => {}
        }
    }

    fn address(&mut self, address: &Address, indexable: bool) {
        if !self.collecting {
            let (sum, _) = self.plan.split(address, &self.active, indexable);
            self.require(sum);
        } else if indexable {
            let mut sum = AffineSum::of(Some(address.base), &address.offset, &self.active);
            let mine = Params::One(sum.param.take());
            let params = self.plan.params.entry(sum).or_insert(mine);
            if *params != mine {
                *params = Params::Several;
            }
        }
    }

    fn linear(&mut self, linear: &Linear) {
        if !self.collecting {
            self.require(AffineSum::of(None, linear, &self.active));
        }
    }

    /// Adds an induction variable for a sum, and for its start in outer scopes.
    fn require(&mut self, sum: AffineSum) -> SumId {
        let innermost = self.active.innermost(&sum);
        let id = self.plan.intern(sum);
        if let Some((scope, at)) = innermost
            && self.plan.seen.insert((scope, id))
        {
            let mut start = self.plan.sum(id).clone();
            let (_, stride) = start.strides.remove(at);
            let start = self.require(start);
            self.plan.scopes[scope].push(InductionVar { sum: id, start, stride });
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tvmtune_math::lane::Width;

    #[test]
    fn words_up_to_eight_apart_are_permuted_where_masks_allow_it() {
        let known = ActiveLanes::Known(0b101);
        let unknown = ActiveLanes::First(EntryId(0));
        for (isa, bytes, active, expected) in [
            (Isa::Avx512, 8, unknown, Some(2)),
            (Isa::Avx512, 32, unknown, Some(8)),
            (Isa::Avx512, 36, ActiveLanes::All, None),
            (Isa::Avx512, -8, ActiveLanes::All, None),
            (Isa::Avx2, 8, ActiveLanes::All, Some(2)),
            (Isa::Avx2, 8, known, Some(2)),
            // Half of a shuffle has no mask there.
            (Isa::Avx2, 8, unknown, None),
            (Isa::Avx2, 12, ActiveLanes::All, Some(3)),
            (Isa::Avx2, 28, known, Some(7)),
            (Isa::Avx2, 12, unknown, None),
            (Isa::Avx2, 16, ActiveLanes::All, None),
            (Isa::Avx2, 24, known, None),
        ] {
            let lanes = LaneStride::Strided(Count::Const(bytes));
            let found = permuted_stride(isa, lanes, Storage::Word, active);
            assert_eq!(found, expected, "{isa:?} {bytes} {active:?}");
            assert_eq!(permuted_stride(isa, lanes, Storage::Long, active), None);
        }
    }

    #[test]
    fn lanes_that_a_vector_does_not_have_are_not_active() {
        for (width, bits, expected) in [
            (Width::Bits64, 0b1111_0000, true),
            (Width::Bits64, 0b1000, false),
            (Width::Bits32, 0b1111_0000, false),
            (Width::Bits32, 0b1_0000_0000, true),
        ] {
            let simd = Simd { isa: Isa::Avx2, width };
            let storage = Storage::of_lanes(width);
            let gathers = |active| is_gather(simd, LaneStride::Uniform, storage, active);
            assert_eq!(gathers(ActiveLanes::Known(bits)), expected, "{width:?} {bits:#b}");
            assert!(gathers(ActiveLanes::First(EntryId(0))));
        }
    }
}
