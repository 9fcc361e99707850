//! Conditions on indices, as inequalities.

use super::{BinaryOp, CompareOp, DType, Expr, Literal, UnaryOp};
use crate::poly::Poly;

/// An integer expression of loop variables and dimensions as a polynomial.
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

/// `.0 >= 0` exactly where the comparison holds, for comparisons of order between indices.
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

/// The inequalities `.. >= 0` which together are the condition; `None` if it is anything else.
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
