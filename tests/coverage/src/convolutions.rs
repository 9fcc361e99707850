//! Operators: convolutions.

use tvmtune_runtime::autotune;

#[autotune(dims(B = 4, C = 64, O = 64, H = 28, W = 28))]
pub fn conv3x3(x: Tensor<f32, B, C, H, W>, w: Tensor<f32, O, C, 3, 3>) -> Tensor<f32, B, O, H, W> {
    compute(|n, o, y, p| {
        sum((0..C, 0..3, 0..3), |c, r, s| {
            x.get([n, c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
        })
    })
}

#[autotune(dims(B = 4, C = 64, H = 56, W = 56))]
pub fn depthwise(x: Tensor<f32, B, C, H, W>, w: Tensor<f32, C, 3, 3>) -> Tensor<f32, B, C, H, W> {
    compute(|n, c, y, p| {
        sum((0..3, 0..3), |r, s| x.get([n, c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[c, r, s]])
    })
}

#[autotune(dims(B = 4, G = 8, C = 8, O = 8, H = 28, W = 28))]
pub fn grouped(
    x: Tensor<f32, B, G, C, H, W>,
    w: Tensor<f32, G, O, C, 3, 3>,
) -> Tensor<f32, B, G, O, H, W> {
    compute(|n, g, o, y, p| {
        sum((0..C, 0..3, 0..3), |c, r, s| {
            x.get([n, g, c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[g, o, c, r, s]]
        })
    })
}

#[autotune(dims(B = 4, C = 64, H = 28, W = 28))]
pub fn grouped_flat(
    x: Tensor<f32, B, C, H, W>,
    w: Tensor<f32, C, 8, 3, 3>,
) -> Tensor<f32, B, C, H, W> {
    compute(|n, o, y, p| {
        sum((0..8, 0..3, 0..3), |c, r, s| {
            x.get([n, (o / 8) * 8 + c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
        })
    })
}

#[autotune(dims(B = 8, C = 64, O = 64, L = 1024))]
pub fn conv1d(x: Tensor<f32, B, C, L>, w: Tensor<f32, O, C, 5>) -> Tensor<f32, B, O, L> {
    compute(|n, o, p| {
        sum((0..C, 0..5), |c, s| x.get([n, c, p + s - 2]).unwrap_or(0.0) * w[[o, c, s]])
    })
}

#[autotune(dims(B = 1, C = 16, O = 16, D = 16, H = 28, W = 28))]
pub fn conv3d(
    x: Tensor<f32, B, C, D, H, W>,
    w: Tensor<f32, O, C, 3, 3, 3>,
) -> Tensor<f32, B, O, D, H, W> {
    compute(|n, o, z, y, p| {
        sum((0..C, 0..3, 0..3, 0..3), |c, q, r, s| {
            x.get([n, c, z + q - 1, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, q, r, s]]
        })
    })
}

#[autotune(dims(B = 4, C = 64, O = 64, H = 28, W = 28))]
pub fn dilated(x: Tensor<f32, B, C, H, W>, w: Tensor<f32, O, C, 3, 3>) -> Tensor<f32, B, O, H, W> {
    compute(|n, o, y, p| {
        sum((0..C, 0..3, 0..3), |c, r, s| {
            x.get([n, c, y + 2 * r - 2, p + 2 * s - 2]).unwrap_or(0.0) * w[[o, c, r, s]]
        })
    })
}

#[autotune(dims(B = 4, C = 3, O = 64, H = 112, W = 112))]
pub fn conv7x7(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, O, C, 7, 7>,
) -> Tensor<f32, B, O, { H / 2 }, { W / 2 }> {
    compute(|n, o, y, p| {
        sum((0..C, 0..7, 0..7), |c, r, s| {
            x.get([n, c, 2 * y + r - 3, 2 * p + s - 3]).unwrap_or(0.0) * w[[o, c, r, s]]
        })
    })
}

#[autotune(dims(B = 4, C = 32, O = 64, H = 32, W = 64))]
pub fn conv3x5(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, O, C, 3, 5>,
) -> Tensor<f32, B, O, { H - 2 }, { W - 4 }> {
    compute(|n, o, y, p| {
        sum((0..C, 0..3, 0..5), |c, r, s| x[[n, c, y + r, p + s]] * w[[o, c, r, s]])
    })
}

#[autotune(dims(B = 4, C = 64, O = 128, H = 32, W = 32))]
pub fn conv1x1(x: Tensor<f32, B, C, H, W>, w: Weight<f32, O, C>) -> Tensor<f32, B, O, H, W> {
    compute(|n, o, y, p| sum(0..C, |c| x[[n, c, y, p]] * w[[o, c]]))
}

#[autotune(dims(B = 4, C = 16, O = 32, L = 4096))]
pub fn conv1d_strided_dilated(
    x: Tensor<f32, B, C, L>,
    w: Weight<f32, O, C, 3>,
) -> Tensor<f32, B, O, { (L - 9) / 3 + 1 }> {
    compute(|n, o, p| sum((0..C, 0..3), |c, s| x[[n, c, 3 * p + 4 * s]] * w[[o, c, s]]))
}

#[autotune(dims(B = 2, C = 8, O = 16, D = 16, H = 24, W = 24))]
pub fn conv3d_valid(
    x: Tensor<f32, B, C, D, H, W>,
    w: Weight<f32, O, C, 3, 3, 3>,
) -> Tensor<f32, B, O, { D - 2 }, { H - 2 }, { W - 2 }> {
    compute(|n, o, z, y, p| {
        sum((0..C, 0..3, 0..3, 0..3), |c, q, r, s| {
            x[[n, c, z + q, y + r, p + s]] * w[[o, c, q, r, s]]
        })
    })
}

#[autotune(dims(B = 2, C = 64, H = 56, W = 56))]
pub fn depthwise5x5_by_2(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, C, 5, 5>,
) -> Tensor<f32, B, C, { H / 2 }, { W / 2 }> {
    compute(|n, c, y, p| {
        sum((0..5, 0..5), |r, s| {
            x.get([n, c, 2 * y + r - 2, 2 * p + s - 2]).unwrap_or(0.0) * w[[c, r, s]]
        })
    })
}

#[autotune(dims(B = 1, C = 64, O = 64, H = 56, W = 56))]
pub fn conv_of_silu(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, O, C, 3, 3>,
) -> Tensor<f32, B, O, { H - 2 }, { W - 2 }> {
    compute(|n, o, y, p| {
        sum((0..C, 0..3, 0..3), |c, r, s| silu(x[[n, c, y + r, p + s]]) * w[[o, c, r, s]])
    })
}

#[autotune(dims(B = 4, C = 64, O = 64, H = 56, W = 56))]
pub fn conv_nhwc(
    x: Tensor<f32, B, H, W, C>,
    w: Tensor<f32, 3, 3, C, O>,
) -> Tensor<f32, B, H, W, O> {
    compute(|n, y, p, o| {
        sum((0..3, 0..3, 0..C), |r, s, c| {
            x.get([n, y + r - 1, p + s - 1, c]).unwrap_or(0.0) * w[[r, s, c, o]]
        })
    })
}

#[autotune(dims(B = 4, C = 64, H = 56, W = 56))]
pub fn depthwise_nhwc(
    x: Tensor<f32, B, H, W, C>,
    w: Tensor<f32, 3, 3, C>,
) -> Tensor<f32, B, H, W, C> {
    compute(|n, y, p, c| {
        sum((0..3, 0..3), |r, s| x.get([n, y + r - 1, p + s - 1, c]).unwrap_or(0.0) * w[[r, s, c]])
    })
}

#[autotune(dims(C = 96, H = 56, W = 56))]
pub fn depthwise7x7(
    x: Tensor<f32, 1, C, H, W>,
    w: Tensor<f32, C, 7, 7>,
) -> Tensor<f32, 1, C, H, W> {
    compute(|n, c, y, p| {
        sum((0..7, 0..7), |r, s| x.get([n, c, y + r - 3, p + s - 3]).unwrap_or(0.0) * w[[c, r, s]])
    })
}

#[autotune(dims(B = 2, T = 512, D = 768))]
pub fn conv1d_causal(
    x: Tensor<f32, B, T, D>,
    w: Tensor<f32, D, 4>,
    b: Tensor<f32, D>,
) -> Tensor<f32, B, T, D> {
    compute(|n, t, d| {
        silu(b[[d]] + sum(0..4, |k| x.get([n, t + k - 3, d]).unwrap_or(0.0) * w[[d, k]]))
    })
}

#[autotune(dims(O = 768, H = 14, W = 14))]
pub fn patches(
    x: Tensor<f32, 1, 3, { H * 16 }, { W * 16 }>,
    w: Weight<f32, O, 3, 16, 16>,
    b: Weight<f32, O>,
) -> Tensor<f32, 1, { H * W }, O> {
    compute(|n, t, o| {
        b[[o]]
            + sum((0..3, 0..16, 0..16), |c, r, s| {
                x[[n, c, (t / W) * 16 + r, (t % W) * 16 + s]] * w[[o, c, r, s]]
            })
    })
}

#[autotune(dims(C = 64, O = 32, H = 32, W = 32))]
pub fn upsampled_conv(
    x: Tensor<f32, 1, C, H, W>,
    w: Weight<f32, O, C, 3, 3>,
) -> Tensor<f32, 1, O, { 2 * H }, { 2 * W }> {
    let u: Tensor<f32, 1, C, { 2 * H }, { 2 * W }> = compute(|n, c, y, p| x[[n, c, y / 2, p / 2]]);
    compute(|n, o, y, p| {
        sum((0..C, 0..3, 0..3), |c, r, s| {
            u.get([n, c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
        })
    })
}

#[autotune(dims(H = 1024, W = 1024))]
pub fn box_blur(x: Tensor<f32, H, W>) -> Tensor<f32, H, W> {
    compute(|y, p| sum((0..5, 0..5), |r, s| x.get([y + r - 2, p + s - 2]).unwrap_or(0.0)) / 25.0)
}

#[autotune(dims(C = 32, H = 64, W = 64))]
pub fn resize_bilinear(x: Tensor<f32, C, H, W>) -> Tensor<f32, C, { 2 * H }, { 2 * W }> {
    compute(|c, y, p| {
        let fy = (max((y as f32 + 0.5) * 0.5 - 0.5, 0.0));
        let fx = (max((p as f32 + 0.5) * 0.5 - 0.5, 0.0));
        let y0 = floor(fy) as i64;
        let x0 = floor(fx) as i64;
        let ay = fy - floor(fy);
        let ax = fx - floor(fx);
        let a = x[[c, y0.clamp(0, H - 1), x0.clamp(0, W - 1)]];
        let b = x[[c, y0.clamp(0, H - 1), (x0 + 1).clamp(0, W - 1)]];
        let d = x[[c, (y0 + 1).clamp(0, H - 1), x0.clamp(0, W - 1)]];
        let e = x[[c, (y0 + 1).clamp(0, H - 1), (x0 + 1).clamp(0, W - 1)]];
        (a * (1.0 - ax) + b * ax) * (1.0 - ay) + (d * (1.0 - ax) + e * ax) * ay
    })
}

#[autotune(dims(C = 64, O = 64, H = 28, W = 28))]
pub fn conv_of_edges(x: Tensor<f32, C, H, W>, w: Tensor<f32, O, C, 3, 3>) -> Tensor<f32, O, H, W> {
    compute(|o, y, p| {
        sum((0..C, 0..3, 0..3), |c, r, s| {
            x[[c, (y + r - 1).clamp(0, H - 1), (p + s - 1).clamp(0, W - 1)]] * w[[o, c, r, s]]
        })
    })
}

#[autotune(dims(H = 480, W = 640))]
pub fn sobel(x: Tensor<f32, H, W>) -> Tensor<f32, H, W> {
    compute(|y, p| {
        let at = |a, b| x.get([y + a - 1, p + b - 1]).unwrap_or(0.0);
        let gx = at(0, 2) + 2.0 * at(1, 2) + at(2, 2) - at(0, 0) - 2.0 * at(1, 0) - at(2, 0);
        let gy = at(2, 0) + 2.0 * at(2, 1) + at(2, 2) - at(0, 0) - 2.0 * at(0, 1) - at(0, 2);
        sqrt(gx * gx + gy * gy)
    })
}

#[autotune(dims(C = 8, H = 128, W = 128))]
pub fn gaussian_blur(x: Tensor<f32, C, H, W>, g: Tensor<f32, 5>) -> Tensor<f32, C, H, W> {
    let a: Tensor<f32, C, H, W> =
        compute(|c, y, p| sum(0..5, |s| g[[s]] * x.get([c, y, p + s - 2]).unwrap_or(0.0)));
    compute(|c, y, p| sum(0..5, |r| g[[r]] * a.get([c, y + r - 2, p]).unwrap_or(0.0)))
}

#[autotune(dims(B = 4, C = 128, H = 28, W = 28, R = 32))]
pub fn squeeze_excite(
    x: Tensor<f32, B, C, H, W>,
    w1: Weight<f32, R, C>,
    w2: Weight<f32, C, R>,
) -> Tensor<f32, B, C, H, W> {
    let m = compute(|b, c| mean((0..H, 0..W), |y, p| x[[b, c, y, p]]));
    let h = compute(|b, r| relu(sum(0..C, |c| m[[b, c]] * w1[[r, c]])));
    let s = compute(|b, c| sigmoid(sum(0..R, |r| h[[b, r]] * w2[[c, r]])));
    compute(|b, c, y, p| x[[b, c, y, p]] * s[[b, c]])
}

#[autotune(dims(C = 3, O = 64, H = 224, W = 224))]
pub fn stem(
    x: Tensor<f32, C, H, W>,
    w: Weight<f32, O, C, 7, 7>,
) -> Tensor<f32, O, { H / 2 }, { W / 2 }> {
    compute(|o, y, p| {
        sum((0..C, 0..7, 0..7), |c, r, s| {
            x.get([c, 2 * y + r - 3, 2 * p + s - 3]).unwrap_or(0.0) * w[[o, c, r, s]]
        })
    })
}
