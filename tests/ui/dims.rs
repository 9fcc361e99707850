//! Mistakes about dimensions.

use tvmtune_runtime::autotune;

#[autotune(dims(M = 1..=8, m = 1..=4))]
pub fn same_field(x: Tensor<f32, M, m>) -> Tensor<f32, M, m> {
    compute(|i, k| x[[i, k]])
}

#[autotune(dims(A = 1..=2000000000, B = 1..=2000000000))]
pub fn too_large(x: Tensor<f32, A>, y: Tensor<f32, B>) -> Tensor<f32, A, B> {
    compute(|a, b| x[[a]] * y[[b]])
}

fn main() {}
