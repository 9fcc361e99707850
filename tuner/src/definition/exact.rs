//! Exact values of results, and the distance by which rounding moves each of them.
//!
//! In: a program, and positions in its results. Out: for each of them the value in double precision, and a
//! *unit*, the distance by which one rounding of each operation moves the result. Next: errors of kernels
//! are multiples of it.
//!
//! Exact values are those of the program with `f64` in place of `f32` and of halves. Elements are evaluated
//! one by one, since those of a large program would take minutes.
//!
//! Some elements have no unit that means anything, as those of a definition that overflows or underflows on
//! the way. They are left out: of all others the program itself, evaluated in its own types, is within a few
//! units.

use tvmtune_ir::dag::{Compute, DType, Dag, Expr, Literal, Number, Subscript, Tensor, number};
use tvmtune_ir::interp::{Array, Elements};

use super::rounding::{self, PATTERNS, Roundings, of_rounding};

/// The distance of a program's own results from exact ones, in units, at most: its sums round once.
const MAX_OWN_ERROR: f64 = 64.0;

/// The limit of bodies that are evaluated, relative to the number after which no other element is begun.
const PATIENCE: u64 = 10;

/// An element with its exact value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Exact {
    /// The result, by position.
    pub(crate) output: usize,
    /// The flat position in it.
    pub(crate) at: usize,
    /// The exact value; may be infinite or no number.
    pub(crate) value: f64,
    /// The distance by which one rounding of each operation moves it.
    pub(crate) unit: f64,
}

/// A program with its arguments.
#[derive(Clone, Copy)]
pub(crate) struct Program<'a> {
    pub(crate) dag: &'a Dag,
    pub(crate) dims: &'a [i64],
    pub(crate) params: &'a [Array],
    pub(crate) scalars: &'a [Number],
}

/// Tells if exact values of a program are known: it has results that are floats, no `f64`, and computes that
/// define it.
pub(crate) fn has_exact_values(dag: &Dag) -> bool {
    let mut tensors = dag.tensors.iter().map(|it| it.dtype);
    let mut has_doubles = tensors.any(|it| it == DType::F64);
    for compute in &dag.computes {
        compute.body.walk(&mut |it| {
            has_doubles |= matches!(it, Expr::Cast(DType::F64, _) | Expr::Const(_, DType::F64));
        });
    }
    let is_float = dag.outputs.iter().any(|it| dag.tensor(*it).dtype.is_float());
    is_float && !has_doubles && dag.reference().is_none()
}

/// Returns the exact values of elements of the results: of each result's positions as many, in order, as
/// evaluate `max_bodies` bodies, and the first one even if that takes [`PATIENCE`] times as many.
pub(crate) fn values(
    program: Program<'_>,
    positions: &[Vec<usize>],
    max_bodies: u64,
) -> Vec<Exact> {
    let Program { dag, dims, params, scalars } = program;
    // Sums of free numerics round once.
    let (rounded, wide) = (dag.with_free_numerics(), widened(dag));
    let perturbed = PATTERNS.map(|it| widened(&rounding::perturbed(dag, it, Roundings::Single)));
    let elements = |dag| Elements::new(dag, dims, params, scalars);
    let limit = max_bodies.saturating_mul(PATIENCE);
    let (mut own, mut exact) = (elements(&rounded).with_limit(limit), elements(&wide));
    let mut perturbed = perturbed.each_ref().map(elements);
    let mut found = Vec::new();
    for (output, (id, positions)) in dag.outputs.iter().zip(positions).enumerate() {
        let dtype = dag.tensor(*id).dtype;
        if !dtype.is_float() {
            continue;
        }
        let before = own.n_evaluated();
        for at in positions {
            let own_value = own.get(*id, *at).to_f64();
            if own.is_exhausted() {
                return found;
            }
            let value = exact.get(*id, *at).to_f64();
            let moved = perturbed.iter_mut().map(|it| it.get(*id, *at).to_f64());
            let unit = moved.map(|it| distance(it, value)).fold(of_result(value, dtype), f64::max);
            if unit.is_finite() && distance(own_value, value) <= MAX_OWN_ERROR * unit {
                found.push(Exact { output, at: *at, value, unit });
            }
            if own.n_evaluated() - before > max_bodies {
                break;
            }
        }
    }
    found
}

/// Returns how far a number is from an exact one: zero for infinities of one sign, and for two values that are
/// no numbers; infinity if only one of them is a finite number.
pub(crate) fn distance(a: f64, exact: f64) -> f64 {
    if a == exact || (a.is_nan() && exact.is_nan()) {
        return 0.0;
    }
    let distance = (a - exact).abs();
    if distance.is_finite() { distance } else { f64::INFINITY }
}

/// Returns the distance by which rounding to its type moves a result.
fn of_result(value: f64, dtype: DType) -> f64 {
    let smallest = match dtype {
        DType::F16 => 2_f64.powi(-24),
        DType::Bf16 => 2_f64.powi(-133),
        _ => 2_f64.powi(-149),
    };
    let size = if value.is_finite() { value.abs() } else { 1.0 };
    (size * of_rounding(dtype)).max(smallest)
}

/// Returns the program with `f64` in place of all other floats, but for its parameters.
fn widened(dag: &Dag) -> Dag {
    let is_param = |n: usize| dag.params().any(|it| it.0 as usize == n);
    let tensor = |(n, it): (usize, &Tensor)| {
        let dtype = if is_param(n) { it.dtype } else { wide(it.dtype) };
        Tensor { dtype, ..it.clone() }
    };
    let compute = |it: &Compute| Compute { body: widened_value(dag, &it.body), ..it.clone() };
    Dag {
        tensors: dag.tensors.iter().enumerate().map(tensor).collect(),
        computes: dag.computes.iter().map(compute).collect(),
        ..dag.with_free_numerics()
    }
}

fn wide(dtype: DType) -> DType {
    if dtype.is_float() { DType::F64 } else { dtype }
}

/// Returns a value with `f64` in place of all other floats.
fn widened_value(dag: &Dag, value: &Expr) -> Expr {
    let inner = |it: &Expr| Box::new(widened_value(dag, it));
    let converted = |it: Expr, dtype: DType| match dtype.is_float() {
        true => Expr::Cast(DType::F64, Box::new(it)),
        false => it,
    };
    match value {
        // Literals keep the value that they have in their own type.
        Expr::Const(Literal::Float(it), dtype) => {
            Expr::Const(Literal::Float(number::round(*it, *dtype)), wide(*dtype))
        }
        Expr::Const(..) | Expr::Index(_) => value.clone(),
        Expr::Scalar(id) => converted(value.clone(), dag.scalars[id.0 as usize].dtype),
        Expr::Read { tensor, index } => {
            let index = index.iter().map(|it| match it {
                Subscript::Affine(_) => it.clone(),
                Subscript::Value(it) => Subscript::Value(inner(it)),
            });
            let read = Expr::Read { tensor: *tensor, index: index.collect() };
            match dag.producer(*tensor) {
                Some(_) => read,
                None => converted(read, dag.tensor(*tensor).dtype),
            }
        }
        Expr::Unary(op, a) => Expr::Unary(*op, inner(a)),
        Expr::Binary(op, a, b) => Expr::Binary(*op, inner(a), inner(b)),
        Expr::Compare(op, a, b) => Expr::Compare(*op, inner(a), inner(b)),
        Expr::Select { condition, then, otherwise } => Expr::Select {
            condition: inner(condition),
            then: inner(then),
            otherwise: inner(otherwise),
        },
        Expr::Cast(to, a) => Expr::Cast(wide(*to), inner(a)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tvmtune_ir::dsl;

    /// The exact values of the first elements of a program of one parameter with these elements.
    fn values_of(text: &str, elements: &[f64]) -> Vec<Exact> {
        let dag = dsl::program(text).unwrap();
        let dtype = dag.tensors[0].dtype;
        let number = |n: usize| Number::Float(elements[n]).cast(dtype);
        let params = [Array::from_fn(dtype, &[elements.len() as u64], number)];
        let program = Program { dag: &dag, dims: &[], params: &params, scalars: &[] };
        values(program, &[(0..4).collect()], 1 << 20)
    }

    #[test]
    fn sums_that_cancel_have_large_units() {
        let sum = "#[autotune(dims(N = 4))] fn f(x: Tensor<f32, N>) -> Tensor<f32, N> {
            compute(|i| sum(0..N, |j| x[[j]]) * 3.0)
        }";
        let [same, cancelling] =
            [[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 1.0, -0.999_999_9]].map(|it| values_of(sum, &it));
        assert_eq!(same[0].value, 12.0);
        let unit = 2_f64.powi(-24);
        assert!((12.0 * unit..48.0 * unit).contains(&same[0].unit), "{same:?}");
        // 0.9999999 is not a float.
        assert!((cancelling[0].value - 3.6e-7).abs() < 0.1e-7, "{cancelling:?}");
        assert!((3.0 * unit..48.0 * unit).contains(&cancelling[0].unit), "{cancelling:?}");
    }

    #[test]
    fn literals_have_the_value_of_their_type() {
        let text = "#[autotune(dims(N = 4))] fn f(x: Tensor<f32, N>) -> Tensor<f32, N> {
            compute(|i| x[[i]] * 0.1)
        }";
        assert_eq!(values_of(text, &[1.0; 4])[0].value, f64::from(0.1_f32));
    }

    #[test]
    fn halves_on_the_way_round_and_count() {
        let text = "#[autotune(dims(N = 4))] fn f(x: Tensor<f32, N>) -> Tensor<f32, N> {
            let h = compute(|i| (x[[i]] * 1.0) as f16);
            compute(|i| h[[i]] as f32 - 1.0)
        }";
        let found = values_of(text, &[1.0003, 1.0, 3.0, 1000.0]);
        assert!((found[0].value - 3e-4).abs() < 1e-7, "halves do not round: {found:?}");
        assert!(found[0].unit > 4e-4 && found[3].unit > 0.4, "{found:?}");
    }

    #[test]
    fn elements_that_overflow_or_underflow_on_the_way_are_left_out() {
        let text = "#[autotune(dims(N = 4))] fn f(x: Tensor<f32, N>) -> Tensor<f32, N> {
            compute(|i| (x[[i]] * x[[i]]) / x[[i]])
        }";
        let found = values_of(text, &[1e30, 2.0, 1e-30, f64::INFINITY]);
        assert_eq!(found.iter().map(|it| it.at).collect::<Vec<_>>(), [1, 3]);
        assert!(found[1].value.is_nan());
    }

    #[test]
    fn programs_in_doubles_have_no_wider_ones() {
        let has = |dtype: &str| {
            let text = format!(
                "#[autotune(dims(N = 4))] fn f(x: Tensor<{dtype}, N>) -> Tensor<{dtype}, N> {{
                    compute(|i| x[[i]])
                }}"
            );
            has_exact_values(&dsl::program(&text).unwrap())
        };
        assert_eq!(["f32", "bf16", "f64", "i32"].map(has), [true, true, false, false]);
    }
}
