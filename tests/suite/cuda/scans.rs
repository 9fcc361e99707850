//! Prefix reductions: rows of which a block has all, and prefixes of blocks that a thread has, at
//! lengths that blocks do not divide.

use tvmtune_space::sketch::TemplateKind;

use super::AMPERE;
use super::mma::check_rule;

/// Random points of the first sketch of a rule, with the default one.
#[track_caller]
fn check(template: TemplateKind, text: &str, extents: &[i64]) {
    check_rule((template, AMPERE), text, "", extents, 4);
}

#[test]
fn sums_of_rows() {
    // Of blocks, and of blocks of blocks.
    for n in ["60", "300"] {
        let text = format!(
            "#[autotune(dims(R = 1..=150, N = {n}))]
            fn sums(x: Tensor<f32, R, N>) -> Tensor<f32, R, N> {{
                compute(|i, j| sum(0..=j, |k| x[[i, k]]))
            }}"
        );
        check(TemplateKind::RowScan, &text, &[1, 3]);
    }
}

#[test]
fn rows_of_a_length_known_at_launch() {
    check(
        TemplateKind::RowScan,
        "#[autotune(dims(R = 140, N = 1..=400))]
        fn sums(x: Tensor<f32, R, N>) -> Tensor<f32, R, N> {
            compute(|i, j| sum(0..j, |k| x[[i, k]] * x[[i, k]]))
        }",
        &[1, 16, 17, 257, 400],
    );
}

#[test]
fn maxima_from_the_other_end_and_what_follows() {
    check(
        TemplateKind::RowScan,
        "#[autotune(dims(B = 1..=12, R = 13, N = 100))]
        fn maxima(x: Tensor<f16, B, R, N>) -> Tensor<f16, B, R, N> {
            let m: Tensor<f32, B, R, N> =
                compute(|b, i, j| max(j..N, |k| exp(x[[b, i, k]] as f32)));
            compute(|b, i, j| (m[[b, i, j]] * 0.5 + x[[b, i, j]] as f32) as f16)
        }",
        &[1, 2],
    );
}

#[test]
fn means_along_columns() {
    check(
        TemplateKind::BlockPrefix,
        "#[autotune(dims(T = 1..=300, C = 38))]
        fn means(x: Tensor<bf16, T, C>) -> Tensor<f32, T, C> {
            compute(|t, c| mean(0..=t, |k| x[[k, c]] as f32))
        }",
        &[1, 31, 33, 300],
    );
}

#[test]
fn few_long_rows() {
    check(
        TemplateKind::BlockPrefix,
        "#[autotune(dims(R = 1..=2, N = 1000))]
        fn squares(x: Tensor<f32, R, N>) -> Tensor<f32, R, N> {
            compute(|i, j| sum(0..=j, |k| x[[i, k]] * x[[i, k]]))
        }",
        &[1, 2],
    );
}
