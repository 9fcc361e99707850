//! Proofs of bounds under path conditions: facts, and the conditions of the branches taken.
//!
//! Used twice, with one meaning: by the language to accept a read, and by [`verify`](super::verify) to
//! accept the dag.

use super::choices;
use super::limits::{MAX_INDEX, is_index};
use super::{
    BinaryOp, CompareOp, DType, Expr, Literal, Subscript, TensorId, Types, UnaryOp, integer_range,
};
use crate::poly::{Atom, Facts, Interval, Poly};

/// Above this many indices, a choice of them is not proven.
const MAX_CASES: usize = 64;

/// Facts about dimensions and variables, and the path condition: that of the branches taken.
#[derive(Clone, Debug, Default)]
pub struct PathFacts {
    /// Ranges of dimensions and extents of variables.
    pub facts: Facts,
    /// Polynomials that are not negative here.
    nonnegative: Vec<Poly>,
    /// Comparisons of data that hold here.
    compared: Vec<(CompareOp, Expr, Expr)>,
}

impl PathFacts {
    /// Makes facts with no path condition.
    pub fn new(facts: Facts) -> Self {
        Self { facts, ..Self::default() }
    }

    /// Returns the same facts with no path condition.
    pub fn without_conditions(&self) -> Self {
        Self::new(self.facts.clone())
    }

    /// Restores the path condition of `earlier`; facts learned since then stay.
    pub fn restore_conditions(&mut self, earlier: PathFacts) {
        (self.nonnegative, self.compared) = (earlier.nonnegative, earlier.compared);
    }

    /// Adds to the path condition that `condition` evaluates to `holds`.
    pub fn assume(&mut self, condition: &Expr, holds: bool) {
        match condition {
            Expr::Unary(UnaryOp::Not, a) => self.assume(a, !holds),
            Expr::Binary(BinaryOp::And, a, b) if holds => {
                self.assume(a, true);
                self.assume(b, true);
            }
            Expr::Binary(BinaryOp::Or, a, b) if !holds => {
                self.assume(a, false);
                self.assume(b, false);
            }
            Expr::Compare(op, a, b) => {
                let op = if holds { *op } else { negated(*op) };
                match (&**a, &**b) {
                    (Expr::Index(a), Expr::Index(b)) => self.assume_indices(op, a, b),
                    _ => self.compared.push((op, (**a).clone(), (**b).clone())),
                }
            }
            _ => {}
        }
    }

    fn assume_indices(&mut self, op: CompareOp, a: &Poly, b: &Poly) {
        let at_most = |a: &Poly, b: &Poly, gap: i64| b.clone() - a.clone() - Poly::constant(gap);
        match op {
            CompareOp::Lt => self.nonnegative.push(at_most(a, b, 1)),
            CompareOp::Le => self.nonnegative.push(at_most(a, b, 0)),
            CompareOp::Gt => self.nonnegative.push(at_most(b, a, 1)),
            CompareOp::Ge => self.nonnegative.push(at_most(b, a, 0)),
            CompareOp::Eq => {
                self.nonnegative.extend([at_most(a, b, 0), at_most(b, a, 0)]);
                self.assume_remainder(a, b);
                self.assume_remainder(b, a);
            }
            // One that is at least another, and not equal to it, is greater.
            CompareOp::Ne => {
                for (a, b) in [(a, b), (b, a)] {
                    if self.is_nonnegative(&at_most(a, b, 0)) {
                        self.nonnegative.push(at_most(a, b, 1));
                    }
                }
                // Of the two remainders by 2, it is the other one.
                for (a, b) in [(a, b), (b, a)] {
                    if let Some(Atom::Mod(_, by)) = a.as_atom()
                        && by.as_constant() == Some(2)
                    {
                        self.assume_remainder(a, &(Poly::constant(1) - b.clone()));
                    }
                }
            }
        }
    }

    /// Adds that an index is at most the greatest number, and at least the least one, with this remainder:
    /// where `i % 2 == 0`, an `i` below 64 is at most 62.
    fn assume_remainder(&mut self, remainder: &Poly, value: &Poly) {
        let Some(Atom::Mod(a, b)) = remainder.as_atom() else { return };
        let (Some(by), Some(value)) = (b.as_constant(), value.as_constant()) else { return };
        let range = a.interval(&self.facts);
        if by < 1 || !(0..by).contains(&value) || range.lo < 0 || range.hi > MAX_INDEX {
            return;
        }
        let most = range.hi - (range.hi - value).rem_euclid(by);
        let least = range.lo + (value - range.lo).rem_euclid(by);
        self.nonnegative.push(Poly::constant(most) - Poly::clone(a));
        self.nonnegative.push(Poly::clone(a) - Poly::constant(least));
        // A quotient bounds what it divides.
        if let Some(Atom::Div(a, b)) = a.as_atom()
            && let Some(by) = b.as_constant().filter(|it| *it > 0)
        {
            self.nonnegative.push(Poly::constant(most * by + by - 1) - Poly::clone(a));
            self.nonnegative.push(Poly::clone(a) - Poly::constant(least * by));
        }
    }

    /// Returns whether `poly >= 0` can be proven.
    pub fn is_nonnegative(&self, poly: &Poly) -> bool {
        poly.is_nonnegative(&self.facts)
            || self
                .nonnegative
                .iter()
                .any(|it| (poly.clone() - it.clone()).is_nonnegative(&self.facts))
    }

    /// Decides `a op b`, if it is the same wherever the path condition holds.
    pub fn decides(&self, op: CompareOp, a: &Poly, b: &Poly) -> Option<bool> {
        let at_least = |a: &Poly, b: &Poly, gap: i64| {
            self.is_nonnegative(&(a.clone() - b.clone() - Poly::constant(gap)))
        };
        let decide = |yes: bool, no: bool| if yes { Some(true) } else { no.then_some(false) };
        match op {
            CompareOp::Ge => decide(at_least(a, b, 0), at_least(b, a, 1)),
            CompareOp::Gt => decide(at_least(a, b, 1), at_least(b, a, 0)),
            CompareOp::Le => decide(at_least(b, a, 0), at_least(a, b, 1)),
            CompareOp::Lt => decide(at_least(b, a, 1), at_least(a, b, 0)),
            CompareOp::Eq => decide(a == b, at_least(a, b, 1) || at_least(b, a, 1)),
            CompareOp::Ne => self.decides(CompareOp::Eq, a, b).map(|it| !it),
        }
    }

    /// Decides a condition, if it compares indices, and is the same wherever the path condition holds.
    pub fn decided(&self, condition: &Expr) -> Option<bool> {
        let Expr::Compare(op, a, b) = condition else { return None };
        let (Expr::Index(a), Expr::Index(b)) = (&**a, &**b) else { return None };
        self.decides(*op, a, b)
    }

    /// Returns whether `subscript >= 0` can be proven.
    pub fn is_above(&self, subscript: &Subscript, types: &dyn Types) -> bool {
        match subscript {
            Subscript::Affine(poly) => self.is_nonnegative(poly),
            Subscript::Value(value) => {
                let is_above = |known: &Self, it: &Poly| known.is_nonnegative(it);
                self.is_value_above(value, types) || self.in_each_case(value, &is_above)
            }
        }
    }

    /// Returns whether `subscript < extent` can be proven.
    pub fn is_below(&self, subscript: &Subscript, extent: &Poly, types: &dyn Types) -> bool {
        let is_below = |known: &Self, it: &Poly| {
            known.is_nonnegative(&(extent.clone() - it.clone() - 1.into()))
        };
        match subscript {
            Subscript::Affine(poly) => is_below(self, poly),
            Subscript::Value(value) => {
                let below = |it: &Expr| self.is_value_below(it, extent, types);
                below(value)
                    || unsigned(value, types).is_some_and(below)
                    || self.in_each_case(value, &is_below)
            }
        }
    }

    fn is_value_above(&self, value: &Expr, types: &dyn Types) -> bool {
        let below_sign = |it: &Expr| self.is_value_below(it, &Poly::constant(1 << 31), types);
        self.interval(value, types).lo >= 0
            || unsigned(value, types).is_some_and(below_sign)
            || self.compared.iter().any(|(op, a, b)| match op {
                CompareOp::Ge => a == value && self.interval(b, types).lo >= 0,
                CompareOp::Gt => a == value && self.interval(b, types).lo >= -1,
                CompareOp::Le => b == value && self.interval(a, types).lo >= 0,
                CompareOp::Lt => b == value && self.interval(a, types).lo >= -1,
                CompareOp::Eq | CompareOp::Ne => false,
            })
    }

    /// Returns whether a value is a choice of indices.
    pub fn chooses_index(&self, value: &Expr) -> bool {
        self.in_each_case(value, &|_, _| true)
    }

    /// Returns whether a value is a choice of indices, each of which holds where it is chosen:
    /// `if i == 0 { 0 } else { i - 1 }` is never negative.
    fn in_each_case(&self, value: &Expr, holds: &dyn Fn(&Self, &Poly) -> bool) -> bool {
        let cases = choices::cases(value, self, MAX_CASES);
        !cases.is_empty() && cases.iter().all(|(known, poly)| holds(known, poly))
    }

    /// Returns whether a comparison of integer data with a bound, as a checked read makes it, can be proven.
    pub fn implies(&self, op: CompareOp, value: &Expr, bound: &Expr, types: &dyn Types) -> bool {
        if !value.dtype(types).is_integer() {
            return false;
        }
        match (op, bound) {
            (CompareOp::Ge, Expr::Const(Literal::Int(0), _)) => {
                self.is_above(&Subscript::Value(Box::new(value.clone())), types)
            }
            (CompareOp::Lt, bound) => self.exact(bound, types).is_some_and(|extent| {
                let subscript = Subscript::Value(Box::new(value.clone()));
                self.is_below(&subscript, &extent, types)
            }),
            _ => false,
        }
    }

    fn is_value_below(&self, value: &Expr, extent: &Poly, types: &dyn Types) -> bool {
        let bounded = |top: &Expr, strictly: bool| {
            self.upper_bounds(top, types).into_iter().any(|top| {
                self.is_nonnegative(&(extent.clone() - top - i64::from(!strictly).into()))
            })
        };
        bounded(value, false)
            || self.compared.iter().any(|(op, a, b)| match op {
                CompareOp::Lt | CompareOp::Le => a == value && bounded(b, *op == CompareOp::Lt),
                CompareOp::Gt | CompareOp::Ge => b == value && bounded(a, *op == CompareOp::Gt),
                CompareOp::Eq | CompareOp::Ne => false,
            })
    }

    /// Returns whether every read of an expression is in bounds wherever it is evaluated.
    pub fn reads_in_bounds(
        &self,
        expr: &Expr,
        shape: &dyn Fn(TensorId) -> Vec<Poly>,
        types: &dyn Types,
    ) -> bool {
        let all = |known: &Self, it: &Expr| known.reads_in_bounds(it, shape, types);
        let under = |condition: &Expr, holds: bool, it: &Expr| {
            let mut known = self.clone();
            known.assume(condition, holds);
            all(&known, it)
        };
        match expr {
            Expr::Read { tensor, index } => {
                let inside = |(it, extent): (&Subscript, &Poly)| {
                    self.is_above(it, types) && self.is_below(it, extent, types)
                };
                index.iter().zip(&shape(*tensor)).all(inside)
                    && expr.children().into_iter().all(|it| all(self, it))
            }
            Expr::Select { condition, then, otherwise } => {
                all(self, condition)
                    && under(condition, true, then)
                    && under(condition, false, otherwise)
            }
            Expr::Binary(BinaryOp::And, a, b) => all(self, a) && under(a, true, b),
            Expr::Binary(BinaryOp::Or, a, b) => all(self, a) && under(a, false, b),
            _ => expr.children().into_iter().all(|it| all(self, it)),
        }
    }

    fn upper_bounds(&self, value: &Expr, types: &dyn Types) -> Vec<Poly> {
        // No extent is farther away: a bound beyond proves as much, and is a number like others.
        let most = self.interval(value, types).hi.clamp(-MAX_INDEX, MAX_INDEX);
        let mut found = vec![Poly::constant(most)];
        found.extend(self.exact(value, types));
        if let Expr::Binary(BinaryOp::Min, a, b) = value {
            found.extend(self.upper_bounds(a, types));
            found.extend(self.upper_bounds(b, types));
        }
        found
    }

    /// Returns an integer as a polynomial, if it is one and no operation wraps.
    fn exact(&self, value: &Expr, types: &dyn Types) -> Option<Poly> {
        let poly = match value {
            Expr::Index(poly) => return Some(poly.clone()),
            Expr::Const(Literal::Int(it), _) => Poly::constant(*it),
            Expr::Cast(_, a) => self.exact(a, types)?,
            Expr::Binary(BinaryOp::Add, a, b) => self.exact(a, types)? + self.exact(b, types)?,
            Expr::Binary(BinaryOp::Sub, a, b) => self.exact(a, types)? - self.exact(b, types)?,
            _ => return None,
        };
        // Others are no indices, and sums of them might be no integers of the compiler.
        if !is_index(&poly, &self.facts) {
            return None;
        }
        let whole = integer_range(value.dtype(types));
        whole.includes(poly.interval(&self.facts)).then_some(poly)
    }

    /// Returns an interval that contains every value of an integer expression.
    pub fn interval(&self, value: &Expr, types: &dyn Types) -> Interval {
        let dtype = value.dtype(types);
        let whole = integer_range(dtype);
        if let Some(poly) = self.exact(value, types) {
            return poly.interval(&self.facts);
        }
        let interval = |it: &Expr| self.interval(it, types);
        // An end of `i64` may stand for values beyond it.
        let is_open = |it: Interval| it.lo == i64::MIN || it.hi == i64::MAX;
        let inside = |it: Interval| if is_open(it) { whole } else { it };
        let negative = Interval::point(-1);
        let found = match value {
            Expr::Cast(_, a) if !a.dtype(types).is_float() => interval(a),
            Expr::Binary(BinaryOp::Min, a, b) => interval(a).lesser(interval(b)),
            Expr::Binary(BinaryOp::Max, a, b) => interval(a).greater(interval(b)),
            Expr::Binary(BinaryOp::Rem, a, b) => {
                let top = interval(b).hi.saturating_sub(1);
                if interval(b).lo < 1 {
                    whole
                } else {
                    Interval { lo: if interval(a).lo < 0 { -top } else { 0 }, hi: top }
                }
            }
            Expr::Binary(BinaryOp::BitAnd, a, b) => bits_of_both(interval(a), interval(b)),
            Expr::Select { then, otherwise, .. } => interval(then).join(interval(otherwise)),
            Expr::Unary(UnaryOp::Abs, a) => inside(magnitude(interval(a))),
            Expr::Unary(UnaryOp::Neg, a) => inside(interval(a).times(negative)),
            Expr::Binary(BinaryOp::Add, a, b) => inside(interval(a).plus(interval(b))),
            Expr::Binary(BinaryOp::Sub, a, b) => {
                inside(interval(a).plus(interval(b).times(negative)))
            }
            _ => whole,
        };
        // Values that exceed the type wrap, to anything.
        if whole.includes(found) { found } else { whole }
    }
}

/// Returns the interval of absolute values; the least integer has none.
fn magnitude(a: Interval) -> Interval {
    let (lo, hi) = (a.lo.saturating_abs(), a.hi.saturating_abs());
    let least = if a.contains(0) { 0 } else { lo.min(hi) };
    Interval { lo: if a.lo == i64::MIN { i64::MIN } else { least }, hi: lo.max(hi) }
}

/// Returns an interval that contains `a & b`: it is no greater than a side that is not negative.
pub fn bits_of_both(a: Interval, b: Interval) -> Interval {
    match (a.lo >= 0, b.lo >= 0) {
        (true, true) => Interval { lo: 0, hi: a.hi.min(b.hi) },
        (true, false) => Interval { lo: 0, hi: a.hi },
        (false, true) => Interval { lo: 0, hi: b.hi },
        (false, false) => Interval { lo: i64::MIN, hi: i64::MAX },
    }
}

/// Returns the `u32` that a subscript converts to `i32`: where that is below an extent, so is the
/// subscript, which is negative only from 2^31 on.
fn unsigned<'a>(value: &'a Expr, types: &dyn Types) -> Option<&'a Expr> {
    match value {
        Expr::Cast(DType::I32, inner) if inner.dtype(types) == DType::U32 => Some(inner),
        _ => None,
    }
}

/// The comparison that holds where `op` does not, of values that are no NaNs.
#[must_use]
pub fn negated(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Lt => CompareOp::Ge,
        CompareOp::Le => CompareOp::Gt,
        CompareOp::Eq => CompareOp::Ne,
        CompareOp::Ne => CompareOp::Eq,
        CompareOp::Ge => CompareOp::Lt,
        CompareOp::Gt => CompareOp::Le,
    }
}
