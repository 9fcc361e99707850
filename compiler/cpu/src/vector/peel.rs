//! Loop peeling: the first and the last iterations of a loop, where choices by its variable turn out otherwise
//! than between. A short loop is split wherever they turn.
//!
//! ```text
//! for i in 0..58 { s[i] = if i >= 1 && i < 57 { x[i - 1] } else { 0 } }
//!     =>   s[0] = 0; for i in 1..57 { s[i] = x[i - 1] }; s[57] = 0
//! ```
//!
//! In: a loop of known extent. Out: the iterations from which on a choice is another, at which
//! [`super::partition`] splits it. A choice by the variables of loops inside as well, by lanes, or by others that
//! hardly vary, is open for a few iterations, before and after which it is known: so the first and the last tasks
//! of a phase have the borders of an image.
//!
//! # Source
//!
//! LLVM's `LoopPeel`; index-set splitting.

use super::Unsupported;
use super::affine::{Affine, Coef, LANE};
use super::choices::Comparison;
use super::context::Lowering;
use super::tree::{Loop, LoopMode, Node};
use super::unswitch::n_vectors;
use tvmtune_ir::dag::CompareOp;
use tvmtune_ir::poly::{Interval, VarId};

/// Iterations at either end that may be peeled: padding is narrow. Chosen by judgement.
const MAX_PEELED: i64 = 4;
/// Vectors that an iteration stores, up to which its loop may be there several times: those of the windows of
/// a tile are hundreds. Chosen by judgement.
const MAX_VECTORS: i64 = 1000;
/// Vectors that the code of an iteration stores, up to which a loop is split anywhere, and splits of one: tensors
/// side by side are copied one after the other. Chosen by judgement.
const MAX_SPLIT_VECTORS: i64 = 16;
/// Vectors that the code of an iteration stores, up to which tasks, and loops with others inside, are split: those
/// of a tile of accumulators and of its windows. Chosen by measurement.
const MAX_TILE_VECTORS: i64 = 128;
const MAX_SPLITS: usize = 8;
/// The fewest iterations of a loop that is peeled.
const MIN_EXTENT: i64 = 2;

impl Lowering<'_> {
    /// Returns the iterations near the ends of a loop from which on a choice by its variable, and by those of
    /// loops inside that are written out, is known or open.
    pub(super) fn turning_points(&mut self, loop_: &Loop) -> Result<Vec<i64>, Unsupported> {
        let extent = self.tree.var(loop_.var).extent.as_constant();
        let Some(extent) = extent.filter(|it| *it >= MIN_EXTENT) else { return Ok(Vec::new()) };
        // Each part is another copy of the body.
        let n_vectors = match (loop_.kind, n_vectors(&loop_.body, self.lanes())) {
            (LoopMode::Serial, Some(n)) if n <= MAX_VECTORS => n,
            (LoopMode::Serial, None) | (LoopMode::Parallel, _) => {
                match n_vectors_of_code(&loop_.body, self.lanes()) {
                    n if n <= MAX_TILE_VECTORS => n,
                    _ => return Ok(Vec::new()),
                }
            }
            _ => return Ok(Vec::new()),
        };
        let mut points = Vec::new();
        for Comparison { op, mut form } in self.open_choices(loop_)? {
            let Some(Coef::Const(step)) = form.take(loop_.var) else { continue };
            // Between the turns for the least and the greatest value, iterations of the loops inside, lanes, and
            // remainders that are known at launch differ.
            let Interval { lo, hi } = self.interval(&form);
            let is_narrow = hi.saturating_sub(lo) / MAX_PEELED <= step.abs();
            if !self.is_of_loops_inside(&form) && !is_narrow {
                continue;
            }
            for rest in [lo, hi] {
                let holds = |iteration: i64| compare(op, step * iteration + rest);
                points.extend(turn(extent, &holds));
            }
        }
        points.sort_unstable();
        points.dedup();
        let is_copied_often = n_vectors > MAX_SPLIT_VECTORS || points.len() > MAX_SPLITS;
        points.retain(|it| {
            let is_near = |distance: i64| (1..=MAX_PEELED).contains(&distance);
            !is_copied_often || is_near(*it) || is_near(extent - it)
        });
        Ok(points)
    }

    /// Returns whether a form depends on nothing but loops inside.
    fn is_of_loops_inside(&self, form: &Affine) -> bool {
        let n_vars = self.tree.vars.len();
        let is_inside = |(var, coefficient): &(VarId, Coef)| {
            *var != LANE && (var.0 as usize) < n_vars && matches!(coefficient, Coef::Const(_))
        };
        form.dims.is_zero() && form.terms.iter().all(is_inside)
    }
}

/// Counts the vectors that the code of loop bodies stores, where loops that are not written out are there once.
pub(super) fn n_vectors_of_code(nodes: &[Node], lanes: i64) -> i64 {
    let of_node = |node: &Node| match n_vectors(std::slice::from_ref(node), lanes) {
        Some(n) => n,
        None => n_vectors_of_code(node.body(), lanes),
    };
    nodes.iter().map(of_node).fold(0, i64::saturating_add)
}

/// Compares a number with 0; equality turns twice, and its iteration is not peeled.
fn compare(op: CompareOp, value: i64) -> bool {
    match op {
        CompareOp::Lt | CompareOp::Ge => value < 0,
        CompareOp::Le | CompareOp::Gt => value <= 0,
        CompareOp::Eq | CompareOp::Ne => true,
    }
}

/// Returns the first iteration for which a monotone condition is another than for the first; `None` if it never
/// is.
fn turn(extent: i64, holds: &dyn Fn(i64) -> bool) -> Option<i64> {
    let (mut same, mut other) = (0, extent - 1);
    if holds(same) == holds(other) {
        return None;
    }
    while other - same > 1 {
        let middle = same + (other - same) / 2;
        let end = if holds(middle) == holds(0) { &mut same } else { &mut other };
        *end = middle;
    }
    Some(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_turn_where_they_first_differ() {
        for (op, step, rest, expected) in [
            (CompareOp::Ge, 1, -1, Some(1)),
            (CompareOp::Lt, 1, -57, Some(57)),
            (CompareOp::Le, 2, -5, Some(3)),
            (CompareOp::Gt, -1, 3, Some(3)),
            (CompareOp::Ge, 1, 0, None),
            (CompareOp::Lt, 1, -58, None),
            (CompareOp::Eq, 1, -3, None),
        ] {
            let found = turn(58, &|it| compare(op, step * it + rest));
            assert_eq!(found, expected, "{op:?} {step} {rest}");
        }
    }
}
