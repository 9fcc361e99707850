//! The verifier of nests: the contract between lowering and code generation.
//!
//! - Variables are below `n_vars`, belong to one loop, and occur inside it only.
//! - Parallel loops stand outermost, perfectly nested; a vectorized loop contains one statement.
//! - Indices have one entry for each dimension of a buffer that is in use; parameters are only
//!   read, but for those that are results, too; values have the type of their buffer.
//! - Guards have a condition and a body, and their values are never negative.
//! - Affine indices are in bounds, by the extents of loops, guards, and enclosing conditions. An index
//!   that cannot be proven is a finding too; of random schedules, that is less than one in a thousand.
//!
//! Subscripts that are data-dependent or divided are left to [`crate::interp`], which checks every
//! access.

use std::collections::BTreeSet;
use std::fmt;

use super::{Nest, Scope, Stmt};
use crate::LoopKind;
use crate::mask::implied;

use tvmtune_ir::dag::{Expr, Subscript, TensorId};
use tvmtune_ir::poly::{Atom, Facts, Poly, VarId};

/// A violation of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The loops around it, outermost first.
    pub loops: Vec<String>,
    /// The violation.
    pub problem: Problem,
}

/// The kinds of violations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Two loops have that variable, or it is not below `n_vars`.
    VarNotUnique(VarId),
    /// The variable occurs outside its loop.
    VarNotOpen(VarId),
    /// A parallel loop below something that is not parallel.
    ParallelInside,
    /// More than a guarded statement inside a vectorized loop.
    VectorizedOutside,
    /// No guard, or nothing guarded.
    EmptyGuard,
    /// The value of a guard may be negative.
    NegativeGuard(Poly),
    /// Not one index for each dimension, or memory that is not in use.
    WrongIndex(TensorId),
    /// A parameter is written.
    ParameterWritten(TensorId),
    /// The value's type is not the buffer's.
    WrongType(TensorId),
    /// The index of that dimension is not proven to be in bounds.
    MayBeOutside(TensorId, usize, Poly),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} in loops [{}]", self.problem, self.loops.join(", "))
    }
}

/// Returns every violation of the contract; none if the nest is well formed.
pub fn verify(nest: &Nest) -> Vec<Finding> {
    let mut verifier = Verifier {
        nest,
        facts: nest.facts(),
        seen: BTreeSet::new(),
        open: Vec::new(),
        known: Vec::new(),
        findings: Vec::new(),
    };
    verifier.block(&nest.body, Nesting::Tasks);
    verifier.findings
}

/// The loops around a statement.
#[derive(Clone, Copy, PartialEq)]
enum Nesting {
    /// All are parallel, and contain nothing else.
    Tasks,
    /// Some are not.
    Inner,
}

struct Verifier<'a> {
    nest: &'a Nest,
    facts: Facts,
    seen: BTreeSet<VarId>,
    open: Vec<(VarId, &'a str)>,
    /// Polynomials that are at least 0 here, by guards and conditions.
    known: Vec<Poly>,
    findings: Vec<Finding>,
}

impl<'a> Verifier<'a> {
    fn report(&mut self, problem: Problem) {
        let loops = self.open.iter().map(|(_, name)| (*name).to_owned()).collect();
        self.findings.push(Finding { loops, problem });
    }

    fn block(&mut self, body: &'a [Stmt], nesting: Nesting) {
        let is_perfect = body.len() == 1 || self.open.is_empty();
        for stmt in body {
            self.stmt(stmt, if is_perfect { nesting } else { Nesting::Inner });
        }
    }

    fn stmt(&mut self, stmt: &'a Stmt, nesting: Nesting) {
        match stmt {
            Stmt::For { var, name, extent, kind, body } => {
                if var.0 >= self.nest.n_vars || !self.seen.insert(*var) {
                    self.report(Problem::VarNotUnique(*var));
                }
                self.open_vars(extent);
                if kind.is_parallel() && nesting != Nesting::Tasks {
                    self.report(Problem::ParallelInside);
                }
                if *kind == LoopKind::Vectorized && !is_statement(body) {
                    self.report(Problem::VectorizedOutside);
                }
                self.facts.bound_var(*var, extent.clone());
                self.open.push((*var, name));
                self.block(body, if kind.is_parallel() { nesting } else { Nesting::Inner });
                self.open.pop();
            }
            Stmt::If { guards, body } => {
                if guards.is_empty() || body.is_empty() {
                    self.report(Problem::EmptyGuard);
                }
                let n_known = self.known.len();
                for guard in guards {
                    self.open_vars(&guard.value);
                    self.open_vars(&guard.bound);
                    if is_affine(&guard.value) && !self.holds(&guard.value) {
                        self.report(Problem::NegativeGuard(guard.value.clone()));
                    }
                    let room = guard.bound.clone() - guard.value.clone() - Poly::constant(1);
                    self.known.push(room);
                }
                self.block(body, Nesting::Inner);
                self.known.truncate(n_known);
            }
            Stmt::Store { tensor, index, value } | Stmt::Update { tensor, index, value, .. } => {
                if self.nest.params.contains(tensor) && !self.nest.outputs.contains(tensor) {
                    self.report(Problem::ParameterWritten(*tensor));
                }
                if value.dtype(self.nest) != self.nest.buffer(*tensor).dtype {
                    self.report(Problem::WrongType(*tensor));
                }
                self.access(*tensor, index.iter().map(Some));
                self.expr(value);
            }
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Index(poly) => self.open_vars(poly),
            Expr::Read { tensor, index } => {
                let affine = index.iter().map(|it| match it {
                    Subscript::Affine(poly) => Some(poly),
                    Subscript::Value(_) => None,
                });
                self.access(*tensor, affine);
            }
            _ => {}
        }
        if let Expr::Select { condition, then, otherwise } = expr {
            self.expr(condition);
            let n_known = self.known.len();
            for (holds, value) in [(true, then), (false, otherwise)] {
                self.known.extend(implied(condition, holds));
                self.expr(value);
                self.known.truncate(n_known);
            }
        } else {
            expr.children().into_iter().for_each(|it| self.expr(it));
        }
    }

    /// An access with its indices, as far as they are affine.
    fn access<'p>(&mut self, tensor: TensorId, index: impl Iterator<Item = Option<&'p Poly>>) {
        let buffer = self.nest.buffer(tensor);
        let index: Vec<Option<&Poly>> = index.collect();
        if index.len() != buffer.shape.len() || buffer.scope == Scope::Unused {
            return self.report(Problem::WrongIndex(tensor));
        }
        for (n, (at, extent)) in index.into_iter().zip(&buffer.shape).enumerate() {
            let Some(at) = at else { continue };
            self.open_vars(at);
            let room = extent.clone() - at.clone() - Poly::constant(1);
            if is_affine(at) && !(self.holds(at) && self.holds(&room)) {
                self.report(Problem::MayBeOutside(tensor, n, at.clone()));
            }
        }
    }

    fn open_vars(&mut self, poly: &Poly) {
        let mut closed = Vec::new();
        poly.for_each_leaf(&mut |atom| {
            if let Atom::Var(var) = atom
                && !self.open.iter().any(|(open, _)| open == var)
            {
                closed.push(*var);
            }
        });
        closed.into_iter().for_each(|it| self.report(Problem::VarNotOpen(it)));
    }

    /// Returns whether `poly >= 0` follows from the loops, and at most one guard or condition.
    fn holds(&self, poly: &Poly) -> bool {
        poly.is_nonnegative(&self.facts) || self.known.iter().any(|it| self.follows(poly, it))
    }

    /// Returns whether `poly >= 0` follows from `known >= 0`, scaled until a term of theirs is the same.
    fn follows(&self, poly: &Poly, known: &Poly) -> bool {
        let coefficient =
            |terms: &[Atom]| poly.terms().find(|(atoms, _)| *atoms == terms).map(|it| it.1);
        let running = known.terms().filter(|(atoms, _)| !atoms.is_empty());
        let common =
            running.filter_map(|(atoms, theirs)| Some((coefficient(atoms)?, theirs))).next();
        let (ours, theirs) = common.unwrap_or((1, 1));
        if (ours < 0) != (theirs < 0) {
            return false;
        }
        // Of integers, `m * poly > -m` is enough.
        let (m, n) = (theirs.abs(), ours.abs());
        // Three such numbers add up to one of 64 bits.
        let fits = |it: &Poly, by: i64| {
            let product = |it: i64| i128::from(it) * i128::from(by);
            it.terms().all(|(_, it)| product(it).abs() < 1 << 61)
        };
        if !fits(poly, m) || !fits(known, n) {
            return false;
        }
        let slack = Poly::constant(m - 1);
        (poly.clone() * m + slack - known.clone() * n).is_nonnegative(&self.facts)
    }
}

/// Returns whether a polynomial contains no division, minimum or maximum.
fn is_affine(poly: &Poly) -> bool {
    poly.terms().all(|(atoms, _)| atoms.iter().all(|it| matches!(it, Atom::Dim(_) | Atom::Var(_))))
}

/// Returns whether a block is a single store or update, guarded or not.
fn is_statement(body: &[Stmt]) -> bool {
    match body {
        [Stmt::If { body, .. }] => is_statement(body),
        [Stmt::Store { .. } | Stmt::Update { .. }] => true,
        _ => false,
    }
}
