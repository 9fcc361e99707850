//! Fixed numerics where terms are windows, are left out by conditions, or are chosen by data: schedules have the bits
//! of the definition, and those of free numerics.

use tvmtune_ir::target::{Isa, Target};
use tvmtune_schedule::nest;
use tvmtune_space::default;

use crate::fixed_numerics::{check, fixed};

/// Rows of the matrix are lanes, and are transposed in registers.
#[test]
fn a_matrix_and_few_vectors() {
    for k in [7, 64, 301] {
        for n_vectors in [1, 3] {
            let source = format!(
                "#[autotune(dims(N = 1..=90, K = {k}, M = {n_vectors}))]
                fn f(w: Tensor<f32, N, K>, x: Tensor<f32, M, K>, b: Tensor<f32, N>) -> Tensor<f32, M, N> {{
                    compute(|m, n| sum(0..K, |k| w[[n, k]] * x[[m, k]]) + b[[n]])
                }}"
            );
            check(&source, &[1, 8, 33, 90]);
        }
    }
}

#[test]
fn windows_and_terms_that_conditions_leave_out() {
    let pad = "x.get([c, y + r - 1, p + s - 1]).unwrap_or";
    let grouped = "x.get([c / 2 * 2 + d, y, p + s - 1])";
    for (body, extents) in [
        (format!("sum((0..3, 0..3), |r, s| {pad}(0.0) * w[[c, r, s]])"), [1, 5, 17]),
        (format!("max((0..3, 0..3), |r, s| {pad}(f32::NEG_INFINITY))"), [2, 8, 16]),
        (
            "sum(0..17, |k| if k <= y { x[[c, y, k]] * w[[c, k % 3, p % 3]] } else { 0.0 })".into(),
            [1, 7, 17],
        ),
        ("sum(0..17, |k| if k > y && k != p { x[[c, y, k]] } else { 0.0 })".into(), [1, 9, 17]),
        // Groups of two channels, whose products are under no condition.
        (format!("sum((0..2, 0..3), |d, s| {grouped}.unwrap_or(0.0) * w[[c, d, s]])"), [1, 6, 17]),
        // Strided and transposed, of which every other term counts.
        (
            "sum((0..4, 0..4), |r, s| if (y + r) % 2 == 0 && (p + s) % 2 == 0 {
                x.get([c, (y + r) / 2, (p + s) / 2 - 1]).unwrap_or(0.0) * w[[c, r % 3, s % 3]]
            } else { 0.0 })"
                .into(),
            [1, 2, 17],
        ),
    ] {
        let source = format!(
            "#[autotune(dims(C = 6, H = 1..=17, W = 17))]
            fn f(x: Tensor<f32, C, H, W>, w: Tensor<f32, C, 3, 3>) -> Tensor<f32, C, H, W> {{
                compute(|c, y, p| {body})
            }}"
        );
        check(&source, &extents);
    }
}

#[test]
fn terms_that_data_choose() {
    for (result, body) in [
        (
            "S, D",
            "sum(0..N, |n| if ids[[n]] == i as i32 { x[[n, j]] * w[[j, n % 19]] } else { 0.0 })",
        ),
        ("S, D", "max(0..N, |n| if ids[[n]] == i as i32 { x[[n, j]] } else { f32::NEG_INFINITY })"),
        (
            "S, D",
            "sum((0..2, 0..N), |t, n| if ids[[n]] == i as i32 { x[[n, j]] / (1.5 + t as f32) } else { 0.0 })",
        ),
        ("N, D", "sum(0..S, |s| if ids[[i]] == s as i32 { w[[j, s]] * x[[i, j]] } else { 0.0 })"),
    ] {
        let source = format!(
            "#[autotune(dims(N = 1..=50, S = 19, D = 21))]
            fn f(x: Tensor<f32, N, D>, w: Tensor<f32, D, S>, ids: Tensor<i32, N>) -> Tensor<f32, {result}> {{
                compute(|i, j| {body})
            }}"
        );
        check(&source, &[1, 16, 33, 50]);
    }
    // One number of each row of at least as many terms as are reduced by lanes.
    check(
        "#[autotune(dims(N = 1..=50, V = 100))]
        fn f(x: Tensor<f32, N, V>, ids: Tensor<i64, N>) -> Tensor<f32, N> {
            compute(|i| -sum(0..V, |v| if ids[[i]] == v as i64 { x[[i, v]] * 0.3 } else { 0.0 }))
        }",
        &[1, 16, 33, 50],
    );
}

#[test]
fn lanes_of_a_long_sum_are_shared_out_over_threads() {
    let source = "#[autotune(dims(M = 1..=150))]
        fn f(x: Tensor<f32, M, 1024>, y: Tensor<f32, M, 1024>) -> Tensor<f32, 1> {
            compute(|i| sum((0..M, 0..1024), |j, k| x[[j, k]] * exp(sin(y[[j, k]])) / (2.0 + x[[j, k]])))
        }";
    let schedule = default::schedule(&fixed(source), &Target::generic(Isa::Avx2));
    assert!(nest::lower(&schedule).to_string().contains("parallel j_k_1"), "{:?}", schedule.trace);
    check(source, &[1, 3, 150]);
}

#[test]
fn sums_up_to_an_index_are_scanned_in_order() {
    for body in [
        "sum(0..=i, |k| x[[j, k]])",
        "sum(0..=i, |k| x[[j, k]] * y[[k, j]])",
        "prod(0..i, |k| x[[j, k]] * 1.5)",
        "max(0..=i, |k| x[[j, k]] * y[[k, j]])",
        "sum(0..=i, |k| if k % 3 == 0 { x[[j, k]] * y[[k, j]] } else { 0.0 })",
    ] {
        for result in ["R, N }> { compute(|j, i| ", "N, R }> { compute(|i, j| "] {
            let result = result.replace(" }>", ">");
            let source = format!(
                "#[autotune(dims(R = 1..=20, N = 70))]
                fn f(x: Tensor<f32, R, N>, y: Tensor<f32, N, R>) -> Tensor<f32, {result}{body}) }}"
            );
            check(&source, &[1, 7, 16, 20]);
            let schedule = default::schedule(&fixed(&source), &Target::generic(Isa::Avx2));
            assert!(schedule.trace.iter().any(|it| it.to_string().starts_with("scan_in_order")));
        }
    }
}
