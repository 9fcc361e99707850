//! `argtop`: what it computes, and what it refuses.

use super::errors::body;
use crate::dag::{DType, Number};
use crate::dsl;
use crate::interp::{self, Array};

/// The ranks of rows of `x`, by the interpreter.
fn ranks(n_ranks: usize, rows: &[&[f32]]) -> Vec<i64> {
    let (m, v) = (rows.len(), rows[0].len());
    let source = format!(
        "#[autotune(dims(M = {m}, V = {v}, K = {n_ranks}))]
         fn f(x: Tensor<f32, M, V>) -> Tensor<i32, M, K> {{
             compute(|i, r| argtop(r, 0..V, |v| x[[i, v]]) as i32)
         }}"
    );
    let dag = dsl::program(&source).unwrap();
    let x = Array::from_f32(&[m as u64, v as u64], rows.concat());
    let found = interp::run(&dag, &[], &[x], &[]).swap_remove(0);
    (0..found.len()).map(|n| found.get(n).to_i64()).collect()
}

/// The same by sorting: descending, ties by index; NaNs are no values.
fn sorted(n_ranks: usize, rows: &[&[f32]]) -> Vec<i64> {
    let row = |row: &&[f32]| {
        let mut order: Vec<usize> = (0..row.len()).filter(|it| !row[*it].is_nan()).collect();
        order.sort_by(|a, b| row[*b].partial_cmp(&row[*a]).unwrap().then(a.cmp(b)));
        order.resize(n_ranks.max(order.len()), row.len() - 1);
        order.into_iter().take(n_ranks).map(|it| it as i64).collect::<Vec<_>>()
    };
    rows.iter().flat_map(row).collect()
}

#[test]
fn ranks_are_those_of_a_stable_sort() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let rows: [&[f32]; 6] = [
        &[3.0, 1.0, 4.0, 1.0, 5.0],
        &[2.0, 2.0, 2.0, 2.0, 2.0],
        &[-inf, inf, -inf, 0.0, inf],
        &[nan, 1.0, nan, 2.0, nan],
        &[nan, nan, nan, nan, nan],
        &[-0.0, 0.0, -1.0, -inf, -0.0],
    ];
    for n_ranks in 1..=5 {
        assert_eq!(ranks(n_ranks, &rows), sorted(n_ranks, &rows), "{n_ranks} ranks");
    }
    let long: Vec<f32> = (0..80_u8).map(|it| f32::from(it.wrapping_mul(37) % 23)).collect();
    assert_eq!(ranks(32, &[&long]), sorted(32, &[&long]));
}

#[test]
fn integers_have_ranks_down_to_the_least() {
    let dag = dsl::program(
        "#[autotune(dims(V = 4))]
         fn f(x: Tensor<i8, V>) -> (Tensor<i64, 4>, Tensor<i64, 2>) {
             let a: Tensor<i64, 4> = compute(|r| argtop(r, 0..V, |v| x[[v]]));
             let b: Tensor<i64, 2> = compute(|r| argtop(r + 1, 1..V, |v| x[[v]] as f32 * -1.0));
             (a, b)
         }",
    )
    .unwrap();
    let values = [-128, 5, -128, 127];
    let x = Array::from_fn(DType::I8, &[4], |n| Number::Int(values[n]));
    let found = interp::run(&dag, &[], &[x], &[]);
    let all = |it: &Array| (0..it.len()).map(|n| it.get(n).to_i64()).collect::<Vec<_>>();
    assert_eq!((all(&found[0]), all(&found[1])), (vec![3, 1, 0, 2], vec![1, 3]));
}

#[test]
fn mistakes() {
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "compute(|i| argtop(0..K, |k| x[[i, k]]) as f32 + argtop(i, 0..K, |k| x[[i, k]]) as f32
             + argtop(n[[i]], 0..K, |k| x[[i, k]]) as f32 + argtop(9, 0..K, |k| x[[i, k]]) as f32
             + argtop(0, 0..=i, |k| 1.0) as f32 + argtop(0, 0..K, |k, l| 1.0) as f32
             + argtop(64, 0..K, |k| 1.0) as f32 + argtop(1, 0..K, |k| x[[i, k]] > 0.0) as f32)"), @r"
    3 | argtop(0..K, |k| x[[i, k]]) => `argtop` takes a rank, a range and a closure: `argtop(r, 0..K, |k| ..)`
    3 | i => this rank ranges over 0..=63: ranks are at least 0, and less than 32
    4 | n[[i]] => a rank is an axis, or made of axes, dimensions and integers
    4 | 9, 0..K, |k| x[[i, k]] => a rank reaches 9, but there are 8 indices
    5 | 0, 0..=i, |k| 1.0 => a range of `argtop` cannot depend on an axis
    5 | k, l => this closure takes 2 axes, but there is 1 range: write `|k| ..`
    6 | 64 => this rank ranges over 64..=64: ranks are at least 0, and less than 32
    6 | x[[i, k]] > 0.0 => `argtop` applies to numbers
    ");
}
