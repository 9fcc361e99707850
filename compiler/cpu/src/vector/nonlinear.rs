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
use super::tree::{Derived, DerivedOp, Tree};
use super::{Unsupported, VectorBinary};
use tvmtune_ir::dag::{BinaryOp, Expr};
use tvmtune_ir::poly::{Atom, Facts, Poly};

/// Integers below are exact as `f32`.
const EXACT: i64 = 1 << 24;

impl Lowering<'_> {
    /// Evaluates an index in each lane: a linear one, or a sum with a function of others.
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
        let derived = form.terms.iter().find_map(|(var, factor)| {
            let Coef::Const(factor) = factor else { return None };
            Some((*var, *factor, tree.var(*var).derived.as_ref()?))
        });
        let Some((var, factor, derived)) = derived else { return Err(Unsupported::Index) };
        let mut rest = form.clone();
        rest.take(var);
        let value = self.derived_value(derived)?;
        let factor = self.index(Affine::constant(factor))?;
        let rest = self.index_value(&rest)?;
        let graph = self.graph();
        let product = graph.binary(VectorBinary::MulI, value, factor);
        Ok(graph.binary(VectorBinary::AddI, product, rest))
    }

    /// Evaluates the lesser or greater of two indices, or a quotient or remainder by a constant, in each lane.
    fn derived_value(&mut self, derived: &Derived) -> Result<ValueId, Unsupported> {
        let op = match derived.op {
            DerivedOp::Min => VectorBinary::MinI,
            DerivedOp::Max => VectorBinary::MaxI,
            DerivedOp::Div | DerivedOp::Mod => {
                let (by, lifted) = self.tree.exact_division(derived).ok_or(Unsupported::Index)?;
                let mut dividend = derived.a.clone();
                dividend.constant += lifted * by;
                let a = self.index_value(&dividend)?;
                let (b, lifted) = (self.constant_index(by)?, self.constant_index(lifted)?);
                let graph = self.graph();
                let (quotient, remainder) = graph.divide(a, b, true);
                return Ok(match derived.op {
                    DerivedOp::Div => graph.binary(VectorBinary::SubI, quotient, lifted),
                    _ => remainder,
                });
            }
        };
        let (a, b) = (self.index_value(&derived.a)?, self.index_value(&derived.b)?);
        Ok(self.graph().binary(op, a, b))
    }

    fn constant_index(&mut self, value: i64) -> Result<ValueId, Unsupported> {
        self.index(Affine::constant(value))
    }
}

impl Tree<'_> {
    /// Returns whether an index can be evaluated in each lane.
    pub(super) fn is_lane_value(&self, form: &Affine) -> bool {
        let range = self.interval(form);
        i32::try_from(range.lo).is_ok()
            && i32::try_from(range.hi).is_ok()
            && form.terms.iter().all(|(var, factor)| match &self.var(*var).derived {
                None => true,
                Some(it) => {
                    matches!(factor, Coef::Const(_))
                        && self.is_lane_value(&it.a)
                        && match it.op {
                            DerivedOp::Min | DerivedOp::Max => self.is_lane_value(&it.b),
                            DerivedOp::Div | DerivedOp::Mod => self.exact_division(it).is_some(),
                        }
                }
            })
    }

    /// Returns a constant divisor, and the multiple of it that makes the dividend nonnegative. Both operands are
    /// exact as floats, so that one division that rounds towards zero is exact.
    fn exact_division(&self, derived: &Derived) -> Option<(i64, i64)> {
        let by = derived.b.as_constant().filter(|it| (1..EXACT).contains(it))?;
        let range = self.interval(&derived.a);
        let lifted = range.lo.checked_neg()?.max(0).checked_add(by - 1)? / by;
        let most = lifted.checked_mul(by)?.checked_add(range.hi)?;
        (most < EXACT).then_some((by, lifted))
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
