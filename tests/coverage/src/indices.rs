//! Indices that conditions, quotients and data choose.

use tvmtune_runtime::autotune;

#[autotune(dims(C = 256, H = 15, W = 17))]
pub fn adaptive_avg_pool(x: Tensor<f32, C, H, W>) -> Tensor<f32, C, 7, 7> {
    compute(|c, i, j| {
        let total = sum((0..H, 0..W), |y, p| {
            let is_row = y >= i * H / 7 && y < (i * H + H + 6) / 7;
            let is_column = p >= j * W / 7 && p < (j * W + W + 6) / 7;
            if is_row && is_column { x[[c, y, p]] } else { 0.0 }
        });
        let rows = (i * H + H + 6) / 7 - i * H / 7;
        let columns = (j * W + W + 6) / 7 - j * W / 7;
        total / (rows * columns) as f32
    })
}

#[autotune(dims(T = 128, H = 12, D = 64))]
pub fn rope_by_parity(
    x: Tensor<f32, T, H, D>,
    c: Tensor<f32, T, D>,
    s: Tensor<f32, T, D>,
) -> Tensor<f32, T, H, D> {
    compute(|t, h, d| {
        let turned = if d % 2 == 0 { -x[[t, h, d + 1]] } else { x[[t, h, d - 1]] };
        x[[t, h, d]] * c[[t, d]] + turned * s[[t, d]]
    })
}

#[autotune(dims(C = 16, H = 96, W = 96))]
pub fn blur_columns(x: Tensor<f32, C, H, W>) -> Tensor<f32, C, H, W> {
    compute(|c, y, p| {
        let up = if y == 0 { 0 } else { y - 1 };
        let down = if y + 1 < H { y + 1 } else { H - 1 };
        0.25 * x[[c, up, p]] + 0.5 * x[[c, y, p]] + 0.25 * x[[c, down, p]]
    })
}

#[autotune(dims(H = 8, T = 192))]
pub fn distance_bias(table: Tensor<f32, H, 32>) -> Tensor<f32, H, T, T> {
    compute(|h, i, j| table[[h, i.abs_diff(j).min(31)]])
}

#[autotune(dims(T = 1024, V = 200, D = 256))]
pub fn rows_with_padding(x: Tensor<f32, V, D>, ids: Tensor<i64, T>) -> Tensor<f32, T, D> {
    compute(|t, d| x.get([ids[[t]] - 1, d]).unwrap_or(0.0))
}

#[autotune(dims(B = 512, N = 256))]
pub fn butterfly(x: Tensor<f32, B, N>) -> Tensor<f32, B, N> {
    compute(|b, i| {
        if i / 4 % 2 == 0 { x[[b, i]] + x[[b, i + 4]] } else { x[[b, i - 4]] - x[[b, i]] }
    })
}
