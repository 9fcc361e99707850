//! Operators: products of matrices and vectors.

use tvmtune_runtime::autotune;

#[autotune(dims(N = 2048, K = 2048))]
pub fn matvec(a: Tensor<f32, N, K>, x: Tensor<f32, K>) -> Tensor<f32, N> {
    compute(|i| sum(0..K, |k| a[[i, k]] * x[[k]]))
}

#[autotune(dims(N = 2048, K = 2048))]
pub fn vecmat(a: Tensor<f32, K, N>, x: Tensor<f32, K>) -> Tensor<f32, N> {
    compute(|j| sum(0..K, |k| x[[k]] * a[[k, j]]))
}

#[autotune(dims(M = 512, N = 512, K = 512))]
pub fn matmul_nn(a: Tensor<f32, M, K>, b: Tensor<f32, K, N>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[k, j]]))
}

#[autotune(dims(M = 512, N = 512, K = 512))]
pub fn matmul_nt(a: Tensor<f32, M, K>, b: Tensor<f32, N, K>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[j, k]]))
}

#[autotune(dims(M = 512, N = 512, K = 512))]
pub fn matmul_tn(a: Tensor<f32, K, M>, b: Tensor<f32, K, N>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| a[[k, i]] * b[[k, j]]))
}

#[autotune(dims(M = 512, N = 512, K = 512))]
pub fn matmul_tt(a: Tensor<f32, K, M>, b: Tensor<f32, N, K>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| a[[k, i]] * b[[j, k]]))
}

#[autotune(dims(M = 8192, N = 16, K = 256))]
pub fn tall_skinny(a: Tensor<f32, M, K>, b: Tensor<f32, K, N>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[k, j]]))
}

#[autotune(dims(M = 1024, N = 1024, K = 16))]
pub fn small_k(a: Tensor<f32, M, K>, b: Tensor<f32, K, N>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[k, j]]))
}

#[autotune(dims(M = 32, N = 32, K = 16384))]
pub fn large_k(a: Tensor<f32, M, K>, b: Tensor<f32, K, N>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[k, j]]))
}

#[autotune(dims(M = 205, N = 297, K = 149))]
pub fn irregular(a: Tensor<f32, M, K>, b: Tensor<f32, K, N>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[k, j]]))
}

#[autotune(dims(B = 512, M = 16, N = 16, K = 16))]
pub fn batched_small(a: Tensor<f32, B, M, K>, b: Tensor<f32, B, K, N>) -> Tensor<f32, B, M, N> {
    compute(|n, i, j| sum(0..K, |k| a[[n, i, k]] * b[[n, k, j]]))
}

#[autotune(dims(B = 16, M = 128, N = 128, K = 64))]
pub fn batched(a: Tensor<f32, B, M, K>, b: Tensor<f32, B, K, N>) -> Tensor<f32, B, M, N> {
    compute(|n, i, j| sum(0..K, |k| a[[n, i, k]] * b[[n, k, j]]))
}

#[autotune(dims(A = 8, B = 16, C = 64, L = 128, K = 96))]
pub fn matmul_4d(a: Tensor<f32, A, B, C, L>, b: Tensor<f32, L, K>) -> Tensor<f32, A, B, C, K> {
    compute(|n, i, j, k| sum(0..L, |l| a[[n, i, j, l]] * b[[l, k]]))
}

#[autotune(dims(M = 256, N = 256, K = 256))]
pub fn matmul_f64(a: Tensor<f64, M, K>, b: Tensor<f64, K, N>) -> Tensor<f64, M, N> {
    compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[k, j]]))
}

#[autotune(dims(M = 256, N = 256, D = 64))]
pub fn cdist(x: Tensor<f32, M, D>, y: Tensor<f32, N, D>) -> Tensor<f32, M, N> {
    compute(|i, j| sqrt(sum(0..D, |d| (x[[i, d]] - y[[j, d]]) * (x[[i, d]] - y[[j, d]]))))
}

#[autotune(dims(M = 256))]
pub fn bilinear(
    x: Tensor<f32, M, 32>,
    y: Tensor<f32, M, 32>,
    w: Tensor<f32, 64, 32, 32>,
) -> Tensor<f32, M, 64> {
    compute(|i, o| sum((0..32, 0..32), |a, b| x[[i, a]] * w[[o, a, b]] * y[[i, b]]))
}

#[autotune(dims(M = 512, K = 512))]
pub fn triangular(a: Tensor<f32, M, M>, b: Tensor<f32, M, K>) -> Tensor<f32, M, K> {
    compute(|i, j| sum(0..=i, |k| a[[i, k]] * b[[k, j]]))
}

#[autotune(dims(M = 512))]
pub fn upper(a: Tensor<f32, M, M>, b: Tensor<f32, M, M>) -> Tensor<f32, M, M> {
    compute(|i, j| sum(0..M, |k| if k >= i && k <= j { a[[i, k]] * b[[k, j]] } else { 0.0 }))
}

#[autotune(dims(M = 512))]
pub fn lower_lower(a: Tensor<f32, M, M>, b: Tensor<f32, M, M>) -> Tensor<f32, M, M> {
    compute(|i, j| sum(0..M, |k| if k <= i && k >= j { a[[i, k]] * b[[k, j]] } else { 0.0 }))
}

#[autotune(dims(M = 128, N = 1024, K = 512))]
pub fn linear_gelu(x: Tensor<f32, M, K>, w: Weight<f32, N, K>, b: Weight<f32, N>) -> Tensor<f32, M, N> {
    let h = compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) + b[[j]]);
    compute(|i, j| gelu(h[[i, j]]))
}

#[autotune(dims(M = 1024, N = 1024))]
pub fn row_products(x: Tensor<f32, M, N>, y: Tensor<f32, M, N>) -> Tensor<f32, M> {
    compute(|i| sum(0..N, |j| x[[i, j]] * y[[i, j]]))
}

#[autotune(dims(M = 256, N = 512, K = 512))]
pub fn linear_of_gelu(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| gelu(x[[i, k]]) * w[[j, k]]))
}

#[autotune(dims(M = 512))]
pub fn lower_factor(a: Tensor<f32, M, M>, b: Tensor<f32, M, M>) -> Tensor<f32, M, M> {
    compute(|i, j| sum(0..M, |k| (if k <= i { a[[i, k]] } else { 0.0 }) * b[[k, j]]))
}
