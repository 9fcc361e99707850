//! Statements from the nodes of a block: what is used again is kept in a register.
//!
//! A node used once becomes part of the statement that uses it. A computed node used again is
//! kept. A *load* used again is kept from one use to the next only while registers last, else
//! repeated: an instruction can read memory on its own, while a value that does not fit is
//! spilled, and costs more than it saved. Where registers are short, the uses that are closest to
//! each other share one load. This is where a matmul's operands come to stay in registers, and
//! where a convolution's overlapping windows are read once, if there is room.
//!
//! # Source
//!
//! Load elimination under a register budget: measured in this project's study of compilers, which
//! do it without the budget and lose half their speed on convolutions. Choosing the shortest gaps
//! first is Belady's rule seen from the other side.

use super::graph::{Graph, Id, Interned, MaskOp, Op, Place};
use super::{Lanes, Mask, Reg, Stmt, Storage, Value};

/// A statement whose operands are nodes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pending {
    Set { reg: Reg, value: Id, mask: MaskOp },
    Store { address: u32, lanes: Lanes, storage: Storage, value: Id, mask: MaskOp },
    Prefetch { address: u32 },
}

/// What emission may count on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Registers of the machine, less one.
    pub(super) registers: u32,
    /// Registers that hold something throughout the block.
    pub(super) live: u32,
}

/// Appends the statements to `out`; `new_reg` hands out registers.
pub(super) fn emit(
    graph: &Graph,
    pending: &[Pending],
    interned: &Interned,
    budget: Budget,
    new_reg: &mut dyn FnMut() -> Reg,
    out: &mut Vec<Stmt>,
) {
    let uses = Uses::of(graph, pending);
    let kept = uses.choose(graph, pending.len(), budget);
    let held = vec![None; graph.ops.len()];
    let used = vec![0; graph.ops.len()];
    let mut emit = Emit { graph, interned, kept, held, used, new_reg, out };
    for stmt in pending {
        match *stmt {
            Pending::Set { reg, value, mask } => {
                let (value, mask) = (emit.value(value), emit.mask(mask));
                emit.out.push(Stmt::Set { reg, value, mask });
            }
            Pending::Store { address, lanes, storage, value, mask } => {
                let (value, mask) = (emit.value(value), emit.mask(mask));
                let address = interned.addresses[address as usize].clone();
                emit.out.push(Stmt::Store { address, lanes, storage, value, mask });
            }
            Pending::Prefetch { address } => {
                let address = interned.addresses[address as usize].clone();
                emit.out.push(Stmt::Prefetch { address });
            }
        }
    }
}

/// For each node: the statements that use it, in order.
struct Uses {
    at: Vec<Vec<u32>>,
    /// Nodes in the order in which they are first needed.
    order: Vec<Id>,
}

/// What is kept in registers.
struct Kept {
    /// From the first use to the last.
    always: Vec<bool>,
    /// From each use to the next.
    gaps: Vec<Vec<bool>>,
}

impl Uses {
    fn of(graph: &Graph, pending: &[Pending]) -> Self {
        let mut uses = Uses { at: vec![Vec::new(); graph.ops.len()], order: Vec::new() };
        for (at, stmt) in pending.iter().enumerate() {
            let (Pending::Set { value, mask, .. } | Pending::Store { value, mask, .. }) = stmt
            else {
                continue;
            };
            uses.visit(graph, *value, at as u32);
            if let MaskOp::Where(id) = mask {
                uses.visit(graph, *id, at as u32);
            }
        }
        uses
    }

    fn visit(&mut self, graph: &Graph, id: Id, at: u32) {
        let op = graph.op(id);
        let uses = &mut self.at[id.0 as usize];
        uses.push(at);
        let is_first = uses.len() == 1;
        if is_first {
            self.order.push(id);
        }
        // A load may be repeated, and its mask with it.
        if is_first || is_cheap(op) {
            for child in op.children() {
                self.visit(graph, child, at);
            }
        }
    }

    fn choose(&self, graph: &Graph, n_stmts: usize, budget: Budget) -> Kept {
        let mut kept =
            Kept { always: vec![false; graph.ops.len()], gaps: vec![Vec::new(); graph.ops.len()] };
        let mut pressure = vec![budget.live; n_stmts];
        // The gaps between uses of one load: (statements, node, which).
        let mut gaps = Vec::new();
        for id in &self.order {
            let n = id.0 as usize;
            let [first, .., last] = self.at[n].as_slice() else { continue };
            match graph.op(*id) {
                Op::Splat(_) | Op::Scalar(_) | Op::Reg(..) => {}
                op if is_cheap(op) => {
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
        self.add_temporaries(graph, &kept.always, &mut pressure);
        gaps.sort_unstable();
        for (_, n, which) in gaps {
            let (from, to) = (self.at[n][which], self.at[n][which + 1]);
            // Where a neighboring gap is kept, the register is counted already.
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

    /// Adds, for each statement, the most registers its expressions take while they are evaluated.
    fn add_temporaries(&self, graph: &Graph, always: &[bool], pressure: &mut [u32]) {
        // For each node: what it takes, its result included; 0 if it is an operand as it is.
        let mut needed = vec![0; graph.ops.len()];
        let mut most = vec![0; pressure.len()];
        for id in self.order.iter().rev() {
            let n = id.0 as usize;
            let op = graph.op(*id);
            let child = |it: Id| if always[it.0 as usize] { 0 } else { needed[it.0 as usize] };
            let mut parts: Vec<u32> = op.children().map(child).filter(|it| *it > 0).collect();
            parts.sort_unstable_by(|a, b| b.cmp(a));
            let held = (0..).zip(&parts).map(|(before, it)| before + it).max().unwrap_or(0);
            // One operand may come from memory; another one that does takes a register.
            let once = |it: &Id| is_cheap(graph.op(*it)) && self.at[it.0 as usize].len() == 1;
            let loads = op.children().filter(once).count().saturating_sub(1) as u32;
            let at = &mut most[self.at[n][0] as usize];
            *at = (held + loads).max(*at);
            let is_leaf = op.children().next().is_none();
            needed[n] = if is_leaf || is_cheap(op) { 0 } else { held.max(1) };
        }
        for (pressure, most) in pressure.iter_mut().zip(most) {
            *pressure += most;
        }
    }
}

/// Whether a value is had again for an instruction or less.
fn is_cheap(op: Op) -> bool {
    matches!(op, Op::Load(..) | Op::Index { .. })
}

struct Emit<'a> {
    graph: &'a Graph,
    interned: &'a Interned,
    kept: Kept,
    /// The register that holds a node now.
    held: Vec<Option<Reg>>,
    /// Uses so far.
    used: Vec<usize>,
    new_reg: &'a mut dyn FnMut() -> Reg,
    out: &'a mut Vec<Stmt>,
}

impl Emit<'_> {
    fn value(&mut self, id: Id) -> Value {
        let n = id.0 as usize;
        let keep = self.kept.always[n] || self.kept.gaps[n].get(self.used[n]).is_some_and(|it| *it);
        self.used[n] += 1;
        let held = if keep { self.held[n] } else { self.held[n].take() };
        if let Some(reg) = held {
            return Value::Reg(reg);
        }
        let value = self.tree(id);
        if !keep {
            return value;
        }
        let reg = (self.new_reg)();
        self.out.push(Stmt::Set { reg, value, mask: None });
        self.held[n] = Some(reg);
        Value::Reg(reg)
    }

    fn boxed(&mut self, id: Id) -> Box<Value> {
        Box::new(self.value(id))
    }

    fn tree(&mut self, id: Id) -> Value {
        match self.graph.op(id) {
            Op::Splat(bits) => Value::Splat(bits),
            Op::Scalar(slot) => Value::Scalar(slot),
            Op::Reg(reg, _) => Value::Reg(reg),
            Op::Load(place, lanes) => {
                let Place { address, storage, mask, .. } = place;
                let mask = self.mask(mask);
                let address = self.interned.addresses[address as usize].clone();
                Value::Load { address, lanes, storage, mask }
            }
            Op::Gather(place, index) => {
                let index = self.boxed(index);
                let mask = self.mask(place.mask);
                let address = self.interned.addresses[place.address as usize].clone();
                Value::Gather { address, index, storage: place.storage, mask }
            }
            Op::Index { base, step } => {
                Value::Index { base: self.interned.linears[base as usize].clone(), step }
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

    fn mask(&mut self, mask: MaskOp) -> Option<Mask> {
        match mask {
            MaskOp::All => None,
            MaskOp::First(count) => Some(Mask::First(count)),
            MaskOp::Where(id) => Some(Mask::Where(self.boxed(id))),
        }
    }
}
