//! Operators: small and large types.

use tvmtune_runtime::autotune;

#[autotune(dims(N = 1048576))]
pub fn u8_to_f32(x: Tensor<u8, N>) -> Tensor<f32, N> {
    compute(|i| x[[i]] as f32 / 255.0)
}

#[autotune(dims(N = 1048576))]
pub fn i64_add(x: Tensor<i64, N>, y: Tensor<i64, N>) -> Tensor<i64, N> {
    compute(|i| x[[i]] + y[[i]])
}

#[autotune(dims(N = 1048576))]
pub fn f64_exp(x: Tensor<f64, N>) -> Tensor<f64, N> {
    compute(|i| exp(x[[i]]))
}

#[autotune(dims(N = 1048576))]
pub fn f64_gelu(x: Tensor<f64, N>) -> Tensor<f64, N> {
    compute(|i| gelu(x[[i]]))
}

#[autotune(dims(N = 1048576))]
pub fn f64_sin(x: Tensor<f64, N>) -> Tensor<f64, N> {
    compute(|i| sin(x[[i]]))
}

#[autotune(dims(N = 1048576))]
pub fn i8_relu(x: Tensor<i8, N>) -> Tensor<i8, N> {
    compute(|i| max(x[[i]], 0))
}

#[autotune(dims(M = 256, N = 256, K = 256))]
pub fn matmul_i8(a: Tensor<i8, M, K>, b: Tensor<i8, N, K>) -> Tensor<i32, M, N> {
    compute(|i, j| sum(0..K, |k| a[[i, k]] as i32 * b[[j, k]] as i32))
}

#[autotune(dims(N = 1048576))]
pub fn i8_add(a: Tensor<i8, N>, b: Tensor<i8, N>) -> Tensor<i8, N> {
    compute(|i| a[[i]] + b[[i]])
}

#[autotune(dims(M = 512, N = 1024))]
pub fn quantize(x: Tensor<f32, M, N>) -> (Tensor<i8, M, N>, Tensor<f32, M>) {
    let s = compute(|i| max(0..N, |k| x[[i, k]].abs()) / 127.0);
    let q = compute(|i, k| {
        (x[[i, k]] / max(s[[i]], 1e-12)).round_ties_even().clamp(-127.0, 127.0) as i8
    });
    (q, s)
}

#[autotune(dims(M = 512, N = 1024))]
pub fn softmax_f64(x: Tensor<f64, M, N>) -> Tensor<f64, M, N> {
    let m = compute(|i| max(0..N, |j| x[[i, j]]));
    let e = compute(|i, j| exp(x[[i, j]] - m[[i]]));
    let s = compute(|i| sum(0..N, |j| e[[i, j]]));
    compute(|i, j| e[[i, j]] / s[[i]])
}

#[autotune(dims(M = 512, N = 1024))]
pub fn i64_sum(x: Tensor<i64, M, N>) -> Tensor<i64, M> {
    compute(|i| sum(0..N, |j| x[[i, j]]))
}

#[autotune(dims(M = 512, N = 1024))]
pub fn i64_remainder(a: Tensor<i64, M, N>, b: Tensor<i64, M, N>) -> Tensor<i64, M, N> {
    compute(|i, j| (a[[i, j]] * 31 + b[[i, j]]) % 1009)
}

#[autotune(accum = f64, dims(M = 512, N = 1024))]
pub fn mean_in_f64(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
    compute(|i| sum(0..N, |j| x[[i, j]]) / N as f32)
}

#[autotune(dims(N = 512, M = 1024))]
pub fn bool_and(x: Tensor<bool, N, M>, y: Tensor<bool, N, M>) -> Tensor<bool, N, M> {
    compute(|i, j| x[[i, j]] && !y[[i, j]])
}

#[autotune(dims(N = 1024, M = 1024))]
pub fn i8_max(x: Tensor<i8, N, M>, y: Tensor<i8, N, M>) -> Tensor<i8, N, M> {
    compute(|i, j| max(x[[i, j]], y[[i, j]]))
}

#[autotune(dims(N = 1024, M = 1024))]
pub fn u8_less(x: Tensor<u8, N, M>, y: Tensor<u8, N, M>) -> Tensor<bool, N, M> {
    compute(|i, j| x[[i, j]] < y[[i, j]])
}

#[autotune(dims(N = 1024, M = 1024))]
pub fn i64_to_f32(x: Tensor<i64, N, M>) -> Tensor<f32, N, M> {
    compute(|i, j| x[[i, j]] as f32)
}

#[autotune(dims(N = 1024, M = 512))]
pub fn f64_add(x: Tensor<f64, N, M>, y: Tensor<f64, N, M>) -> Tensor<f64, N, M> {
    compute(|i, j| x[[i, j]] + y[[i, j]])
}

#[autotune(dims(H = 480, W = 640))]
pub fn gray(x: Tensor<u8, H, W, 3>) -> Tensor<f32, H, W> {
    compute(|y, p| {
        0.299 * x[[y, p, 0]] as f32 + 0.587 * x[[y, p, 1]] as f32 + 0.114 * x[[y, p, 2]] as f32
    })
}

#[autotune(dims(N = 1024, K = 2048))]
pub fn unpack_nibbles(w: Tensor<u8, N, { K / 2 }>, s: Tensor<f32, N>) -> Tensor<f32, N, K> {
    compute(|n, k| {
        let b = w[[n, k / 2]] as i32;
        let q = if k % 2 == 0 { b & 15 } else { b >> 4 };
        (q - 8) as f32 * s[[n]]
    })
}

#[autotune(dims(N = 4096, K = 1024))]
pub fn gemv_i8(w: Weight<i8, N, K>, s: Weight<f32, N>, x: Tensor<f32, K>) -> Tensor<f32, N> {
    compute(|n| s[[n]] * sum(0..K, |k| w[[n, k]] as f32 * x[[k]]))
}

#[autotune(dims(H = 480, W = 640))]
pub fn dilate(x: Tensor<u8, H, W>) -> Tensor<u8, H, W> {
    compute(|y, p| max((0..3, 0..3), |r, s| x.get([y + r - 1, p + s - 1]).unwrap_or(0)))
}

#[autotune(dims(N = 1024, M = 1024))]
pub fn u8_between(x: Tensor<u8, N, M>) -> Tensor<bool, N, M> {
    compute(|i, j| x[[i, j]] > 30 && x[[i, j]] <= 100)
}

#[autotune(dims(N = 1024, M = 1024))]
pub fn u8_where(
    c: Tensor<bool, N, M>,
    x: Tensor<u8, N, M>,
    y: Tensor<u8, N, M>,
) -> Tensor<u8, N, M> {
    compute(|i, j| if c[[i, j]] { x[[i, j]] } else { y[[i, j]] })
}

#[autotune(dims(N = 1024, M = 1024))]
pub fn bool_xor(x: Tensor<bool, N, M>, y: Tensor<bool, N, M>) -> Tensor<bool, N, M> {
    compute(|i, j| x[[i, j]] != y[[i, j]])
}

#[autotune(dims(N = 512, M = 512, K = 64))]
pub fn hamming(x: Tensor<u8, N, K>, y: Tensor<u8, M, K>) -> Tensor<i32, N, M> {
    compute(|i, j| sum(0..K, |k| if x[[i, k]] != y[[j, k]] { 1 } else { 0 }))
}
