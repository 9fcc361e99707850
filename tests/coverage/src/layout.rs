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
pub fn upsample_by_neighbors(
    x: Tensor<f32, B, C, H, W>,
) -> Tensor<f32, B, C, { H * 2 }, { W * 2 }> {
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

#[autotune(dims(C = 32, H = 28, W = 28))]
pub fn im2col(x: Tensor<f32, C, H, W>) -> Tensor<f32, C, 3, 3, H, W> {
    compute(|c, r, s, y, p| x.get([c, y + r - 1, p + s - 1]).unwrap_or(0.0))
}

#[autotune(dims(B = 2, H = 8, W = 8, C = 96))]
pub fn window_partition(
    x: Tensor<f32, B, { H * 7 }, { W * 7 }, C>,
) -> Tensor<f32, B, H, W, 7, 7, C> {
    compute(|b, h, w, y, p, c| x[[b, h * 7 + y, w * 7 + p, c]])
}

#[autotune(dims(B = 4, C = 64, H = 56, W = 56))]
pub fn space_to_depth(
    x: Tensor<f32, B, C, H, W>,
) -> Tensor<f32, B, { C * 4 }, { H / 2 }, { W / 2 }> {
    compute(|b, c, y, p| x[[b, c / 4, 2 * y + (c % 4) / 2, 2 * p + c % 2]])
}

#[autotune(dims(C = 64, H = 56, W = 56))]
pub fn reflect_pad(x: Tensor<f32, C, H, W>) -> Tensor<f32, C, { H + 2 }, { W + 2 }> {
    compute(|c, y, p| {
        let a = if y == 0 {
            1
        } else if y == H + 1 {
            H - 2
        } else {
            y - 1
        };
        let b = if p == 0 {
            1
        } else if p == W + 1 {
            W - 2
        } else {
            p - 1
        };
        x[[c, a.clamp(0, H - 1), b.clamp(0, W - 1)]]
    })
}

#[autotune(dims(N = 1024, M = 384))]
pub fn concat_three(
    x: Tensor<f32, N, M>,
    y: Tensor<f32, N, M>,
    z: Tensor<f32, N, M>,
) -> Tensor<f32, N, { 3 * M }> {
    compute(|i, j| {
        if j < M {
            x.get([i, j]).unwrap_or(0.0)
        } else if j < 2 * M {
            y.get([i, j - M]).unwrap_or(0.0)
        } else {
            z.get([i, j - 2 * M]).unwrap_or(0.0)
        }
    })
}

#[autotune(dims(N = 1024, M = 1024))]
pub fn every_third(x: Tensor<f32, N, { 3 * M }>) -> Tensor<f32, N, M> {
    compute(|i, j| x[[i, 3 * j + 1]])
}

#[autotune(dims(H = 480, W = 640))]
pub fn normalize_image(
    x: Tensor<u8, H, W, 3>,
    m: Tensor<f32, 3>,
    s: Tensor<f32, 3>,
) -> Tensor<f32, 3, H, W> {
    compute(|c, y, p| (x[[y, p, c]] as f32 / 255.0 - m[[c]]) / s[[c]])
}

#[autotune(dims(N = 512, M = 512))]
pub fn take_along(x: Tensor<f32, N, M>, ids: Tensor<i64, N, M>) -> Tensor<f32, N, M> {
    compute(|i, j| x.get([i, ids[[i, j]]]).unwrap_or(0.0))
}

#[autotune(dims(B = 4, C = 64, H = 28, W = 28))]
pub fn channel_shuffle(x: Tensor<f32, B, C, H, W>) -> Tensor<f32, B, C, H, W> {
    compute(|b, c, y, p| x[[b, (c % 4) * (C / 4) + c / 4, y, p]])
}

#[autotune(dims(T = 512, H = 8))]
pub fn relative_shift(x: Tensor<f32, H, T, { 2 * T - 1 }>) -> Tensor<f32, H, T, T> {
    compute(|h, i, j| x[[h, i, j - i + T - 1]])
}

#[autotune(dims(C = 64, H = 56, W = 56))]
pub fn edge_pad(x: Tensor<f32, C, H, W>) -> Tensor<f32, C, { H + 4 }, { W + 4 }> {
    compute(|c, y, p| x[[c, (y - 2).clamp(0, H - 1), (p - 2).clamp(0, W - 1)]])
}

#[autotune(dims(N = 1000, M = 1000))]
pub fn stack_last(x: Tensor<f32, N, M>, y: Tensor<f32, N, M>) -> Tensor<f32, N, M, 2> {
    compute(|i, j, z| if z == 0 { x[[i, j]] } else { y[[i, j]] })
}

#[autotune(dims(H = 224, W = 224))]
pub fn image_to_chw(
    x: Tensor<u8, H, W, 3>,
    m: Tensor<f32, 3>,
    s: Tensor<f32, 3>,
) -> Tensor<f32, 3, H, W> {
    compute(|c, y, p| (x[[y, p, c]] as f32 / 255.0 - m[[c]]) / s[[c]])
}

#[autotune(dims(N = 1000))]
pub fn rot90(x: Tensor<f32, N, N>) -> Tensor<f32, N, N> {
    compute(|i, j| x[[j, N - 1 - i]])
}

#[autotune(dims(C = 16, H = 256, W = 256))]
pub fn circular_pad(x: Tensor<f32, C, H, W>) -> Tensor<f32, C, { H + 2 }, { W + 2 }> {
    compute(|c, y, p| x[[c, (y + H - 1) % H, (p + W - 1) % W]])
}

#[autotune(dims(C = 32, H = 48, W = 48))]
pub fn resize_nearest(x: Tensor<f32, C, H, W>) -> Tensor<f32, C, 80, 80> {
    compute(|c, y, p| x[[c, y * H / 80, p * W / 80]])
}

#[autotune(dims(B = 8, S = 128, H = 12, D = 64))]
pub fn permute_0231(x: Tensor<f32, B, S, H, D>) -> Tensor<f32, B, H, D, S> {
    compute(|b, h, d, s| x[[b, s, h, d]])
}
