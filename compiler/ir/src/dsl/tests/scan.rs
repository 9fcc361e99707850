//! `scan`: what it computes, and what it refuses.

use super::errors::body;
use crate::dag::print::canonical;
use crate::dag::{DType, Dag, Number, TensorId};
use crate::dsl;
use crate::interp::{self, Array, Elements};

/// The results of a program of `x` (3 x 5) and `a` (3 x 5).
fn results(program: &str) -> Vec<f32> {
    let dag = dag(program);
    let [x, a] = [0.5, -0.25]
        .map(|by| Array::from_f32(&[3, 5], (0..15).map(|it| by * (it % 7) as f32 - 1.0).collect()));
    let params = [x, a];
    let found = interp::run(&dag, &[], &params, &[]).swap_remove(0);
    let mut elements = Elements::new(&dag, &[], &params, &[]);
    let output: TensorId = dag.outputs[0];
    // From the end, where the most steps are open.
    for n in (0..found.len()).rev() {
        assert_eq!(elements.get(output, n), found.get(n), "element {n}");
    }
    (0..found.len()).map(|n| found.get(n).to_f64() as f32).collect()
}

fn dag(program: &str) -> Dag {
    let source = format!(
        "#[autotune(dims(T = 3, D = 5))]
         fn f(x: Tensor<f32, T, D>, a: Tensor<f32, T, D>) -> {program}"
    );
    let dag = dsl::program(&source).unwrap_or_else(|it| panic!("{it}"));
    let text = canonical(&dag);
    assert_eq!(text.parse::<Dag>().map(|it| canonical(&it)), Ok(text));
    dag
}

/// `h[t] = a[t] * h[t - 1] + x[t]` along the columns, from `first`, as a loop; all states.
fn decayed(first: f32) -> Vec<f32> {
    let value = |by: f32, n: usize| by * (n % 7) as f32 - 1.0;
    let mut states = vec![0.0; 15];
    for d in 0..5 {
        let mut h = first;
        for t in 0..3 {
            let n = t * 5 + d;
            h = value(-0.25, n) * h + value(0.5, n);
            states[n] = h;
        }
    }
    states
}

#[test]
fn states_follow_one_another() {
    let all = "Tensor<f32, T, D> {
        compute(|t, d| scan(0..=t, 2.0, |h, s| a[[s, d]] * h + x[[s, d]]))
    }";
    assert_eq!(results(all), decayed(2.0));
    insta::assert_snapshot!(canonical(&dag(all)), @r"
    tvmtune dag v1
    input t0: f32[3, 5]
    input t1: f32[3, 5]
    t2: f32[3, 5] = add(mul(t1[v0, v1], select(ge(index(v0), index(1)), t2[v0 - 1, v1], 2.0_f32)), t0[v0, v1])
    return t2
    ");
}

#[test]
fn a_scan_of_a_whole_range_is_its_last_state() {
    let last = "Tensor<f32, D> {
        compute(|d| scan(0..T, 2.0, |h, s| a[[s, d]] * h + x[[s, d]]))
    }";
    assert_eq!(results(last), decayed(2.0)[10..]);
}

#[test]
fn an_exclusive_scan_begins_with_the_first_state() {
    let before = "Tensor<f32, T, D> {
        compute(|t, d| scan(0..t, 2.0, |h, s| a[[s, d]] * h + x[[s, d]]))
    }";
    let expected = [&[2.0; 5][..], &decayed(2.0)[..10]].concat();
    assert_eq!(results(before), expected);
}

#[test]
fn states_depend_on_the_axes_of_the_first_one() {
    let sums = "Tensor<f32, T, D> {
        compute(|t, d| scan(0..=t, x[[0, d]], |h, s| h + a[[max(s - 1, 0), 0]]))
    }";
    let (x, a) = (|d: usize| 0.5 * d as f32 - 1.0, [-1.0, -1.0, -2.25]);
    let expected: Vec<f32> =
        (0..3).flat_map(|t| (0..5).map(move |d| x(d) + a[..=t].iter().sum::<f32>())).collect();
    assert_eq!(results(sums), expected);
}

#[test]
fn states_may_depend_on_more_axes_than_the_result() {
    let sums = "Tensor<f32, T> {
        compute(|t| sum(0..D, |d| scan(0..=t, 0.0, |h, s| a[[s, d]] * h + x[[s, d]]) * x[[t, d]]))
    }";
    let (states, x) = (decayed(0.0), |n: usize| 0.5 * (n % 7) as f32 - 1.0);
    let expected: Vec<f32> =
        (0..3).map(|t| (0..5).map(|d| states[t * 5 + d] * x(t * 5 + d)).sum()).collect();
    assert_eq!(results(sums), expected);
}

#[test]
fn states_are_integers_or_conditions_too() {
    let seen = "Tensor<i32, T, D> {
        let runs = compute(|t, d| scan(0..=t, 0, |n, s| if x[[s, d]] > -0.5 { n + 1 } else { 0 }));
        runs
    }";
    let dag = dag(seen);
    let x = Array::from_f32(&[3, 5], (0..15).map(|it| (it % 2) as f32 - 1.0).collect());
    let found = interp::run(&dag, &[], &[x.clone(), x], &[]).swap_remove(0);
    let column: Vec<Number> = (0..3).map(|t| found.get(t * 5)).collect();
    assert_eq!(column, [0, 1, 0].map(Number::Int));
}

#[test]
fn a_tensor_that_reads_itself_is_an_error_that_names_scan() {
    insta::assert_snapshot!(
        body("Tensor<f32, M, K>", "let g = compute(|i, k| g.get([i, k - 1]).unwrap_or(0.0) + x[[i, k]]);
             g"), @"3 | g => `g` is not known before its definition ends: where each element depends on the one before, write `scan(0..=t, first, |h, s| ..)`");
}

#[test]
fn scans_that_cannot_run_are_errors() {
    insta::assert_snapshot!(
        body("Tensor<f32, M>", "compute(|i| scan(0..K, 0.0) + scan(0..K, 0.0, |h| h) + scan(i..K, 0.0, |h, k| h)
             + scan(0..K, 0, |h, k| x[[i, k]]) + scan(0..K, 0.0, |h, k| sum(0..K, |l| h * x[[i, l]]))
             + scan(0..K, 0.0, |h, k| scan(0..K, h, |g, l| g + x[[i, l]])))"), @r"
    3 | scan(0..K, 0.0) => `scan` takes a range, the state before it, and a closure of state and index: `scan(0..=t, 0.0, |h, s| ..)`
    3 | h => this closure takes 1 name, not the state and the index: write `|h, s| ..`
    3 | i..K => a `scan` starts at the same index everywhere, as in `0..=t`
    4 | x[[i, k]] => expected i32, found f32: convert it with `as i32`
    4 | h * x[[i, l]] => the state of a `scan` is one number of one step: reductions and other scans do not see it; reduce the states after the scan
    5 | scan(0..K, h, |g, l| g + x[[i, l]]) => the state of a `scan` is one number of one step: reductions and other scans do not see it; reduce the states after the scan
    ");
}

/// Runs a program of `x` (3 x 5, a quarter of its place) and of data that names rows.
fn of_rows(rows: [i32; 3], body: &str) -> Vec<f64> {
    let source = format!(
        "#[autotune(dims(T = 3, D = 5))]
         fn f(x: Tensor<f32, T, D>, rows: Tensor<i32, T>) -> Tensor<f32, T> {{ {body} }}"
    );
    let dag = dsl::program(&source).unwrap_or_else(|it| panic!("{it}"));
    let x = Array::from_f32(&[3, 5], (0..15).map(|it| it as f32 / 4.0).collect());
    let rows = Array::from_fn(DType::I32, &[3], |n| Number::Int(i64::from(rows[n])));
    let found = interp::run(&dag, &[], &[x, rows], &[]).swap_remove(0);
    (0..found.len()).map(|n| found.get(n).to_f64()).collect()
}

#[test]
fn checked_reads_stay_checked_where_states_and_sums_are_computed_for_every_point() {
    // The condition implies half of what the reads check, and none of it where the states are computed.
    let first = "compute(|t| if rows[[t]] < 0 { 1.0 } else {
        scan(0..D, x.get([rows[[t]], 0]).unwrap_or(0.5), |h, d| h + x[[t, d]])
    })";
    let bound = "compute(|t| if rows[[t]] < 0 { 1.0 } else {
        let first = x.get([rows[[t]], 0]).unwrap_or(0.5);
        sum(0..D, |d| first / 5.0) + sum(0..D, |d| x[[t, d]])
    })";
    for body in [first, bound] {
        let found = of_rows([-7, 2, 3], body);
        let expected = [1.0, 2.5 + 8.75, 0.5 + 15.0];
        let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-5;
        assert!(found.iter().zip(&expected).all(close), "{found:?} of {body}");
    }
}

#[test]
fn a_check_that_its_condition_implies_is_dropped() {
    for (condition, n_choices) in [
        ("rows[[d]] < 0 || rows[[d]] >= 3", 1),
        ("rows[[d]] < 0 || rows[[d]] > 3", 2),
        ("rows[[d]] < -1 || rows[[d]] >= 3", 2),
        ("rows[[d]] > 2", 2),
    ] {
        let dag = dsl::program(&format!(
            "#[autotune(dims(T = 3, D = 5))]
             fn f(x: Tensor<f32, T>, rows: Tensor<i32, D>) -> Tensor<f32, D> {{
                 compute(|d| if {condition} {{ 1.0 }} else {{ x.get([rows[[d]]]).unwrap_or(0.5) }})
             }}"
        ));
        let text = canonical(&dag.unwrap());
        assert_eq!(text.matches("select").count(), n_choices, "{text}");
    }
}

#[test]
fn reads_in_bounds_under_a_condition_alone_are_errors_in_reductions() {
    insta::assert_snapshot!(
        body("Tensor<f32, M>", "compute(|i| if i > 0 { scan(0..K, x[[i - 1, 0]], |h, k| h + x[[i, k]]) } else { 0.0 })"),
        @"3 | i - 1 => index `i - 1` ranges over -1..=M - 2, but `x` has extent M there: use `.get(..).unwrap_or(..)`");
    insta::assert_snapshot!(
        body("Tensor<f32, M>", "compute(|i| if i > 0 { let v = x[[i - 1, 0]]; sum(0..K, |k| v * x[[i, k]]) } else { 0.0 })"),
        @"3 | |i| => a reduction or `scan` is computed for every point, also where the condition around it does not hold, and what this one reads was in bounds under that condition alone: read it with `.get(..).unwrap_or(..)`");
}
