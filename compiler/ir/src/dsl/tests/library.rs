//! Functions that the language writes in itself, beside those of Rust.

use super::super::library;
use super::dag;
use crate::dag::{DType, Number};
use crate::interp::{Array, run};

/// The results of a program over `x: f32[N]`, or `f64[N]`, and `y`.
fn map(dtype: DType, definition: &str, x: &[f64], y: &[f64]) -> Vec<f64> {
    let source = format!(
        "#[autotune(dims(N = 1..=4096))]
         fn f(x: Tensor<{dtype}, N>, y: Tensor<{dtype}, N>) -> Tensor<{dtype}, N> {{
             compute(|i| {definition})
         }}"
    );
    let n = x.len();
    let array = |of: &[f64]| Array::from_fn(dtype, &[n as u64], |at| Number::Float(of[at]));
    let got = run(&dag(&source), &[n as i64], &[array(x), array(y)], &[]);
    (0..n).map(|at| number(&got[0], at)).collect()
}

fn number(of: &Array, at: usize) -> f64 {
    match of.get(at) {
        Number::Float(it) => it,
        other => unreachable!("{other:?} is no float"),
    }
}

/// Numbers of all sizes and signs, and those where functions change.
fn points(dtype: DType) -> Vec<f64> {
    let sizes =
        [0.0, 1e-30, 1e-7, 1e-3, 0.1, 0.5, 0.9, 0.999, 1.0, 1.001, 1.5, 2.0, 3.0, 7.25, 19.9];
    let large = [20.1, 60.0, 87.0, 89.2, 1000.0, 1e8, 2e9, 1e18, 3e30, f64::INFINITY];
    let all = sizes.into_iter().chain(large).flat_map(|it| [it, -it]).chain([f64::NAN]);
    all.map(|it| if dtype == DType::F32 { f64::from(it as f32) } else { it }).collect()
}

/// Checks a function of one number: equal NaNs, infinities and signs of zeros, and errors of a few ulp.
fn check(definition: &str, right: fn(f64) -> f64) {
    check_pairs(definition, |x, _| right(x));
}

fn check_pairs(definition: &str, right: impl Fn(f64, f64) -> f64) {
    for (dtype, tolerance, least) in [(DType::F32, 1e-6, 1e-37), (DType::F64, 1e-14, 1e-300)] {
        let points = points(dtype);
        let pairs = points.iter().flat_map(|x| points.iter().map(|y| (*x, *y)));
        let (x, y): (Vec<f64>, Vec<f64>) = pairs.unzip();
        let got = map(dtype, definition, &x, &y);
        for ((x, y), got) in x.iter().zip(&y).zip(got) {
            let exact = right(*x, *y);
            let want = if dtype == DType::F32 { f64::from(exact as f32) } else { exact };
            let near = (got - want).abs() <= tolerance * want.abs()
                || want.abs() < least && got.abs() < least;
            let same_zero = want != 0.0 || got.is_sign_negative() == want.is_sign_negative();
            let is_right = got == want || near || got.is_nan() && want.is_nan();
            assert!(
                is_right && (same_zero || got.is_nan()),
                "{definition} of {x:e} and {y:e} as {dtype}: {got:e}, not {want:e}"
            );
        }
    }
}

#[test]
fn functions_are_those_of_rust() {
    check("x[[i]].asin()", f64::asin);
    check("x[[i]].acos()", f64::acos);
    check("x[[i]].atan()", f64::atan);
    check("x[[i]].sinh()", f64::sinh);
    check("x[[i]].cosh()", f64::cosh);
    check("x[[i]].asinh()", f64::asinh);
    check("x[[i]].acosh()", f64::acosh);
    check("x[[i]].atanh()", libm::atanh);
    check("log10(x[[i]])", f64::log10);
    check("x[[i]].cbrt()", f64::cbrt);
    check("x[[i]].trunc()", f64::trunc);
    check("x[[i]].fract()", f64::fract);
    check("x[[i]].signum()", f64::signum);
    check("if x[[i]].is_nan() { 1.0 } else { 0.0 }", |x| f64::from(u8::from(x.is_nan())));
    check("if x[[i]].is_finite() { 1.0 } else { 0.0 }", |x| f64::from(u8::from(x.is_finite())));
    check("if is_infinite(x[[i]]) { 1.0 } else { 0.0 }", |x| f64::from(u8::from(x.is_infinite())));
    // Of angles as near to a quarter turn as floats are, tangents are as inexact as the angles.
    check("tan(clamp(x[[i]], -1.5, 1.5))", |x| {
        if x.is_nan() { f64::tan(-1.5) } else { x.clamp(-1.5, 1.5).tan() }
    });
}

#[test]
fn functions_of_two_numbers_are_those_of_rust() {
    check_pairs("x[[i]].atan2(y[[i]])", f64::atan2);
    check_pairs("x[[i]].rem_euclid(y[[i]])", f64::rem_euclid);
    check("atan2(1.0, x[[i]])", |x| f64::atan2(1.0, x));
    check("x[[i]].rem_euclid(-3.0)", |x| x.rem_euclid(-3.0));
    // Rust's is infinite of an infinity and a NaN.
    check_pairs("x[[i]].hypot(y[[i]])", |x, y| {
        if x.is_nan() || y.is_nan() { f64::NAN } else { x.hypot(y) }
    });
    check_pairs("x[[i]].copysign(y[[i]])", |x, y| if y.is_nan() { x.abs() } else { x.copysign(y) });
}

#[test]
fn functions_of_integers_are_those_of_rust() {
    let numbers = [i32::MIN, -1000, -7, -1, 0, 1, 6, 255, 0x5a5a_5a5a, i32::MAX];
    let results = |dtype: &str, definition: &str| {
        let source = format!(
            "#[autotune(dims(N = 1..=64))]
             fn f(x: Tensor<i32, N>) -> Tensor<i64, N> {{
                 compute(|i| {{ let n = x[[i]] as {dtype}; {definition} as i64 }})
             }}"
        );
        let x = Array::from_fn(DType::I32, &[10], |at| Number::Int(numbers[at].into()));
        let got = run(&dag(&source), &[10], &[x], &[]);
        (0..10).map(|at| got[0].get(at)).collect::<Vec<_>>()
    };
    let int = |of: &dyn Fn(i32) -> i64| numbers.map(|it| Number::Int(of(it))).to_vec();
    assert_eq!(results("i32", "n.count_ones()"), int(&|it| it.count_ones().into()));
    assert_eq!(results("u8", "n.count_ones()"), int(&|it| (it as u8).count_ones().into()));
    assert_eq!(results("i32", "n.rem_euclid(7)"), int(&|it| it.rem_euclid(7).into()));
    assert_eq!(results("i64", "n.rem_euclid(-7)"), int(&|it| i64::from(it).rem_euclid(-7)));
    assert_eq!(results("i32", "n.signum()"), int(&|it| it.signum().into()));
}

#[test]
fn all_definitions_parse() {
    for name in library::names() {
        assert!(
            library::find(name, false).or_else(|| library::find(name, true)).is_some(),
            "{name}"
        );
    }
}
