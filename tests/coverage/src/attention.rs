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
        if j <= i { sum(0..D, |d| q[[b, h, i, d]] * k[[b, h, j, d]]) * 0.125 } else { f32::NEG_INFINITY }
    });
    let m = compute(|b, h, i| max(0..S, |j| s[[b, h, i, j]]));
    let e = compute(|b, h, i, j| exp(s[[b, h, i, j]] - m[[b, h, i]]));
    let t = compute(|b, h, i| sum(0..S, |j| e[[b, h, i, j]]));
    let o = compute(|b, h, i, d| sum(0..S, |j| e[[b, h, i, j]] * v[[b, h, j, d]]));
    compute(|b, h, i, d| o[[b, h, i, d]] / t[[b, h, i]])
}
