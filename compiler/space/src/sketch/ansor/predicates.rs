//! Predicates of the rules on stages, from subscripts and extents.

use super::state::State;
use tvmtune_ir::dag::access::leading_axes;
use tvmtune_ir::dag::{BinaryOp, Compute, Expr, Subscript, TensorId, UnaryOp};
use tvmtune_ir::poly::VarId;
use tvmtune_schedule::StageId;

/// The iterations of the spatial axes of a stage, and those of its reduce axes.
pub(super) fn space_and_reduce(state: &State, stage: StageId) -> (u64, u64) {
    let n_spatial = state.b.n_spatial(stage);
    let extents = state.b.extents(stage);
    let product = |it: &[u64]| it.iter().copied().fold(1, u64::saturating_mul);
    (product(&extents[..n_spatial]), product(&extents[n_spatial..]))
}

/// The one stage that reads a tensor.
pub(super) fn single_reader(state: &State, tensor: TensorId) -> Option<StageId> {
    let mut readers = state.schedule().readers(tensor);
    readers.next().filter(|_| readers.next().is_none())
}

/// Returns the only reader of a stage that is no result, if the reader is elementwise.
pub(super) fn elementwise_reader(state: &State, stage: StageId) -> Option<StageId> {
    let tensor = state.b.tensor_of(stage);
    let reader = single_reader(state, tensor)?;
    let compute = state.b.compute(reader);
    let shape = |it: TensorId| &state.schedule().tensor(it).tensor.shape;
    let is_matched = !state.schedule().is_output(tensor)
        && compute.reducer.is_none()
        && shape(tensor) == shape(compute.tensor)
        && leading_axes(compute, tensor) == compute.n_spatial;
    is_matched.then_some(reader)
}

/// Returns whether a stage does little with elements that it reads in the order of its axes.
pub(super) fn is_strictly_inlineable(compute: &Compute) -> bool {
    let mut is_plain = true;
    compute.body.walk(&mut |it| {
        is_plain &= match it {
            Expr::Read { index, .. } => reads_in_order(compute, index),
            Expr::Select { .. } => false,
            Expr::Unary(op, _) => !is_expensive(*op),
            Expr::Binary(op, ..) => *op != BinaryOp::Pow,
            _ => true,
        };
    });
    is_plain
}

fn is_expensive(op: UnaryOp) -> bool {
    matches!(
        op,
        UnaryOp::Exp
            | UnaryOp::Ln
            | UnaryOp::Exp2
            | UnaryOp::Log2
            | UnaryOp::ExpM1
            | UnaryOp::Ln1p
            | UnaryOp::Tanh
            | UnaryOp::Erf
            | UnaryOp::Sin
            | UnaryOp::Cos
            | UnaryOp::Atan
    )
}

/// Returns whether each subscript is a constant or one axis plus a constant, axes in order, none twice.
fn reads_in_order(compute: &Compute, index: &[Subscript]) -> bool {
    let mut next = 0;
    index.iter().all(|subscript| {
        let Subscript::Affine(poly) = subscript else { return false };
        if !poly.has_vars() {
            return true;
        }
        let axes = next..compute.n_spatial;
        let is_shifted = |axis: &usize| {
            let linear = poly.split_linear(VarId(*axis as u32));
            linear.is_some_and(|(by, rest)| by.as_constant() == Some(1) && !rest.has_vars())
        };
        let found = axes.clone().find(is_shifted);
        next = found.map_or(next, |it| it + 1);
        found.is_some()
    })
}
