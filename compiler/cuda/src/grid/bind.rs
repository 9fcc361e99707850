//! Thread binding: from loops over threads to the one program that each thread runs.
//!
//! A loop over threads disappears: its variable becomes a position of the thread, and threads beyond
//! its extent are predicated off. Guards stand as far out as they can, but never around a wait. Of
//! threads that would all do the same, the first one does it; registers are written by all.

use std::collections::BTreeMap;

use super::kernel::thread_var;
use super::{Kernel, Stmt, ThreadLoop, ThreadVar};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_schedule::nest::Guard;

/// Binds the threads of a kernel; `in_registers` says which buffers each thread has its own of.
pub(super) fn bind(
    kernel: Kernel<ThreadLoop>,
    in_registers: &dyn Fn(TensorId) -> bool,
    n_vars: &mut u32,
) -> Kernel {
    let Kernel { threads, thread_vars: vars, producer, body, .. } = kernel;
    let mut binder = Binder { in_registers, n_vars, threads, vars, renamed: BTreeMap::new() };
    let body = binder.block(body, threads);
    // A producer is one thread.
    let producer = binder.block(producer, 1);
    let Binder { mut vars, renamed, .. } = binder;
    let of = |var: VarId| renamed.get(&var).cloned();
    let rename = |it: &Poly| it.substitute_vars(&of, &Facts::default());
    vars.sort_by_key(|it| (it.range, it.step));
    Kernel {
        blocks: kernel.blocks,
        tiles: kernel.tiles,
        threads,
        shared_bytes: kernel.shared_bytes,
        partials: kernel.partials,
        fragments: kernel.fragments,
        thread_vars: vars,
        circular_buffers: kernel.circular_buffers,
        tensor_maps: kernel.tensor_maps,
        producer,
        body: body.into_iter().map(|it| it.map_polys(&rename)).collect(),
    }
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
    /// Statements that `range` threads run together.
    fn block(&mut self, body: Vec<Stmt<ThreadLoop>>, range: u32) -> Vec<Stmt> {
        let mut stmts = Vec::new();
        for stmt in body {
            match stmt {
                Stmt::Thread(ThreadLoop { var, extent, step, range, body }) => {
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
                Stmt::Store { tensor, index, value } => {
                    let store = Stmt::Store { tensor, index, value };
                    stmts.push(self.by_first(tensor, store, range));
                }
                Stmt::Update { tensor, index, reducer, value } => {
                    let update = Stmt::Update { tensor, index, reducer, value };
                    stmts.push(self.by_first(tensor, update, range));
                }
                Stmt::WgmmaGroup { body } => {
                    stmts.push(Stmt::WgmmaGroup { body: self.block(body, range) });
                }
                other => stmts.push(collective(other)),
            }
        }
        stmts
    }

    /// A write by the first of `range` threads, or to the registers of each.
    fn by_first(&mut self, tensor: TensorId, write: Stmt, range: u32) -> Stmt {
        if range == 1 || (self.in_registers)(tensor) {
            return write;
        }
        let first = Guard { value: self.position(1, range), bound: Poly::constant(1) };
        Stmt::If { guards: vec![first], body: vec![write] }
    }

    /// `thread % range / step`
    fn position(&mut self, step: u32, range: u32) -> Poly {
        if step >= range {
            return Poly::default();
        }
        debug_assert!(range <= self.threads, "no more threads than there are");
        Poly::var(thread_var(&mut self.vars, step, range, self.n_vars))
    }
}

/// A statement that all threads run and that holds no others.
fn collective(stmt: Stmt<ThreadLoop>) -> Stmt {
    match stmt {
        Stmt::AllReduce { tensor, index, reducer, range } => {
            Stmt::AllReduce { tensor, index, reducer, range }
        }
        Stmt::TransposeQuad { tensor, is_converged, is_ordered } => {
            Stmt::TransposeQuad { tensor, is_converged, is_ordered }
        }
        Stmt::CpAsyncCommit => Stmt::CpAsyncCommit,
        Stmt::CpAsyncWait { groups } => Stmt::CpAsyncWait { groups },
        Stmt::LoadFragment { fragment, at, operand } => {
            Stmt::LoadFragment { fragment, at, operand }
        }
        Stmt::Mma { tensor, index, a, b, dtype } => Stmt::Mma { tensor, index, a, b, dtype },
        Stmt::Wgmma { accumulators, columns, a, b, dtype } => {
            Stmt::Wgmma { accumulators, columns, a, b, dtype }
        }
        Stmt::WgmmaWait { groups, sum } => Stmt::WgmmaWait { groups, sum },
        Stmt::TmaLoad { tensor_map, position, coordinates, pipeline } => {
            Stmt::TmaLoad { tensor_map, position, coordinates, pipeline }
        }
        Stmt::ProducerAcquire { pipeline } => Stmt::ProducerAcquire { pipeline },
        Stmt::ConsumerWait { pipeline } => Stmt::ConsumerWait { pipeline },
        Stmt::ConsumerRelease { pipeline, stage } => Stmt::ConsumerRelease { pipeline, stage },
        Stmt::AdvanceStage { pipeline } => Stmt::AdvanceStage { pipeline },
        Stmt::FenceProxyAsync => Stmt::FenceProxyAsync,
        Stmt::Barrier { range } => Stmt::Barrier { range },
        Stmt::For { .. }
        | Stmt::If { .. }
        | Stmt::Thread(_)
        | Stmt::Store { .. }
        | Stmt::Update { .. }
        | Stmt::CpAsync { .. }
        | Stmt::WgmmaGroup { .. } => unreachable!("the caller binds what is inside"),
    }
}

/// Statements that only some threads run, those around a wait excepted.
fn guarded(guard: &Guard, body: Vec<Stmt>) -> Vec<Stmt> {
    let mut stmts: Vec<Stmt> = Vec::new();
    // True if the last statement is a condition made here, which the next one may join.
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
