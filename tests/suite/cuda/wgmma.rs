//! WGMMA instructions: every type, every layout of operands, at non-divisible extents.

use tvmtune_ir::target::gpu::Arch;
use tvmtune_space::sketch::TemplateKind;

use super::mma::check_rule;

/// With operands copied by all threads, and by a producer.
#[track_caller]
fn check(text: &str, instruction: &str, rows: &[i64], n_points: u64) {
    let hopper = Arch { sm: 90, exact: true };
    check_rule(TemplateKind::Wgmma, hopper, text, instruction, rows, n_points);
    // Many circular buffers are larger than shared memory.
    check_rule(TemplateKind::WgmmaWarpSpecialized, hopper, text, instruction, rows, 2 * n_points);
}

#[test]
fn products_of_bf16_along_both_rows() {
    check(
        "#[autotune(dims(M = 1..=200, N = 136, K = 144))]
        fn linear(x: Tensor<bf16, M, K>, w: Weight<bf16, N, K>, b: Weight<bf16, N>) -> Tensor<bf16, M, N> {
            let h = compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) + b[[j]]);
            compute(|i, j| max(h[[i, j]], 0.0))
        }",
        "wgmma_bf16<0, 0>(",
        &[1, 63, 65, 200],
        4,
    );
}

#[test]
fn products_of_f16_along_a_column() {
    check(
        "#[autotune(dims(M = 1..=130, N = 264, K = 72))]
        fn product(x: Tensor<f16, M, K>, w: Tensor<f16, K, N>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] as f32 * w[[k, j]] as f32))
        }",
        "wgmma_f16<0, 1>(",
        &[1, 64, 129],
        4,
    );
}

#[test]
fn products_of_bf16_along_both_columns() {
    check(
        "#[autotune(dims(M = 72, N = 16, K = 1..=130))]
        fn product(x: Tensor<bf16, K, M>, w: Tensor<bf16, K, N>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..K, |k| x[[k, i]] as f32 * w[[k, j]] as f32))
        }",
        "wgmma_bf16<1, 1>(",
        &[1, 64, 129],
        2,
    );
}

#[test]
fn products_of_i8() {
    check(
        "#[autotune(dims(M = 1..=130, N = 72, K = 160))]
        fn product(x: Tensor<i8, M, K>, w: Weight<i8, N, K>) -> Tensor<i32, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] as i32 * w[[j, k]] as i32))
        }",
        "wgmma_i8(",
        &[1, 64, 129],
        2,
    );
}
