//! Indices that are no linear functions of loop variables: `r * r + s * s`, `i * (i + 1) / 2 + j`, `min(i + 2, j)`.
//!
//! A form is linear in loop variables and their quotients. The rest of an index is arithmetic on forms. Products
//! become that where the tree is built, minima and maxima in the lanes, where they are none for each part of the
//! iterations.
//!
//! ```text
//! i * (i + 1) / 2 + j   =>   the form j, and (i * i + i) / 2 as i64 arithmetic
//! ```

use super::affine::{Affine, Coef};
use super::context::Lowering;
use super::numbering::ValueId;
use super::tree::DerivedOp;
use super::{Unsupported, VectorBinary};
use tvmtune_ir::dag::{BinaryOp, Expr};
use tvmtune_ir::poly::{Atom, Facts, Poly};

impl Lowering<'_> {
    /// Evaluates an index in each lane: a linear one, or a sum with the lesser or greater of two others.
    pub(super) fn index_value(&mut self, form: &Affine) -> Result<ValueId, Unsupported> {
        match self.eval(form) {
            Ok(linear) => return self.index(linear),
            Err(Unsupported::Index) => {}
            Err(other) => return Err(other),
        }
        let tree = self.tree;
        let range = tree.interval(form);
        if i32::try_from(range.lo).is_err() || i32::try_from(range.hi).is_err() {
            return Err(Unsupported::Range);
        }
        let either = form.terms.iter().find_map(|(var, factor)| {
            let derived = tree.var(*var).derived.as_ref()?;
            let op = match derived.op {
                DerivedOp::Min => VectorBinary::MinI,
                DerivedOp::Max => VectorBinary::MaxI,
                DerivedOp::Div | DerivedOp::Mod => return None,
            };
            let Coef::Const(factor) = factor else { return None };
            Some((*var, *factor, op, derived))
        });
        let Some((var, factor, op, derived)) = either else { return Err(Unsupported::Index) };
        let mut rest = form.clone();
        rest.take(var);
        let (a, b) = (self.index_value(&derived.a)?, self.index_value(&derived.b)?);
        let factor = self.index(Affine::constant(factor))?;
        let rest = self.index_value(&rest)?;
        let graph = self.graph();
        let chosen = graph.binary(op, a, b);
        let product = graph.binary(VectorBinary::MulI, chosen, factor);
        Ok(graph.binary(VectorBinary::AddI, product, rest))
    }
}

/// Splits an index into its linear part and the sum of the others; `None` where it is linear as a whole, or
/// divides numbers that may be negative, which `i64` arithmetic rounds towards zero.
pub(super) fn split(index: &Poly, facts: &Facts) -> Option<(Poly, Expr)> {
    let (mut linear, mut rest) = (Poly::default(), None::<Expr>);
    for (atoms, factor) in index.terms() {
        if is_linear_term(atoms) {
            linear += product(atoms.iter(), factor);
            continue;
        }
        let term = value_of_term(atoms, factor, facts)?;
        rest = Some(match rest {
            None => term,
            Some(sum) => sum.binary(BinaryOp::Add, term),
        });
    }
    rest.map(|it| (linear, it))
}

/// Returns an index as arithmetic on linear ones; `None` where it is linear itself, and as [`split`] does.
pub(super) fn arithmetic(index: &Poly, facts: &Facts) -> Option<Expr> {
    let (linear, rest) = split(index, facts)?;
    Some(match linear.is_zero() {
        true => rest,
        false => rest.binary(BinaryOp::Add, Expr::Index(linear)),
    })
}

/// Returns a product of which several factors have variables, or one that is not linear itself.
fn value_of_term(atoms: &[Atom], factor: i64, facts: &Facts) -> Option<Expr> {
    let (varying, known): (Vec<&Atom>, Vec<&Atom>) = atoms.iter().partition(|it| has_vars(it));
    let mut factors = varying.into_iter().map(|it| value_of_atom(it, facts));
    let first = factors.next()??;
    let product_of_varying =
        factors.try_fold(first, |product, it| Some(product.binary(BinaryOp::Mul, it?)))?;
    let known = product(known, factor);
    Some(match known.as_constant() {
        Some(1) => product_of_varying,
        _ => product_of_varying.binary(BinaryOp::Mul, Expr::Index(known)),
    })
}

fn value_of_atom(atom: &Atom, facts: &Facts) -> Option<Expr> {
    if is_linear_term(std::slice::from_ref(atom)) {
        return Some(Expr::Index(Poly::atom(atom.clone())));
    }
    let (op, a, b) = match atom {
        Atom::Dim(_) | Atom::Var(_) => return None,
        Atom::Div(a, b) => (BinaryOp::Div, a, b),
        Atom::Mod(a, b) => (BinaryOp::Rem, a, b),
        Atom::Min(a, b) => (BinaryOp::Min, a, b),
        Atom::Max(a, b) => (BinaryOp::Max, a, b),
    };
    let divides = matches!(op, BinaryOp::Div | BinaryOp::Rem);
    if divides && !(a.is_nonnegative(facts) && b.is_positive(facts)) {
        return None;
    }
    let value = |it: &Poly| match it.multiplies_vars() {
        true => arithmetic(it, facts),
        false => Some(Expr::Index(it.clone())),
    };
    Some(value(a)?.binary(op, value(b)?))
}

fn is_linear_term(atoms: &[Atom]) -> bool {
    !product(atoms, 1).multiplies_vars()
}

fn has_vars(atom: &Atom) -> bool {
    Poly::atom(atom.clone()).has_vars()
}

fn product<'a>(atoms: impl IntoIterator<Item = &'a Atom>, factor: i64) -> Poly {
    let factors = atoms.into_iter().map(|it| Poly::atom(it.clone()));
    factors.fold(Poly::constant(factor), |product, it| product * it)
}
