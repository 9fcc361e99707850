//! Operators: prefix reductions.

use tvmtune_runtime::autotune;

#[autotune(dims(M = 512, N = 1024))]
pub fn cumsum(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..=j, |k| x[[i, k]]))
}

#[autotune(dims(M = 512, N = 1024))]
pub fn cumsum_first(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..=i, |k| x[[k, j]]))
}

#[autotune(dims(M = 128, N = 4000))]
pub fn cumprod(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    compute(|i, j| prod(0..=j, |k| x[[i, k]]))
}

#[autotune(dims(M = 128, N = 4000))]
pub fn reverse_cumsum(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(j..N, |k| x[[i, k]]))
}

#[autotune(dims(M = 128, N = 4000))]
pub fn exclusive_cumsum(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..j, |k| x[[i, k]]))
}

#[autotune(dims(M = 128, N = 4000))]
pub fn masked_cumsum(x: Tensor<f32, M, N>, m: Tensor<bool, M, N>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..=j, |k| if m[[i, k]] { x[[i, k]] } else { 0.0 }))
}
