//! From loops over threads to the one program that each thread runs.
//!
//! A loop over threads disappears: its variable becomes a position of the thread, and what threads
//! beyond its extent must not do is guarded. Guards stand around as much as they can, but never
//! around a wait. What is to happen once, the first of the threads does; registers are written by
//! all.

use std::collections::BTreeMap;

use super::{Kernel, Stmt, ThreadVar};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_schedule::nest::Guard;

/// Binds the threads of a kernel; `in_registers` says which buffers each thread has its own of.
pub(super) fn bind(kernel: &mut Kernel, in_registers: &dyn Fn(TensorId) -> bool, n_vars: &mut u32) {
    let body = std::mem::take(&mut kernel.body);
    let mut binder = Binder {
        in_registers,
        n_vars,
        threads: kernel.threads,
        vars: std::mem::take(&mut kernel.thread_vars),
        renamed: BTreeMap::new(),
    };
    let body = binder.block(body, kernel.threads);
    let Binder { vars, renamed, .. } = binder;
    let of = |var: VarId| renamed.get(&var).cloned();
    let rename = |it: &Poly| it.substitute_vars(&of, &Facts::default());
    kernel.body = body.into_iter().map(|it| it.map_polys(&rename)).collect();
    kernel.thread_vars = vars;
    kernel.thread_vars.sort_by_key(|it| (it.range, it.step));
}

struct Binder<'a> {
    in_registers: &'a dyn Fn(TensorId) -> bool,
    n_vars: &'a mut u32,
    threads: u32,
    vars: Vec<ThreadVar>,
    /// Loop variables, and what they are now.
    renamed: BTreeMap<VarId, Poly>,
}

impl Binder<'_> {
    /// What `range` threads do together.
    fn block(&mut self, body: Vec<Stmt>, range: u32) -> Vec<Stmt> {
        let mut stmts = Vec::new();
        for stmt in body {
            match stmt {
                Stmt::Thread { var, extent, step, range, body } => {
                    let position = self.position(step, range);
                    self.renamed.insert(var, position.clone());
                    let body = self.block(body, step);
                    if u64::from(extent) * u64::from(step) < u64::from(range) {
                        let bound = Poly::constant(extent.into());
                        stmts.extend(guarded(&Guard { value: position, bound }, body));
                    } else {
                        stmts.extend(body);
                    }
                }
                Stmt::For { var, name, extent, kind, body } => {
                    let body = self.block(body, range);
                    stmts.push(Stmt::For { var, name, extent, kind, body });
                }
                Stmt::If { guards, body } => {
                    stmts.push(Stmt::If { guards, body: self.block(body, range) });
                }
                Stmt::CpAsync { body } => {
                    stmts.push(Stmt::CpAsync { body: self.block(body, range) });
                }
                Stmt::Store { tensor, .. } | Stmt::Update { tensor, .. }
                    if range > 1 && !(self.in_registers)(tensor) =>
                {
                    let first = Guard { value: self.position(1, range), bound: Poly::constant(1) };
                    stmts.push(Stmt::If { guards: vec![first], body: vec![stmt] });
                }
                stmt => stmts.push(stmt),
            }
        }
        stmts
    }

    /// `thread % range / step`
    fn position(&mut self, step: u32, range: u32) -> Poly {
        if step >= range {
            return Poly::default();
        }
        debug_assert!(range <= self.threads, "no more threads than there are");
        let same = |it: &&ThreadVar| (it.step, it.range) == (step, range);
        if let Some(known) = self.vars.iter().find(same) {
            return Poly::var(known.var);
        }
        let var = VarId(*self.n_vars);
        *self.n_vars += 1;
        self.vars.push(ThreadVar { var, step, range });
        Poly::var(var)
    }
}

/// Statements that only some threads run, those around a wait excepted.
fn guarded(guard: &Guard, body: Vec<Stmt>) -> Vec<Stmt> {
    let mut stmts: Vec<Stmt> = Vec::new();
    // Whether the last statement is a condition made here, which the next one may join.
    let mut is_open = false;
    for stmt in body {
        if !stmt.waits() {
            match stmts.last_mut() {
                Some(Stmt::If { body, .. }) if is_open => body.push(stmt),
                _ => stmts.push(Stmt::If { guards: vec![guard.clone()], body: vec![stmt] }),
            }
            is_open = true;
            continue;
        }
        is_open = false;
        stmts.push(match stmt {
            Stmt::For { var, name, extent, kind, body } => {
                Stmt::For { var, name, extent, kind, body: guarded(guard, body) }
            }
            Stmt::If { guards, body } => Stmt::If { guards, body: guarded(guard, body) },
            other => other,
        });
    }
    stmts
}
