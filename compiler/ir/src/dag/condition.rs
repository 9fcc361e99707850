//! Conditions on indices as conjunctions of inequalities.

use super::{BinaryOp, CompareOp, DType, Expr, Literal, UnaryOp};
use crate::poly::Poly;

/// Converts an integer expression of loop variables and dimensions to a polynomial.
pub fn as_index(expr: &Expr) -> Option<Poly> {
    match expr {
        Expr::Index(poly) => Some(poly.clone()),
        Expr::Const(Literal::Int(value), DType::I64) => Some(Poly::constant(*value)),
        Expr::Cast(DType::I64, inner) => as_index(inner),
        Expr::Unary(UnaryOp::Neg, inner) => Some(-as_index(inner)?),
        Expr::Binary(BinaryOp::Add, a, b) => Some(as_index(a)? + as_index(b)?),
        Expr::Binary(BinaryOp::Sub, a, b) => Some(as_index(a)? - as_index(b)?),
        Expr::Binary(BinaryOp::Mul, a, b) => Some(as_index(a)? * as_index(b)?),
        _ => None,
    }
}

/// Returns a polynomial that is at least 0 exactly where an order comparison of indices holds.
pub fn as_inequality(op: CompareOp, left: &Expr, right: &Expr) -> Option<Poly> {
    let difference = || Some(as_index(right)? - as_index(left)?);
    let one = Poly::constant(1);
    match op {
        CompareOp::Lt => Some(difference()? - one),
        CompareOp::Le => difference(),
        CompareOp::Ge => Some(-difference()?),
        CompareOp::Gt => Some(-difference()? - one),
        CompareOp::Eq | CompareOp::Ne => None,
    }
}

/// Returns the inequalities `.. >= 0` whose conjunction is the condition; `None` if there are none.
pub fn inequalities(condition: &Expr) -> Option<Vec<Poly>> {
    match condition {
        Expr::Const(Literal::Bool(true), _) => Some(Vec::new()),
        Expr::Compare(op, a, b) => Some(vec![as_inequality(*op, a, b)?]),
        Expr::Binary(BinaryOp::And, a, b) => {
            let mut all = inequalities(a)?;
            all.extend(inequalities(b)?);
            Some(all)
        }
        _ => None,
    }
}
