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
//! shortest gaps between uses share one load. Operands of a matmul stay in registers this way, and
//! overlapping windows of a convolution are loaded once.
//!
//! # Source
//!
//! Redundant load elimination and rematerialization (Briggs, Cooper and Torczon, 1992); shortest
//! gaps first is Belady's rule (1966) applied to uses.

use super::numbering::{Interned, MaskRef, MemRef, Op, ValueGraph, ValueId};
use super::{Address, LaneStride, Mask, PrefetchHint, Reg, Stmt, Storage, Value};

/// A statement whose operands are nodes.
#[derive(Clone, Copy, Debug)]
pub(super) enum PendingStmt {
    Set { reg: Reg, value: ValueId, mask: MaskRef },
    Store { address: u32, lanes: LaneStride, storage: Storage, value: ValueId, mask: MaskRef },
    Prefetch { address: u32, hint: PrefetchHint },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Registers of the machine, less one for temporaries.
    pub(super) registers: u32,
    pub(super) live_through: u32,
}

/// Emits pending statements to `out`; `new_reg` makes registers.
pub(super) fn emit(
    graph: &ValueGraph,
    pending: &[PendingStmt],
    interned: &Interned,
    budget: Budget,
    new_reg: &mut dyn FnMut() -> Reg,
    out: &mut Vec<Stmt>,
) {
    let uses = Uses::of(graph, pending);
    let kept = uses.plan_reuse(graph, pending.len(), budget);
    let in_register = vec![None; graph.ops.len()];
    let used = vec![0; graph.ops.len()];
    let mut emit = Emitter { graph, interned, kept, in_register, used, new_reg, out };
    for stmt in pending {
        match *stmt {
            PendingStmt::Set { reg, value, mask } => {
                let (value, mask) = (emit.value(value), emit.mask(mask));
                emit.out.push(Stmt::Set { reg, value, mask });
            }
            PendingStmt::Store { address, lanes, storage, value, mask } => {
                let (value, mask) = (emit.value(value), emit.mask(mask));
                let address = interned.addresses.get(address);
                emit.out.push(Stmt::Store { address, lanes, storage, value, mask });
            }
            PendingStmt::Prefetch { address, hint } => {
                emit.out.push(Stmt::Prefetch { address: interned.addresses.get(address), hint });
            }
        }
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

    fn plan_reuse(&self, graph: &ValueGraph, n_stmts: usize, budget: Budget) -> ReusePlan {
        let mut kept = ReusePlan {
            always: vec![false; graph.ops.len()],
            gaps: vec![Vec::new(); graph.ops.len()],
        };
        let mut pressure = vec![budget.live_through; n_stmts];
        // Gaps between uses of one load: (length in statements, node, index of the gap).
        let mut gaps = Vec::new();
        for id in &self.order {
            let n = id.0 as usize;
            let [first, .., last] = self.at[n].as_slice() else { continue };
            match graph.op(*id) {
                Op::Splat(_) | Op::Scalar(_) | Op::Reg(..) => {}
                op if is_rematerializable(op) => {
                    kept.gaps[n] = vec![false; self.at[n].len()];
                    let pairs = self.at[n].windows(2).enumerate();
                    gaps.extend(pairs.map(|(which, pair)| (pair[1] - pair[0], n, which)));
                }
                _ => {
                    kept.always[n] = true;
                    let range = &mut pressure[*first as usize..=*last as usize];
                    range.iter_mut().for_each(|it| *it += 1);
                }
            }
        }
        self.add_temporary_pressure(graph, &kept.always, &mut pressure);
        gaps.sort_unstable();
        for (_, n, which) in gaps {
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

    /// Adds the Sethi-Ullman number of each statement: registers of its temporaries.
    fn add_temporary_pressure(&self, graph: &ValueGraph, always: &[bool], pressure: &mut [u32]) {
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
            let is_leaf = op.children().next().is_none();
            needed[n] = if is_leaf || is_rematerializable(op) { 0 } else { in_register.max(1) };
        }
        for (pressure, most) in pressure.iter_mut().zip(most) {
            *pressure += most;
        }
    }
}

/// Returns whether a value is recomputed by at most one instruction.
fn is_rematerializable(op: Op) -> bool {
    matches!(op, Op::Load(..) | Op::Index { .. })
}

struct Emitter<'a> {
    graph: &'a ValueGraph,
    interned: &'a Interned,
    kept: ReusePlan,
    /// The register that holds a node at this point.
    in_register: Vec<Option<Reg>>,
    /// Number of uses emitted so far.
    used: Vec<usize>,
    new_reg: &'a mut dyn FnMut() -> Reg,
    out: &'a mut Vec<Stmt>,
}

impl Emitter<'_> {
    fn value(&mut self, id: ValueId) -> Value {
        let n = id.0 as usize;
        let keep = self.kept.always[n] || self.kept.gaps[n].get(self.used[n]).is_some_and(|it| *it);
        self.used[n] += 1;
        let in_register = if keep { self.in_register[n] } else { self.in_register[n].take() };
        if let Some(reg) = in_register {
            return Value::Reg(reg);
        }
        let value = self.tree(id);
        if !keep {
            return value;
        }
        let reg = (self.new_reg)();
        self.out.push(Stmt::Set { reg, value, mask: None });
        self.in_register[n] = Some(reg);
        Value::Reg(reg)
    }

    fn boxed(&mut self, id: ValueId) -> Box<Value> {
        Box::new(self.value(id))
    }

    fn tree(&mut self, id: ValueId) -> Value {
        match self.graph.op(id) {
            Op::Splat(bits) => Value::Splat(bits),
            Op::Scalar(entry) => Value::Scalar(entry),
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
