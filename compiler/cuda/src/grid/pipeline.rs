//! Software pipelining by `cp.async`.
//!
//! ```text
//! pipelined(3) k in 0..n              copy(0); commit; copy(1); commit
//!   copy(k)                           for k in 0..n
//!   use(k)                     =>       wait for all but 1; barrier
//!                                       if k + 2 < n: copy(k + 2)
//!                                       commit
//!                                       use(k)
//! ```
//!
//! A copied buffer has a stage for each iteration in flight: `k % 3`. One barrier in an iteration is
//! enough: behind it all threads have used stage `(k - 1) % 3`, which is filled next.
//!
//! # Source
//!
//! The multistage main loop of CUTLASS 2.x (`mma_multistage.h`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::kernel::fresh;
use super::stmt::n_accesses;
use super::unbound::{Kernel, Stmt};
use super::{Buffer, LoopKind, Statement};
use tvmtune_ir::dag::{Expr, TensorId};
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_schedule::nest::{Guard, written};

/// The pipeline stages of a copied buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Staging {
    /// The loop.
    var: VarId,
    /// Number of stages.
    pub(super) n_stages: u8,
    /// The variable of the stage, where producer and consumers count.
    stage_var: Option<VarId>,
}

impl Staging {
    /// Returns the stage of an iteration.
    pub(super) fn stage(&self) -> Poly {
        let depth = Poly::constant(self.n_stages.into());
        let of_loop = || Poly::var(self.var).modulo(&depth, &Facts::default());
        self.stage_var.map_or_else(of_loop, Poly::var)
    }

    /// Returns whether it belongs to that loop.
    pub(super) fn is_of(&self, var: VarId) -> bool {
        self.var == var
    }

    /// Returns the variable of the stage, of a warp-specialized loop.
    pub(super) fn stage_var(&self) -> Option<VarId> {
        self.stage_var
    }
}

/// Returns the stages of the buffers that pipelined and warp-specialized loops copy ahead, if all of
/// them turn out to be in shared memory.
pub(super) fn stagings(
    kernel: &Kernel,
    buffers: &[Buffer],
    n_vars: &mut u32,
) -> BTreeMap<TensorId, Staging> {
    let all_written = written(&kernel.body);
    let mut stagings = BTreeMap::new();
    for stmt in &kernel.body {
        stmt.walk(&mut |it| {
            let Stmt::For { var, kind, body, .. } = it else { return };
            let mut insert = |copies: &[Stmt], depth: u8, stage_var: Option<VarId>| {
                for tensor in written(copies) {
                    // A buffer that is used after the loop has one stage for all iterations.
                    if n_accesses(body, tensor) == n_accesses(&kernel.body, tensor) {
                        stagings.insert(tensor, Staging { var: *var, n_stages: depth, stage_var });
                    }
                }
            };
            match kind {
                LoopKind::Pipelined(depth) => {
                    insert(&body[..n_copies(body, buffers, &all_written)], *depth, None);
                }
                LoopKind::WarpSpecialized(depth) => {
                    for run in runs_of_copies(body, buffers, &all_written) {
                        insert(&body[run], *depth, Some(fresh(n_vars)));
                    }
                }
                _ => {}
            }
        });
    }
    stagings
}

/// Makes loops serial whose copies have no stages: they copy nothing, or to registers.
pub(super) fn keep(
    kernel: &mut Kernel,
    buffers: &[Buffer],
    stagings: &BTreeMap<TensorId, Staging>,
) {
    let all_written = written(&kernel.body);
    let shared = |it: &TensorId| buffers[it.0 as usize].scope.is_shared();
    let mut keep = |stmt: &mut Stmt| {
        let Stmt::For { var, kind: kind @ LoopKind::Pipelined(_), body, .. } = stmt else { return };
        let copied = written(&body[..n_copies(body, buffers, &all_written)]);
        let has_staging = |it: &TensorId| stagings.get(it).is_some_and(|it| it.var == *var);
        if copied.is_empty() || !copied.iter().all(|it| shared(it) && has_staging(it)) {
            *kind = LoopKind::Serial;
        }
    };
    kernel.body.iter_mut().for_each(|it| it.for_each_mut(&mut keep));
}

/// Returns the number of leading statements that only copy, from memory that the kernel does not
/// write, to buffers that later statements do not write.
pub(super) fn n_copies(
    body: &[Stmt],
    buffers: &[Buffer],
    written_somewhere: &BTreeSet<TensorId>,
) -> usize {
    let n = body.iter().take_while(|it| copies(it, buffers, written_somewhere)).count();
    let copied = written(&body[..n]);
    if written(&body[n..]).is_disjoint(&copied) { n } else { 0 }
}

/// Returns the statements of a warp-specialized loop that the producer runs, in runs of one circular
/// buffer each: the leading copies, and later ones where they are needed.
pub(super) fn runs_of_copies(
    body: &[Stmt],
    buffers: &[Buffer],
    written_somewhere: &BTreeSet<TensorId>,
) -> Vec<Range<usize>> {
    let first = n_copies(body, buffers, written_somewhere);
    let mut runs: Vec<Range<usize>> = (first > 0).then_some(0..first).into_iter().collect();
    for (n, stmt) in body.iter().enumerate().skip(first) {
        let is_new = written(std::slice::from_ref(stmt)).iter().all(|it| {
            let others = [&body[..n], &body[n + 1..]];
            n_accesses(others[0], *it) == 0 && !written(others[1]).contains(it)
        });
        if !is_new
            || stmt.any(&|it| matches!(it, Stmt::Thread(_)))
            || !copies(stmt, buffers, written_somewhere)
        {
            continue;
        }
        match runs.last_mut() {
            Some(last) if last.end == n => last.end = n + 1,
            _ => runs.push(n..n + 1),
        }
    }
    runs
}

/// Returns whether a statement only copies from memory that nobody writes.
fn copies(stmt: &Stmt, buffers: &[Buffer], written_somewhere: &BTreeSet<TensorId>) -> bool {
    let source = |value: &Expr| {
        let (mut any_read, mut only_constant) = (false, true);
        value.for_each_read(&mut |tensor, _| {
            let scope = buffers[tensor.0 as usize].scope;
            any_read = true;
            only_constant &= scope.is_global() && !written_somewhere.contains(&tensor);
        });
        // A constant is where a reduction starts.
        any_read && only_constant
    };
    let is_other = |it: &Stmt| match it {
        Stmt::Store { tensor, value, .. } => {
            !buffers[tensor.0 as usize].scope.is_local() || !source(value)
        }
        Stmt::Update { .. } | Stmt::AllReduce { .. } => true,
        _ => false,
    };
    !stmt.any(&is_other)
}

/// The parts of a pipelined loop.
pub(super) struct Pipeline {
    /// Copies that fill the first stages, before the loop.
    pub(super) prologue: Vec<Stmt>,
    /// The head of an iteration: the wait, then, behind a barrier, the copies of a later one.
    pub(super) wait: Stmt,
    pub(super) ahead: Vec<Stmt>,
    /// The rest of an iteration.
    pub(super) rest: Vec<Stmt>,
}

/// Takes a loop apart that [`keep`] kept.
pub(super) fn take_apart(
    var: VarId,
    depth: u8,
    extent: &Poly,
    mut body: Vec<Stmt>,
    buffers: &[Buffer],
    written_somewhere: &BTreeSet<TensorId>,
) -> Pipeline {
    let rest = body.split_off(n_copies(&body, buffers, written_somewhere));
    let ahead = i64::from(depth) - 1;
    let copies_of = |iteration: Poly| {
        let inside = Guard { value: iteration.clone(), bound: extent.clone() };
        let copies = body.iter().map(|it| at(it.clone(), var, &iteration)).collect();
        let copies = Stmt::CpAsync { body: copies };
        // Often there are that many iterations for certain.
        let room = inside.bound.clone() - inside.value.clone();
        if room.is_positive(&Facts::default()) {
            return vec![copies, Stmt::CpAsyncCommit];
        }
        vec![Stmt::If { guards: vec![inside], body: vec![copies] }, Stmt::CpAsyncCommit]
    };
    Pipeline {
        prologue: (0..ahead).flat_map(|it| copies_of(Poly::constant(it))).collect(),
        wait: Stmt::CpAsyncWait { groups: u32::from(depth) - 2 },
        ahead: copies_of(Poly::var(var) + Poly::constant(ahead)),
        rest,
    }
}

/// Moves a statement to another iteration.
fn at(stmt: Stmt, var: VarId, iteration: &Poly) -> Stmt {
    let of = |it: VarId| (it == var).then(|| iteration.clone());
    stmt.map_polys(&|it| it.substitute_vars(&of, &Facts::default()))
}
