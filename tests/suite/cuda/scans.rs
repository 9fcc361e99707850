//! Prefix reductions: rows of which a block has all, and prefixes of blocks that a thread has, at
//! lengths that blocks do not divide; recurrences, whose steps one thread has.

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

#[test]
fn recurrences() {
    check(
        TemplateKind::Recurrence,
        "#[autotune(dims(B = 1..=5, T = 37, D = 70))]
        fn gated(a: Tensor<f32, B, T, D>, x: Tensor<f16, B, T, D>) -> Tensor<f32, B, T, D> {
            compute(|b, t, d| {
                scan(0..=t, 1.0, |h, s| sigmoid(a[[b, s, d]]) * h + x[[b, s, d]] as f32)
            })
        }",
        &[1, 2, 5],
    );
}

#[test]
fn recurrences_along_rows_and_what_reads_them() {
    check(
        TemplateKind::Recurrence,
        "#[autotune(dims(R = 1..=150, N = 9))]
        fn means(x: Tensor<f32, R, N>) -> (Tensor<f32, R, N>, Tensor<f32, R>) {
            let means = compute(|i, j| scan(0..=j, x[[i, 0]], |m, k| 0.75 * m + 0.25 * x[[i, k]]));
            let most = compute(|i| max(0..N, |j| means[[i, j]]));
            (means, most)
        }",
        &[1, 33, 150],
    );
}

#[test]
fn a_single_chain() {
    check(
        TemplateKind::Recurrence,
        "#[autotune(dims(N = 1..=50))]
        fn last(x: Tensor<i32, N>) -> Tensor<i32> {
            compute(|| scan(0..N, 7, |n, k| if x[[k]] > n { x[[k]] - n } else { n }))
        }",
        &[1, 50],
    );
}
