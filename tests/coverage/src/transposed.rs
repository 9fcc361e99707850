//! Operators: transposed convolutions.

use tvmtune_runtime::autotune;

#[autotune(dims(B = 2, C = 64, O = 64, H = 28, W = 28))]
pub fn transposed_plain(
    x: Tensor<f32, B, C, H, W>,
    w: Tensor<f32, C, O, 4, 4>,
) -> Tensor<f32, B, O, { H * 2 }, { W * 2 }> {
    compute(|n, o, y, p| {
        sum((0..C, 0..4, 0..4), |c, r, s| {
            if (y + 5 - r) % 2 == 0 && (p + 5 - s) % 2 == 0 {
                x.get([n, c, (y + 5 - r) / 2 - 2, (p + 5 - s) / 2 - 2]).unwrap_or(0.0)
                    * w[[c, o, r, s]]
            } else {
                0.0
            }
        })
    })
}

#[autotune(dims(B = 2, C = 64, O = 64, H = 28, W = 28))]
pub fn transposed_phases(
    x: Tensor<f32, B, C, H, W>,
    w: Tensor<f32, C, O, 4, 4>,
) -> Tensor<f32, B, O, H, 2, W, 2> {
    compute(|n, o, y, a, p, b| {
        sum((0..C, 0..2, 0..2), |c, r, s| {
            x.get([n, c, y + a - r, p + b - s]).unwrap_or(0.0)
                * w[[c, o, 2 * r + 1 - a, 2 * s + 1 - b]]
        })
    })
}

#[autotune(dims(B = 2, C = 64, O = 64, H = 28, W = 28))]
pub fn transposed_4x4(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, C, O, 4, 4>,
) -> Tensor<f32, B, O, { H * 2 }, { W * 2 }> {
    compute(|n, o, y, p| {
        sum((0..C, 0..4, 0..4), |c, r, s| {
            if (y + 5 - r) % 2 == 0 && (p + 5 - s) % 2 == 0 {
                x.get([n, c, (y + 5 - r) / 2 - 2, (p + 5 - s) / 2 - 2]).unwrap_or(0.0)
                    * w[[c, o, r, s]]
            } else {
                0.0
            }
        })
    })
}

#[autotune(dims(B = 2, C = 64, O = 64, H = 28, W = 28))]
pub fn transposed_3x3(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, C, O, 3, 3>,
) -> Tensor<f32, B, O, { H * 2 }, { W * 2 }> {
    compute(|n, o, y, p| {
        sum((0..C, 0..3, 0..3), |c, r, s| {
            if (y + 5 - r) % 2 == 0 && (p + 5 - s) % 2 == 0 {
                x.get([n, c, (y + 5 - r) / 2 - 2, (p + 5 - s) / 2 - 2]).unwrap_or(0.0)
                    * w[[c, o, r, s]]
            } else {
                0.0
            }
        })
    })
}

#[autotune(dims(B = 2, C = 64, O = 64, H = 28, W = 28))]
pub fn transposed_3x3_plain(
    x: Tensor<f32, B, C, H, W>,
    w: Tensor<f32, C, O, 3, 3>,
) -> Tensor<f32, B, O, { H * 2 }, { W * 2 }> {
    compute(|n, o, y, p| {
        sum((0..C, 0..3, 0..3), |c, r, s| {
            if (y + 5 - r) % 2 == 0 && (p + 5 - s) % 2 == 0 {
                x.get([n, c, (y + 5 - r) / 2 - 2, (p + 5 - s) / 2 - 2]).unwrap_or(0.0)
                    * w[[c, o, r, s]]
            } else {
                0.0
            }
        })
    })
}

#[autotune(dims(B = 2, C = 64, O = 64, H = 28, W = 28))]
pub fn transposed_2x2(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, C, O, 2, 2>,
) -> Tensor<f32, B, O, { H * 2 }, { W * 2 }> {
    compute(|n, o, y, p| {
        sum((0..C, 0..2, 0..2), |c, r, s| {
            if (y + 4 - r) % 2 == 0 && (p + 4 - s) % 2 == 0 {
                x.get([n, c, (y + 4 - r) / 2 - 2, (p + 4 - s) / 2 - 2]).unwrap_or(0.0)
                    * w[[c, o, r, s]]
            } else {
                0.0
            }
        })
    })
}

#[autotune(dims(B = 4, C = 128, O = 64, L = 256))]
pub fn transposed_1d_by_8(
    x: Tensor<f32, B, C, L>,
    w: Weight<f32, C, O, 16>,
) -> Tensor<f32, B, O, { L * 8 }> {
    compute(|n, o, p| {
        sum((0..C, 0..16), |c, s| {
            if (p + 20 - s) % 8 == 0 {
                x.get([n, c, (p + 20 - s) / 8 - 2]).unwrap_or(0.0) * w[[c, o, s]]
            } else {
                0.0
            }
        })
    })
}

#[autotune(dims(B = 1, C = 32, O = 32, D = 8, H = 14, W = 14))]
pub fn transposed_3d(
    x: Tensor<f32, B, C, D, H, W>,
    w: Weight<f32, C, O, 2, 2, 2>,
) -> Tensor<f32, B, O, { D * 2 }, { H * 2 }, { W * 2 }> {
    compute(|n, o, z, y, p| {
        sum((0..C, 0..2, 0..2, 0..2), |c, q, r, s| {
            if (z + 4 - q) % 2 == 0 && (y + 4 - r) % 2 == 0 && (p + 4 - s) % 2 == 0 {
                x.get([n, c, (z + 4 - q) / 2 - 2, (y + 4 - r) / 2 - 2, (p + 4 - s) / 2 - 2])
                    .unwrap_or(0.0)
                    * w[[c, o, q, r, s]]
            } else {
                0.0
            }
        })
    })
}

#[autotune(dims(B = 4, C = 64, H = 28, W = 28))]
pub fn transposed_depthwise(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, C, 4, 4>,
) -> Tensor<f32, B, C, { H * 2 }, { W * 2 }> {
    compute(|n, c, y, p| {
        sum((0..4, 0..4), |r, s| {
            if (y + 5 - r) % 2 == 0 && (p + 5 - s) % 2 == 0 {
                x.get([n, c, (y + 5 - r) / 2 - 2, (p + 5 - s) / 2 - 2]).unwrap_or(0.0)
                    * w[[c, r, s]]
            } else {
                0.0
            }
        })
    })
}

#[autotune(dims(B = 2, C = 64, H = 28, W = 28))]
pub fn transposed_groups(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, C, 16, 4, 4>,
) -> Tensor<f32, B, C, { H * 2 }, { W * 2 }> {
    compute(|n, o, y, p| {
        sum((0..16, 0..4, 0..4), |c, r, s| {
            if (y + 5 - r) % 2 == 0 && (p + 5 - s) % 2 == 0 {
                x.get([n, o / 16 * 16 + c, (y + 5 - r) / 2 - 2, (p + 5 - s) / 2 - 2]).unwrap_or(0.0)
                    * w[[o / 16 * 16 + c, o % 16, r, s]]
            } else {
                0.0
            }
        })
    })
}

#[autotune(dims(B = 2, C = 32, O = 16, H = 32, W = 32))]
pub fn transposed_by_1(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, C, O, 3, 3>,
) -> Tensor<f32, B, O, { H + 2 }, { W + 2 }> {
    compute(|n, o, y, p| {
        sum((0..C, 0..3, 0..3), |c, r, s| {
            x.get([n, c, y - r, p - s]).unwrap_or(0.0) * w[[c, o, r, s]]
        })
    })
}

#[autotune(dims(B = 2, C = 32, O = 16, H = 16, W = 32))]
pub fn transposed_by_3(
    x: Tensor<f32, B, C, H, W>,
    w: Weight<f32, C, O, 3, 5>,
) -> Tensor<f32, B, O, { H * 3 }, { W * 3 + 2 }> {
    compute(|n, o, y, p| {
        sum((0..C, 0..3, 0..5), |c, r, s| {
            if (y + 3 - r) % 3 == 0 && (p + 6 - s) % 3 == 0 {
                x.get([n, c, (y + 3 - r) / 3 - 1, (p + 6 - s) / 3 - 2]).unwrap_or(0.0)
                    * w[[c, o, r, s]]
            } else {
                0.0
            }
        })
    })
}

#[autotune(dims(B = 1, C = 16, O = 16, D = 8, H = 16, W = 16))]
pub fn transposed_3d_3x3x3(
    x: Tensor<f32, B, C, D, H, W>,
    w: Weight<f32, C, O, 3, 3, 3>,
) -> Tensor<f32, B, O, { D * 2 }, { H * 2 }, { W * 2 }> {
    compute(|n, o, z, y, p| {
        sum((0..C, 0..3, 0..3, 0..3), |c, q, r, s| {
            if (z + 5 - q) % 2 == 0 && (y + 5 - r) % 2 == 0 && (p + 5 - s) % 2 == 0 {
                x.get([n, c, (z + 5 - q) / 2 - 2, (y + 5 - r) / 2 - 2, (p + 5 - s) / 2 - 2])
                    .unwrap_or(0.0)
                    * w[[c, o, q, r, s]]
            } else {
                0.0
            }
        })
    })
}

#[autotune(dims(B = 2, C = 16, O = 32, L = 512))]
pub fn transposed_dilated(
    x: Tensor<f32, B, C, L>,
    w: Weight<f32, C, O, 5>,
) -> Tensor<f32, B, O, { L * 2 + 11 }> {
    compute(|n, o, p| {
        sum((0..C, 0..5), |c, s| {
            if (p + 12 - 3 * s) % 2 == 0 {
                x.get([n, c, (p + 12 - 3 * s) / 2 - 6]).unwrap_or(0.0) * w[[c, o, s]]
            } else {
                0.0
            }
        })
    })
}
