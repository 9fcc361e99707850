//! WGMMA instructions: every type, every layout of operands, at non-divisible extents.

use tvmtune_space::sketch::TemplateKind;

use super::HOPPER;
use super::mma::check_rule;
use super::programs::{einsum, linear};

/// With operands copied by all threads, and by a producer.
#[track_caller]
fn check(text: &str, instruction: &str, rows: &[i64], n_points: u64) {
    check_rule((TemplateKind::Wgmma, HOPPER), text, instruction, rows, n_points);
    // Many circular buffers are larger than shared memory.
    let warp_specialized = (TemplateKind::WgmmaWarpSpecialized, HOPPER);
    check_rule(warp_specialized, text, instruction, rows, 2 * n_points);
}

#[test]
fn products_of_bf16_along_both_rows() {
    let text = linear("M = 1..=200, N = 136, K = 144", "bf16");
    check(&text, "wgmma_bf16<0, 0>(", &[1, 63, 65, 200], 4);
}

#[test]
fn products_of_f16_along_a_column() {
    let tensors = ["Tensor<f16, M, K>", "Tensor<f16, K, N>", "Tensor<f32, M, N>"];
    let text = einsum("M = 1..=130, N = 264, K = 72", tensors);
    check(&text, "wgmma_f16<0, 1>(", &[1, 64, 129], 4);
}

#[test]
fn products_of_bf16_along_both_columns() {
    let tensors = ["Tensor<bf16, K, M>", "Tensor<bf16, K, N>", "Tensor<f32, M, N>"];
    let text = einsum("M = 72, N = 16, K = 1..=130", tensors);
    check(&text, "wgmma_bf16<1, 1>(", &[1, 64, 129], 2);
}

#[test]
fn products_of_i8() {
    let tensors = ["Tensor<i8, M, K>", "Weight<i8, N, K>", "Tensor<i32, M, N>"];
    let text = einsum("M = 1..=130, N = 72, K = 160", tensors);
    check(&text, "wgmma_i8(", &[1, 64, 129], 2);
}
