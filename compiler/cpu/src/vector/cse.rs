//! Common subexpression elimination under a register budget, with rematerialization of loads.
//!
//! ```text
//! n1 = load a; n2 = n1 * n1; s0: use n2; s1: use n2 + n1
//!     =>   r0 = a * a; s0: use r0; s1: use r0 + a      (n2 kept, the load repeated or kept)
//! ```
//!
//! A node with one use becomes part of the statement that uses it. A computed node with more uses
//! is kept in a register. A *load* is kept from one use to the next only while registers last, and
//! repeated otherwise: a memory operand is cheaper than a spill. Where registers are short, the
//! shortest gaps between uses share one load, those of strided loads first, which are several
//! instructions. Operands of a matmul stay in registers this way, and overlapping windows of a
//! convolution are loaded once.
//!
//! A value with a fallback is a statement of its own, since a branch follows it.
//!
//! Strided accesses of consecutive words stand side by side, four or a multiple of four at a time: loads where
//! the first of them is used, while registers last, and stores at the first of them (see [`transpose`]).
//!
//! # Source
//!
//! Redundant load elimination and rematerialization (Briggs, Cooper and Torczon, 1992); shortest
//! gaps first is Belady's rule (1966) applied to uses.

use std::ops::RangeInclusive;

use super::fallback;
use super::numbering::{Interned, MaskRef, MemRef, Op, ValueGraph, ValueId};
use super::transpose::{self, N_VECTORS};
use super::{Address, LaneStride, Linear, Mask, PrefetchHint, Reg, Stmt, Storage, Value};
use tvmtune_math::Fallback;

/// Statements that loads pass at most to stand side by side; more would take registers for long.
const MAX_PASSED: usize = 64;

/// A statement whose operands are nodes.
#[derive(Clone, Copy, Debug)]
pub(super) enum PendingStmt {
    Set { reg: Reg, value: ValueId, mask: MaskRef },
    Store { address: u32, lanes: LaneStride, storage: Storage, value: ValueId, mask: MaskRef },
    Prefetch { address: u32, hint: PrefetchHint },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Budget<'a> {
    /// Registers of the machine, less one for temporaries.
    pub(super) registers: u32,
    pub(super) live_through: u32,
    /// The first and the last statement of each register that is live in a part of the block.
    pub(super) live_within: &'a [(usize, usize)],
}

/// Emits pending statements to `out`; `new_reg` makes registers.
pub(super) fn emit(
    graph: &ValueGraph,
    pending: &[PendingStmt],
    interned: &Interned,
    budget: Budget<'_>,
    new_reg: &mut dyn FnMut() -> Reg,
    out: &mut Vec<Stmt>,
) {
    let uses = Uses::of(graph, pending);
    let kept = uses.plan_reuse(graph, interned, pending, budget);
    let in_register = vec![None; graph.ops.len()];
    let used = vec![0; graph.ops.len()];
    let mut emit = Emitter { graph, interned, budget, kept, in_register, used, new_reg, out };
    let mut at = 0;
    while at < pending.len() {
        // The values of stores side by side are computed before the first of them.
        let n = emit.kept.side_by_side[at];
        let stmts: Vec<Stmt> = pending[at..at + n].iter().map(|it| emit.stmt(*it)).collect();
        emit.out.extend(stmts);
        at += n;
    }
}

/// The uses of each node, by statement, in order.
struct Uses {
    at: Vec<Vec<u32>>,
    /// Nodes in order of first use.
    order: Vec<ValueId>,
}

/// The nodes that are kept in registers.
struct ReusePlan {
    /// Kept from the first use to the last.
    always: Vec<bool>,
    /// Loads that stand side by side, in order of their addresses.
    runs: Vec<Vec<ValueId>>,
    /// The run of a load.
    run_of: Vec<Option<usize>>,
    /// The number of stores that stand side by side from a statement on, by statement.
    side_by_side: Vec<usize>,
    /// Kept from each use to the next.
    gaps: Vec<Vec<bool>>,
}

impl Uses {
    fn of(graph: &ValueGraph, pending: &[PendingStmt]) -> Self {
        let mut uses = Uses { at: vec![Vec::new(); graph.ops.len()], order: Vec::new() };
        for (at, stmt) in pending.iter().enumerate() {
            let (PendingStmt::Set { value, mask, .. } | PendingStmt::Store { value, mask, .. }) =
                stmt
            else {
                continue;
            };
            uses.visit(graph, *value, at as u32);
            if let MaskRef::Where(id) = mask {
                uses.visit(graph, *id, at as u32);
            }
        }
        uses
    }

    fn visit(&mut self, graph: &ValueGraph, id: ValueId, at: u32) {
        let op = graph.op(id);
        let uses = &mut self.at[id.0 as usize];
        uses.push(at);
        let is_first = uses.len() == 1;
        if is_first {
            self.order.push(id);
        }
        // A rematerialized load uses its mask again.
        if is_first || is_rematerializable(op) {
            for child in op.children() {
                self.visit(graph, child, at);
            }
        }
    }

    fn plan_reuse(
        &self,
        graph: &ValueGraph,
        interned: &Interned,
        pending: &[PendingStmt],
        budget: Budget<'_>,
    ) -> ReusePlan {
        let mut kept = ReusePlan {
            always: vec![false; graph.ops.len()],
            runs: Vec::new(),
            run_of: vec![None; graph.ops.len()],
            side_by_side: Vec::new(),
            gaps: vec![Vec::new(); graph.ops.len()],
        };
        let mut pressure = vec![budget.live_through; pending.len()];
        for (first, last) in budget.live_within {
            pressure[*first..=*last].iter_mut().for_each(|it| *it += 1);
        }
        // Gaps between uses of one load: (is one instruction, length in statements, node, index of the gap).
        let mut gaps = Vec::new();
        for id in &self.order {
            let n = id.0 as usize;
            let uses = self.at[n].as_slice();
            let is_statement = matches!(graph.op(*id), Op::Fallback { .. });
            let (first, last) = match uses {
                [first, .., last] => (first, last),
                [only] if is_statement => (only, only),
                _ => continue,
            };
            match graph.op(*id) {
                Op::Splat(_) | Op::Scalar(..) | Op::Lanes(_) | Op::Reg(..) => {}
                op if is_rematerializable(op) => {
                    kept.gaps[n] = vec![false; self.at[n].len()];
                    let is_simple = !matches!(op, Op::Load(_, LaneStride::Strided(_)));
                    let pairs = self.at[n].windows(2).enumerate();
                    gaps.extend(pairs.map(|(at, pair)| (is_simple, pair[1] - pair[0], n, at)));
                }
                _ => {
                    kept.always[n] = true;
                    let range = &mut pressure[*first as usize..=*last as usize];
                    range.iter_mut().for_each(|it| *it += 1);
                }
            }
        }
        self.add_temporary_pressure((graph, pending), &kept.always, &mut pressure);
        kept.side_by_side = plan_stores(graph, interned, pending, &mut pressure);
        for run in transpose::load_runs(graph, interned, &self.order) {
            let mut place = |loads: &[ValueId]| {
                let live = self.live_together(graph, interned, pending, loads);
                let has_room = live.is_some_and(|it| take_registers(&it, &mut pressure, budget));
                if has_room {
                    kept.place(loads);
                }
                has_room
            };
            if !place(&run) {
                run.chunks(N_VECTORS).for_each(|it| {
                    place(it);
                });
            }
        }
        gaps.retain(|(_, _, n, _)| !kept.always[*n]);
        gaps.sort_unstable();
        for (_, _, n, which) in gaps {
            let (from, to) = (self.at[n][which], self.at[n][which + 1]);
            // A kept neighboring gap has counted the register at the shared use.
            let from = from + u32::from(which > 0 && kept.gaps[n][which - 1]);
            let to = to + 1 - u32::from(kept.gaps[n][which + 1]);
            let range = &mut pressure[from.min(to) as usize..to as usize];
            if range.iter().all(|it| *it < budget.registers) {
                range.iter_mut().for_each(|it| *it += 1);
                kept.gaps[n][which] = true;
            }
        }
        kept
    }

    /// Returns the statements in which each of some loads is live if all are where the first of them is
    /// used; `None` if they would pass many statements, or one that may write to what they read.
    fn live_together(
        &self,
        graph: &ValueGraph,
        interned: &Interned,
        pending: &[PendingStmt],
        loads: &[ValueId],
    ) -> Option<Vec<RangeInclusive<usize>>> {
        let base = transpose::base_of(graph, interned, loads[0])?;
        let uses = || loads.iter().map(|it| &self.at[it.0 as usize]);
        let first = uses().map(|it| it[0] as usize).min()?;
        let passed = uses().map(|it| it[0] as usize).max()?;
        let is_changed = |it| transpose::writes(interned, it, base);
        if passed - first > MAX_PASSED || pending[first..passed].iter().any(is_changed) {
            return None;
        }
        Some(uses().map(|it| first..=it[it.len() - 1] as usize).collect())
    }

    /// Adds the Sethi-Ullman number of each statement: registers of its temporaries.
    fn add_temporary_pressure(
        &self,
        (graph, pending): (&ValueGraph, &[PendingStmt]),
        always: &[bool],
        pressure: &mut [u32],
    ) {
        let in_place = sums_in_place(graph, pending);
        // Registers that a node needs, its result included; 0 if it is an operand.
        let mut needed = vec![0; graph.ops.len()];
        let mut most = vec![0; pressure.len()];
        for id in self.order.iter().rev() {
            let n = id.0 as usize;
            let op = graph.op(*id);
            let child = |it: ValueId| if always[it.0 as usize] { 0 } else { needed[it.0 as usize] };
            let mut parts: Vec<u32> = op.children().map(child).filter(|it| *it > 0).collect();
            parts.sort_unstable_by(|a, b| b.cmp(a));
            let in_register = (0..).zip(&parts).map(|(before, it)| before + it).max().unwrap_or(0);
            // One memory operand is free; each further one takes a register.
            let once = |it: &ValueId| {
                is_rematerializable(graph.op(*it)) && self.at[it.0 as usize].len() == 1
            };
            let loads = op.children().filter(once).count().saturating_sub(1) as u32;
            let at = &mut most[self.at[n][0] as usize];
            *at = (in_register + loads).max(*at);
            let is_leaf = op.children().next().is_none() || in_place[n];
            needed[n] = if is_leaf || is_rematerializable(op) { 0 } else { in_register.max(1) };
        }
        for (pressure, most) in pressure.iter_mut().zip(most) {
            *pressure += most;
        }
    }
}

impl ReusePlan {
    /// Keeps loads from where the first of them is used, side by side.
    fn place(&mut self, loads: &[ValueId]) {
        for it in loads {
            self.always[it.0 as usize] = true;
            self.run_of[it.0 as usize] = Some(self.runs.len());
        }
        self.runs.push(loads.to_vec());
    }
}

/// Returns the nodes whose values take the register of an accumulator, to which several products are added.
fn sums_in_place(graph: &ValueGraph, pending: &[PendingStmt]) -> Vec<bool> {
    let mut in_place = vec![false; graph.ops.len()];
    for stmt in pending {
        let PendingStmt::Set { reg, value, .. } = stmt else { continue };
        let mut sums = vec![*value];
        while let Op::Fma(_, _, sum) = graph.op(sums[sums.len() - 1]) {
            sums.push(sum);
        }
        let base = sums.pop().map(|it| graph.op(it));
        if matches!(base, Some(Op::Reg(of, _)) if of == *reg) {
            sums.iter().skip(1).for_each(|it| in_place[it.0 as usize] = true);
        }
    }
    in_place
}

/// Finds stores that stand side by side, and counts registers for their values. Returns how many stand so
/// from each statement on.
fn plan_stores(
    graph: &ValueGraph,
    interned: &Interned,
    pending: &[PendingStmt],
    pressure: &mut [u32],
) -> Vec<usize> {
    let mut side_by_side = vec![1; pending.len()];
    let mut at = 0;
    while at < pending.len() {
        let n = transpose::n_stores(graph, interned, &pending[at..]);
        side_by_side[at] = n;
        pressure[at..at + n].iter_mut().for_each(|it| *it += n as u32 - 1);
        at += n;
    }
    side_by_side
}

/// Takes a register in each of some ranges of statements; returns whether there are enough.
fn take_registers(
    live: &[RangeInclusive<usize>],
    pressure: &mut [u32],
    budget: Budget<'_>,
) -> bool {
    live.iter().for_each(|it| pressure[it.clone()].iter_mut().for_each(|it| *it += 1));
    let fits = live.iter().all(|it| pressure[it.clone()].iter().all(|it| *it <= budget.registers));
    if !fits {
        live.iter().for_each(|it| pressure[it.clone()].iter_mut().for_each(|it| *it -= 1));
    }
    fits
}

/// Returns whether a value is recomputed by at most one instruction.
fn is_rematerializable(op: Op) -> bool {
    matches!(op, Op::Load(..) | Op::Ramp { .. } | Op::Index { .. })
}

struct Emitter<'a> {
    graph: &'a ValueGraph,
    interned: &'a Interned,
    budget: Budget<'a>,
    kept: ReusePlan,
    /// The register that holds a node at this point.
    in_register: Vec<Option<Reg>>,
    /// Number of uses emitted so far.
    used: Vec<usize>,
    new_reg: &'a mut dyn FnMut() -> Reg,
    out: &'a mut Vec<Stmt>,
}

impl Emitter<'_> {
    /// Emits what a statement needs in registers; returns the statement.
    fn stmt(&mut self, stmt: PendingStmt) -> Stmt {
        match stmt {
            PendingStmt::Set { reg, value, mask } => {
                let (value, mask) = (self.value(value), self.mask(mask));
                Stmt::Set { reg, value, mask }
            }
            PendingStmt::Store { address, lanes, storage, value, mask } => {
                let (value, mask) = (self.value(value), self.mask(mask));
                let address = self.interned.addresses.get(address);
                Stmt::Store { address, lanes, storage, value, mask }
            }
            PendingStmt::Prefetch { address, hint } => {
                Stmt::Prefetch { address: self.interned.addresses.get(address), hint }
            }
        }
    }

    fn value(&mut self, id: ValueId) -> Value {
        let n = id.0 as usize;
        let keep = self.kept.always[n] || self.kept.gaps[n].get(self.used[n]).is_some_and(|it| *it);
        self.used[n] += 1;
        if self.in_register[n].is_none() {
            let run = self.kept.run_of[n].map(|it| self.kept.runs[it].clone());
            for load in run.into_iter().flatten() {
                let value = self.tree(load);
                self.keep(load, value);
            }
        }
        let in_register = if keep { self.in_register[n] } else { self.in_register[n].take() };
        if let Some(reg) = in_register {
            return Value::Reg(reg);
        }
        let value = self.tree(id);
        if keep { self.keep(id, value) } else { value }
    }

    /// Puts the value of a node into a register.
    fn keep(&mut self, id: ValueId, value: Value) -> Value {
        let reg = match (self.graph.op(id), value) {
            (Op::Fallback { .. }, Value::Reg(reg)) => reg,
            (_, value) => self.set(value),
        };
        self.in_register[id.0 as usize] = Some(reg);
        Value::Reg(reg)
    }

    /// Sets a new register.
    fn set(&mut self, value: Value) -> Reg {
        let reg = (self.new_reg)();
        self.out.push(Stmt::Set { reg, value, mask: None });
        reg
    }

    /// Computes the usual value, and behind a branch the one that few lanes need.
    fn with_fallback(&mut self, fallback: Fallback, [condition, x, usual]: [ValueId; 3]) -> Value {
        let x = match self.value(x) {
            Value::Reg(reg) => reg,
            value => self.set(value),
        };
        let condition = self.value(condition);
        let usual = self.value(usual);
        let result = self.set(usual);
        let (graph, value) = fallback::graph(fallback, self.graph.simd, x, result);
        let pending = [PendingStmt::Set { reg: result, value, mask: MaskRef::All }];
        let mut then = Vec::new();
        // All registers of the block may be live here.
        let n_within = self.budget.live_within.len() as u32;
        let live_through = self.budget.live_through + n_within;
        let budget = Budget { live_through, live_within: &[], ..self.budget };
        emit(&graph, &pending, &Interned::default(), budget, self.new_reg, &mut then);
        self.out.push(Stmt::IfAny { condition, then });
        Value::Reg(result)
    }

    fn boxed(&mut self, id: ValueId) -> Box<Value> {
        Box::new(self.value(id))
    }

    fn tree(&mut self, id: ValueId) -> Value {
        match self.graph.op(id) {
            Op::Splat(bits) => Value::Splat(bits),
            Op::Scalar(entry, bits) => Value::Scalar(entry, bits),
            Op::Reg(reg, _) => Value::Reg(reg),
            Op::Load(place, lanes) => {
                let (address, mask) = self.place(place);
                Value::Load { address, lanes, storage: place.storage, mask }
            }
            Op::Gather(place, index) => {
                let index = self.boxed(index);
                let (address, mask) = self.place(place);
                Value::Gather { address, index, storage: place.storage, mask }
            }
            Op::LoadAt(place, lanes, index) => {
                let index = self.boxed(index);
                let (address, mask) = self.place(place);
                Value::LoadAt { address, index, lanes, storage: place.storage, mask }
            }
            Op::Lanes(bits) => Value::Lanes(bits),
            Op::Ramp { first, step } => Value::Index { base: Linear::constant(first), step },
            Op::Index { base, step } => {
                Value::Index { base: self.interned.linears.get(base), step }
            }
            Op::Unary(op, a) => Value::Unary(op, self.boxed(a)),
            Op::Binary(op, a, b) => {
                let a = self.boxed(a);
                Value::Binary(op, a, self.boxed(b))
            }
            Op::Fma(a, b, c) => {
                let (a, b) = (self.boxed(a), self.boxed(b));
                Value::Fma(a, b, self.boxed(c))
            }
            Op::Compare(op, a, b) => {
                let a = self.boxed(a);
                Value::Compare(op, a, self.boxed(b))
            }
            Op::Select(condition, then, otherwise) => {
                let (condition, then) = (self.boxed(condition), self.boxed(then));
                Value::Select { condition, then, otherwise: self.boxed(otherwise) }
            }
            Op::Fallback { fallback, condition, x, usual } => {
                self.with_fallback(fallback, [condition, x, usual])
            }
            Op::Reduce(op, a) => Value::Reduce(op, self.boxed(a)),
        }
    }

    fn place(&mut self, place: MemRef) -> (Address, Option<Mask>) {
        (self.interned.addresses.get(place.address), self.mask(place.mask))
    }

    fn mask(&mut self, mask: MaskRef) -> Option<Mask> {
        match mask {
            MaskRef::All => None,
            MaskRef::First(count) => Some(Mask::First(count)),
            MaskRef::Where(id) => Some(Mask::Where(self.boxed(id))),
        }
    }
}
