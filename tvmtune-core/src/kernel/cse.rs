//! Statements from the nodes of a block: what is used again is kept in a register.
//!
//! A node used once becomes part of the statement that uses it. A computed node used again is
//! kept. A *load* used again is kept only while registers last, else repeated: an instruction can
//! read memory on its own, while a value that does not fit is spilled, and costs more than it
//! saved. This is where a matmul's operands come to stay in registers, and a convolution's
//! overlapping windows are read once.
//!
//! # Source
//!
//! Load elimination under a register budget: measured in this project's study of compilers, which
//! do it without the budget and lose half their speed on convolutions.

use super::graph::{Graph, Id, Interned, MaskOp, Op, Place};
use super::{Lanes, Mask, Reg, Stmt, Storage, Value};

/// A statement whose operands are nodes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pending {
    Set { reg: Reg, value: Id, mask: MaskOp },
    Store { address: u32, lanes: Lanes, storage: Storage, value: Id, mask: MaskOp },
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
    let keep = uses.choose(graph, pending.len(), budget);
    let held = vec![None; graph.ops.len()];
    let mut emit = Emit { graph, interned, keep, held, new_reg, out };
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
        }
    }
}

/// For each node: how often it is used, and between which statements.
struct Uses {
    count: Vec<u32>,
    first: Vec<u32>,
    last: Vec<u32>,
    /// Nodes in the order in which they are first needed.
    order: Vec<Id>,
}

impl Uses {
    fn of(graph: &Graph, pending: &[Pending]) -> Self {
        let n = graph.ops.len();
        let mut uses =
            Uses { count: vec![0; n], first: vec![0; n], last: vec![0; n], order: Vec::new() };
        for (at, stmt) in pending.iter().enumerate() {
            let (Pending::Set { value, mask, .. } | Pending::Store { value, mask, .. }) = stmt;
            uses.visit(graph, *value, at as u32);
            if let MaskOp::Where(id) = mask {
                uses.visit(graph, *id, at as u32);
            }
        }
        uses
    }

    fn visit(&mut self, graph: &Graph, id: Id, at: u32) {
        let n = id.0 as usize;
        self.count[n] += 1;
        self.last[n] = at;
        if self.count[n] == 1 {
            self.first[n] = at;
            self.order.push(id);
            for child in graph.op(id).children() {
                self.visit(graph, child, at);
            }
        }
    }

    /// Which nodes get a register.
    fn choose(&self, graph: &Graph, n_stmts: usize, budget: Budget) -> Vec<bool> {
        let mut keep = vec![false; graph.ops.len()];
        let mut pressure = vec![budget.live; n_stmts];
        let mut optional = Vec::new();
        let mut needed = vec![0; graph.ops.len()];
        for id in self.order.iter().rev() {
            needed[id.0 as usize] = temporaries(graph.op(*id), &needed);
        }
        for id in &self.order {
            let n = id.0 as usize;
            if self.count[n] < 2 {
                continue;
            }
            match graph.op(*id) {
                Op::Splat(_) | Op::Scalar(_) | Op::Reg(..) => {}
                Op::Load(..) | Op::Index { .. } => optional.push(n),
                _ => {
                    keep[n] = true;
                    self.range(n, &mut pressure).iter_mut().for_each(|it| *it += 1);
                }
            }
        }
        // The most registers that the expression of a statement takes while it is evaluated.
        let mut room = vec![0; n_stmts];
        for id in &self.order {
            let at = &mut room[self.first[id.0 as usize] as usize];
            *at = needed[id.0 as usize].max(*at);
        }
        for (pressure, room) in pressure.iter_mut().zip(&room) {
            *pressure += room;
        }
        for n in optional {
            let range = self.range(n, &mut pressure);
            if range.iter().all(|it| *it < budget.registers) {
                range.iter_mut().for_each(|it| *it += 1);
                keep[n] = true;
            }
        }
        keep
    }

    fn range<'a>(&self, n: usize, pressure: &'a mut [u32]) -> &'a mut [u32] {
        &mut pressure[self.first[n] as usize..=self.last[n] as usize]
    }
}

/// Registers in use at once while a tree is evaluated, its result not counted.
fn temporaries(op: Op, needed: &[u32]) -> u32 {
    // A leaf is an operand of the instruction itself.
    let leaf = op.children().next().is_none();
    let mut parts: Vec<u32> = op.children().map(|it| needed[it.0 as usize]).collect();
    parts.sort_unstable_by(|a, b| b.cmp(a));
    let held = parts.iter().enumerate().map(|(n, it)| it + n as u32).max().unwrap_or(0);
    if leaf { 0 } else { held.min(4) }
}

struct Emit<'a> {
    graph: &'a Graph,
    interned: &'a Interned,
    keep: Vec<bool>,
    held: Vec<Option<Reg>>,
    new_reg: &'a mut dyn FnMut() -> Reg,
    out: &'a mut Vec<Stmt>,
}

impl Emit<'_> {
    fn value(&mut self, id: Id) -> Value {
        let n = id.0 as usize;
        if !self.keep[n] {
            return self.tree(id);
        }
        if let Some(reg) = self.held[n] {
            return Value::Reg(reg);
        }
        let value = self.tree(id);
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
