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
pub fn linear_gelu(
    x: Tensor<f32, M, K>,
    w: Weight<f32, N, K>,
    b: Weight<f32, N>,
) -> Tensor<f32, M, N> {
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

#[autotune(dims(B = 2, H = 12, T = 128, D = 64))]
pub fn head_scores(
    q: Tensor<f32, B, T, H, D>,
    k: Tensor<f32, B, T, H, D>,
) -> Tensor<f32, B, H, T, T> {
    compute(|b, h, i, j| sum(0..D, |d| q[[b, i, h, d]] * k[[b, j, h, d]]) * 0.125)
}

#[autotune(dims(B = 32, I = 256, H = 256))]
pub fn lstm_cell(
    x: Tensor<f32, B, I>,
    h: Tensor<f32, B, H>,
    c: Tensor<f32, B, H>,
    wi: Weight<f32, 4, H, I>,
    wh: Weight<f32, 4, H, H>,
    b: Weight<f32, 4, H>,
) -> (Tensor<f32, B, H>, Tensor<f32, B, H>) {
    let g = compute(|n, q, j| {
        b[[q, j]]
            + sum(0..I, |k| x[[n, k]] * wi[[q, j, k]])
            + sum(0..H, |k| h[[n, k]] * wh[[q, j, k]])
    });
    let cn = compute(|n, j| {
        sigmoid(g[[n, 1, j]]) * c[[n, j]] + sigmoid(g[[n, 0, j]]) * tanh(g[[n, 2, j]])
    });
    let hn = compute(|n, j| sigmoid(g[[n, 3, j]]) * tanh(cn[[n, j]]));
    (hn, cn)
}

#[autotune(dims(M = 64, K = 512, F = 1024))]
pub fn swiglu_mlp(
    x: Tensor<f32, M, K>,
    a: Weight<f32, F, K>,
    b: Weight<f32, F, K>,
) -> Tensor<f32, M, F> {
    let g = compute(|i, j| sum(0..K, |k| x[[i, k]] * a[[j, k]]));
    let u = compute(|i, j| sum(0..K, |k| x[[i, k]] * b[[j, k]]));
    compute(|i, j| silu(g[[i, j]]) * u[[i, j]])
}

#[autotune(dims(N = 256, K = 2048))]
pub fn gram(x: Tensor<f32, N, K>) -> Tensor<f32, N, N> {
    compute(|i, j| sum(0..K, |k| x[[i, k]] * x[[j, k]]))
}

#[autotune(dims(A = 32, B = 32, C = 32, D = 32))]
pub fn kron(x: Tensor<f32, A, B>, y: Tensor<f32, C, D>) -> Tensor<f32, { A * C }, { B * D }> {
    compute(|i, j| x[[i / C, j / D]] * y[[i % C, j % D]])
}

#[autotune(dims(N = 256, M = 256, D = 64))]
pub fn rbf(x: Tensor<f32, N, D>, y: Tensor<f32, M, D>) -> Tensor<f32, N, M> {
    compute(|i, j| exp(-0.01 * sum(0..D, |d| (x[[i, d]] - y[[j, d]]) * (x[[i, d]] - y[[j, d]]))))
}

#[autotune(dims(N = 256, M = 256, D = 64))]
pub fn l1_distances(x: Tensor<f32, N, D>, y: Tensor<f32, M, D>) -> Tensor<f32, N, M> {
    compute(|i, j| sum(0..D, |d| abs(x[[i, d]] - y[[j, d]])))
}

#[autotune(dims(A = 128, B = 16, C = 64, D = 128))]
pub fn two_axes(x: Tensor<f32, A, B, C>, y: Tensor<f32, D, C, B>) -> Tensor<f32, A, D> {
    compute(|a, d| sum((0..B, 0..C), |b, c| x[[a, b, c]] * y[[d, c, b]]))
}

#[autotune(dims(B = 16, N = 64, K = 64, M = 64))]
pub fn complex_product(
    a: Tensor<f32, B, N, K, 2>,
    b: Tensor<f32, B, K, M, 2>,
) -> Tensor<f32, B, N, M, 2> {
    compute(|n, i, j, z| {
        if z == 0 {
            sum(0..K, |k| a[[n, i, k, 0]] * b[[n, k, j, 0]] - a[[n, i, k, 1]] * b[[n, k, j, 1]])
        } else {
            sum(0..K, |k| a[[n, i, k, 0]] * b[[n, k, j, 1]] + a[[n, i, k, 1]] * b[[n, k, j, 0]])
        }
    })
}

#[autotune(dims(N = 20000))]
pub fn small_products(x: Tensor<f32, N, 3, 3>, y: Tensor<f32, N, 3, 3>) -> Tensor<f32, N, 3, 3> {
    compute(|n, i, j| sum(0..3, |k| x[[n, i, k]] * y[[n, k, j]]))
}

#[autotune(dims(N = 100000))]
pub fn points(x: Tensor<f32, N, 3>, r: Tensor<f32, 3, 3>, t: Tensor<f32, 3>) -> Tensor<f32, N, 3> {
    compute(|n, i| sum(0..3, |k| x[[n, k]] * r[[i, k]]) + t[[i]])
}

#[autotune(dims(M = 256, N = 256, D = 128))]
pub fn cosines(x: Tensor<f32, M, D>, y: Tensor<f32, N, D>) -> Tensor<f32, M, N> {
    let a = compute(|i| rsqrt(sum(0..D, |d| x[[i, d]] * x[[i, d]])));
    let b = compute(|i| rsqrt(sum(0..D, |d| y[[i, d]] * y[[i, d]])));
    compute(|i, j| sum(0..D, |d| x[[i, d]] * y[[j, d]]) * a[[i]] * b[[j]])
}

#[autotune(dims(B = 16, N = 64, K = 64, M = 64))]
pub fn complex_linear(
    a: Tensor<f32, B, N, K, 2>,
    b: Tensor<f32, M, K, 2>,
) -> Tensor<f32, B, N, M, 2> {
    compute(|n, i, j, z| {
        let r = sum(0..K, |k| a[[n, i, k, 0]] * b[[j, k, 0]] - a[[n, i, k, 1]] * b[[j, k, 1]]);
        let s = sum(0..K, |k| a[[n, i, k, 0]] * b[[j, k, 1]] + a[[n, i, k, 1]] * b[[j, k, 0]]);
        if z == 0 { r } else { s }
    })
}

#[autotune(dims(B = 512, D = 128))]
pub fn quadratic_form(x: Tensor<f32, B, D>, a: Tensor<f32, D, D>) -> Tensor<f32, B> {
    compute(|b| sum((0..D, 0..D), |i, j| x[[b, i]] * a[[i, j]] * x[[b, j]]))
}
