//! Operators: pools.

use tvmtune_runtime::autotune;

#[autotune(dims(B = 4, C = 64, H = 56, W = 56))]
pub fn max_pool(x: Tensor<f32, B, C, H, W>) -> Tensor<f32, B, C, { H / 2 }, { W / 2 }> {
    compute(|n, c, y, p| {
        max((0..3, 0..3), |r, s| {
            x.get([n, c, 2 * y + r - 1, 2 * p + s - 1]).unwrap_or(f32::NEG_INFINITY)
        })
    })
}

#[autotune(dims(B = 4, C = 64, H = 56, W = 56))]
pub fn avg_pool(x: Tensor<f32, B, C, H, W>) -> Tensor<f32, B, C, { H / 2 }, { W / 2 }> {
    compute(|n, c, y, p| mean((0..2, 0..2), |r, s| x[[n, c, 2 * y + r, 2 * p + s]]))
}

#[autotune(dims(B = 16, C = 512, S = 49))]
pub fn global_pool(x: Tensor<f32, B, C, S>) -> Tensor<f32, B, C> {
    compute(|n, c| mean(0..S, |s| x[[n, c, s]]))
}

#[autotune(dims(B = 8, C = 32, L = 4096))]
pub fn max_pool1d(x: Tensor<f32, B, C, L>) -> Tensor<f32, B, C, { L / 4 }> {
    compute(|n, c, p| max(0..8, |s| x.get([n, c, 4 * p + s - 2]).unwrap_or(f32::NEG_INFINITY)))
}

#[autotune(dims(B = 2, C = 16, D = 32, H = 32, W = 32))]
pub fn max_pool3d(
    x: Tensor<f32, B, C, D, H, W>,
) -> Tensor<f32, B, C, { D / 2 }, { H / 2 }, { W / 2 }> {
    compute(|n, c, z, y, p| {
        max((0..3, 0..3, 0..3), |q, r, s| {
            x.get([n, c, 2 * z + q - 1, 2 * y + r - 1, 2 * p + s - 1]).unwrap_or(f32::NEG_INFINITY)
        })
    })
}

#[autotune(dims(B = 2, C = 16, D = 32, H = 32, W = 32))]
pub fn avg_pool3d(
    x: Tensor<f32, B, C, D, H, W>,
) -> Tensor<f32, B, C, { D / 2 }, { H / 2 }, { W / 2 }> {
    compute(|n, c, z, y, p| {
        mean((0..2, 0..2, 0..2), |q, r, s| x[[n, c, 2 * z + q, 2 * y + r, 2 * p + s]])
    })
}

#[autotune(dims(C = 64, H = 56, W = 56))]
pub fn max_pool_3_by_2(x: Tensor<f32, C, { 2 * H }, { 2 * W }>) -> Tensor<f32, C, H, W> {
    compute(|c, y, p| {
        max((0..3, 0..3), |r, s| {
            x.get([c, 2 * y + r - 1, 2 * p + s - 1]).unwrap_or(f32::NEG_INFINITY)
        })
    })
}
