//! Prefix reductions: reductions up to the index of their result, or from it on.
//!
//! As written they run over all elements and mask some; a scan needs one step for each element. The
//! analysis recognizes them, for schedules that scan and for models that count work.

use super::bounds::PathFacts;
use super::condition::inequalities;
use super::{Compute, Expr, TensorId, Types};
use crate::poly::{Facts, Poly, VarId};

/// A reduction up to the index of its result, or from it on.
#[derive(Clone, Debug, PartialEq)]
pub struct Prefix {
    /// The spatial axis of the index.
    pub axis: usize,
    /// The reduce axis that runs up to (or from) it.
    pub along: usize,
    /// True if it runs up to the index; else it starts there.
    pub is_upward: bool,
    /// The distance from result to operand: the operand `i + shift` is the last (or first) one of the
    /// result `i`.
    pub shift: Poly,
    /// The operand, which does not depend on the index.
    pub value: Expr,
}

impl Prefix {
    /// Recognizes a prefix reduction of tensors of those shapes and types.
    pub fn of(
        compute: &Compute,
        shape: &dyn Fn(TensorId) -> Vec<Poly>,
        types: &dyn Types,
        dims: &Facts,
    ) -> Option<Self> {
        let (condition, value) = masked_operand(compute, types)?;
        let [inequality] = inequalities(condition)?.try_into().ok()?;
        let facts = compute.facts(dims);
        let Comparison { axis, along, is_upward, shift } = compared(compute, &inequality)?;
        // Each operand enters at a result of its own.
        let extent = |axis: usize| compute.axes[axis].extent.clone();
        let one_each = if is_upward {
            (-shift.clone()).is_nonnegative(&facts)
        } else {
            let room = extent(axis) + shift.clone() - extent(along);
            shift.is_nonnegative(&facts) && room.is_nonnegative(&facts)
        };
        let is_whole = one_each
            && !value.mentions(VarId(axis as u32))
            && PathFacts::new(facts).reads_in_bounds(value, shape, types);
        is_whole.then(|| Self { axis, along, is_upward, shift, value: value.clone() })
    }
}

/// Returns the mask and the operand of a reduction whose masked operands are the identity.
fn masked_operand<'a>(compute: &'a Compute, types: &dyn Types) -> Option<(&'a Expr, &'a Expr)> {
    let identity = compute.reducer?.identity(types.tensor(compute.tensor));
    match &compute.body {
        Expr::Select { condition, then, otherwise } => match **otherwise {
            Expr::Const(literal, _) if literal.equals(identity) => Some((condition, then)),
            _ => None,
        },
        _ => None,
    }
}

/// An inequality between a spatial and a reduce axis.
struct Comparison {
    axis: usize,
    along: usize,
    /// True if the spatial axis is the upper bound.
    is_upward: bool,
    shift: Poly,
}

/// Reads `inequality >= 0` as a comparison of two axes.
fn compared(compute: &Compute, inequality: &Poly) -> Option<Comparison> {
    let reduced = compute.n_spatial..compute.axes.len();
    let pairs =
        (0..compute.n_spatial).flat_map(|axis| reduced.clone().map(move |along| (axis, along)));
    pairs.into_iter().find_map(|(axis, along)| {
        let distance = Poly::var(VarId(axis as u32)) - Poly::var(VarId(along as u32));
        let shift = inequality.clone() - distance.clone();
        if !shift.has_vars() {
            return Some(Comparison { axis, along, is_upward: true, shift });
        }
        let shift = -(inequality.clone() + distance);
        (!shift.has_vars()).then_some(Comparison { axis, along, is_upward: false, shift })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsl;

    /// Axis, axis along it, direction and shift of a prefix reduction; empty for other bodies.
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
    fn reductions_up_to_an_index_are_recognized() {
        assert_eq!(prefix("sum(0..=i, |k| x[[k]] * y[[k]])"), "0 1 true 0");
        assert_eq!(prefix("max(0..i, |k| x[[k]])"), "0 1 true -1");
        assert_eq!(prefix("sum(i..M, |k| x[[k]])"), "0 1 false 0");
        // The axis that is reduced starts at 1, or at 0 where there may be only one element.
        assert_eq!(prefix("min(i + 1..M, |k| x[[k]])"), "0 1 false 1");
        assert_eq!(prefix("sum(0..M, |k| if i >= k { x[[k]] } else { -0.0 })"), "0 1 true 0");
    }

    #[test]
    fn other_reductions_are_not() {
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
    fn operands_after_the_last_result_are_none_of_a_prefix() {
        let source = "#[autotune(dims(N = 16))]
            fn f(x: Tensor<f32, N>) -> Tensor<f32, 8> { compute(|i| sum(i..N, |k| x[[k]])) }";
        assert_eq!(prefix_of(source), "");
    }
}
