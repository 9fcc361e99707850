//! Loops that fill consecutive elements with a constant: they run in vectors, whatever the schedule says of them.
//!
//! The schedule of a scatter leaves loops over chosen elements serial, the loops that initialize them included.

use tvmtune_ir::dag::Expr;
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_schedule::nest::Stmt;

/// Returns whether a loop only stores a constant to consecutive elements, at least as many as there are lanes.
pub(super) fn is_fill(var: VarId, bound: &Poly, body: &[Stmt], lanes: i64) -> bool {
    let [Stmt::Store { index, value: Expr::Const(..), .. }] = body else { return false };
    let Some((last, others)) = index.split_last() else { return false };
    last.step(var) == Some(1)
        && !others.iter().any(|it| it.mentions(var))
        && bound.as_constant().is_none_or(|it| it >= lanes)
}
