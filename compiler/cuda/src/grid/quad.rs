//! Stores of MMA results in whole sectors: the four lanes that have a row exchange what they have of
//! it.
//!
//! Of every eight columns, a lane has two neighbors. If those are 8 or 16 bits wide, each row of such a
//! store is half a sector of memory or less, for which the L2 cache takes as long as for a whole one. So
//! each lane collects all of one of four runs of eight columns:
//!
//! ```text
//! unrolled j in 0..4:                     unrolled j in 0..4:
//!   vectorized p in 0..2:                   vectorized p in 0..2:
//!     c[i, 8 j + 2 q + p] = f(..)    =>       row[2 j + p] = f(..)
//!                                         transpose row between lanes q
//!                                         vectorized p in 0..8:
//!                                           c[i, 8 q + p] = row[p]
//! ```
//!
//! On an H200, a batched product that stored 201 MB in such halves took 2.5 times as long as cuBLAS
//! (`docs/results/h200.md`).

use std::collections::BTreeSet;

use super::kernel::fresh;
use super::{Buffer, Kernel, LoopKind, MemoryScope, Statement, Stmt, WARP};
use tvmtune_ir::dag::{Expr, TensorId};
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_schedule::nest::{Guard, read};

/// Lanes that have a row.
const QUAD: i64 = 4;
/// Neighbors of a lane.
const PAIR: i64 = 2;
/// Columns of which each lane of a row has a pair.
const RUN: i64 = QUAD * PAIR;

/// Exchanges elements before they are stored, wherever stores are of that form.
pub(super) fn exchange(kernel: &mut Kernel, buffers: &mut Vec<Buffer>, n_vars: &mut u32) {
    let is_quad = |step: u32, range: u32| step == 1 && i64::from(range) == QUAD;
    let Some(quad) = kernel.thread_vars.iter().find(|it| is_quad(it.step, it.range)) else {
        return;
    };
    let lanes = kernel.thread_vars.iter().filter(|it| it.step < WARP).map(|it| it.var).collect();
    let reads = read(&kernel.body);
    let mut pass = Exchange { quad: quad.var, lanes, reads, buffers, n_vars };
    pass.body(&mut kernel.body, true);
}

struct Exchange<'a> {
    /// The number of a lane among those that have the same rows.
    quad: VarId,
    /// The variables in which lanes of a warp differ.
    lanes: Vec<VarId>,
    /// The tensors that the kernel reads.
    reads: BTreeSet<TensorId>,
    buffers: &'a mut Vec<Buffer>,
    n_vars: &'a mut u32,
}

/// A nest of the form above, around one store.
struct Stores<'a> {
    /// Numbers the runs of columns.
    run: VarId,
    /// Its name.
    name: &'a str,
    n_runs: i64,
    /// Numbers the neighbors.
    pair: VarId,
    guards: Vec<Guard>,
    tensor: TensorId,
    index: &'a [Poly],
    value: &'a Expr,
}

impl Exchange<'_> {
    /// Changes statements that the whole warp runs together if it is converged; else, at least all lanes
    /// of a row do.
    fn body(&mut self, body: &mut Vec<Stmt>, is_converged: bool) {
        let mut changed = Vec::new();
        for mut stmt in std::mem::take(body) {
            match self.stores(&stmt) {
                Some(stores) => changed.push(self.exchanged(&stores, is_converged)),
                None => {
                    let is_converged = is_converged && !self.diverges(&stmt);
                    if let Some(body) = stmt.body_mut() {
                        self.body(body, is_converged);
                    }
                    changed.push(stmt);
                }
            }
        }
        *body = changed;
    }

    /// Returns whether lanes of a warp may differ in whether they run the body of a statement, or how often.
    fn diverges(&self, stmt: &Stmt) -> bool {
        let differs = |it: &Poly| self.lanes.iter().any(|lane| it.mentions(*lane));
        match stmt {
            Stmt::For { extent, .. } => differs(extent),
            Stmt::If { guards, .. } => {
                guards.iter().any(|it| differs(&it.value) || differs(&it.bound))
            }
            _ => false,
        }
    }

    /// Reads a nest of stores by runs of columns; `None` if it has another form.
    fn stores<'s>(&self, stmt: &'s Stmt) -> Option<Stores<'s>> {
        let Stmt::For { var: run, name, extent, kind: LoopKind::Unrolled, body } = stmt else {
            return None;
        };
        let n_runs = extent.as_constant().filter(|it| *it > 1)?;
        let (outer, inner) = guarded(body)?;
        let Stmt::For { var: pair, extent, kind: LoopKind::Vectorized, body, .. } = inner else {
            return None;
        };
        let (inner, store) = guarded(body)?;
        let Stmt::Store { tensor, index, value } = store else { return None };
        let buffer = &self.buffers[tensor.0 as usize];
        let is_narrow = buffer.scope.is_global() && PAIR * (buffer.dtype.bytes() as i64) <= 4;
        let guards = [outer, inner].concat();
        let stores =
            Stores { run: *run, name, n_runs, pair: *pair, guards, tensor: *tensor, index, value };
        let is_run = self.columns(&stores, &buffer.position(index)).is_some_and(|step| step == RUN);
        let fits = is_narrow
            && extent.as_constant() == Some(PAIR)
            && is_run
            && stores.guards.iter().all(|it| self.is_of_runs(&stores, it));
        fits.then_some(stores)
    }

    /// Returns the distance of runs of columns, whose elements have values that count up from a multiple
    /// of eight; `None` if they do not.
    fn columns(&self, stores: &Stores<'_>, value: &Poly) -> Option<i64> {
        let along = |value: &Poly, var: VarId| {
            let (step, rest) = value.split_linear(var)?;
            Some((if step == Poly::default() { 0 } else { step.as_constant()? }, rest))
        };
        let (pair, rest) = along(value, stores.pair)?;
        let (lane, rest) = along(&rest, self.quad)?;
        let (run, rest) = along(&rest, stores.run)?;
        let counts = pair == 1 && lane == PAIR && run % RUN == 0;
        (counts && is_multiple(&rest)).then_some(run)
    }

    /// Returns whether a condition holds for all columns of a run or for none.
    fn is_of_runs(&self, stores: &Stores<'_>, guard: &Guard) -> bool {
        let varies = |it: &Poly| it.mentions(stores.pair) || it.mentions(self.quad);
        match varies(&guard.value) || varies(&guard.bound) {
            true => {
                let counts = self.columns(stores, &guard.value).is_some();
                counts && !varies(&guard.bound) && is_multiple(&guard.bound)
            }
            false => true,
        }
    }

    /// Returns the nest with an exchange.
    fn exchanged(&mut self, stores: &Stores<'_>, is_converged: bool) -> Stmt {
        let (four, nth, column) = (fresh(self.n_vars), fresh(self.n_vars), fresh(self.n_vars));
        let buffer = &self.buffers[stores.tensor.0 as usize];
        let row = Buffer {
            name: format!("{}_row{}", buffer.name, self.buffers.len()),
            dtype: buffer.dtype,
            shape: vec![Poly::constant(RUN)],
            scope: MemoryScope::Registers,
            layout: None,
            is_partial: false,
        };
        self.buffers.push(row);
        let row = TensorId(self.buffers.len() as u32 - 1);
        let in_four = |it: VarId| Poly::var(four) * Poly::constant(QUAD) + Poly::var(it);
        let own = Stmt::Store {
            tensor: row,
            index: vec![Poly::var(nth) * Poly::constant(PAIR) + Poly::var(stores.pair)],
            value: stores.value.clone(),
        };
        // Of the last four runs, there may be fewer.
        let exists = Guard { value: Poly::var(stores.run), bound: Poly::constant(stores.n_runs) };
        let is_short = stores.n_runs % QUAD != 0;
        let guards =
            [&stores.guards[..], if is_short { std::slice::from_ref(&exists) } else { &[] }]
                .concat();
        let own = unrolled(stores.pair, "pair", PAIR, LoopKind::Vectorized, guard(&guards, own));
        let of_nth = |it: VarId| (it == stores.run).then(|| in_four(nth));
        let own = own.map_polys(&|it| it.substitute_vars(&of_nth, &Facts::default()));
        let whole = Stmt::Store {
            tensor: stores.tensor,
            index: stores.index.to_vec(),
            value: Expr::read(row, vec![Poly::var(column)]),
        };
        let whole = unrolled(column, "column", RUN, LoopKind::Vectorized, guard(&guards, whole));
        let of_lane = |it: VarId| match it {
            it if it == stores.run => Some(in_four(self.quad)),
            it if it == stores.pair => Some(Poly::var(column)),
            it if it == self.quad => Some(Poly::default()),
            _ => None,
        };
        let whole = whole.map_polys(&|it| it.substitute_vars(&of_lane, &Facts::default()));
        let of_four = vec![
            unrolled(nth, stores.name, QUAD, LoopKind::Unrolled, own),
            // A result may take the place of a parameter: a lane then overwrites what others read.
            Stmt::TransposeQuad {
                tensor: row,
                is_converged,
                is_ordered: self.reads.contains(&stores.tensor),
            },
            whole,
        ];
        let (name, extent) =
            (stores.name.to_owned(), Poly::constant((stores.n_runs + QUAD - 1) / QUAD));
        Stmt::For { var: four, name, extent, kind: LoopKind::Unrolled, body: of_four }
    }
}

/// Returns the only statement of a body, without the conditions around it.
fn guarded(body: &[Stmt]) -> Option<(&[Guard], &Stmt)> {
    match body {
        [Stmt::If { guards, body }] => Some((guards, body.first().filter(|_| body.len() == 1)?)),
        [stmt] => Some((&[], stmt)),
        _ => None,
    }
}

/// Returns a statement where conditions hold.
fn guard(guards: &[Guard], stmt: Stmt) -> Stmt {
    match guards {
        [] => stmt,
        _ => Stmt::If { guards: guards.to_vec(), body: vec![stmt] },
    }
}

/// Returns a loop of constant length around a statement.
fn unrolled(var: VarId, name: &str, extent: i64, kind: LoopKind, stmt: Stmt) -> Stmt {
    Stmt::For { var, name: name.to_owned(), extent: Poly::constant(extent), kind, body: vec![stmt] }
}

/// Returns whether every value is a multiple of a run.
fn is_multiple(poly: &Poly) -> bool {
    poly.terms().all(|(_, coefficient)| coefficient % RUN == 0)
}
