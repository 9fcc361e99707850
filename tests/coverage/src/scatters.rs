//! Operators: data choose the elements that terms are added to.

use tvmtune_runtime::autotune;

#[autotune(dims(T = 1024, V = 8000, D = 128))]
pub fn embedding_gradient(ids: Tensor<i64, T>, g: Tensor<f32, T, D>) -> Tensor<f32, V, D> {
    compute(|v, d| sum(0..T, |t| if ids[[t]] == v as i64 { g[[t, d]] } else { 0.0 }))
}

#[autotune(dims(N = 100000, B = 256))]
pub fn bincount(x: Tensor<i64, N>) -> Tensor<i64, B> {
    compute(|b| sum(0..N, |i| (x[[i]] == b as i64) as i64))
}

#[autotune(dims(M = 16, P = 4096, B = 256))]
pub fn histograms(x: Tensor<u8, M, P>) -> Tensor<i32, M, B> {
    compute(|m, b| sum(0..P, |p| if x[[m, p]] as i32 == b as i32 { 1 } else { 0 }))
}

#[autotune(dims(E = 6000, S = 500, D = 64))]
pub fn segment_mean(x: Tensor<f32, E, D>, seg: Tensor<i64, E>) -> Tensor<f32, S, D> {
    let n: Tensor<f32, S> =
        compute(|s| sum(0..E, |e| if seg[[e]] == s as i64 { 1.0 } else { 0.0 }));
    compute(|s, d| {
        sum(0..E, |e| if seg[[e]] == s as i64 { x[[e, d]] } else { 0.0 }) / max(n[[s]], 1.0)
    })
}

#[autotune(dims(N = 2000, E = 12000, D = 64))]
pub fn messages(
    x: Tensor<f32, N, D>,
    from: Tensor<i64, E>,
    to: Tensor<i64, E>,
    w: Tensor<f32, E>,
) -> Tensor<f32, N, D> {
    compute(|n, d| {
        relu(sum(0..E, |e| {
            if to[[e]] == n as i64 { w[[e]] * x.get([from[[e]], d]).unwrap_or(0.0) } else { 0.0 }
        }))
    })
}

#[autotune(dims(N = 2000, E = 12000, D = 64))]
pub fn greatest_message(x: Tensor<f32, E, D>, to: Tensor<i64, E>) -> Tensor<f32, N, D> {
    compute(|n, d| {
        relu(max(0..E, |e| if to[[e]] == n as i64 { x[[e, d]] } else { f32::NEG_INFINITY }))
    })
}

#[autotune(dims(N = 10000, C = 100))]
pub fn confusion_matrix(y: Tensor<i64, N>, p: Tensor<i64, N>) -> Tensor<i32, C, C> {
    compute(|a, b| sum(0..N, |i| (y[[i]] == a as i64 && p[[i]] == b as i64) as i32))
}

#[autotune(dims(B = 4096, V = 1000))]
pub fn nll(x: Tensor<f32, B, V>, y: Tensor<i64, B>) -> Tensor<f32, B> {
    compute(|b| -sum(0..V, |v| if y[[b]] == v as i64 { x[[b, v]] } else { 0.0 }))
}

#[autotune(dims(B = 512, V = 4000, D = 64))]
pub fn one_hot_product(y: Tensor<i64, B>, w: Tensor<f32, V, D>) -> Tensor<f32, B, D> {
    compute(|b, d| sum(0..V, |v| if y[[b]] == v as i64 { w[[v, d]] } else { 0.0 }))
}

#[autotune(dims(B = 8, P = 4096, H = 32, W = 24, C = 16))]
pub fn pillars(
    row: Tensor<i32, B, P>,
    column: Tensor<i32, B, P>,
    x: Tensor<f32, B, P, C>,
) -> Tensor<f32, B, H, W, C> {
    compute(|b, h, w, c| {
        sum(0..P, |p| {
            if row[[b, p]] == h as i32 && column[[b, p]] == w as i32 { x[[b, p, c]] } else { 0.0 }
        })
    })
}

#[autotune(dims(B = 4, V = 32000, L = 32))]
pub fn repetition_penalty(
    x: Tensor<f32, B, V>,
    before: Tensor<i64, B, L>,
    p: f32,
) -> Tensor<f32, B, V> {
    compute(|b, v| {
        let l = x[[b, v]];
        let is_repeated = any(0..L, |k| before[[b, k]] == v as i64);
        if is_repeated { if l > 0.0 { l / p } else { l * p } } else { l }
    })
}

#[autotune(dims(M = 512, P = 196, I = 784))]
pub fn max_unpool(x: Tensor<f32, M, P>, at: Tensor<i64, M, P>) -> Tensor<f32, M, I> {
    compute(|m, i| sum(0..P, |p| if at[[m, p]] == i as i64 { x[[m, p]] } else { 0.0 }))
}

#[autotune(dims(B = 32, T = 128, D = 384))]
pub fn mean_of_tokens(x: Tensor<f32, B, T, D>, mask: Tensor<i64, B, T>) -> Tensor<f32, B, D> {
    let n = compute(|b| sum(0..T, |t| mask[[b, t]] as f32));
    let total = compute(|b, d| sum(0..T, |t| x[[b, t, d]] * mask[[b, t]] as f32));
    compute(|b, d| total[[b, d]] / max(n[[b]], 1e-9))
}

#[autotune(dims(H = 12, T = 77, D = 64))]
pub fn rope_by_position(
    x: Tensor<f32, H, T, D>,
    pos: Tensor<i64, T>,
    theta: f32,
) -> Tensor<f32, H, T, D> {
    compute(|h, t, d| {
        let pair = d / 2;
        let angle = pos[[t]] as f32 * powf(theta, 2.0 * pair as f32 / D as f32);
        let a = x[[h, t, 2 * pair]];
        let b = x[[h, t, 2 * pair + 1]];
        if d % 2 == 0 { a * cos(angle) - b * sin(angle) } else { b * cos(angle) + a * sin(angle) }
    })
}

// Threads count some of the elements each, whose number none of theirs divides.
#[autotune(dims(E = 300001, B = 256))]
pub fn long_bincount(x: Tensor<i64, E>) -> Tensor<i64, B> {
    compute(|b| sum(0..E, |e| (x[[e]] == b as i64) as i64))
}
