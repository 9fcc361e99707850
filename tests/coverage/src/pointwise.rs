//! Operators: elementwise functions.

use tvmtune_runtime::autotune;

#[autotune(dims(N = 1048576))]
pub fn gated_twice(x: Tensor<f32, N>) -> Tensor<f32, N> {
    let s = compute(|i| sigmoid(x[[i]]));
    compute(|i| s[[i]] * x[[i]] + s[[i]])
}

#[autotune(dims(M = 1024, N = 1024))]
pub fn swiglu(x: Tensor<f32, M, { N * 2 }>) -> Tensor<f32, M, N> {
    compute(|i, j| silu(x[[i, j]]) * x[[i, N + j]])
}

#[autotune(dims(N = 1048576))]
pub fn less(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<bool, N> {
    compute(|i| x[[i]] < y[[i]])
}

#[autotune(dims(N = 1048576))]
pub fn gelu_gate(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| gelu(x[[i]]) * y[[i]])
}

#[autotune(dims(M = 512, N = 4096))]
pub fn softsign(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    compute(|i, j| x[[i, j]] / (1.0 + x[[i, j]].abs()))
}

#[autotune(dims(M = 512, N = 4096))]
pub fn elu(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    compute(|i, j| if x[[i, j]] > 0.0 { x[[i, j]] } else { exp_m1(x[[i, j]]) })
}

#[autotune(dims(M = 512, N = 4096))]
pub fn selu(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    compute(|i, j| if x[[i, j]] > 0.0 { 1.0507 * x[[i, j]] } else { 1.7581 * exp_m1(x[[i, j]]) })
}

#[autotune(dims(M = 512, N = 4096))]
pub fn hardtanh(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    compute(|i, j| x[[i, j]].clamp(-1.0, 1.0))
}

#[autotune(dims(M = 512, N = 4096))]
pub fn tanh_of(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    compute(|i, j| tanh(x[[i, j]]))
}

#[autotune(dims(M = 512, N = 4096))]
pub fn softplus_of(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    compute(|i, j| softplus(x[[i, j]]))
}

#[autotune(dims(M = 1024))]
pub fn scalar_mul(x: Tensor<f32, M, M>, s: f32) -> Tensor<f32, M, M> {
    compute(|i, j| x[[i, j]] * s)
}

#[autotune(dims(M = 1024, N = 1024))]
pub fn diag_mul(a: Tensor<f32, M>, b: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    compute(|i, j| a[[i]] * b[[i, j]])
}

#[autotune(dims(M = 1024, N = 1024))]
pub fn outer(x: Tensor<f32, M>, y: Tensor<f32, N>) -> Tensor<f32, M, N> {
    compute(|i, j| x[[i]] * y[[j]])
}

#[autotune(dims(N = 1048576))]
pub fn relu_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| relu(x[[i]]))
}

#[autotune(dims(N = 1048576))]
pub fn sigmoid_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| sigmoid(x[[i]]))
}

#[autotune(dims(N = 1048576))]
pub fn silu_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| silu(x[[i]]))
}

#[autotune(dims(N = 1048576))]
pub fn gelu_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| gelu(x[[i]]))
}

#[autotune(dims(N = 1048576))]
pub fn gelu_by_tanh(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| gelu_tanh(x[[i]]))
}

#[autotune(dims(N = 1048576))]
pub fn leaky(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| leaky_relu(x[[i]], 0.1))
}

#[autotune(dims(N = 1048576))]
pub fn hardswish_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| hardswish(x[[i]]))
}

#[autotune(dims(N = 1048576))]
pub fn hardsigmoid_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| hardsigmoid(x[[i]]))
}

#[autotune(dims(N = 1048576))]
pub fn mish_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| mish(x[[i]]))
}

#[autotune(dims(N = 1048576))]
pub fn logarithm(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| ln(x[[i]]))
}

#[autotune(dims(N = 1048576))]
pub fn square_root(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| sqrt(x[[i]]))
}

#[autotune(dims(N = 1048576))]
pub fn choose(c: Tensor<bool, N>, x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| if c[[i]] { x[[i]] } else { y[[i]] })
}

#[autotune(dims(M = 1024, N = 1024))]
pub fn add_rows(x: Tensor<f32, M, N>, b: Tensor<f32, N>) -> Tensor<f32, M, N> {
    compute(|i, j| x[[i, j]] + b[[j]])
}

#[autotune(dims(N = 1048576))]
pub fn greater_of(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| max(x[[i]], y[[i]]))
}

#[autotune(dims(N = 1000, M = 1000))]
pub fn complex_mul(x: Tensor<f32, N, M, 2>, y: Tensor<f32, N, M, 2>) -> Tensor<f32, N, M, 2> {
    compute(|i, j, z| {
        if z == 0 {
            x[[i, j, 0]] * y[[i, j, 0]] - x[[i, j, 1]] * y[[i, j, 1]]
        } else {
            x[[i, j, 0]] * y[[i, j, 1]] + x[[i, j, 1]] * y[[i, j, 0]]
        }
    })
}

#[autotune(dims(N = 1024, M = 1024))]
pub fn soft_shrink(x: Tensor<f32, N, M>) -> Tensor<f32, N, M> {
    compute(|i, j| {
        if x[[i, j]] > 0.5 {
            x[[i, j]] - 0.5
        } else if x[[i, j]] < -0.5 {
            x[[i, j]] + 0.5
        } else {
            0.0
        }
    })
}

#[autotune(dims(N = 1024, M = 1024))]
pub fn in_range(x: Tensor<f32, N, M>) -> Tensor<bool, N, M> {
    compute(|i, j| x[[i, j]] >= -1.0 && x[[i, j]] < 1.0)
}

#[autotune(dims(B = 4, C = 64, H = 28, W = 28))]
pub fn prelu(x: Tensor<f32, B, C, H, W>, a: Tensor<f32, C>) -> Tensor<f32, B, C, H, W> {
    compute(
        |b, c, y, p| if x[[b, c, y, p]] > 0.0 { x[[b, c, y, p]] } else { a[[c]] * x[[b, c, y, p]] },
    )
}

#[autotune(dims(B = 64, D = 256))]
pub fn gru_cell(
    gi: Tensor<f32, B, { 3 * D }>,
    gh: Tensor<f32, B, { 3 * D }>,
    h: Tensor<f32, B, D>,
) -> Tensor<f32, B, D> {
    compute(|b, d| {
        let r = sigmoid(gi[[b, d]] + gh[[b, d]]);
        let z = sigmoid(gi[[b, d + D]] + gh[[b, d + D]]);
        let n = tanh(gi[[b, d + 2 * D]] + r * gh[[b, d + 2 * D]]);
        (1.0 - z) * n + z * h[[b, d]]
    })
}

#[autotune(dims(N = 500000))]
pub fn adam(
    p: Tensor<f32, N>,
    g: Tensor<f32, N>,
    m: Tensor<f32, N>,
    v: Tensor<f32, N>,
) -> (Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>) {
    let m1 = compute(|i| 0.9 * m[[i]] + 0.1 * g[[i]]);
    let v1 = compute(|i| 0.999 * v[[i]] + 0.001 * g[[i]] * g[[i]]);
    let p1 = compute(|i| p[[i]] - 0.001 * m1[[i]] / (sqrt(v1[[i]]) + 0.00000001));
    (p1, m1, v1)
}

#[autotune(dims(N = 100000))]
pub fn cross3(x: Tensor<f32, N, 3>, y: Tensor<f32, N, 3>) -> Tensor<f32, N, 3> {
    compute(|n, c| {
        x[[n, (c + 1) % 3]] * y[[n, (c + 2) % 3]] - x[[n, (c + 2) % 3]] * y[[n, (c + 1) % 3]]
    })
}

#[autotune(dims(N = 20000))]
pub fn quat_rotate(q: Tensor<f32, N, 4>, v: Tensor<f32, N, 3>) -> Tensor<f32, N, 3> {
    let t: Tensor<f32, N, 3> = compute(|n, c| {
        2.0 * (q[[n, (c + 1) % 3 + 1]] * v[[n, (c + 2) % 3]]
            - q[[n, (c + 2) % 3 + 1]] * v[[n, (c + 1) % 3]])
    });
    compute(|n, c| {
        v[[n, c]] + q[[n, 0]] * t[[n, c]] + q[[n, (c + 1) % 3 + 1]] * t[[n, (c + 2) % 3]]
            - q[[n, (c + 2) % 3 + 1]] * t[[n, (c + 1) % 3]]
    })
}

#[autotune(dims(N = 100000))]
pub fn polar(x: Tensor<f32, N>, y: Tensor<f32, N>) -> (Tensor<f32, N>, Tensor<f32, N>) {
    let size = compute(|i| x[[i]].hypot(y[[i]]));
    let angle = compute(|i| y[[i]].atan2(x[[i]]));
    (size, angle)
}

// Distances of points from one place, by latitudes and longitudes in radians.
#[autotune(dims(N = 100000))]
pub fn haversine(a: Tensor<f32, N>, b: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| {
        let up = sin((a[[i]] - 0.8) / 2.0);
        let across = sin((b[[i]] - 0.1) / 2.0);
        2.0 * asin(sqrt((up * up + cos(0.8) * cos(a[[i]]) * across * across).min(1.0)))
    })
}
