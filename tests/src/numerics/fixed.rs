//! Programs with fixed numerics, in several buckets.

use tvmtune_runtime::autotune;

#[autotune(dims(M = 1..=70, N = 40, K = 70), buckets(M = [1, 16, 70]), numerics = "fixed")]
pub fn linear_gelu(
    x: Tensor<f32, M, K>,
    w: Weight<f32, N, K>,
    b: Weight<f32, N>,
) -> Tensor<f32, M, N> {
    let h = compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) + b[[j]]);
    compute(|i, j| gelu(h[[i, j]]))
}

#[autotune(dims(M = 1..=70, D = 150), buckets(M = [1, 16, 70]), numerics = "fixed")]
pub fn softmax(x: Tensor<f32, M, D>) -> Tensor<f32, M, D> {
    let top = compute(|i| max(0..D, |d| x[[i, d]]));
    let e = compute(|i, d| exp(x[[i, d]] - top[[i]]));
    let s = compute(|i| sum(0..D, |d| e[[i, d]]));
    compute(|i, d| e[[i, d]] / s[[i]])
}

#[autotune(dims(M = 1..=70, D = 150), buckets(M = [1, 16, 70]), numerics = "fixed")]
pub fn layernorm(x: Tensor<f32, M, D>, g: Weight<f32, D>, b: Weight<f32, D>) -> Tensor<f32, M, D> {
    let mean = compute(|i| mean(0..D, |d| x[[i, d]]));
    let var = compute(|i| mean(0..D, |d| (x[[i, d]] - mean[[i]]) * (x[[i, d]] - mean[[i]])));
    compute(|i, d| (x[[i, d]] - mean[[i]]) * rsqrt(var[[i]] + 1e-5) * g[[d]] + b[[d]])
}

#[autotune(dims(M = 1..=70, D = 24), buckets(M = [1, 16, 70]), numerics = "fixed")]
pub fn attention(
    q: Tensor<f32, M, D>,
    k: Tensor<f32, M, D>,
    v: Tensor<f32, M, D>,
) -> Tensor<f32, M, D> {
    let s = compute(|i, j| sum(0..D, |d| q[[i, d]] * k[[j, d]]) * 0.2);
    let top = compute(|i| max(0..M, |j| s[[i, j]]));
    let e = compute(|i, j| exp(s[[i, j]] - top[[i]]));
    let n = compute(|i| sum(0..M, |j| e[[i, j]]));
    compute(|i, d| sum(0..M, |j| e[[i, j]] / n[[i]] * v[[j, d]]))
}
