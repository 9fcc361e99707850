//! Reductions across threads: each adds into a register of its own, then all all-reduce theirs.
//!
//! ```text
//! thread t: for k: s[i] += x[i, k, t]    =>    part = 0
//!                                              thread t: for k: part += x[i, k, t]
//!                                              part = all-reduce of part
//!                                              s[i] += part
//! ```

use std::collections::BTreeMap;

use super::unbound::Stmt;
use super::{LoopKind, Statement};
use tvmtune_ir::dag::{Expr, Reducer, TensorId};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_schedule::nest::{self, Guard, Nest};

/// For each buffer of a task, the loops around all of its accesses, outermost first.
pub(super) struct Reductions {
    common: BTreeMap<TensorId, Vec<VarId>>,
}

/// A reduction across the threads of a loop.
pub(super) struct Reduced {
    pub(super) tensor: TensorId,
    pub(super) index: Vec<Poly>,
    pub(super) reducer: Reducer,
    /// The loops between the threads and the update on which the index depends.
    pub(super) loops: Vec<(VarId, Poly)>,
    /// True if there is such an element: conditions of the update on those loops, and on what is
    /// around the threads.
    pub(super) guards: Vec<Guard>,
}

/// The loops and guards around a statement inside of a loop over threads.
#[derive(Default)]
struct Around {
    /// Loops: extents, and whether over threads.
    loops: Vec<(VarId, Poly, bool)>,
    guards: Vec<Guard>,
}

impl Reductions {
    pub(super) fn new(phases: &[nest::Stmt], nest: &Nest) -> Self {
        Self { common: nest.lifetimes(phases) }
    }

    /// Returns the reductions across the threads of a loop: updates, of elements that do not depend on
    /// the thread, in buffers that are visible outside of the loop.
    pub(super) fn of(&self, var: VarId, body: &[nest::Stmt]) -> Vec<Reduced> {
        let mut found = Vec::new();
        self.collect(var, body, &mut Around::default(), &mut found);
        found
    }

    fn collect(
        &self,
        thread: VarId,
        body: &[nest::Stmt],
        around: &mut Around,
        found: &mut Vec<Reduced>,
    ) {
        for stmt in body {
            match stmt {
                nest::Stmt::For { var, extent, kind, body, .. } => {
                    let is_thread = *kind == LoopKind::Thread;
                    around.loops.push((*var, extent.clone(), is_thread));
                    self.collect(thread, body, around, found);
                    around.loops.pop();
                }
                nest::Stmt::If { guards, body } => {
                    let n = around.guards.len();
                    around.guards.extend(guards.iter().cloned());
                    self.collect(thread, body, around, found);
                    around.guards.truncate(n);
                }
                nest::Stmt::Store { .. } => {}
                nest::Stmt::Update { tensor, index, reducer, .. } => {
                    let depends = |var: VarId| index.iter().any(|it| it.mentions(var));
                    let inside = self.common.get(tensor).is_some_and(|it| it.contains(&thread));
                    if inside || depends(thread) {
                        continue;
                    }
                    let of_element = |it: &(VarId, Poly, bool)| depends(it.0) || it.2;
                    let (loops, steps): (Vec<_>, Vec<_>) =
                        around.loops.iter().partition(|it| of_element(it));
                    let guards = around.guards.iter().filter(|guard| {
                        let of_step = |var| guard.value.mentions(var) || guard.bound.mentions(var);
                        !of_step(thread) && !steps.iter().any(|it| of_step(it.0))
                    });
                    let guards = guards.cloned().collect();
                    let loops = loops.into_iter().map(|(var, extent, is_thread)| {
                        // A loop over threads in here is refused: its extent stands for that.
                        let extent = if *is_thread { Poly::var(*var) } else { extent.clone() };
                        (*var, extent)
                    });
                    let (tensor, reducer, index) = (*tensor, *reducer, index.clone());
                    let loops = loops.collect();
                    found.push(Reduced { tensor, index, reducer, loops, guards });
                }
            }
        }
    }
}

/// Redirects updates of reduced buffers to each thread's partial result.
pub(super) fn redirect(stmt: &mut Stmt, parts: &BTreeMap<TensorId, (TensorId, Vec<Poly>)>) {
    stmt.for_each_mut(&mut |it| {
        let Stmt::Update { tensor, index, value, .. } = it else { return };
        debug_assert!(!reads_any(value, parts), "what is being reduced is not read");
        if let Some((part, at)) = parts.get(tensor) {
            (*tensor, *index) = (*part, at.clone());
        }
    });
}

fn reads_any(value: &Expr, parts: &BTreeMap<TensorId, (TensorId, Vec<Poly>)>) -> bool {
    value.any(&mut |it| match it {
        Expr::Read { tensor, index } => {
            index.iter().all(|it| it.affine().is_some()) && parts.contains_key(tensor)
        }
        _ => false,
    })
}
