//! Errors of reductions, with their locations.

use super::errors::body;

#[test]
fn ranges_with_axes() {
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "compute(|i| argmax(0..i, |k| 1.0) as f32 + mean(0..i, |k| 1.0) + sum(0..k, |k| 1.0)
             + sum(i..i, |k| 1.0) + sum(0..i * i, |k| 1.0) + sum(0..=i, |k| x[[i, k]]))"), @r"
    3 | 1.0 => a range may be empty here, and `argmax` of nothing is no index
    3 | 1.0 => a range may be empty here, and the mean of nothing is no number
    3 | k => cannot find `k` in this program: did you mean `K`?
    4 | i..i => this range is always empty
    4 | 0..i * i => it is not known how far this range reaches: go over a whole dimension and choose with `if`
    4 | k => index `k` ranges over 0..=M - 1, but `x` has extent 8 there: use `.get(..).unwrap_or(..)`
    ");
}

#[test]
fn reductions() {
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "compute(|i| sum(0..K) + sum(K, |k| x[[i, k]]) + sum((0..K, 0..K), |k| x[[i, k]]) + sum(0..i, |k| 1.0)
             + sum(3..3, |k| 1.0) + sum(0.., |k| 1.0) + logsumexp(0..K, |k| n[[i]]) as f32
             + mean(0..K, |k| n[[i]]) + any(0..K, |k| x[[i, k]]) + sum(0..K, |k| x[[i, k]] > 0.0)
             + sum(0..K, |(a, b)| 1.0) + sum(0..K, move |k| -> f32 { 1.0 }) + sum(0..eps, |k| 1.0))"), @r#"
    3 | sum(0..K) => `sum` takes a range and a closure: `sum(0..K, |k| ..)`
    3 | K => expected a range, found `K`: write `0..K`
    3 | k => this closure takes 1 axis, but there are 2 ranges: write `|i, j| ..`
    4 | 3..3 => this range may be empty: write one that is not, as in `0..K`
    4 | 0.. => a range of a reduction has both ends, as in `0..K`
    4 | n[[i]] => `logsumexp` applies to floats, not i32: convert with `as f32`
    5 | n[[i]] => `mean` applies to floats, not i32: convert with `as f32`
    5 | x[[i, k]] => expected a condition, found f32: compare it
    5 | x[[i, k]] > 0.0 => `sum` applies to numbers; `any` and `all` to conditions
    6 | (a, b) => an axis has a plain name, as in `|i, j|`
    6 | move |k| -> f32 { 1.0 } => nothing stands before the axes, as in `|i, j|`
    6 | f32 => a closure of axes states no type: convert with `as`
    6 | eps => the end of a range is made of integers, dimensions and axes: write `0..K`
    "#);
}
