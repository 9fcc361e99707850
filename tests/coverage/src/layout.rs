//! Operators: elements that move.

use tvmtune_runtime::autotune;

#[autotune(dims(M = 1024, N = 1024))]
pub fn transpose(x: Tensor<f32, M, N>) -> Tensor<f32, N, M> {
    compute(|j, i| x[[i, j]])
}

#[autotune(dims(B = 8, C = 64, H = 28, W = 28))]
pub fn nchw_to_nhwc(x: Tensor<f32, B, C, H, W>) -> Tensor<f32, B, H, W, C> {
    compute(|b, h, w, c| x[[b, c, h, w]])
}

#[autotune(dims(B = 8, S = 128, H = 12, D = 64))]
pub fn split_heads(x: Tensor<f32, B, S, { H * D }>) -> Tensor<f32, B, H, S, D> {
    compute(|b, h, s, d| x[[b, s, h * D + d]])
}

#[autotune(dims(M = 512, N = 1024))]
pub fn flip(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    compute(|i, j| x[[i, N - 1 - j]])
}

#[autotune(dims(M = 512, N = 1024))]
pub fn roll(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    compute(|i, j| x[[i, (j + 37) % N]])
}

#[autotune(dims(M = 512, N = 1024))]
pub fn tril(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    compute(|i, j| if j <= i { x[[i, j]] } else { 0.0 })
}

#[autotune(dims(B = 8, C = 64, H = 28, W = 28))]
pub fn pixel_shuffle(
    x: Tensor<f32, B, { C * 4 }, H, W>,
) -> Tensor<f32, B, C, { H * 2 }, { W * 2 }> {
    compute(|b, c, h, w| x[[b, c * 4 + (h % 2) * 2 + w % 2, h / 2, w / 2]])
}

#[autotune(dims(B = 8, C = 64, H = 28, W = 28))]
pub fn upsample_nearest(x: Tensor<f32, B, C, H, W>) -> Tensor<f32, B, C, { H * 2 }, { W * 2 }> {
    compute(|b, c, h, w| x[[b, c, h / 2, w / 2]])
}

#[autotune(dims(B = 2, C = 32, H = 32, W = 32))]
pub fn upsample_by_neighbors(x: Tensor<f32, B, C, H, W>) -> Tensor<f32, B, C, { H * 2 }, { W * 2 }> {
    compute(|n, c, y, p| {
        let a = x[[n, c, y / 2, p / 2]];
        let b = x.get([n, c, y / 2, p / 2 + 2 * (p % 2) - 1]).unwrap_or(a);
        let d = x.get([n, c, y / 2 + 2 * (y % 2) - 1, p / 2]).unwrap_or(a);
        0.5 * a + 0.25 * b + 0.25 * d
    })
}

#[autotune(dims(M = 512, H = 512))]
pub fn rope(
    x: Tensor<f32, M, { H * 2 }>,
    c: Tensor<f32, M, H>,
    s: Tensor<f32, M, H>,
) -> Tensor<f32, M, { H * 2 }> {
    compute(|i, j| {
        if j < H {
            x[[i, j]] * c[[i, j % H]] - x[[i, (j + H) % (2 * H)]] * s[[i, j % H]]
        } else {
            x[[i, j]] * c[[i, j % H]] + x[[i, (j + H) % (2 * H)]] * s[[i, j % H]]
        }
    })
}

#[autotune(dims(M = 512, H = 512))]
pub fn rope_of_pairs(
    x: Tensor<f32, M, { H * 2 }>,
    c: Tensor<f32, M, H>,
    s: Tensor<f32, M, H>,
) -> Tensor<f32, M, { H * 2 }> {
    compute(|i, j| {
        let first = x[[i, j / 2 * 2]];
        let second = x[[i, j / 2 * 2 + 1]];
        if j % 2 == 0 {
            first * c[[i, j / 2]] - second * s[[i, j / 2]]
        } else {
            second * c[[i, j / 2]] + first * s[[i, j / 2]]
        }
    })
}

#[autotune(dims(B = 4, C = 32, H = 28, W = 28))]
pub fn upsample_by_3(x: Tensor<f32, B, C, H, W>) -> Tensor<f32, B, C, { H * 3 }, { W * 3 }> {
    compute(|b, c, h, w| x[[b, c, h / 3, w / 3]])
}

#[autotune(dims(M = 512, N = 512))]
pub fn interleave(x: Tensor<f32, M, N>, y: Tensor<f32, M, N>) -> Tensor<f32, M, { N * 2 }> {
    compute(|i, j| if j % 2 == 0 { x[[i, j / 2]] } else { y[[i, j / 2]] })
}

#[autotune(dims(M = 512, N = 512))]
pub fn concatenate(x: Tensor<f32, M, N>, y: Tensor<f32, M, N>) -> Tensor<f32, M, { N * 2 }> {
    compute(|i, j| if j < N { x[[i, j]] } else { y[[i, j - N]] })
}

#[autotune(dims(B = 8, C = 64, H = 28, W = 28))]
pub fn pad_zeros(x: Tensor<f32, B, C, H, W>) -> Tensor<f32, B, C, { H + 2 }, { W + 2 }> {
    compute(|b, c, y, p| x.get([b, c, y - 1, p - 1]).unwrap_or(0.0))
}

#[autotune(dims(M = 512, N = 1024))]
pub fn slice_last(x: Tensor<f32, M, { N + 64 }>) -> Tensor<f32, M, N> {
    compute(|i, j| x[[i, j + 32]])
}

#[autotune(dims(M = 512, N = 512))]
pub fn every_other(x: Tensor<f32, M, { N * 2 }>) -> Tensor<f32, M, N> {
    compute(|i, j| x[[i, 2 * j]])
}

#[autotune(dims(B = 8, H = 4, S = 128, D = 64))]
pub fn repeat_heads(x: Tensor<f32, B, H, S, D>) -> Tensor<f32, B, { H * 4 }, S, D> {
    compute(|b, h, s, d| x[[b, h / 4, s, d]])
}

#[autotune(dims(M = 512, N = 1024))]
pub fn triu(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    compute(|i, j| if j >= i { x[[i, j]] } else { 0.0 })
}

#[autotune(dims(M = 512, N = 1024))]
pub fn flip_first(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    compute(|i, j| x[[M - 1 - i, j]])
}
