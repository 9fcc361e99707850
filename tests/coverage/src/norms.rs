//! Operators: softmaxes and normalizations.

use tvmtune_runtime::autotune;

#[autotune(dims(M = 512, N = 1024))]
pub fn softmax_first(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    let m = compute(|j| max(0..M, |i| x[[i, j]]));
    let e = compute(|i, j| exp(x[[i, j]] - m[[j]]));
    let s = compute(|j| sum(0..M, |i| e[[i, j]]));
    compute(|i, j| e[[i, j]] / s[[j]])
}

#[autotune(dims(B = 16, C = 64, S = 784))]
pub fn batch_norm_train(
    x: Tensor<f32, B, C, S>,
    g: Tensor<f32, C>,
    b: Tensor<f32, C>,
) -> Tensor<f32, B, C, S> {
    let m = compute(|c| mean((0..B, 0..S), |n, s| x[[n, c, s]]));
    let v =
        compute(|c| mean((0..B, 0..S), |n, s| (x[[n, c, s]] - m[[c]]) * (x[[n, c, s]] - m[[c]])));
    compute(|n, c, s| (x[[n, c, s]] - m[[c]]) * rsqrt(v[[c]] + 1e-5) * g[[c]] + b[[c]])
}

#[autotune(dims(B = 16, C = 64, S = 784))]
pub fn batch_norm_infer(
    x: Tensor<f32, B, C, S>,
    m: Tensor<f32, C>,
    v: Tensor<f32, C>,
    g: Tensor<f32, C>,
    b: Tensor<f32, C>,
) -> Tensor<f32, B, C, S> {
    compute(|n, c, s| (x[[n, c, s]] - m[[c]]) * rsqrt(v[[c]] + 1e-5) * g[[c]] + b[[c]])
}

#[autotune(dims(B = 8, G = 8, D = 8, S = 784))]
pub fn group_norm(
    x: Tensor<f32, B, G, D, S>,
    g: Tensor<f32, G, D>,
    b: Tensor<f32, G, D>,
) -> Tensor<f32, B, G, D, S> {
    let m = compute(|n, k| mean((0..D, 0..S), |d, s| x[[n, k, d, s]]));
    let v = compute(|n, k| {
        mean((0..D, 0..S), |d, s| (x[[n, k, d, s]] - m[[n, k]]) * (x[[n, k, d, s]] - m[[n, k]]))
    });
    compute(|n, k, d, s| {
        (x[[n, k, d, s]] - m[[n, k]]) * rsqrt(v[[n, k]] + 1e-5) * g[[k, d]] + b[[k, d]]
    })
}

#[autotune(dims(B = 64, C = 64, S = 196))]
pub fn instance_norm(x: Tensor<f32, B, C, S>) -> Tensor<f32, B, C, S> {
    let m = compute(|n, c| mean(0..S, |s| x[[n, c, s]]));
    let v = compute(|n, c| mean(0..S, |s| (x[[n, c, s]] - m[[n, c]]) * (x[[n, c, s]] - m[[n, c]])));
    compute(|n, c, s| (x[[n, c, s]] - m[[n, c]]) * rsqrt(v[[n, c]] + 1e-5))
}

#[autotune(dims(M = 512, N = 768))]
pub fn layer_norm(x: Tensor<f32, M, N>, g: Tensor<f32, N>, b: Tensor<f32, N>) -> Tensor<f32, M, N> {
    let m = compute(|i| mean(0..N, |j| x[[i, j]]));
    let v = compute(|i| mean(0..N, |j| (x[[i, j]] - m[[i]]) * (x[[i, j]] - m[[i]])));
    compute(|i, j| (x[[i, j]] - m[[i]]) * rsqrt(v[[i]] + 1e-5) * g[[j]] + b[[j]])
}

#[autotune(dims(M = 1024, N = 1024))]
pub fn l2_norm(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    let s = compute(|i| sum(0..N, |j| x[[i, j]] * x[[i, j]]));
    compute(|i, j| x[[i, j]] / max(sqrt(s[[i]]), 1e-12))
}

#[autotune(dims(M = 512, N = 1024))]
pub fn log_softmax(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    let m = compute(|i| max(0..N, |j| x[[i, j]]));
    let s = compute(|i| sum(0..N, |j| exp(x[[i, j]] - m[[i]])));
    compute(|i, j| x[[i, j]] - m[[i]] - ln(s[[i]]))
}

#[autotune(dims(M = 512, N = 4096))]
pub fn rms_norm(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    let s = compute(|i| mean(0..N, |j| x[[i, j]] * x[[i, j]]));
    compute(|i, j| x[[i, j]] * rsqrt(s[[i]] + 1e-5))
}

#[autotune(dims(B = 16, C = 64, S = 1024))]
pub fn rms_norm_channels(x: Tensor<f32, B, C, S>) -> Tensor<f32, B, C, S> {
    let r = compute(|b, s| mean(0..C, |c| x[[b, c, s]] * x[[b, c, s]]));
    compute(|b, c, s| x[[b, c, s]] / sqrt(r[[b, s]] + 1e-5))
}

#[autotune(dims(M = 512, N = 2048))]
pub fn frobenius(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    let s = compute(|| sum((0..M, 0..N), |i, j| x[[i, j]] * x[[i, j]]));
    compute(|i, j| x[[i, j]] / sqrt(s[[]]))
}

#[autotune(dims(M = 512, N = 2048))]
pub fn l1_norm(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    let s = compute(|i| sum(0..N, |j| x[[i, j]].abs()));
    compute(|i, j| x[[i, j]] / s[[i]])
}

#[autotune(dims(B = 2, C = 96, H = 56, W = 56))]
pub fn channel_layer_norm(
    x: Tensor<f32, B, C, H, W>,
    g: Weight<f32, C>,
    b: Weight<f32, C>,
) -> Tensor<f32, B, C, H, W> {
    let m = compute(|n, y, p| mean(0..C, |c| x[[n, c, y, p]]));
    let v = compute(|n, y, p| {
        mean(0..C, |c| (x[[n, c, y, p]] - m[[n, y, p]]) * (x[[n, c, y, p]] - m[[n, y, p]]))
    });
    compute(|n, c, y, p| {
        (x[[n, c, y, p]] - m[[n, y, p]]) * rsqrt(v[[n, y, p]] + 0.000001) * g[[c]] + b[[c]]
    })
}

#[autotune(dims(N = 20000, C = 10))]
pub fn short_softmax(x: Tensor<f32, N, C>) -> Tensor<f32, N, C> {
    let m = compute(|i| max(0..C, |c| x[[i, c]]));
    let e = compute(|i, c| exp(x[[i, c]] - m[[i]]));
    let s = compute(|i| sum(0..C, |c| e[[i, c]]));
    compute(|i, c| e[[i, c]] / s[[i]])
}

#[autotune(dims(B = 4, H = 28, W = 28, G = 8, C = 16))]
pub fn group_norm_nhwc(
    x: Tensor<f32, B, H, W, G, C>,
    w: Weight<f32, G, C>,
) -> Tensor<f32, B, H, W, G, C> {
    let m = compute(|n, g| mean((0..H, 0..W, 0..C), |y, p, c| x[[n, y, p, g, c]]));
    let v = compute(|n, g| {
        mean((0..H, 0..W, 0..C), |y, p, c| {
            (x[[n, y, p, g, c]] - m[[n, g]]) * (x[[n, y, p, g, c]] - m[[n, g]])
        })
    });
    compute(|n, y, p, g, c| {
        (x[[n, y, p, g, c]] - m[[n, g]]) * rsqrt(v[[n, g]] + 0.00001) * w[[g, c]]
    })
}

#[autotune(dims(B = 2, C = 64, H = 28, W = 28))]
pub fn local_response(x: Tensor<f32, B, C, H, W>) -> Tensor<f32, B, C, H, W> {
    compute(|b, c, y, p| {
        let s = sum(0..5, |r| {
            let v = x.get([b, c + r - 2, y, p]).unwrap_or(0.0);
            v * v
        });
        x[[b, c, y, p]] / pow(1.0 + 0.0001 / 5.0 * s, 0.75)
    })
}

#[autotune(dims(B = 2, C = 21, H = 96, W = 96))]
pub fn softmax_channels(x: Tensor<f32, B, C, H, W>) -> Tensor<f32, B, C, H, W> {
    let m = compute(|b, y, p| max(0..C, |c| x[[b, c, y, p]]));
    let e = compute(|b, c, y, p| exp(x[[b, c, y, p]] - m[[b, y, p]]));
    compute(|b, c, y, p| e[[b, c, y, p]] / sum(0..C, |k| e[[b, k, y, p]]))
}

#[autotune(dims(N = 20000, C = 6))]
pub fn short_norm(x: Tensor<f32, N, C>) -> Tensor<f32, N, C> {
    let s = compute(|n| rsqrt(sum(0..C, |c| x[[n, c]] * x[[n, c]]) + 1.0e-12));
    compute(|n, c| x[[n, c]] * s[[n]])
}

#[autotune(dims(N = 20000, C = 12))]
pub fn short_layer_norm(x: Tensor<f32, N, C>, g: Tensor<f32, C>) -> Tensor<f32, N, C> {
    let m = compute(|n| mean(0..C, |c| x[[n, c]]));
    let v = compute(|n| mean(0..C, |c| (x[[n, c]] - m[[n]]) * (x[[n, c]] - m[[n]])));
    compute(|n, c| (x[[n, c]] - m[[n]]) * rsqrt(v[[n]] + 0.00001) * g[[c]])
}
