//! Loops that fill consecutive elements with a constant: they run in vectors, whatever the schedule says of them.
//!
//! Loops over elements that data choose are no lanes, and neither are those that fill them at first.

use tvmtune_ir::dag::Expr;
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_schedule::nest::Stmt;

/// Returns whether a loop of at least so many iterations does nothing else.
pub(super) fn is_fill(var: VarId, bound: &Poly, body: &[Stmt], lanes: i64) -> bool {
    let [Stmt::Store { index, value: Expr::Const(..), .. }] = body else { return false };
    let Some((last, others)) = index.split_last() else { return false };
    last.step(var) == Some(1)
        && !others.iter().any(|it| it.mentions(var))
        && bound.as_constant().is_none_or(|it| it >= lanes)
}
