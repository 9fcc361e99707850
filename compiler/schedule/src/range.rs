//! Which values an expression may take: enough to know which divisors have an inverse that is as
//! precise as any number.
//!
//! A quotient is the product with an inverse, rounded once more, unless the inverse is too small or
//! too large to be a normal number. That a divisor never is so follows from what it is made of:
//! sums of squares, roots, exponentials; and that a sum of `exp(x - m)` where `m` is the maximum of
//! all `x` has one term that is 1.
//!
//! # Source
//!
//! Interval arithmetic (Moore, 1966).

use super::Schedule;
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{BinaryOp, Compute, DType, Expr, Literal, Reducer, TensorId, UnaryOp};
use tvmtune_ir::poly::{Poly, VarId};

/// The largest `f32`.
const MOST: f64 = f32::MAX as f64;
/// The smallest normal `f32`.
const LEAST: f64 = f32::MIN_POSITIVE as f64;
/// Computes that are looked through, one below the other.
const DEEPEST: usize = 4;

/// A value is in there, or infinite, or a NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    lo: f64,
    hi: f64,
}

const ANY: Range = Range { lo: -MOST, hi: MOST };

impl Range {
    /// What numbers between two real ones may be once they are rounded: a little less or more, and 0
    /// where they are too small.
    fn rounded(lo: f64, hi: f64) -> Self {
        let least = lo - lo.abs() * 1e-6;
        let lo = if (0.0..LEAST).contains(&least) { 0.0 } else { least };
        Self { lo: lo.max(-MOST), hi: (hi + hi.abs() * 1e-6).clamp(LEAST, MOST) }
    }

    fn either(self, other: Self) -> Self {
        Self { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
    }
}

impl Schedule {
    /// Whether the inverse of a value is a normal number wherever the value is not infinite, and no
    /// NaN.
    pub(crate) fn is_invertible(&self, value: &Expr) -> bool {
        let range = self.range(value, DEEPEST);
        // The inverse of what is larger is smaller than a normal number, and has fewer bits.
        range.lo >= LEAST && range.hi <= 0.25 / LEAST
    }

    fn range(&self, value: &Expr, depth: usize) -> Range {
        let Some(depth) = depth.checked_sub(1) else { return ANY };
        let of = |it: &Expr| self.range(it, depth + 1);
        match value {
            Expr::Const(Literal::Float(it), _) => Range::rounded(*it, *it),
            Expr::Read { tensor, .. } => self.element(*tensor, depth),
            Expr::Unary(op, a) => unary(*op, of(a)),
            Expr::Binary(BinaryOp::Mul, a, b) if a == b => {
                let most = of(a).lo.abs().max(of(a).hi.abs());
                Range { lo: 0.0, hi: Range::rounded(0.0, most * most).hi }
            }
            // Of a number and a NaN, this is the number: so one that is known is an end.
            Expr::Binary(op @ (BinaryOp::Max | BinaryOp::Min), a, b) => {
                let either = of(a).either(of(b));
                let known = [a, b].into_iter().find(|it| is_number(it)).map(|it| of(it));
                match (op, known) {
                    (BinaryOp::Max, Some(known)) => Range { lo: known.lo, ..either },
                    (BinaryOp::Min, Some(known)) => Range { hi: known.hi, ..either },
                    _ => either,
                }
            }
            Expr::Binary(op, a, b) => binary(*op, of(a), of(b)),
            Expr::Select { then, otherwise, .. } => of(then).either(of(otherwise)),
            _ => ANY,
        }
    }

    /// The range of a tensor's elements.
    fn element(&self, tensor: TensorId, depth: usize) -> Range {
        let found = self.tensor(tensor);
        let Some(stage) = found.stage.filter(|_| found.tensor.dtype == DType::F32) else {
            return ANY;
        };
        let compute = &self.stage(stage).compute;
        let each = self.range(&compute.body, depth);
        let facts = self.dag.facts();
        let runs = |it: &Poly| it.interval(&facts);
        let extents = compute.axes[compute.n_spatial..].iter().map(|it| runs(&it.extent));
        let (mut least, mut most) = (1.0, 1.0);
        for extent in extents {
            least *= extent.lo.max(0) as f64;
            most *= extent.hi.max(0) as f64;
        }
        match compute.reducer {
            None => each,
            Some(Reducer::Sum) if self.is_softmax_sum(compute) => Range { lo: 0.5, hi: 2.0 * most },
            // A sum of what is not negative is no less than each term, however it is rounded.
            Some(Reducer::Sum) if each.lo >= 0.0 && least >= 1.0 => {
                Range { lo: each.lo, hi: (2.0 * most * each.hi).min(MOST) }
            }
            Some(Reducer::Max | Reducer::Min) => each,
            _ => ANY,
        }
    }

    /// Whether a reduction adds up `exp(x - m)` along the whole of the one axis along which `m` is
    /// the largest `x`.
    fn is_softmax_sum(&self, sum: &Compute) -> bool {
        let term = self.unfolded(&sum.body);
        let (Expr::Unary(UnaryOp::Exp, exponent), [axis]) = (&term, &sum.axes[sum.n_spatial..])
        else {
            return false;
        };
        let Expr::Binary(BinaryOp::Sub, x, peak) = &**exponent else { return false };
        let Expr::Read { tensor, index } = &**peak else { return false };
        let (Some(stage), Some(index)) = (self.tensor(*tensor).stage, affine(index)) else {
            return false;
        };
        let max = &self.stage(stage).compute;
        let along = Poly::var(VarId(sum.n_spatial as u32));
        let [reduced] = &max.axes[max.n_spatial..] else { return false };
        let at = |var: VarId| Some(index.get(var.0 as usize).unwrap_or(&along).clone());
        max.reducer == Some(Reducer::Max)
            && reduced.extent == axis.extent
            && index.iter().all(|it| !it.mentions(VarId(sum.n_spatial as u32)))
            && max.body.substitute_vars(&at, &self.dag.facts()) == **x
    }

    /// What is read, as an expression, where that is one element of an elementwise stage.
    fn unfolded(&self, value: &Expr) -> Expr {
        let of = |it: &Expr| {
            let Expr::Read { tensor, index } = it else { return None };
            let compute = &self.stage(self.tensor(*tensor).stage?).compute;
            let index = affine(index)?;
            let at = |var: VarId| index.get(var.0 as usize).cloned();
            let facts = self.dag.facts();
            compute.reducer.is_none().then(|| compute.body.substitute_vars(&at, &facts))
        };
        of(value).unwrap_or_else(|| value.clone())
    }
}

fn is_number(value: &Expr) -> bool {
    matches!(value, Expr::Const(Literal::Float(it), _) if !it.is_nan())
}

fn unary(op: UnaryOp, a: Range) -> Range {
    match op {
        UnaryOp::Neg => Range { lo: -a.hi, hi: -a.lo },
        UnaryOp::Abs => Range { lo: a.lo.max(-a.hi).max(0.0), hi: a.hi.max(-a.lo) },
        UnaryOp::Sqrt => Range::rounded(a.lo.max(0.0).sqrt(), a.hi.max(0.0).sqrt()),
        // Of what is infinite, 0.
        UnaryOp::Exp => Range::rounded(0.0, libm::exp(a.hi)),
        UnaryOp::Tanh | UnaryOp::Erf | UnaryOp::Sin | UnaryOp::Cos => Range::rounded(-1.0, 1.0),
        _ => ANY,
    }
}

fn binary(op: BinaryOp, a: Range, b: Range) -> Range {
    match op {
        BinaryOp::Add => Range::rounded(a.lo + b.lo, a.hi + b.hi),
        BinaryOp::Sub => Range::rounded(a.lo - b.hi, a.hi - b.lo),
        BinaryOp::Mul if a.lo >= 0.0 && b.lo >= 0.0 => Range::rounded(a.lo * b.lo, a.hi * b.hi),
        // By what is infinite, 0.
        BinaryOp::Div if a.lo >= 0.0 && b.lo >= LEAST => Range::rounded(0.0, a.hi / b.lo),
        _ => ANY,
    }
}
