//! Loop unswitching: a loop in which a choice has one outcome for all iterations becomes two loops.
//!
//! ```text
//! for i in 0..58 { s[i] = if task >= 1 { x[58 * task + i] } else { 0 } }
//!     =>   if task < 1 { for i { s[i] = 0 } } else { for i { s[i] = x[58 * task + i] } }
//! ```
//!
//! In: a loop without others inside of it. Out: the form whose sign decides a choice, under which
//! [`super::lower`] lowers the loop once for each sign.
//!
//! # Source
//!
//! LLVM's `SimpleLoopUnswitch`.

use super::Unsupported;
use super::affine::{Affine, LANE};
use super::choices::Comparison;
use super::context::Lowering;
use super::tree::{Loop, LoopMode, Node};
use tvmtune_ir::dag::CompareOp;

/// Vectors that an iteration stores, up to which a loop is short enough to be there several times. Chosen by
/// judgement.
const MAX_VECTORS: i64 = 16;
/// Choices of a loop that are taken out of it: those of windows have two for each of two axes.
const MAX_CHOICES: usize = 4;

impl Lowering<'_> {
    /// Returns a form whose sign decides a choice in all iterations of a loop; `None` if there is none, or the
    /// loop is long.
    pub(super) fn invariant_choice(&mut self, loop_: &Loop) -> Result<Option<Affine>, Unsupported> {
        let is_nested = self.lane.is_some() || !self.lane_reductions.is_empty();
        let n_vectors = n_vectors(&loop_.body, self.lanes());
        if is_nested
            || self.assumed.len() >= MAX_CHOICES
            || n_vectors.is_none_or(|it| it > MAX_VECTORS)
        {
            return Ok(None);
        }
        let n_vars = self.tree.vars.len();
        let is_open = |form: &Affine| {
            let mut vars = form.terms.iter().map(|(var, _)| *var);
            !form.terms.is_empty() && vars.all(|it| it != LANE && it.0 as usize >= n_vars)
        };
        let choices = self.open_choices(loop_)?;
        Ok(choices.into_iter().filter_map(deciding).find(is_open))
    }
}

/// Returns a form that is negative for one outcome of a comparison, and only for that.
fn deciding(Comparison { op, mut form }: Comparison) -> Option<Affine> {
    match op {
        CompareOp::Lt | CompareOp::Ge => {}
        CompareOp::Le | CompareOp::Gt => form.constant -= 1,
        CompareOp::Eq | CompareOp::Ne => return None,
    }
    Some(form)
}

/// Counts the vectors that an iteration stores; `None` if it has loops that are not written out.
pub(super) fn n_vectors(nodes: &[Node], lanes: i64) -> Option<i64> {
    nodes.iter().try_fold(0_i64, |n, node| {
        let times = match node {
            Node::Loop(Loop { kind: LoopMode::Unrolled(times), .. }) => *times,
            Node::Loop(Loop { kind: LoopMode::Vectorized(n), .. }) => (n + lanes - 1) / lanes,
            Node::Loop(_) => return None,
            Node::If { .. } => 1,
            Node::Write(_) => return n.checked_add(1),
        };
        n.checked_add(times.checked_mul(n_vectors(node.body(), lanes)?)?)
    })
}
