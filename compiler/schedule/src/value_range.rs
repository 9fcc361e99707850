//! Value-range analysis of expressions: an interval that holds every finite value.
//!
//! It decides which divisors have a reciprocal that is as precise as any number. A quotient is the
//! product with a reciprocal, rounded once more, unless the reciprocal is too small or too large to be
//! a normal number. The range of a divisor follows from its definition: sums of squares, roots,
//! exponentials; and a sum of `exp(x - m)` where `m` is the maximum of all `x` has one term that is 1.
//!
//! # Source
//!
//! Interval arithmetic (Moore, 1966).

use super::Schedule;
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{BinaryOp, Compute, DType, Expr, Literal, Reducer, TensorId, UnaryOp};
use tvmtune_ir::poly::{Poly, VarId};

/// The largest `f32`.
const MAX: f64 = f32::MAX as f64;
/// The smallest normal `f32`.
const MIN_NORMAL: f64 = f32::MIN_POSITIVE as f64;
/// The number of definitions that the analysis follows, one below the other.
const MAX_DEPTH: usize = 4;

/// An interval that holds a value unless that is infinite or NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ValueRange {
    lo: f64,
    hi: f64,
}

const ANY: ValueRange = ValueRange { lo: -MAX, hi: MAX };

impl ValueRange {
    /// Returns the range of numbers in `lo..=hi` once they are rounded: a little wider, and from 0
    /// where they may underflow.
    fn rounded(lo: f64, hi: f64) -> Self {
        let least = lo - lo.abs() * 1e-6;
        let lo = if (0.0..MIN_NORMAL).contains(&least) { 0.0 } else { least };
        Self { lo: lo.max(-MAX), hi: (hi + hi.abs() * 1e-6).clamp(MIN_NORMAL, MAX) }
    }

    fn either(self, other: Self) -> Self {
        Self { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
    }
}

impl Schedule {
    /// Returns whether the reciprocal of a value is a normal number wherever the value is finite.
    pub(crate) fn has_normal_reciprocal(&self, value: &Expr) -> bool {
        let range = self.range(value, MAX_DEPTH);
        // Reciprocals of larger values are subnormal, and have fewer bits.
        range.lo >= MIN_NORMAL && range.hi <= 0.25 / MIN_NORMAL
    }

    fn range(&self, value: &Expr, depth: usize) -> ValueRange {
        let Some(depth) = depth.checked_sub(1) else { return ANY };
        let range = |it: &Expr| self.range(it, depth + 1);
        match value {
            Expr::Const(Literal::Float(it), _) => ValueRange::rounded(*it, *it),
            Expr::Read { tensor, .. } => self.tensor_range(*tensor, depth),
            Expr::Unary(op, a) => unary(*op, range(a)),
            Expr::Binary(BinaryOp::Mul, a, b) if a == b => {
                let most = range(a).lo.abs().max(range(a).hi.abs());
                ValueRange { lo: 0.0, hi: ValueRange::rounded(0.0, most * most).hi }
            }
            // Of a number and a NaN, these return the number: a constant operand is a bound.
            Expr::Binary(op @ (BinaryOp::Max | BinaryOp::Min), a, b) => {
                let either = range(a).either(range(b));
                let known = [a, b].into_iter().find(|it| is_number(it)).map(|it| range(it));
                match (op, known) {
                    (BinaryOp::Max, Some(known)) => ValueRange { lo: known.lo, ..either },
                    (BinaryOp::Min, Some(known)) => ValueRange { hi: known.hi, ..either },
                    _ => either,
                }
            }
            Expr::Binary(op, a, b) => binary(*op, range(a), range(b)),
            Expr::Select { then, otherwise, .. } => range(then).either(range(otherwise)),
            _ => ANY,
        }
    }

    /// Returns the range of a tensor's elements.
    fn tensor_range(&self, tensor: TensorId, depth: usize) -> ValueRange {
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
            Some(Reducer::Sum) if self.is_softmax_sum(compute) => {
                ValueRange { lo: 0.5, hi: 2.0 * most }
            }
            // A sum of nonnegative terms is no less than each term, however it is rounded.
            Some(Reducer::Sum) if each.lo >= 0.0 && least >= 1.0 => {
                ValueRange { lo: each.lo, hi: (2.0 * most * each.hi).min(MAX) }
            }
            Some(Reducer::Max | Reducer::Min) => each,
            _ => ANY,
        }
    }

    /// Returns whether a reduction adds up `exp(x - m)` along the whole of the one axis along which `m` is
    /// the largest `x`.
    fn is_softmax_sum(&self, sum: &Compute) -> bool {
        let definition = self.element(&sum.body, &self.dag.facts());
        let term = definition.as_ref().unwrap_or(&sum.body);
        let (Expr::Unary(UnaryOp::Exp, exponent), [axis]) = (term, &sum.axes[sum.n_spatial..])
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
        let position = |var: VarId| Some(index.get(var.0 as usize).unwrap_or(&along).clone());
        max.reducer == Some(Reducer::Max)
            && reduced.extent == axis.extent
            && index.iter().all(|it| !it.mentions(VarId(sum.n_spatial as u32)))
            && max.body.substitute_vars(&position, &self.dag.facts()) == **x
    }
}

fn is_number(value: &Expr) -> bool {
    matches!(value, Expr::Const(Literal::Float(it), _) if !it.is_nan())
}

fn unary(op: UnaryOp, a: ValueRange) -> ValueRange {
    match op {
        UnaryOp::Neg => ValueRange { lo: -a.hi, hi: -a.lo },
        UnaryOp::Abs => ValueRange { lo: a.lo.max(-a.hi).max(0.0), hi: a.hi.max(-a.lo) },
        UnaryOp::Sqrt => ValueRange::rounded(a.lo.max(0.0).sqrt(), a.hi.max(0.0).sqrt()),
        // The exponential of an infinity may be 0.
        UnaryOp::Exp => ValueRange::rounded(0.0, libm::exp(a.hi)),
        UnaryOp::Exp2 => ValueRange::rounded(0.0, libm::exp2(a.hi)),
        UnaryOp::ExpM1 => ValueRange::rounded(-1.0, libm::expm1(a.hi)),
        UnaryOp::Tanh | UnaryOp::Erf | UnaryOp::Sin | UnaryOp::Cos => {
            ValueRange::rounded(-1.0, 1.0)
        }
        UnaryOp::Atan => ValueRange::rounded(libm::atan(a.lo), libm::atan(a.hi)),
        _ => ANY,
    }
}

fn binary(op: BinaryOp, a: ValueRange, b: ValueRange) -> ValueRange {
    match op {
        BinaryOp::Add => ValueRange::rounded(a.lo + b.lo, a.hi + b.hi),
        BinaryOp::Sub => ValueRange::rounded(a.lo - b.hi, a.hi - b.lo),
        BinaryOp::Mul if a.lo >= 0.0 && b.lo >= 0.0 => {
            ValueRange::rounded(a.lo * b.lo, a.hi * b.hi)
        }
        // A quotient by an infinity is 0.
        BinaryOp::Div if a.lo >= 0.0 && b.lo >= MIN_NORMAL => ValueRange::rounded(0.0, a.hi / b.lo),
        _ => ANY,
    }
}
