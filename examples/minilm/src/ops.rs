//! The operations of the model, each one tuned kernel.
//!
//! Activations are `[tokens, features]`, row-major, with the sentences of a batch padded to one
//! length: token `t` is position `t % S` of sentence `t / S`.

use tvmtune_runtime::autotune;

/// Word, position and segment embeddings, summed and normalized.
///
/// A token id outside the vocabulary has a word embedding of 0.
#[autotune(
    dims(B = 1..=32, S = 1..=256, V = 30522, P = 512, G = 2, D = 384),
    buckets(B = [1, 32], S = [32, 256])
)]
pub fn embed(
    ids: Tensor<i32, B, S>,
    words: Tensor<f32, V, D>,
    positions: Tensor<f32, P, D>,
    segments: Tensor<f32, G, D>,
    gamma: Tensor<f32, D>,
    beta: Tensor<f32, D>,
) -> Tensor<f32, B, S, D> {
    let x: Tensor<f32, B, S, D> = compute(|b, s, d| {
        words.get([ids[[b, s]], d]).unwrap_or(0.0) + positions[[s, d]] + segments[[0, d]]
    });
    let center = compute(|b, s| mean(0..D, |d| x[[b, s, d]]));
    let variance = compute(|b, s| {
        mean(0..D, |d| (x[[b, s, d]] - center[[b, s]]) * (x[[b, s, d]] - center[[b, s]]))
    });
    compute(|b, s, d| {
        (x[[b, s, d]] - center[[b, s]]) * rsqrt(variance[[b, s]] + 1e-12) * gamma[[d]] + beta[[d]]
    })
}

/// Queries, keys and values of all heads, side by side.
#[autotune(
    dims(T = 1..=8192, N = 1152, K = 384),
    buckets(T = [1, 8, 32, 128, 1024, 8192])
)]
pub fn project_qkv(
    x: Tensor<f32, T, K>,
    w: Weight<f32, N, K>,
    b: Tensor<f32, N>,
) -> Tensor<f32, T, N> {
    compute(|t, n| sum(0..K, |k| x[[t, k]] * w[[n, k]]) + b[[n]])
}

/// Attention of 12 heads of 32 features, over the tokens that are no padding.
#[autotune(
    dims(B = 1..=32, S = 1..=256, Q = 1152, H = 12, E = 32),
    buckets(B = [1, 32], S = [16, 64, 256])
)]
pub fn attention(qkv: Tensor<f32, B, S, Q>, lengths: Tensor<i32, B>) -> Tensor<f32, B, S, H, E> {
    let scores: Tensor<f32, B, H, S, S> = compute(|b, h, i, j| {
        let dot = sum(0..E, |e| qkv[[b, i, h * 32 + e]] * qkv[[b, j, h * 32 + e + 384]]);
        if (j as i32) < lengths[[b]] { dot * 0.17677669529663687 } else { -1e30 }
    });
    let peak = compute(|b, h, i| max(0..S, |j| scores[[b, h, i, j]]));
    let weight = compute(|b, h, i, j| exp(scores[[b, h, i, j]] - peak[[b, h, i]]));
    let total = compute(|b, h, i| sum(0..S, |j| weight[[b, h, i, j]]));
    compute(|b, i, h, e| {
        sum(0..S, |j| weight[[b, h, i, j]] * qkv[[b, j, h * 32 + e + 768]]) / total[[b, h, i]]
    })
}

/// The output projection of attention, added to its input and normalized.
#[autotune(
    dims(T = 1..=8192, D = 384),
    buckets(T = [1, 8, 32, 128, 1024, 8192])
)]
pub fn project_residual_norm(
    x: Tensor<f32, T, D>,
    w: Weight<f32, D, D>,
    b: Tensor<f32, D>,
    residual: Tensor<f32, T, D>,
    gamma: Tensor<f32, D>,
    beta: Tensor<f32, D>,
) -> Tensor<f32, T, D> {
    let h = compute(|t, d| sum(0..D, |k| x[[t, k]] * w[[d, k]]) + b[[d]] + residual[[t, d]]);
    let center = compute(|t| mean(0..D, |d| h[[t, d]]));
    let variance =
        compute(|t| mean(0..D, |d| (h[[t, d]] - center[[t]]) * (h[[t, d]] - center[[t]])));
    compute(|t, d| {
        (h[[t, d]] - center[[t]]) * rsqrt(variance[[t]] + 1e-12) * gamma[[d]] + beta[[d]]
    })
}

/// The first layer of the feed-forward network.
#[autotune(
    dims(T = 1..=8192, N = 1536, K = 384),
    buckets(T = [1, 8, 32, 128, 1024, 8192])
)]
pub fn expand_gelu(
    x: Tensor<f32, T, K>,
    w: Weight<f32, N, K>,
    b: Tensor<f32, N>,
) -> Tensor<f32, T, N> {
    let h = compute(|t, n| sum(0..K, |k| x[[t, k]] * w[[n, k]]) + b[[n]]);
    compute(|t, n| gelu(h[[t, n]]))
}

/// The second layer of the feed-forward network, added to the input of the first and normalized.
#[autotune(
    dims(T = 1..=8192, D = 384, K = 1536),
    buckets(T = [1, 8, 32, 128, 1024, 8192])
)]
pub fn contract_residual_norm(
    x: Tensor<f32, T, K>,
    w: Weight<f32, D, K>,
    b: Tensor<f32, D>,
    residual: Tensor<f32, T, D>,
    gamma: Tensor<f32, D>,
    beta: Tensor<f32, D>,
) -> Tensor<f32, T, D> {
    let h = compute(|t, d| sum(0..K, |k| x[[t, k]] * w[[d, k]]) + b[[d]] + residual[[t, d]]);
    let center = compute(|t| mean(0..D, |d| h[[t, d]]));
    let variance =
        compute(|t| mean(0..D, |d| (h[[t, d]] - center[[t]]) * (h[[t, d]] - center[[t]])));
    compute(|t, d| {
        (h[[t, d]] - center[[t]]) * rsqrt(variance[[t]] + 1e-12) * gamma[[d]] + beta[[d]]
    })
}

/// The mean over the tokens that are no padding, scaled to length 1.
#[autotune(dims(B = 1..=32, S = 1..=256, D = 384), buckets(B = [1, 32], S = [32, 256]))]
pub fn pool_normalize(x: Tensor<f32, B, S, D>, lengths: Tensor<i32, B>) -> Tensor<f32, B, D> {
    let total =
        compute(|b, d| sum(0..S, |s| if (s as i32) < lengths[[b]] { x[[b, s, d]] } else { 0.0 }));
    let center = compute(|b, d| total[[b, d]] / (lengths[[b]] as f32));
    let square = compute(|b| sum(0..D, |d| center[[b, d]] * center[[b, d]]));
    compute(|b, d| center[[b, d]] / max(sqrt(square[[b]]), 1e-12))
}
