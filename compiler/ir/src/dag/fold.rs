//! Constant folding of expressions: a fold never changes a result by a bit.

use super::bounds::{PathFacts, negated};
use super::{BinaryOp, DType, Expr, Literal, Types, UnaryOp, integer_range};
use crate::dag::Number;

/// Folds an expression and all its operands, under the facts of the path to it.
pub(super) fn fold(expr: &Expr, path_facts: &PathFacts, types: &dyn Types) -> Expr {
    if let Expr::Select { condition, then, otherwise } = expr {
        let condition = fold(condition, path_facts, types);
        let branch = |branch: &Expr, holds: bool| {
            let mut path_facts = path_facts.clone();
            path_facts.assume(&condition, holds);
            fold(branch, &path_facts, types)
        };
        return match condition {
            Expr::Const(Literal::Bool(true), _) => fold(then, path_facts, types),
            Expr::Const(Literal::Bool(false), _) => fold(otherwise, path_facts, types),
            _ => {
                let (then, otherwise) = (branch(then, true), branch(otherwise, false));
                if then == otherwise { then } else { condition.select(then, otherwise) }
            }
        };
    }
    let expr = expr.map_children(&mut |it| fold(it, path_facts, types));
    match &expr {
        Expr::Compare(op, a, b) => match (&**a, &**b) {
            (Expr::Index(a), Expr::Index(b)) => path_facts.decides(*op, a, b).map(truth),
            _ => match (as_constant(a), as_constant(b)) {
                (Some((a, _)), Some((b, _))) => Some(truth(a.compare(*op, b))),
                _ => path_facts.implies(*op, a, b, types).then(|| truth(true)),
            },
        },
        Expr::Unary(op, a) => fold_unary(*op, a, types),
        Expr::Binary(op, a, b) => fold_binary(*op, a, b),
        Expr::Cast(to, a) => fold_cast(*to, a, types),
        _ => None,
    }
    .unwrap_or(expr)
}

fn fold_unary(op: UnaryOp, a: &Expr, types: &dyn Types) -> Option<Expr> {
    if let Some((value, dtype)) = as_constant(a) {
        return Some(literal(value.unary(op, dtype), dtype));
    }
    match a {
        Expr::Unary(inner, x) if *inner == op && matches!(op, UnaryOp::Neg | UnaryOp::Not) => {
            Some((**x).clone())
        }
        // Floats are not totally ordered: a NaN is neither below nor at least.
        Expr::Compare(compare, x, y) if op == UnaryOp::Not && !x.dtype(types).is_float() => {
            Some(Expr::Compare(negated(*compare), x.clone(), y.clone()))
        }
        _ => None,
    }
}

fn fold_binary(op: BinaryOp, a: &Expr, b: &Expr) -> Option<Expr> {
    let (left, right) = (as_constant(a), as_constant(b));
    if let (Some((x, dtype)), Some((y, _))) = (left, right) {
        return Some(literal(x.binary(op, y, dtype), dtype));
    }
    let equals = |side: Option<(Number, DType)>, value: f64| {
        side.is_some_and(|(it, dtype)| {
            let zero_sign = !it.to_f64().is_sign_negative() || !dtype.is_float();
            dtype != DType::Bool && it.to_f64() == value && zero_sign
        })
    };
    let truth_of = |side: Option<(Number, DType)>| match side {
        Some((Number::Bool(it), _)) => Some(it),
        _ => None,
    };
    let integer = |side: Option<(Number, DType)>| side.is_some_and(|(_, it)| it.is_integer());
    match op {
        BinaryOp::Mul if equals(left, 1.0) => Some(b.clone()),
        BinaryOp::Mul | BinaryOp::Div if equals(right, 1.0) => Some(a.clone()),
        BinaryOp::Sub if equals(right, 0.0) => Some(a.clone()),
        BinaryOp::BitOr | BinaryOp::BitXor | BinaryOp::Shl | BinaryOp::Shr
            if equals(right, 0.0) =>
        {
            Some(a.clone())
        }
        // Of floats, -0.0 + 0.0 is 0.0.
        BinaryOp::Add if integer(right) && equals(right, 0.0) => Some(a.clone()),
        BinaryOp::Add if integer(left) && equals(left, 0.0) => Some(b.clone()),
        BinaryOp::And | BinaryOp::Or => {
            let neutral = op == BinaryOp::And;
            match (truth_of(left), truth_of(right)) {
                (Some(it), _) if it == neutral => Some(b.clone()),
                (_, Some(it)) if it == neutral => Some(a.clone()),
                (Some(_), _) | (_, Some(_)) => Some(truth(!neutral)),
                _ => None,
            }
        }
        _ => None,
    }
}

fn fold_cast(to: DType, a: &Expr, types: &dyn Types) -> Option<Expr> {
    if let Some((value, _)) = as_constant(a) {
        return Some(literal(value.cast(to), to));
    }
    if let Expr::Index(poly) = a
        && let Some(value) = poly.as_constant()
    {
        return Some(literal(Number::Int(value).cast(to), to));
    }
    if a.dtype(types) == to {
        return Some(a.clone());
    }
    let Expr::Cast(middle, x) = a else { return None };
    let from = x.dtype(types);
    if !is_exact(from, *middle) {
        return None;
    }
    let half = |it: DType| it != it.compute();
    match from {
        _ if from == to => Some((**x).clone()),
        // Halves are converted from and to `F32` alone.
        _ if half(from) || half(to) => None,
        // Out of floats a cast saturates, out of integers it wraps: one step may not become another.
        _ if from.is_float() == middle.is_float() => Some(Expr::Cast(to, x.clone())),
        _ => None,
    }
}

/// Returns whether every value of `from` is a value of `to`.
fn is_exact(from: DType, to: DType) -> bool {
    match (from, to) {
        (DType::F16 | DType::Bf16, DType::F32 | DType::F64) | (DType::F32, DType::F64) => true,
        (a, b) if b.is_integer() && !a.is_float() => integer_range(b).includes(integer_range(a)),
        _ => false,
    }
}

fn as_constant(expr: &Expr) -> Option<(Number, DType)> {
    match expr {
        Expr::Const(value, dtype) => Some((Number::literal(*value, *dtype), *dtype)),
        _ => None,
    }
}

fn truth(value: bool) -> Expr {
    Expr::Const(Literal::Bool(value), DType::Bool)
}

fn literal(value: Number, dtype: DType) -> Expr {
    let literal = match value {
        // Processors differ in the sign of a NaN, and text has none.
        Number::Float(it) => Literal::Float(if it.is_nan() { f64::NAN } else { it }),
        Number::Int(it) => Literal::Int(it),
        Number::Bool(it) => Literal::Bool(it),
    };
    Expr::Const(literal, dtype)
}
