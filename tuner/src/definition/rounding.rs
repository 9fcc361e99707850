//! Sensitivity of a program's results to rounding errors, measured by perturbing its operations.
//!
//! Cancellation, sines of large angles and the normalization of almost equal numbers are ill-conditioned: no
//! fixed tolerance fits them. The reference interpreter evaluates the program again with a small relative error in
//! each operation that rounds; the tolerance of an element follows from how far that moves it.
//!
//! # Source
//!
//! Perturbed evaluation estimates condition as Monte Carlo arithmetic does (Parker, 1997); errors here are a
//! fixed pattern, so that a verdict can be repeated.

use std::cell::{Cell, RefCell};

use serde::{Deserialize, Serialize};
use tvmtune_ir::dag::{BinaryOp, Compute, DType, Dag, Expr, Literal, Number, Reducer, UnaryOp};
use tvmtune_ir::interp::{self, Array};
use tvmtune_ir::poly::{Poly, VarId};

/// The relative error of an operation that rounds twice or three times instead of once, or adds terms in another
/// order: 8 units in the last place of an `f32`.
pub const ERROR: f64 = 1.0 / 2_097_152.0;

/// Errors of code are taken to be at most this many times what the definition shows.
const MARGIN: f64 = 4.0;

/// A pattern in which errors are put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    /// Errors repeat after so many points of a compute; an even number, so that none is zero.
    period: i64,
    /// The distance, in points, of the errors of an operation and of the next one.
    stride: i64,
    /// The number of neighboring points with the same error, as where partial sums are long.
    block: i64,
}

/// The patterns: errors of two operations, or of two parts of a sum, that cancel in one of them add up in
/// another, whatever their signs.
pub(super) const PATTERNS: [Pattern; 4] = [
    Pattern { period: 2, stride: 0, block: 1 },
    Pattern { period: 2, stride: 1, block: 64 },
    Pattern { period: 4, stride: 1, block: 8 },
    Pattern { period: 6, stride: 5, block: 1 },
];

/// Returns the absolute tolerance of each element of each result, if operations have that relative error;
/// infinity where the perturbed program gives an infinity or NaN and the exact one a number, or the reverse.
pub fn slack(
    dag: &Dag,
    dims: &[i64],
    (params, scalars): (&[Array], &[Number]),
    expected: &[Array],
    error: f64,
) -> Vec<Vec<f64>> {
    let mut slack: Vec<Vec<f64>> = expected.iter().map(|it| vec![0.0; it.len()]).collect();
    // A result that changes in steps may change with errors of one sign only.
    let signs: &[f64] = if has_steps(dag) { &[1.0, -1.0] } else { &[1.0] };
    let runs = PATTERNS.iter().flat_map(|it| signs.iter().map(move |sign| (*it, sign * error)));
    for (pattern, error) in runs {
        let found =
            interp::run(&perturbed(dag, pattern, Roundings::Large(error)), dims, params, scalars);
        for ((slack, found), expected) in slack.iter_mut().zip(&found).zip(expected) {
            for (n, it) in slack.iter_mut().enumerate() {
                *it = it.max(MARGIN * distance(found.get(n), expected.get(n)));
            }
        }
    }
    slack
}

/// Returns whether a program rounds floats to whole numbers, or decides by them.
fn has_steps(dag: &Dag) -> bool {
    let mut found = false;
    for compute in &dag.computes {
        compute.body.walk(&mut |it| {
            found |= match it {
                Expr::Unary(UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round, _) => true,
                Expr::Compare(_, a, _) => a.dtype(dag).is_float(),
                Expr::Cast(to, a) => !to.is_float() && a.dtype(dag).is_float(),
                _ => false,
            };
        });
    }
    found
}

/// The share of the elements of a result that have to be well-conditioned: they are what tells right results
/// from wrong ones.
const LEAST_JUDGED: f64 = 0.25;
/// The greatest number of ill-conditioned elements of a result.
const MAX_ILL_CONDITIONED: usize = 1 << 19;

/// An element whose rounding errors may exceed the tolerance of its result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct IllConditioned {
    /// The flat position.
    pub at: usize,
    /// The greatest difference that rounding explains.
    pub allowed: f64,
}

/// Returns the ill-conditioned elements of each result, beyond its relative and absolute tolerance; none of a
/// result that hardly has others.
pub fn ill_conditioned(
    dag: &Dag,
    dims: &[i64],
    inputs: (&[Array], &[Number]),
    expected: &[Array],
    tolerances: &[(f64, f64)],
) -> Vec<Vec<IllConditioned>> {
    let slack = slack(dag, dims, inputs, expected, ERROR);
    let of_result = |((slack, expected), (rel, abs)): ((&Vec<f64>, &Array), &(f64, f64))| {
        let allowed = |at: usize| rel * expected.get(at).to_f64().abs() + abs;
        // Infinity has no form in messages between processes.
        let exceeding = slack.iter().enumerate().filter(|(at, it)| **it > allowed(*at));
        let found: Vec<IllConditioned> =
            exceeding.map(|(at, it)| IllConditioned { at, allowed: it.min(f64::MAX) }).collect();
        let most = (slack.len() as f64 * (1.0 - LEAST_JUDGED)) as usize;
        if found.len() > most.min(MAX_ILL_CONDITIONED) { Vec::new() } else { found }
    };
    slack.iter().zip(expected).zip(tolerances).map(of_result).collect()
}

/// Sets the elements of a result that differ by no more than rounding explains to what is expected.
pub fn forgive(result: &mut Array, expected: &Array, elements: &[IllConditioned]) {
    for IllConditioned { at, allowed } in elements {
        if *at < result.len() && distance(result.get(*at), expected.get(*at)) <= *allowed {
            result.set(*at, expected.get(*at));
        }
    }
}

/// Returns the absolute difference of two numbers; infinity if exactly one is finite, 0 for two NaNs.
pub fn distance(a: Number, b: Number) -> f64 {
    let (a, b) = (a.to_f64(), b.to_f64());
    if a == b || (a.is_nan() && b.is_nan()) {
        return 0.0;
    }
    let distance = (a - b).abs();
    if distance.is_finite() { distance } else { f64::INFINITY }
}

/// The errors that operations of a perturbed program have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Roundings {
    /// Errors of that relative size, in floats that are not halves.
    Large(f64),
    /// Errors of one rounding to the type: of halves, and of each step of a sum, too.
    Single,
}

/// The program with an error in each operation that rounds.
pub(super) fn perturbed(dag: &Dag, pattern: Pattern, roundings: Roundings) -> Dag {
    let mut computes = dag.computes.clone();
    let n_errors = Cell::new(0);
    for compute in &mut computes {
        let errors = |n| {
            let numbers = RefCell::default();
            Errors { dag, point: point(n), pattern, roundings, numbers, n_errors: &n_errors }
        };
        let each = errors(compute.axes.len());
        compute.body = each.expr(&compute.body);
        if is_float_sum(dag, compute) {
            if roundings == Roundings::Single {
                compute.body = each.with_error(compute.body.clone());
            }
            // All terms of an element err in the same way, as where a sum is long.
            compute.body = errors(compute.n_spatial).with_error(compute.body.clone());
        }
    }
    Dag { computes, ..dag.clone() }
}

/// The relative error of rounding once to a float type, at most.
pub(super) fn of_rounding(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 1.0 / 2048.0,
        DType::Bf16 => 1.0 / 256.0,
        DType::F64 => f64::EPSILON / 2.0,
        _ => ERROR / 8.0,
    }
}

fn is_float_sum(dag: &Dag, compute: &Compute) -> bool {
    let sums = matches!(compute.reducer, Some(Reducer::Sum | Reducer::Prod));
    sums && dag.tensor(compute.tensor).dtype.is_float()
}

/// A number that differs between neighboring points of the first `n` axes.
fn point(n: usize) -> Poly {
    let axes = (0..n).map(|n| Poly::var(VarId(n as u32)) * (2 * n as i64 + 1));
    axes.fold(Poly::constant(0), |sum, it| sum + it)
}

/// Returns whether a float is a whole number, so that no operation of it rounds, as in `floor(x) + 1.0`.
fn is_whole(value: &Expr) -> bool {
    match value {
        Expr::Const(Literal::Float(it), _) => it.fract() == 0.0,
        Expr::Unary(UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round, _) => true,
        Expr::Unary(UnaryOp::Neg | UnaryOp::Abs, a) => is_whole(a),
        Expr::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, a, b) => {
            is_whole(a) && is_whole(b)
        }
        Expr::Select { then, otherwise, .. } => is_whole(then) && is_whole(otherwise),
        _ => false,
    }
}

/// Puts errors into the operations of a compute.
struct Errors<'a> {
    dag: &'a Dag,
    point: Poly,
    pattern: Pattern,
    roundings: Roundings,
    /// The operations that have errors so far, with the numbers of these: equal ones are computed once.
    numbers: RefCell<Vec<(Expr, i64)>>,
    /// The number of errors so far.
    n_errors: &'a Cell<i64>,
}

impl Errors<'_> {
    fn expr(&self, expr: &Expr) -> Expr {
        let inner = |it: &Expr| Box::new(self.expr(it));
        match expr {
            Expr::Const(..) | Expr::Index(_) | Expr::Scalar(_) | Expr::Read { .. } => expr.clone(),
            Expr::Unary(op, a) => {
                let value = Expr::Unary(*op, inner(a));
                let exact = matches!(op, UnaryOp::Neg | UnaryOp::Not | UnaryOp::Abs);
                if exact || is_whole(expr) { value } else { self.with_error_of(expr, value) }
            }
            Expr::Binary(op, a, b) => {
                let value = Expr::Binary(*op, inner(a), inner(b));
                let exact = matches!(op, BinaryOp::Min | BinaryOp::Max);
                if exact || is_whole(expr) { value } else { self.with_error_of(expr, value) }
            }
            Expr::Compare(op, a, b) => Expr::Compare(*op, inner(a), inner(b)),
            Expr::Select { condition, then, otherwise } => Expr::Select {
                condition: inner(condition),
                then: inner(then),
                otherwise: inner(otherwise),
            },
            Expr::Cast(to @ (DType::F16 | DType::Bf16), a)
                if self.roundings == Roundings::Single =>
            {
                Expr::Cast(*to, Box::new(self.with_relative_error(of_rounding(*to), self.expr(a))))
            }
            Expr::Cast(to, a) => {
                let value = Expr::Cast(*to, inner(a));
                let rounds = self.roundings == Roundings::Single && a.dtype(self.dag).is_integer();
                if rounds { self.with_error(value) } else { value }
            }
        }
    }

    /// The value with the error of an operation that gives it.
    fn with_error(&self, value: Expr) -> Expr {
        self.with_relative_error(self.error(), value)
    }

    /// The same for an operation of the program, which errs in the same way wherever it stands.
    fn with_error_of(&self, operation: &Expr, value: Expr) -> Expr {
        let known = self.numbers.borrow().iter().find(|it| it.0 == *operation).map(|it| it.1);
        let n = known.unwrap_or_else(|| {
            let n = self.next();
            self.numbers.borrow_mut().push((operation.clone(), n));
            n
        });
        self.with_numbered_error(n, self.error(), value)
    }

    fn error(&self) -> f64 {
        match self.roundings {
            Roundings::Large(error) => error,
            Roundings::Single => of_rounding(DType::F32),
        }
    }

    /// Returns the number of another error.
    fn next(&self) -> i64 {
        self.n_errors.replace(self.n_errors.get() + 1)
    }

    /// `value * (1 + error)`, if it is a float that has room for such an error.
    fn with_relative_error(&self, error: f64, value: Expr) -> Expr {
        self.with_numbered_error(self.next(), error, value)
    }

    fn with_numbered_error(&self, n: i64, error: f64, value: Expr) -> Expr {
        let dtype = value.dtype(self.dag);
        if !matches!(dtype, DType::F32 | DType::F64) {
            return value;
        }
        let number = |it: f64| Expr::Const(Literal::Float(it), dtype);
        let binary = |op, a, b| Expr::Binary(op, Box::new(a), Box::new(b));
        let Pattern { period, stride, block } = self.pattern;
        let int = |it: i64| Expr::Const(Literal::Int(it), DType::I64);
        let point = binary(BinaryOp::Div, Expr::Index(self.point.clone()), int(block));
        let shifted = binary(BinaryOp::Add, point, int(n * stride));
        let phase = binary(BinaryOp::Rem, shifted, int(period));
        // From -1 to 1, so that neither direction prevails.
        let middle = (period - 1) as f64 / 2.0;
        let signed = binary(BinaryOp::Sub, Expr::Cast(dtype, Box::new(phase)), number(middle));
        let error = binary(BinaryOp::Mul, signed, number(error / middle));
        binary(BinaryOp::Mul, value, binary(BinaryOp::Add, error, number(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slack if operations err by 64 units in the last place.
    fn slack_of(text: &str, param: Array) -> Vec<f64> {
        let dag = tvmtune_ir::dsl::program(text).unwrap();
        let params = [param];
        let expected = interp::run(&dag, &[], &params, &[]);
        slack(&dag, &[], (&params, &[]), &expected, 8.0 * ERROR).remove(0)
    }

    #[test]
    fn what_cancels_has_more_slack_than_what_adds_up() {
        let sum = |sign: &str| {
            let text = format!(
                "#[autotune(dims(N = 64))] fn f(x: Tensor<f32, N>) -> Tensor<f32> {{
                     compute(|| sum(0..N, |i| x[[i]] * 3.0) {sign} sum(0..N, |i| x[[i]] * 3.000001))
                 }}"
            );
            let x = Array::from_f32(&[64], vec![1.0; 64]);
            slack_of(&text, x)[0]
        };
        let (added, subtracted) = (sum("+") / 384.0, sum("-") / 6e-5);
        assert!(added < 1e-4 && subtracted > 1.0, "{added} {subtracted}");
    }

    /// A table of sines: large angles are as uncertain as their factor, small ones are not.
    #[test]
    fn sines_of_large_angles_are_ill_conditioned() {
        let text = "#[autotune(dims(N = 64))] fn f(x: Tensor<f32, N>) -> Tensor<f32, N> {
            compute(|i| sin(x[[i]] / 0.375))
        }";
        let dag = tvmtune_ir::dsl::program(text).unwrap();
        let angles = |n: usize| if n < 48 { n as f32 / 48.0 } else { 1000.0 + n as f32 };
        let params = [Array::from_f32(&[64], (0..64).map(angles).collect())];
        let expected = interp::run(&dag, &[], &params, &[]);
        let of = |tolerance| {
            ill_conditioned(&dag, &[], (&params, &[]), &expected, &[(0.0, tolerance)]).remove(0)
        };
        let found = of(1e-4);
        assert!(!found.is_empty() && found.iter().all(|it| it.at >= 48), "{found:?}");
        assert_eq!(of(1e-12), [], "hardly any other element");
        let IllConditioned { at, allowed } = found[0];
        for (error, is_forgiven) in [(0.5, true), (2.0, false)] {
            let mut wrong = expected[0].clone();
            wrong.set(at, Number::Float(expected[0].get(at).to_f64() + error * allowed));
            wrong.set(0, Number::Float(0.1));
            forgive(&mut wrong, &expected[0], &found);
            assert_eq!(wrong.get(at) == expected[0].get(at), is_forgiven);
            assert_eq!(wrong.get(0), Number::Float(f64::from(0.1_f32)), "a well-conditioned one");
        }
    }

    #[test]
    fn every_number_between_two_integers_may_be_either() {
        let text = "#[autotune(dims(N = 64))] fn f(x: Tensor<f32, N, 4>) -> Tensor<i8, N> {
            compute(|i| round(sum(0..4, |k| x[[i, k]]) * 8.0) as i8)
        }";
        let dag = tvmtune_ir::dsl::program(text).unwrap();
        // Every second sum is half of an odd number, and the others are far from that.
        let term = |n: usize| {
            if (n / 4).is_multiple_of(2) {
                (n as f32 / 8.0).floor() / 32.0 + 0.015_625
            } else {
                0.25
            }
        };
        let params = [Array::from_f32(&[64, 4], (0..256).map(term).collect())];
        let expected = interp::run(&dag, &[], &params, &[]);
        let found =
            ill_conditioned(&dag, &[], (&params, &[]), &expected, &[(1e-4, 1e-4)]).remove(0);
        let at: Vec<usize> = found.iter().map(|it| it.at).collect();
        assert_eq!(at, (0..64).step_by(2).collect::<Vec<_>>());
    }

    #[test]
    fn exact_operations_have_no_slack() {
        let text = "#[autotune(dims(N = 64))] fn f(x: Tensor<f32, N>) -> Tensor<f32> {
            compute(|| max(0..N, |i| -x[[i]].abs()))
        }";
        let x = Array::random(DType::F32, &[64], 1);
        assert_eq!(slack_of(text, x), [0.0]);
    }

    #[test]
    fn normalizing_equal_numbers_has_slack() {
        let text = "#[autotune(dims(N = 64))] fn f(x: Tensor<f32, N>) -> Tensor<f32, N> {
            let t: Tensor<f32, N> = compute(|i| sum(0..N, |k| x[[k]] * 1000.0));
            let c: Tensor<f32> = compute(|| mean(0..N, |i| t[[i]]));
            compute(|i| (t[[i]] - c[[]]) * 10.0)
        }";
        let x = Array::from_f32(&[64], vec![0.7; 64]);
        assert!(slack_of(text, x).iter().all(|it| *it > 0.1));
    }
}
