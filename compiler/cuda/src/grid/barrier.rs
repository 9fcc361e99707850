//! Barrier insertion.
//!
//! The pass keeps, for the threads that run together, the sets of shared buffers that they have read
//! and written since their last barrier. A statement with a read-after-write, write-after-read or
//! write-after-write hazard gets a barrier before it. A loop is visited twice: accesses pending at
//! its end are pending at its start. If a loop has no hazards of its own, one barrier before it is
//! enough. Tiles of a persistent block have only the block's own memory in common.
//!
//! Iterations of one loop over threads are independent, so inside the innermost there are no
//! hazards. The barrier of a condition around a single statement stands before the condition, so
//! that all threads reach it.

use std::collections::BTreeSet;

use super::pipeline::take_apart;
use super::unbound::{Kernel, Stmt};
use super::{Buffer, LoopKind, MemoryScope, Statement, ThreadLoop, Unplaceable};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::poly::{Atom, Poly, VarId};
use tvmtune_schedule::nest::{Access, any, written};

/// Inserts the barriers of a kernel.
pub(super) fn insert(kernel: &mut Kernel, buffers: &[Buffer]) -> Result<(), Unplaceable> {
    // Memory that nobody writes can be read at any time.
    let mut written = written(&kernel.body);
    written.retain(|it| buffers[it.0 as usize].scope != MemoryScope::Registers);
    let tile_loop = kernel.tiles.as_ref().map(|it| it.tile_loop);
    let mut walk = Inserter { buffers, shared: written, tile_loop, threads: Vec::new() };
    let body = std::mem::take(&mut kernel.body);
    kernel.body = walk.block(body, kernel.threads, &mut Pending::default())?;
    Ok(())
}

/// Accesses of shared memory since the last barrier.
#[derive(Clone, Default)]
struct Pending {
    read: BTreeSet<TensorId>,
    written: BTreeSet<TensorId>,
}

impl Pending {
    fn with(mut self, more: Pending) -> Self {
        self.add(more);
        self
    }

    fn conflicts(&self, next: &Pending) -> bool {
        !self.written.is_disjoint(&next.read)
            || !self.written.is_disjoint(&next.written)
            || !self.read.is_disjoint(&next.written)
    }

    fn retain(&mut self, keep: impl Fn(&TensorId) -> bool) {
        self.read.retain(&keep);
        self.written.retain(&keep);
    }

    fn add(&mut self, more: Pending) {
        self.read.extend(more.read);
        self.written.extend(more.written);
    }
}

/// Returns whether a body is one statement, inside of which nobody waits.
fn is_single(body: &[Stmt]) -> bool {
    matches!(body, [Stmt::Store { .. } | Stmt::Update { .. }])
}

struct Inserter<'a> {
    buffers: &'a [Buffer],
    /// Buffers outside of registers that the kernel writes.
    shared: BTreeSet<TensorId>,
    /// The persistent tile loop.
    tile_loop: Option<VarId>,
    /// The open loops over threads.
    threads: Vec<VarId>,
}

impl Inserter<'_> {
    /// Statements that `range` threads run together.
    fn block(
        &mut self,
        body: Vec<Stmt>,
        range: u32,
        pending: &mut Pending,
    ) -> Result<Vec<Stmt>, Unplaceable> {
        let mut stmts = Vec::new();
        for stmt in body {
            match stmt {
                Stmt::For { var, name, extent, kind: LoopKind::Pipelined(depth), body }
                    if range > 1 =>
                {
                    let parts = take_apart(var, depth, &extent, body, self.buffers, &self.shared);
                    let copies = parts.prologue.iter().map(|it| self.accesses(it));
                    let copies = copies.reduce(Pending::with).unwrap_or_default();
                    if pending.conflicts(&copies) {
                        stmts.push(Stmt::Barrier { range });
                        *pending = Pending::default();
                    }
                    pending.add(copies);
                    let rest = self.block(parts.rest, range, &mut Pending::default())?;
                    for stmt in &rest {
                        pending.add(self.accesses(stmt));
                    }
                    if self.depends_on_thread([&extent]) {
                        return Err(Unplaceable::Divergent);
                    }
                    stmts.extend(parts.prologue);
                    let head = [parts.wait, Stmt::Barrier { range }];
                    let body = head.into_iter().chain(parts.ahead).chain(rest).collect();
                    let kind = LoopKind::Serial;
                    stmts.push(Stmt::For { var, name, extent, kind, body });
                }
                Stmt::For { var, name, extent, kind, body } if range > 1 => {
                    stmts.extend(self.wait_before(&body, range, pending)?);
                    let before = pending.clone();
                    let mut end = pending.clone();
                    self.block(body.clone(), range, &mut end)?;
                    if self.tile_loop == Some(var) {
                        // Tiles have nothing in common but memory of the block.
                        end.retain(|it| self.buffers[it.0 as usize].scope.is_shared());
                    }
                    pending.add(end);
                    let body = self.block(body, range, pending)?;
                    if self.depends_on_thread([&extent]) && body.iter().any(Stmt::waits) {
                        return Err(Unplaceable::Divergent);
                    }
                    // It may run no iteration.
                    pending.add(before);
                    stmts.push(Stmt::For { var, name, extent, kind, body });
                }
                Stmt::If { guards, body } if range > 1 && !is_single(&body) => {
                    let before = pending.clone();
                    let body = self.block(body, range, pending)?;
                    let polys = guards.iter().flat_map(|it| [&it.value, &it.bound]);
                    if self.depends_on_thread(polys) && body.iter().any(Stmt::waits) {
                        return Err(Unplaceable::Divergent);
                    }
                    pending.add(before);
                    stmts.push(Stmt::If { guards, body });
                }
                stmt => {
                    let next = self.accesses(&stmt);
                    if range > 1 && pending.conflicts(&next) {
                        stmts.push(Stmt::Barrier { range });
                        *pending = Pending::default();
                    }
                    pending.add(next);
                    stmts.push(self.inside(stmt)?);
                }
            }
        }
        Ok(stmts)
    }

    /// Returns a barrier before a loop, if that saves one in each iteration: the loop has no hazards
    /// of its own.
    fn wait_before(
        &mut self,
        body: &[Stmt],
        range: u32,
        pending: &mut Pending,
    ) -> Result<Option<Stmt>, Unplaceable> {
        let accesses = body.iter().map(|it| self.accesses(it)).reduce(Pending::with);
        if !accesses.is_some_and(|it| pending.conflicts(&it)) {
            return Ok(None);
        }
        let mut own = Pending::default();
        self.block(body.to_vec(), range, &mut own)?;
        let again = self.block(body.to_vec(), range, &mut own)?;
        if any(&again, &|it| matches!(it, Stmt::Barrier { .. })) {
            return Ok(None);
        }
        *pending = Pending::default();
        Ok(Some(Stmt::Barrier { range }))
    }

    /// Inserts barriers among the threads of one iteration of a loop over threads.
    fn inside(&mut self, stmt: Stmt) -> Result<Stmt, Unplaceable> {
        Ok(match stmt {
            Stmt::Thread(ThreadLoop { var, extent, step, range, body }) if step > 1 => {
                self.threads.push(var);
                let body = self.block(body, step, &mut Pending::default())?;
                self.threads.pop();
                Stmt::Thread(ThreadLoop { var, extent, step, range, body })
            }
            other => other,
        })
    }

    fn depends_on_thread<'p>(&self, polys: impl IntoIterator<Item = &'p Poly>) -> bool {
        let mut depends = false;
        for poly in polys {
            poly.for_each_leaf(&mut |leaf| {
                depends |= matches!(leaf, Atom::Var(var) if self.threads.contains(var));
            });
        }
        depends
    }

    /// Returns the accesses of shared memory in a statement.
    fn accesses(&self, stmt: &Stmt) -> Pending {
        let mut found = Pending::default();
        let is_shared = |it: TensorId| self.shared.contains(&it);
        stmt.accesses(&mut |it| match it {
            Access::Write(tensor, _) if is_shared(tensor) => drop(found.written.insert(tensor)),
            Access::Read(tensor, _) if is_shared(tensor) => drop(found.read.insert(tensor)),
            _ => {}
        });
        stmt.walk(&mut |it| match it {
            Stmt::Update { tensor, .. } if is_shared(*tensor) => drop(found.read.insert(*tensor)),
            _ => {}
        });
        found
    }
}
