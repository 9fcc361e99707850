//! Reductions that go up to the index of their result, or start there: prefix sums and the like.
//!
//! As written they go over everything and choose; what they need is one step for each element. This
//! says which are of the kind, for schedules that make use of it, and for those who count the steps.

use super::access::depends_on;
use super::bounds::Known;
use super::condition::inequalities;
use super::{Compute, Expr, TensorId, Types};
use crate::poly::{Facts, Poly, VarId};

/// A reduction that goes up to the index of its result, or starts there.
#[derive(Clone, Debug, PartialEq)]
pub struct Prefix {
    /// The axis of the index.
    pub axis: usize,
    /// The axis that is reduced up to it.
    pub along: usize,
    /// Whether it goes up to the index; else it starts there.
    pub is_upward: bool,
    /// Of all results that reduce a value, the one at `i` is the first (the last, if they start
    /// there) for the value `i + shift`.
    pub shift: Poly,
    /// The value, which does not depend on the index.
    pub value: Expr,
}

impl Prefix {
    /// What a compute reduces, if that is prefixes, of tensors of those shapes and types.
    pub fn of(
        compute: &Compute,
        shape: &dyn Fn(TensorId) -> Vec<Poly>,
        types: &dyn Types,
        dims: &Facts,
    ) -> Option<Self> {
        let (condition, value) = chosen(compute, types)?;
        let [inequality] = inequalities(condition)?.try_into().ok()?;
        let facts = compute.facts(dims);
        let (axis, along, is_upward, shift) = compared(compute, &inequality)?;
        // No result is the first with several values, and each value has a result.
        let extent = |axis: usize| compute.axes[axis].extent.clone();
        let one_each = if is_upward {
            (-shift.clone()).is_nonnegative(&facts)
        } else {
            let room = extent(axis) + shift.clone() - extent(along);
            shift.is_nonnegative(&facts) && room.is_nonnegative(&facts)
        };
        let is_whole = one_each
            && !depends_on(value, VarId(axis as u32))
            && Known::new(facts).reads_in_bounds(value, shape, types);
        is_whole.then(|| Self { axis, along, is_upward, shift, value: value.clone() })
    }
}

/// Where a compute reduces only what a condition chooses: that, and the value.
fn chosen<'a>(compute: &'a Compute, types: &dyn Types) -> Option<(&'a Expr, &'a Expr)> {
    let identity = compute.reducer?.identity(types.tensor(compute.tensor));
    match &compute.body {
        Expr::Select { condition, then, otherwise } => match **otherwise {
            Expr::Const(literal, _) if literal.equals(identity) => Some((condition, then)),
            _ => None,
        },
        _ => None,
    }
}

/// The spatial and the reduce axis that `.. >= 0` compares, whether the first is the greater, and by
/// how much they may differ.
fn compared(compute: &Compute, inequality: &Poly) -> Option<(usize, usize, bool, Poly)> {
    let reduced = compute.n_spatial..compute.axes.len();
    let pairs =
        (0..compute.n_spatial).flat_map(|axis| reduced.clone().map(move |along| (axis, along)));
    pairs.into_iter().find_map(|(axis, along)| {
        let distance = Poly::var(VarId(axis as u32)) - Poly::var(VarId(along as u32));
        let shift = inequality.clone() - distance.clone();
        if !shift.has_vars() {
            return Some((axis, along, true, shift));
        }
        let shift = -(inequality.clone() + distance);
        (!shift.has_vars()).then_some((axis, along, false, shift))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsl;

    /// Axis, axis along it, direction and shift of the prefix that a body is; empty if it is none.
    fn prefix(body: &str) -> String {
        prefix_of(&format!(
            "#[autotune(dims(M = 1..=64))]
             fn f(x: Tensor<f32, M>, y: Tensor<f32, M>) -> Tensor<f32, M> {{ compute(|i| {body}) }}"
        ))
    }

    fn prefix_of(source: &str) -> String {
        let dag = dsl::program(source).unwrap();
        let shape = |it: TensorId| dag.tensor(it).shape.clone();
        let found = Prefix::of(&dag.computes[0], &shape, &dag, &dag.facts());
        let shown = |it: Prefix| {
            format!("{} {} {} {}", it.axis, it.along, it.is_upward, it.shift.constant_term())
        };
        found.map(shown).unwrap_or_default()
    }

    #[test]
    fn reductions_up_to_an_index_are_known() {
        assert_eq!(prefix("sum(0..=i, |k| x[[k]] * y[[k]])"), "0 1 true 0");
        assert_eq!(prefix("max(0..i, |k| x[[k]])"), "0 1 true -1");
        assert_eq!(prefix("sum(i..M, |k| x[[k]])"), "0 1 false 0");
        // The axis that is reduced starts at 1, or at 0 where there may be only one element.
        assert_eq!(prefix("min(i + 1..M, |k| x[[k]])"), "0 1 false 1");
        assert_eq!(prefix("sum(0..M, |k| if i >= k { x[[k]] } else { -0.0 })"), "0 1 true 0");
    }

    #[test]
    fn others_are_none() {
        for body in [
            "sum(0..M, |k| x[[k]])",
            // A window, values that depend on the index, and some that count everywhere.
            "sum(i..i + 2, |k| x.get([k]).unwrap_or(0.0))",
            "sum(0..=i, |k| x[[k]] * y[[i]])",
            "sum(0..M, |k| if k <= i { x[[k]] } else { 1.0 })",
            // Several values come with the first result.
            "sum(0..i + 2, |k| x.get([k]).unwrap_or(0.0))",
            "sum(0..M, |k| if 2 * k <= i { x[[k]] } else { 0.0 })",
        ] {
            assert_eq!(prefix(body), "", "{body}");
        }
    }

    #[test]
    fn values_that_come_after_the_last_result_are_none_of_a_prefix() {
        let source = "#[autotune(dims(N = 16))]
            fn f(x: Tensor<f32, N>) -> Tensor<f32, 8> { compute(|i| sum(i..N, |k| x[[k]])) }";
        assert_eq!(prefix_of(source), "");
    }
}
