//! Operators: reductions of every axis.

use tvmtune_runtime::autotune;

#[autotune(dims(M = 1024, N = 1024))]
pub fn sum_first(x: Tensor<f32, M, N>) -> Tensor<f32, N> {
    compute(|j| sum(0..M, |i| x[[i, j]]))
}

#[autotune(dims(A = 64, B = 128, C = 128))]
pub fn sum_middle(x: Tensor<f32, A, B, C>) -> Tensor<f32, A, C> {
    compute(|a, c| sum(0..B, |b| x[[a, b, c]]))
}

#[autotune(dims(M = 1048576))]
pub fn sum_all(x: Tensor<f32, M>) -> Tensor<f32, 1> {
    let y: Tensor<f32, 1> = compute(|_| sum(0..M, |i| x[[i]]));
    y
}

#[autotune(dims(M = 1024, N = 1024))]
pub fn sum_2d_all(x: Tensor<f32, M, N>) -> Tensor<f32, 1> {
    let y: Tensor<f32, 1> = compute(|_| sum((0..M, 0..N), |i, j| x[[i, j]]));
    y
}

#[autotune(dims(M = 1024, N = 1024))]
pub fn argmax_rows(x: Tensor<f32, M, N>) -> Tensor<i64, M> {
    compute(|i| argmax(0..N, |j| x[[i, j]]))
}

#[autotune(dims(M = 1024, N = 1024))]
pub fn argmax_cols(x: Tensor<f32, M, N>) -> Tensor<i64, N> {
    compute(|j| argmax(0..M, |i| x[[i, j]]))
}

#[autotune(dims(M = 512, N = 2048))]
pub fn variance(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
    let m = compute(|i| mean(0..N, |j| x[[i, j]]));
    compute(|i| mean(0..N, |j| (x[[i, j]] - m[[i]]) * (x[[i, j]] - m[[i]])))
}

#[autotune(dims(M = 512, N = 2048))]
pub fn logsumexp(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
    let m = compute(|i| max(0..N, |j| x[[i, j]]));
    let s = compute(|i| sum(0..N, |j| exp(x[[i, j]] - m[[i]])));
    compute(|i| m[[i]] + ln(s[[i]]))
}

#[autotune(dims(M = 512, N = 2048))]
pub fn logsumexp_at_once(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
    compute(|i| logsumexp(0..N, |j| x[[i, j]]))
}

#[autotune(dims(M = 512, N = 2048))]
pub fn argmax_of_all(x: Tensor<f32, M, N>) -> Tensor<i64, 1> {
    compute(|_| argmax((0..M, 0..N), |i, j| x[[i, j]]))
}

#[autotune(dims(A = 16, B = 256, C = 256))]
pub fn max_mid(x: Tensor<f32, A, B, C>) -> Tensor<f32, A, C> {
    compute(|a, c| max(0..B, |b| x[[a, b, c]]))
}

#[autotune(dims(A = 16, B = 256, C = 256))]
pub fn prod_mid(x: Tensor<f32, A, B, C>) -> Tensor<f32, A, C> {
    compute(|a, c| prod(0..B, |b| x[[a, b, c]]))
}

#[autotune(dims(A = 16, B = 256, C = 256))]
pub fn argmin_mid(x: Tensor<f32, A, B, C>) -> Tensor<i64, A, C> {
    compute(|a, c| argmin(0..B, |b| x[[a, b, c]]))
}

#[autotune(dims(A = 16, B = 256, C = 256))]
pub fn min_last(x: Tensor<f32, A, B, C>) -> Tensor<f32, A, B> {
    compute(|a, b| min(0..C, |c| x[[a, b, c]]))
}

#[autotune(dims(M = 1024, N = 1024))]
pub fn sum_last(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
    compute(|i| sum(0..N, |j| x[[i, j]]))
}

#[autotune(dims(B = 16, C = 64, S = 784))]
pub fn mean_outer(x: Tensor<f32, B, C, S>) -> Tensor<f32, C> {
    compute(|c| mean((0..B, 0..S), |b, s| x[[b, c, s]]))
}

#[autotune(dims(M = 1024, N = 1024))]
pub fn any_of(x: Tensor<bool, M, N>) -> Tensor<bool, M> {
    compute(|i| any(0..N, |j| x[[i, j]]))
}

#[autotune(dims(M = 1024, N = 1024))]
pub fn norm_first(x: Tensor<f32, M, N>) -> Tensor<f32, N> {
    compute(|j| sqrt(sum(0..M, |i| x[[i, j]] * x[[i, j]])))
}

#[autotune(dims(N = 20000, C = 10))]
pub fn short_argmax(x: Tensor<f32, N, C>) -> Tensor<i64, N> {
    compute(|i| argmax(0..C, |c| x[[i, c]]))
}

#[autotune(dims(N = 20000, C = 7))]
pub fn short_sum(x: Tensor<f32, N, C>) -> Tensor<f32, N> {
    compute(|i| sum(0..C, |c| x[[i, c]]))
}

#[autotune(dims(B = 2, C = 21, H = 96, W = 96))]
pub fn argmax_channels(x: Tensor<f32, B, C, H, W>) -> Tensor<i64, B, H, W> {
    compute(|b, y, p| argmax(0..C, |c| x[[b, c, y, p]]))
}
