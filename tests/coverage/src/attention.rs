//! Operators: attention.

use tvmtune_runtime::autotune;

#[autotune(dims(B = 8, H = 8, S = 128, D = 64))]
pub fn attention(
    q: Tensor<f32, B, H, S, D>,
    k: Tensor<f32, B, H, S, D>,
    v: Tensor<f32, B, H, S, D>,
) -> Tensor<f32, B, H, S, D> {
    let s = compute(|b, h, i, j| sum(0..D, |d| q[[b, h, i, d]] * k[[b, h, j, d]]) * 0.125);
    let m = compute(|b, h, i| max(0..S, |j| s[[b, h, i, j]]));
    let e = compute(|b, h, i, j| exp(s[[b, h, i, j]] - m[[b, h, i]]));
    let t = compute(|b, h, i| sum(0..S, |j| e[[b, h, i, j]]));
    let o = compute(|b, h, i, d| sum(0..S, |j| e[[b, h, i, j]] * v[[b, h, j, d]]));
    compute(|b, h, i, d| o[[b, h, i, d]] / t[[b, h, i]])
}

#[autotune(dims(B = 8, H = 8, S = 128, D = 64))]
pub fn causal_attention(
    q: Tensor<f32, B, H, S, D>,
    k: Tensor<f32, B, H, S, D>,
    v: Tensor<f32, B, H, S, D>,
) -> Tensor<f32, B, H, S, D> {
    let s = compute(|b, h, i, j| {
        if j <= i {
            sum(0..D, |d| q[[b, h, i, d]] * k[[b, h, j, d]]) * 0.125
        } else {
            f32::NEG_INFINITY
        }
    });
    let m = compute(|b, h, i| max(0..S, |j| s[[b, h, i, j]]));
    let e = compute(|b, h, i, j| exp(s[[b, h, i, j]] - m[[b, h, i]]));
    let t = compute(|b, h, i| sum(0..S, |j| e[[b, h, i, j]]));
    let o = compute(|b, h, i, d| sum(0..S, |j| e[[b, h, i, j]] * v[[b, h, j, d]]));
    compute(|b, h, i, d| o[[b, h, i, d]] / t[[b, h, i]])
}

#[autotune(dims(G = 8, S = 1024, D = 64))]
pub fn decode_gqa(
    q: Tensor<f32, { G * 4 }, D>,
    k: Tensor<f32, G, S, D>,
    v: Tensor<f32, G, S, D>,
) -> Tensor<f32, { G * 4 }, D> {
    let s: Tensor<f32, { G * 4 }, S> =
        compute(|h, t| 0.125 * sum(0..D, |d| q[[h, d]] * k[[h / 4, t, d]]));
    let m = compute(|h| max(0..S, |t| s[[h, t]]));
    let e = compute(|h, t| exp(s[[h, t]] - m[[h]]));
    let n = compute(|h| sum(0..S, |t| e[[h, t]]));
    compute(|h, d| sum(0..S, |t| e[[h, t]] * v[[h / 4, t, d]]) / n[[h]])
}

#[autotune(dims(B = 64, H = 3, T = 49, D = 32))]
pub fn window_attention(
    q: Tensor<f32, B, H, T, D>,
    k: Tensor<f32, B, H, T, D>,
    v: Tensor<f32, B, H, T, D>,
    r: Tensor<f32, H, T, T>,
) -> Tensor<f32, B, H, T, D> {
    let s = compute(|b, h, i, j| {
        0.125 * sum(0..D, |d| q[[b, h, i, d]] * k[[b, h, j, d]]) + r[[h, i, j]]
    });
    let m = compute(|b, h, i| max(0..T, |j| s[[b, h, i, j]]));
    let e = compute(|b, h, i, j| exp(s[[b, h, i, j]] - m[[b, h, i]]));
    let n = compute(|b, h, i| sum(0..T, |j| e[[b, h, i, j]]));
    compute(|b, h, i, d| sum(0..T, |j| e[[b, h, i, j]] * v[[b, h, j, d]]) / n[[b, h, i]])
}

#[autotune(dims(B = 2, H = 8, T = 512, D = 64))]
pub fn linear_attention(
    q: Tensor<f32, B, H, T, D>,
    k: Tensor<f32, B, H, T, D>,
    v: Tensor<f32, B, H, T, D>,
) -> Tensor<f32, B, H, T, D> {
    let c = compute(|b, h, d, e| sum(0..T, |t| relu(k[[b, h, t, d]]) * v[[b, h, t, e]]));
    compute(|b, h, t, e| sum(0..D, |d| relu(q[[b, h, t, d]]) * c[[b, h, d, e]]))
}

#[autotune(dims(B = 8, H = 8, T = 128))]
pub fn alibi(s: Tensor<f32, B, H, T, T>, m: Tensor<f32, H>) -> Tensor<f32, B, H, T, T> {
    let z = compute(|b, h, i, j| s[[b, h, i, j]] + m[[h]] * (j - i) as f32);
    let t = compute(|b, h, i| max(0..T, |j| z[[b, h, i, j]]));
    let e = compute(|b, h, i, j| exp(z[[b, h, i, j]] - t[[b, h, i]]));
    compute(|b, h, i, j| e[[b, h, i, j]] / sum(0..T, |k| e[[b, h, i, k]]))
}

#[autotune(dims(H = 8, Q = 16, S = 1024, D = 64))]
pub fn cross_attention(
    q: Tensor<f32, H, Q, D>,
    k: Tensor<f32, H, S, D>,
    v: Tensor<f32, H, S, D>,
) -> Tensor<f32, H, Q, D> {
    let s = compute(|h, i, j| 0.125 * sum(0..D, |d| q[[h, i, d]] * k[[h, j, d]]));
    let m = compute(|h, i| max(0..S, |j| s[[h, i, j]]));
    let e = compute(|h, i, j| exp(s[[h, i, j]] - m[[h, i]]));
    let n = compute(|h, i| sum(0..S, |j| e[[h, i, j]]));
    compute(|h, i, d| sum(0..S, |j| e[[h, i, j]] * v[[h, j, d]]) / n[[h, i]])
}

// The result has the channels of all heads, and so have queries, keys and values.
#[autotune(dims(T = 192, H = 6, D = 64))]
pub fn merged_heads(qkv: Tensor<f32, T, { H * D * 3 }>) -> Tensor<f32, T, { H * D }> {
    let s: Tensor<f32, H, T, T> = compute(|h, i, j| {
        sum(0..D, |d| qkv[[i, h * D + d]] * qkv[[j, (H + h) * D + d]]) * 0.125
    });
    let m = compute(|h, i| max(0..T, |j| s[[h, i, j]]));
    let e = compute(|h, i, j| exp(s[[h, i, j]] - m[[h, i]]));
    let n = compute(|h, i| sum(0..T, |j| e[[h, i, j]]));
    compute(|i, c| sum(0..T, |j| e[[c / D, i, j]] * qkv[[j, 2 * H * D + c]]) / n[[c / D, i]])
}
