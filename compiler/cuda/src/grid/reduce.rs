//! Reductions across threads: each adds into a register of its own, then all all-reduce theirs.
//!
//! ```text
//! thread t: for k: s[i] += x[i, k, t]    =>    part = 0
//!                                              thread t: for k: part += x[i, k, t]
//!                                              part = all-reduce of part
//!                                              s[i] += part
//! ```

use std::collections::BTreeMap;

use super::threads::ThreadLowering;
use super::unbound::Stmt;
use super::walk::reads;
use super::{Buffer, LoopKind, MemoryScope, ThreadLoop, Unplaceable};
use tvmtune_ir::dag::{Expr, Reducer, Subscript, TensorId};
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_schedule::nest::{self, Guard, Nest, Scope};

/// For each buffer of a task, the loops around all of its accesses, outermost first.
pub(super) struct Reductions {
    common: BTreeMap<TensorId, Vec<VarId>>,
}

/// A reduction across the threads of a loop.
pub(super) struct Reduced {
    tensor: TensorId,
    index: Vec<Poly>,
    reducer: Reducer,
    /// The loops between the threads and the update on which the index depends.
    loops: Vec<(VarId, Poly)>,
    /// True if there is such an element: conditions of the update on those loops, and on what is
    /// around the threads.
    guards: Vec<Guard>,
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
        let mut reductions = Self { common: BTreeMap::new() };
        phases.iter().for_each(|it| reductions.visit(it, nest, &mut Vec::new()));
        reductions
    }

    fn visit(&mut self, stmt: &nest::Stmt, nest: &Nest, path: &mut Vec<VarId>) {
        match stmt {
            nest::Stmt::For { var, body, .. } => {
                path.push(*var);
                body.iter().for_each(|it| self.visit(it, nest, path));
                path.pop();
            }
            nest::Stmt::If { body, .. } => body.iter().for_each(|it| self.visit(it, nest, path)),
            nest::Stmt::Store { tensor, value, .. } | nest::Stmt::Update { tensor, value, .. } => {
                self.note(*tensor, nest, path);
                reads(value, &mut |tensor, _| self.note(tensor, nest, path));
            }
        }
    }

    fn note(&mut self, tensor: TensorId, nest: &Nest, path: &[VarId]) {
        if nest.buffer(tensor).scope == Scope::Local {
            let loops = self.common.entry(tensor).or_insert_with(|| path.to_vec());
            let common = loops.iter().zip(path).take_while(|(a, b)| a == b).count();
            loops.truncate(common);
        }
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
                    let is_thread = *kind == tvmtune_schedule::LoopKind::Thread;
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

impl ThreadLowering<'_> {
    /// Lowers a loop whose threads reduce together, among `range` of them.
    pub(super) fn reduce(
        &mut self,
        var: VarId,
        extent: u32,
        body: &[nest::Stmt],
        range: u32,
        reduced: &[Reduced],
    ) -> Result<Vec<Stmt>, Unplaceable> {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut parts = BTreeMap::new();
        for it in reduced {
            let shape: Option<Vec<i64>> = it.loops.iter().map(|it| it.1.as_constant()).collect();
            let shape = shape.ok_or(Unplaceable::NestedReduction)?;
            let part = self.part(it.tensor, &shape);
            parts.insert(it.tensor, (part, it.loops.iter().map(|it| Poly::var(it.0)).collect()));
            let value = Expr::Const(
                it.reducer.identity(self.buffers[it.tensor.0 as usize].dtype),
                self.buffers[it.tensor.0 as usize].dtype,
            );
            before.extend(self.each(&it.loops, |vars, _| {
                vec![Stmt::Store { tensor: part, index: vars.to_vec(), value: value.clone() }]
            }));
            let read = |vars: &[Poly]| Expr::read(part, vars.iter().cloned());
            after.extend(self.each(&it.loops, |vars, renamed| {
                let index = it.index.iter().map(renamed).collect();
                let (tensor, reducer) = (it.tensor, it.reducer);
                let guard =
                    |it: &Guard| Guard { value: renamed(&it.value), bound: renamed(&it.bound) };
                let guards: Vec<Guard> = it.guards.iter().map(guard).collect();
                let update = Stmt::Update { tensor, index, reducer, value: read(vars) };
                let update = match guards.is_empty() {
                    true => update,
                    false => Stmt::If { guards, body: vec![update] },
                };
                vec![Stmt::AllReduce { tensor: part, index: vars.to_vec(), reducer, range }, update]
            }));
        }
        let mut threads = self.thread(var, extent, body, range)?;
        if matches!(threads, Stmt::Thread(ThreadLoop { step: 2.., .. })) {
            // Each thread would add what all those of its iteration add.
            return Err(Unplaceable::NestedReduction);
        }
        redirect(&mut threads, &parts);
        Ok(before.into_iter().chain([threads]).chain(after).collect())
    }

    /// Adds a buffer for the partial result of one thread.
    fn part(&mut self, of: TensorId, shape: &[i64]) -> TensorId {
        let id = TensorId(self.buffers.len() as u32);
        let origin = &self.buffers[of.0 as usize];
        self.buffers.push(Buffer {
            name: format!("{}_part{}", origin.name, id.0),
            dtype: origin.dtype,
            shape: shape.iter().map(|it| Poly::constant(*it)).collect(),
            scope: MemoryScope::Undecided,
            layout: None,
            swizzle: None,
            is_rounded: false,
        });
        id
    }

    /// Returns statements in copies of loops; `stmts` gets their variables, and a function that
    /// renames the old ones.
    fn each(
        &mut self,
        loops: &[(VarId, Poly)],
        stmts: impl FnOnce(&[Poly], &dyn Fn(&Poly) -> Poly) -> Vec<Stmt>,
    ) -> Vec<Stmt> {
        let first = *self.n_vars;
        *self.n_vars += loops.len() as u32;
        let var = |n: usize| VarId(first + n as u32);
        let vars: Vec<Poly> = (0..loops.len()).map(|it| Poly::var(var(it))).collect();
        let renamed = |poly: &Poly| {
            let of = |old: VarId| Some(vars[loops.iter().position(|it| it.0 == old)?].clone());
            poly.substitute_vars(&of, &Facts::default())
        };
        let mut body = stmts(&vars, &renamed);
        for (n, (_, extent)) in loops.iter().enumerate().rev() {
            let (kind, extent) = (LoopKind::Unrolled, extent.clone());
            body = vec![Stmt::For { var: var(n), name: "i".to_owned(), extent, kind, body }];
        }
        body
    }
}

/// Redirects updates of reduced buffers to each thread's partial result.
fn redirect(stmt: &mut Stmt, parts: &BTreeMap<TensorId, (TensorId, Vec<Poly>)>) {
    stmt.for_each_mut(&mut |it| {
        let Stmt::Update { tensor, index, value, .. } = it else { return };
        debug_assert!(!reads_any(value, parts), "what is being reduced is not read");
        if let Some((part, at)) = parts.get(tensor) {
            (*tensor, *index) = (*part, at.clone());
        }
    });
}

fn reads_any(value: &Expr, parts: &BTreeMap<TensorId, (TensorId, Vec<Poly>)>) -> bool {
    let mut found = false;
    reads(value, &mut |tensor, index| {
        let affine = index.iter().all(|it| matches!(it, Subscript::Affine(_)));
        found |= affine && parts.contains_key(&tensor);
    });
    found
}
