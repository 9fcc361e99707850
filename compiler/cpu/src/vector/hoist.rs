//! Loop-invariant code motion: values that no iteration changes are computed before the loop, as far as
//! registers are left for them.
//!
//! ```text
//! loop v1 in 0..6                                     r0 = LtI(t0[8*v0].1, 9)
//!   t2[64*v1].n = t1[64*v1].n{LtI(t0[8*v0].1, 9)} =>  loop v1 in 0..6
//!                                                       t2[64*v1].n = t1[64*v1].n{r0}
//! ```
//!
//! In: the statements of a phase. Out: the same statements, some of them before loops.
//!
//! # Source
//!
//! LLVM's `LICM`.

use std::collections::BTreeSet;

use super::{Base, Count, Linear, Mask, Phase, Reg, Simd, Stmt, Storage, Value, VectorBinary};
use tvmtune_ir::poly::VarId;
use tvmtune_ir::target::Isa;

/// Mask registers that invariant truth values may take: there are five, and those of one iteration need some.
const MAX_MASKS: usize = 3;

/// Hoists the invariant values of all loops of a phase; new registers count from `n_regs`.
pub(super) fn hoist(phase: &mut Phase, simd: Simd, n_regs: &mut u32) {
    let n = *n_regs as usize;
    let mut all =
        Assignments { n_sets: vec![0; n], truths: vec![false; n], stored: BTreeSet::new() };
    all.collect(&phase.body);
    phase.body = block(std::mem::take(&mut phase.body), simd, &mut all);
    *n_regs = all.n_sets.len() as u32;
}

/// The registers and the memory that a phase assigns.
struct Assignments {
    n_sets: Vec<u32>,
    /// The registers that are truth values.
    truths: Vec<bool>,
    stored: BTreeSet<Base>,
}

impl Assignments {
    fn collect(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            match stmt {
                Stmt::Set { reg, value, .. } => {
                    let n = reg.0 as usize;
                    self.n_sets[n] += 1;
                    self.truths[n] = self.is_truth(value);
                }
                Stmt::Store { address, .. } => {
                    self.stored.insert(address.base);
                }
                _ => {}
            }
            stmt.blocks().for_each(|it| self.collect(it));
        }
    }

    /// Returns whether a value is known to be a truth value.
    fn is_truth(&self, value: &Value) -> bool {
        match value {
            Value::Compare(..) | Value::Lanes(_) | Value::Load { storage: Storage::Bool, .. } => {
                true
            }
            Value::Reg(reg) => self.truths[reg.0 as usize],
            Value::Binary(VectorBinary::And | VectorBinary::Or, a, b) => {
                self.is_truth(a) && self.is_truth(b)
            }
            Value::Binary(VectorBinary::Xor, a, _) => self.is_truth(a),
            _ => false,
        }
    }

    fn new_reg(&mut self, is_truth: bool) -> Reg {
        self.n_sets.push(1);
        self.truths.push(is_truth);
        Reg(self.n_sets.len() as u32 - 1)
    }
}

/// Hoists in all loops of a statement list, inner ones first.
fn block(stmts: Vec<Stmt>, simd: Simd, all: &mut Assignments) -> Vec<Stmt> {
    let mut out = Vec::with_capacity(stmts.len());
    for stmt in stmts {
        match stmt {
            Stmt::Loop { var, count, body } => {
                let body = block(body, simd, all);
                let runs = matches!(count, Count::Const(1..));
                let (hoisted, body) = Loop { var, runs, simd }.hoisted(body, all);
                out.extend(hoisted);
                out.push(Stmt::Loop { var, count, body });
            }
            Stmt::If { value, bound, then, otherwise } => {
                let (then, otherwise) = (block(then, simd, all), block(otherwise, simd, all));
                out.push(Stmt::If { value, bound, then, otherwise });
            }
            Stmt::IfAny { condition, then } => {
                out.push(Stmt::IfAny { condition, then: block(then, simd, all) });
            }
            Stmt::Choose { var, value, less, count, body } => {
                let body = block(body, simd, all);
                out.push(Stmt::Choose { var, value, less, count, body });
            }
            Stmt::Between { var, from, to, count, body } => {
                let body = block(body, simd, all);
                let (hoisted, body) = Loop { var, runs: false, simd }.hoisted(body, all);
                out.extend(hoisted);
                out.push(Stmt::Between { var, from, to, count, body });
            }
            other => out.push(other),
        }
    }
    out
}

#[derive(Clone, Copy)]
struct Loop {
    var: VarId,
    /// It runs at least once.
    runs: bool,
    simd: Simd,
}

impl Loop {
    /// Returns the invariant statements of a body, and the others: all, else some truth values, else none, as
    /// registers suffice.
    fn hoisted(self, body: Vec<Stmt>, all: &mut Assignments) -> (Vec<Stmt>, Vec<Stmt>) {
        for truths_only in [false, true] {
            let (n_sets, n_truths) = (all.n_sets.clone(), all.truths.clone());
            let mut motion = Motion::new(self, &body, all, truths_only);
            let left = motion.body(&body);
            let hoisted = motion.hoisted;
            if hoisted.is_empty() {
                break;
            }
            if self.fits(&hoisted, &left, all) {
                return (hoisted, left);
            }
            (all.n_sets, all.truths) = (n_sets, n_truths);
        }
        (Vec::new(), body)
    }

    /// Returns whether there are registers for hoisted values beside those of the body.
    fn fits(self, hoisted: &[Stmt], body: &[Stmt], all: &Assignments) -> bool {
        let new: BTreeSet<Reg> = hoisted.iter().filter_map(target).collect();
        let mut used = BTreeSet::new();
        mentioned(body, &mut used);
        let is_mask = |it: &Reg| self.simd.isa == Isa::Avx512 && all.truths[it.0 as usize];
        let (masks, vectors): (Vec<Reg>, Vec<Reg>) = used.into_iter().partition(is_mask);
        let n_new = |of: &[Reg]| of.iter().filter(|it| new.contains(it)).count();
        n_new(&masks) <= MAX_MASKS
            && (n_new(&vectors) == 0 || vectors.len() <= self.simd.registers() as usize / 2)
    }
}

fn target(stmt: &Stmt) -> Option<Reg> {
    match stmt {
        Stmt::Set { reg, .. } => Some(*reg),
        _ => None,
    }
}

/// Collects the registers that statements read or assign.
fn mentioned(stmts: &[Stmt], found: &mut BTreeSet<Reg>) {
    for stmt in stmts {
        found.extend(target(stmt));
        stmt.operands().for_each(|it| reads(it, found));
        stmt.blocks().for_each(|it| mentioned(it, found));
    }
}

fn reads(value: &Value, found: &mut BTreeSet<Reg>) {
    if let Value::Reg(reg) = value {
        found.insert(*reg);
    }
    value.operands().for_each(|it| reads(it, found));
}

/// The motion of invariant values out of one loop.
struct Motion<'a> {
    all: &'a mut Assignments,
    /// Variables that the loop and its body bind.
    bound: BTreeSet<VarId>,
    /// Registers that the body assigns, without those that were moved.
    assigned: BTreeSet<Reg>,
    /// The loop runs at least once, so memory that an iteration reads for certain is there.
    runs: bool,
    truths_only: bool,
    hoisted: Vec<Stmt>,
}

impl<'a> Motion<'a> {
    fn new(of: Loop, body: &[Stmt], all: &'a mut Assignments, truths_only: bool) -> Self {
        let (mut bound, mut assigned) = (BTreeSet::from([of.var]), BTreeSet::new());
        bind(body, &mut bound, &mut assigned);
        let runs = of.runs;
        Self { all, bound, assigned, runs, truths_only, hoisted: Vec::new() }
    }

    /// Moves what is invariant; returns the other statements.
    fn body(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        let mut left = Vec::with_capacity(body.len());
        for stmt in body {
            if let Stmt::Set { reg, value, mask: None } = stmt
                && self.all.n_sets[reg.0 as usize] == 1
                && self.may_move(value)
                && self.is_invariant(value, self.runs)
            {
                self.assigned.remove(reg);
                self.hoisted.push(stmt.clone());
                continue;
            }
            let mut stmt = stmt.clone();
            self.parts(&mut stmt, self.runs);
            left.push(stmt);
        }
        left
    }

    /// Moves the invariant parts of a statement's values; not those of loops, which were moved out of them.
    fn parts(&mut self, stmt: &mut Stmt, may_load: bool) {
        match stmt {
            Stmt::If { then, otherwise, .. } => {
                then.iter_mut().chain(otherwise).for_each(|it| self.parts(it, false));
            }
            Stmt::IfAny { condition: value, then: body } | Stmt::Choose { value, body, .. } => {
                self.part(value, may_load);
                body.iter_mut().for_each(|it| self.parts(it, false));
            }
            Stmt::Set { value, mask, .. } | Stmt::Store { value, mask, .. } => {
                self.part(value, may_load);
                if let Some(Mask::Where(value)) = mask {
                    self.part(value, may_load);
                }
            }
            Stmt::Between { from, to, .. } => {
                from.iter_mut().chain(to).for_each(|it| self.part(&mut it.value, may_load));
            }
            Stmt::Loop { .. } | Stmt::Let { .. } | Stmt::Prefetch { .. } => {}
        }
    }

    /// Replaces the largest invariant parts of a value that take instructions by registers.
    fn part(&mut self, value: &mut Value, may_load: bool) {
        if takes_instructions(value) && self.may_move(value) && self.is_invariant(value, may_load) {
            *value = Value::Reg(self.register_of(value));
            return;
        }
        operands_mut(value).into_iter().for_each(|it| self.part(it, may_load));
    }

    fn register_of(&mut self, value: &Value) -> Reg {
        let same = self.hoisted.iter().find_map(|it| match it {
            Stmt::Set { reg, value: other, .. } if other == value => Some(*reg),
            _ => None,
        });
        same.unwrap_or_else(|| {
            let reg = self.all.new_reg(self.all.is_truth(value));
            self.hoisted.push(Stmt::Set { reg, value: value.clone(), mask: None });
            reg
        })
    }

    fn may_move(&self, value: &Value) -> bool {
        !self.truths_only || self.hoisted.len() < MAX_MASKS && self.all.is_truth(value)
    }

    fn is_invariant(&self, value: &Value, may_load: bool) -> bool {
        let of_linear = |it: &Linear| it.strides.iter().all(|(var, _)| !self.bound.contains(var));
        let is_own = match value {
            Value::Reg(reg) => !self.assigned.contains(reg),
            Value::Index { base, .. } => of_linear(base),
            Value::Load { address, .. }
            | Value::Gather { address, .. }
            | Value::LoadAt { address, .. } => {
                may_load && !self.all.stored.contains(&address.base) && of_linear(&address.offset)
            }
            _ => true,
        };
        is_own && value.operands().all(|it| self.is_invariant(it, may_load))
    }
}

/// Collects the variables that statements bind, and the registers that they assign.
fn bind(stmts: &[Stmt], bound: &mut BTreeSet<VarId>, assigned: &mut BTreeSet<Reg>) {
    for stmt in stmts {
        assigned.extend(target(stmt));
        if let Stmt::Loop { var, .. }
        | Stmt::Choose { var, .. }
        | Stmt::Between { var, .. }
        | Stmt::Let { var, .. } = stmt
        {
            bound.insert(*var);
        }
        stmt.blocks().for_each(|it| bind(it, bound, assigned));
    }
}

/// Returns whether a value is more than a load, a constant or a register.
fn takes_instructions(value: &Value) -> bool {
    !matches!(
        value,
        Value::Reg(_)
            | Value::Splat(_)
            | Value::Scalar(..)
            | Value::Lanes(_)
            | Value::Index { .. }
            | Value::Load { .. }
    )
}

/// Returns the operands of a value, that of the mask last.
fn operands_mut(value: &mut Value) -> Vec<&mut Value> {
    match value {
        Value::Splat(_)
        | Value::Scalar(..)
        | Value::Lanes(_)
        | Value::Reg(_)
        | Value::Index { .. } => Vec::new(),
        Value::Load { mask, .. } => masked(mask).into_iter().collect(),
        Value::Gather { index, mask, .. } | Value::LoadAt { index, mask, .. } => {
            [Some(&mut **index), masked(mask)].into_iter().flatten().collect()
        }
        Value::Unary(_, a) | Value::Reduce(_, a) => vec![a],
        Value::Binary(_, a, b) | Value::Compare(_, a, b) => vec![a, b],
        Value::Fma(a, b, c) | Value::Select { condition: a, then: b, otherwise: c } => {
            vec![a, b, c]
        }
    }
}

fn masked(mask: &mut Option<Mask>) -> Option<&mut Value> {
    match mask {
        Some(Mask::Where(value)) => Some(value),
        Some(Mask::First(_)) | None => None,
    }
}
