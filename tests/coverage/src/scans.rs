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

#[autotune(dims(B = 8, T = 256, D = 256))]
pub fn linear_recurrence(a: Tensor<f32, B, T, D>, x: Tensor<f32, B, T, D>) -> Tensor<f32, B, T, D> {
    compute(|b, t, d| scan(0..=t, 0.0, |h, s| sigmoid(a[[b, s, d]]) * h + x[[b, s, d]]))
}

#[autotune(dims(M = 512, N = 1024))]
pub fn moving_average(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    compute(|i, j| scan(0..=j, x[[i, 0]], |mean, k| 0.9 * mean + 0.1 * x[[i, k]]))
}

#[autotune(dims(B = 64, T = 64, D = 128))]
pub fn last_state(
    g: Tensor<f32, B, T, D>,
    x: Tensor<f32, B, T, D>,
    h0: Tensor<f32, B, D>,
) -> Tensor<f32, B, D> {
    compute(|b, d| {
        scan(0..T, h0[[b, d]], |h, t| {
            let gate = sigmoid(g[[b, t, d]]);
            gate * tanh(x[[b, t, d]]) + (1.0 - gate) * h
        })
    })
}

#[autotune(dims(B = 2, T = 128, D = 128, N = 16))]
pub fn selective_scan(
    x: Tensor<f32, B, T, D>,
    dt: Tensor<f32, B, T, D>,
    a: Weight<f32, D, N>,
    b: Tensor<f32, B, T, N>,
    c: Tensor<f32, B, T, N>,
) -> Tensor<f32, B, T, D> {
    compute(|i, t, d| {
        sum(0..N, |n| {
            let decay = |s| exp(-dt[[i, s, d]].abs() * a[[d, n]].abs());
            c[[i, t, n]]
                * scan(0..=t, 0.0, |h, s| {
                    decay(s) * h + dt[[i, s, d]] * b[[i, s, n]] * x[[i, s, d]]
                })
        })
    })
}

#[autotune(dims(N = 256, T = 1024))]
pub fn cummax(x: Tensor<f32, N, T>) -> Tensor<f32, N, T> {
    compute(|i, t| max(0..=t, |s| x[[i, s]]))
}

#[autotune(dims(N = 256, T = 1024))]
pub fn logcumsumexp(x: Tensor<f32, N, T>) -> Tensor<f32, N, T> {
    compute(|i, t| logsumexp(0..=t, |s| x[[i, s]]))
}

#[autotune(dims(N = 256, T = 1024))]
pub fn differences(x: Tensor<f32, N, T>) -> Tensor<f32, N, { T - 1 }> {
    compute(|i, t| x[[i, t + 1]] - x[[i, t]])
}

#[autotune(dims(N = 256, T = 1024))]
pub fn moving_mean(x: Tensor<f32, N, T>) -> Tensor<f32, N, { T - 15 }> {
    compute(|i, t| mean(0..16, |k| x[[i, t + k]]))
}
