//! Row-wise operations: softmax, normalization, pooling, elementwise.

use tvmtune_runtime::autotune;

/// Softmax over the last axis.
#[autotune(dims(M = 4096, N = 1024))]
pub fn softmax_4096x1024(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    let peak = compute(|i| max(0..N, |j| x[[i, j]]));
    let e = compute(|i, j| exp(x[[i, j]] - peak[[i]]));
    let total = compute(|i| sum(0..N, |j| e[[i, j]]));
    compute(|i, j| e[[i, j]] / total[[i]])
}

/// Layer normalization over the last axis.
#[autotune(dims(M = 1024, N = 768))]
pub fn layernorm_1024x768(
    x: Tensor<f32, M, N>,
    gamma: Tensor<f32, N>,
    beta: Tensor<f32, N>,
) -> Tensor<f32, M, N> {
    let center = compute(|i| mean(0..N, |j| x[[i, j]]));
    let variance =
        compute(|i| mean(0..N, |j| (x[[i, j]] - center[[i]]) * (x[[i, j]] - center[[i]])));
    compute(|i, j| (x[[i, j]] - center[[i]]) * rsqrt(variance[[i]] + 1e-5) * gamma[[j]] + beta[[j]])
}

/// The end of a residual block of ResNet-50.
#[autotune(dims(B = 1, C = 256, H = 56, W = 56))]
pub fn add_relu_256x56x56(
    x: Tensor<f32, B, C, H, W>,
    y: Tensor<f32, B, C, H, W>,
) -> Tensor<f32, B, C, H, W> {
    compute(|n, c, i, j| relu(x[[n, c, i, j]] + y[[n, c, i, j]]))
}

/// Global average pooling before the classifier of ResNet-50.
#[autotune(dims(B = 1, C = 2048, H = 7, W = 7))]
pub fn gap_2048x7x7(x: Tensor<f32, B, C, H, W>) -> Tensor<f32, B, C> {
    compute(|n, c| mean((0..H, 0..W), |i, j| x[[n, c, i, j]]))
}
