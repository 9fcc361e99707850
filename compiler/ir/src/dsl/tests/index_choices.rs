//! Indices that conditions choose are proven case by case, and read as choices of reads.

use super::{dag, program};
use crate::dag::print;
use crate::interp::{Array, run};

/// The result of a program over `x: f32[4, 5]`, of which element `[i, j]` is `10 i + j`, row by row.
#[track_caller]
fn check(definition: &str, want: &dyn Fn(i64, i64) -> f32) {
    let dag = dag(&format!(
        "#[autotune(dims(M = 1..=8, N = 5))]
         fn f(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {{ compute(|i, j| {definition}) }}"
    ));
    let x = (0..20).map(|n| (n / 5 * 10 + n % 5) as f32).collect();
    let got = run(&dag, &[4], &[Array::from_f32(&[4, 5], x)], &[])[0].to_f32_vec();
    let want: Vec<f32> = (0..20).map(|n| want(n / 5, n % 5)).collect();
    assert_eq!(got, want, "{definition}\n{}", print::canonical(&dag));
}

fn at(i: i64, j: i64) -> f32 {
    (i * 10 + j) as f32
}

#[test]
fn borders_are_repeated_reflected_and_wrapped() {
    check("x[[if i == 0 { 0 } else { i - 1 }, j]]", &|i, j| at((i - 1).max(0), j));
    check("x[[i, if j + 1 < N { j + 1 } else { N - 2 }]]", &|i, j| {
        at(i, if j < 4 { j + 1 } else { 3 })
    });
    check("x[[i, if j == N - 1 { 0 } else { j + 1 }]]", &|i, j| at(i, (j + 1) % 5));
    check("x[[if i > 0 { i - 1 } else { 0 }, if j < 2 { 2 - j } else { j - 2 }]]", &|i, j| {
        at((i - 1).max(0), (j - 2).abs())
    });
    check("{ let up = if i < 1 { 0 } else { i - 1 }; x[[up, j]] - x[[i, j]] }", &|i, j| {
        at((i - 1).max(0), j) - at(i, j)
    });
    check("{ let up: usize = if i < 1 { 0 } else { i - 1 } as usize; x[[up, j]] }", &|i, j| {
        at((i - 1).max(0), j)
    });
}

#[test]
fn choices_are_indices_under_arithmetic() {
    check("x[[i, (if j < 2 { j } else { j - 2 }) + 1]]", &|i, j| {
        at(i, if j < 2 { j + 1 } else { j - 1 })
    });
    check("x[[i, N - 1 - if j < 2 { j } else { 0 }]]", &|i, j| {
        at(i, if j < 2 { 4 - j } else { 4 })
    });
    check("x[[i, (if j < 2 { j } else { 4 }).min(3)]]", &|i, j| at(i, if j < 2 { j } else { 3 }));
    check("x[[i, j.abs_diff(2)]]", &|i, j| at(i, (j - 2).abs()));
    check("x[[i.saturating_sub(1), j.saturating_sub(i)]]", &|i, j| {
        at((i - 1).max(0), (j - i).max(0))
    });
    check("i.abs_diff(j) as f32", &|i, j| (i - j).abs() as f32);
    check("(if j < 2 { j } else { i } * 3) as f32", &|i, j| (if j < 2 { j } else { i } * 3) as f32);
    check("((if j < 2 { j - 4 } else { i }) / 3) as f32", &|i, j| {
        (if j < 2 { j - 4 } else { i } / 3) as f32
    });
    check(
        "(x[[i, j]] as u8).abs_diff(12) as f32 + (x[[i, j]] as u8).saturating_sub(9) as f32",
        &|i, j| {
            let x = i * 10 + j;
            ((x - 12).abs() + (x - 9).max(0)) as f32
        },
    );
}

#[test]
fn data_choose_an_index() {
    check("x[[if x[[i, j]] > 12.0 { i } else { 0 }, j]]", &|i, j| {
        at(if at(i, j) > 12.0 { i } else { 0 }, j)
    });
}

#[test]
fn checked_reads_are_checked_in_each_case() {
    check("x.get([if i == 0 { 7 } else { i - 1 }, j]).unwrap_or(-1.0)", &|i, j| {
        if i == 0 { -1.0 } else { at(i - 1, j) }
    });
    check("x.get([i, if i < 2 { j - 1 } else { j + 1 }]).unwrap_or(-1.0)", &|i, j| {
        let j = if i < 2 { j - 1 } else { j + 1 };
        if (0..5).contains(&j) { at(i, j) } else { -1.0 }
    });
}

#[test]
fn more_cases_than_a_program_is_copied_for_are_data() {
    let of = |n: usize| {
        let cases: String =
            (0..n).map(|it| format!("if j == {it} {{ {} }} else ", (it + 1) % 5)).collect();
        format!("x.get([i, {cases}{{ j }}]).unwrap_or(-1.0)")
    };
    let next = |n: i64| move |i, j| at(i, if j < n { (j + 1) % 5 } else { j });
    check(&of(3), &next(3));
    check(&of(80), &next(5));
}

#[test]
fn parity_keeps_neighbors_inside() {
    let pair = |definition: &str, n: usize| {
        let dag = dag(&format!(
            "#[autotune(dims(N = {n}))]
             fn f(x: Tensor<f32, N>) -> Tensor<f32, N> {{ compute(|j| {definition}) }}"
        ));
        let x = (0..n).map(|it| it as f32).collect();
        run(&dag, &[], &[Array::from_f32(&[n as u64], x)], &[])[0].to_f32_vec()
    };
    let swapped = [1.0, 0.0, 3.0, 2.0, 5.0, 4.0, 7.0, 6.0];
    assert_eq!(pair("if j % 2 == 0 { x[[j + 1]] } else { x[[j - 1]] }", 8), swapped);
    assert_eq!(pair("if j % 2 != 0 { x[[j - 1]] } else { x[[j + 1]] }", 8), swapped);
    assert_eq!(pair("if j % 2 == 1 { x[[j - 1]] } else { x[[j + 1]] }", 8), swapped);
    let butterfly = [2.0, 3.0, 0.0, 1.0, 6.0, 7.0, 4.0, 5.0];
    assert_eq!(pair("if j / 2 % 2 == 0 { x[[j + 2]] } else { x[[j - 2]] }", 8), butterfly);
    let last = [2.0, 2.0, 2.0, 5.0, 5.0, 5.0];
    assert_eq!(
        pair("if j % 3 == 0 { x[[j + 2]] } else if j % 3 == 1 { x[[j + 1]] } else { x[[j]] }", 6),
        last
    );
    let refused = |definition: &str, n: usize| {
        let program = program(&format!(
            "#[autotune(dims(N = {n}))]
             fn f(x: Tensor<f32, N>) -> Tensor<f32, N> {{ compute(|j| {definition}) }}"
        ));
        assert!(program.is_err(), "{definition}");
    };
    refused("if j % 2 == 0 { x[[j + 1]] } else { 0.0 }", 7);
    refused("if j % 2 == 0 { x[[j + 2]] } else { 0.0 }", 8);
    refused("if j % 2 == 0 { 0.0 } else { x[[j + 1]] }", 8);
    refused("if j % 3 != 0 { x[[j - 2]] } else { 0.0 }", 9);
    refused("if j / 2 % 2 == 0 { x[[j + 3]] } else { 0.0 }", 8);
}

#[test]
fn a_case_that_is_not_proven_is_an_error() {
    let error = |definition: &str| {
        let program = program(&format!(
            "#[autotune(dims(N = 5))]
             fn f(x: Tensor<f32, N>) -> Tensor<f32, N> {{ compute(|j| x[[j]] + {definition}) }}"
        ));
        program.expect_err("an index is out of bounds").to_string()
    };
    let message = error("x[[if j == 1 { 0 } else { j - 1 }]]");
    assert!(message.contains("is not proven to be inside of `x`, of extent 5 there"), "{message}");
    let message = error("x[[(if j > 0 { j } else { 1 }) + 1]]");
    assert!(message.contains("in every case that it tells apart"), "{message}");
    let message = error("x[[j]].saturating_sub(1.0)");
    assert!(message.contains("`saturating_sub` is of indices, `u8` and `u32`"), "{message}");
}
