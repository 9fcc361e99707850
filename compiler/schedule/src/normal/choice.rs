//! Choices by indices, with their constant behind.
//!
//! ```text
//! if k > i || k + 4 <= i { 0 } else { t }    =>   if k <= i && k + 4 > i { t } else { 0 }
//! ```

use tvmtune_ir::dag::bounds::negated;
use tvmtune_ir::dag::{BinaryOp, Expr, UnaryOp};

/// Puts the constant of a choice by indices behind.
pub(super) fn chosen_first(value: &Expr) -> Expr {
    let value = value.map_children(&mut chosen_first);
    if let Expr::Select { condition, then, otherwise } = &value
        && matches!((&**then, &**otherwise), (Expr::Const(..), it) if !matches!(it, Expr::Const(..)))
        && let Some(opposite) = opposite(condition)
    {
        return opposite.select((**otherwise).clone(), (**then).clone());
    }
    value
}

/// Returns the condition that holds where a disjunction of conditions on indices does not.
fn opposite(condition: &Expr) -> Option<Expr> {
    match condition {
        Expr::Unary(UnaryOp::Not, a) => Some((**a).clone()),
        Expr::Binary(BinaryOp::Or, a, b) => Some(opposite(a)?.binary(BinaryOp::And, opposite(b)?)),
        Expr::Compare(op, a, b) => match (&**a, &**b) {
            (Expr::Index(_), Expr::Index(_)) => {
                Some((**a).clone().compare(negated(*op), (**b).clone()))
            }
            _ => None,
        },
        _ => None,
    }
}
