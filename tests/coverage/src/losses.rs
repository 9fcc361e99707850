//! Operators: losses.

use tvmtune_runtime::autotune;

#[autotune(dims(M = 128, V = 30522))]
pub fn cross_entropy(x: Tensor<f32, M, V>, y: Tensor<i64, M>) -> Tensor<f32, M> {
    let m = compute(|i| max(0..V, |j| x[[i, j]]));
    let s = compute(|i| sum(0..V, |j| exp(x[[i, j]] - m[[i]])));
    compute(|i| ln(s[[i]]) + m[[i]] - x.get([i, y[[i]]]).unwrap_or(0.0))
}

#[autotune(dims(M = 512, N = 1024))]
pub fn mse(x: Tensor<f32, M, N>, y: Tensor<f32, M, N>) -> Tensor<f32, M> {
    compute(|i| mean(0..N, |j| (x[[i, j]] - y[[i, j]]) * (x[[i, j]] - y[[i, j]])))
}

#[autotune(dims(M = 1024, N = 512))]
pub fn cosine(x: Tensor<f32, M, N>, y: Tensor<f32, M, N>) -> Tensor<f32, M> {
    let d = compute(|i| sum(0..N, |j| x[[i, j]] * y[[i, j]]));
    let a = compute(|i| sum(0..N, |j| x[[i, j]] * x[[i, j]]));
    let b = compute(|i| sum(0..N, |j| y[[i, j]] * y[[i, j]]));
    compute(|i| d[[i]] / sqrt(max(a[[i]] * b[[i]], 1e-16)))
}

#[autotune(dims(M = 128, N = 4096))]
pub fn huber(x: Tensor<f32, M, N>, y: Tensor<f32, M, N>) -> Tensor<f32, 1> {
    compute(|_| {
        mean((0..M, 0..N), |i, j| {
            let d = (x[[i, j]] - y[[i, j]]).abs();
            if d < 1.0 { 0.5 * d * d } else { d - 0.5 }
        })
    })
}

#[autotune(dims(M = 128, N = 4096))]
pub fn kl_div(x: Tensor<f32, M, N>, y: Tensor<f32, M, N>) -> Tensor<f32, 1> {
    compute(|_| sum((0..M, 0..N), |i, j| y[[i, j]] * (ln(y[[i, j]]) - x[[i, j]])) / M as f32)
}

#[autotune(dims(M = 128, N = 4096))]
pub fn triplet(a: Tensor<f32, M, N>, p: Tensor<f32, M, N>, n: Tensor<f32, M, N>) -> Tensor<f32, 1> {
    let dp = compute(|i| {
        sqrt(sum(0..N, |j| (a[[i, j]] - p[[i, j]] + 1e-6) * (a[[i, j]] - p[[i, j]] + 1e-6)))
    });
    let dn = compute(|i| {
        sqrt(sum(0..N, |j| (a[[i, j]] - n[[i, j]] + 1e-6) * (a[[i, j]] - n[[i, j]] + 1e-6)))
    });
    compute(|_| mean(0..M, |i| max(dp[[i]] - dn[[i]] + 1.0, 0.0)))
}

#[autotune(dims(M = 1048576))]
pub fn hinge(x: Tensor<f32, M>, y: Tensor<f32, M>) -> Tensor<f32, 1> {
    compute(|_| mean(0..M, |i| max(1.0 - x[[i]] * y[[i]], 0.0)))
}

#[autotune(dims(M = 1048576))]
pub fn binary_cross_entropy(x: Tensor<f32, M>, y: Tensor<f32, M>) -> Tensor<f32, 1> {
    compute(|_| mean(0..M, |i| max(x[[i]], 0.0) - x[[i]] * y[[i]] + ln_1p(exp(-x[[i]].abs()))))
}

#[autotune(dims(M = 128, N = 4096))]
pub fn l1_loss(x: Tensor<f32, M, N>, y: Tensor<f32, M, N>) -> Tensor<f32, 1> {
    compute(|_| mean((0..M, 0..N), |i, j| (x[[i, j]] - y[[i, j]]).abs()))
}

#[autotune(dims(N = 1024, C = 100))]
pub fn smoothed_cross_entropy(x: Tensor<f32, N, C>, y: Tensor<i64, N>) -> Tensor<f32, N> {
    let z = compute(|i| logsumexp(0..C, |c| x[[i, c]]));
    compute(|i| {
        0.9 * (z[[i]] - x.get([i, y[[i]]]).unwrap_or(0.0))
            + 0.1 * mean(0..C, |c| z[[i]] - x[[i, c]])
    })
}

#[autotune(dims(C = 3, H = 512, W = 512))]
pub fn total_variation(x: Tensor<f32, C, H, W>) -> Tensor<f32, C> {
    compute(|c| {
        sum((0..H, 0..W - 1), |y, p| abs(x[[c, y, p + 1]] - x[[c, y, p]]))
            + sum((0..H - 1, 0..W), |y, p| abs(x[[c, y + 1, p]] - x[[c, y, p]]))
    })
}

#[autotune(dims(N = 8192, C = 10))]
pub fn short_cross_entropy(x: Tensor<f32, N, C>, t: Tensor<i64, N>) -> Tensor<f32> {
    let l = compute(|n| logsumexp(0..C, |c| x[[n, c]]) - x.get([n, t[[n]]]).unwrap_or(0.0));
    compute(|| mean(0..N, |n| l[[n]]))
}
