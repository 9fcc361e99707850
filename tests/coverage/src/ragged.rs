//! Operators: data bound the terms of each row.

use tvmtune_runtime::autotune;

// A product with a sparse matrix in compressed rows.
#[autotune(dims(N = 2000, E = 24000, M = 2000, D = 64))]
pub fn csr_product(
    ptr: Tensor<i64, { N + 1 }>,
    col: Tensor<i64, E>,
    val: Tensor<f32, E>,
    x: Tensor<f32, M, D>,
) -> Tensor<f32, N, D> {
    compute(|n, d| {
        sum(0..E, |e| {
            if e as i64 >= ptr[[n]] && (e as i64) < ptr[[n + 1]] {
                val[[e]] * x.get([col[[e]], d]).unwrap_or(0.0)
            } else {
                0.0
            }
        })
    })
}

#[autotune(dims(N = 2000, E = 24000, M = 2000))]
pub fn csr_vector(
    ptr: Tensor<i64, { N + 1 }>,
    col: Tensor<i64, E>,
    val: Tensor<f32, E>,
    x: Tensor<f32, M>,
) -> Tensor<f32, N> {
    compute(|n| {
        sum(0..E, |e| {
            let is_of_row = e as i64 >= ptr[[n]] && (e as i64) < ptr[[n + 1]];
            if is_of_row { val[[e]] * x.get([col[[e]]]).unwrap_or(0.0) } else { 0.0 }
        })
    })
}

#[autotune(dims(N = 1000, E = 16000, D = 64))]
pub fn greatest_of_segments(
    ptr: Tensor<i64, { N + 1 }>,
    x: Tensor<f32, E, D>,
) -> Tensor<f32, N, D> {
    compute(|n, d| {
        max(0..E, |e| {
            if ptr[[n]] <= e as i64 && ptr[[n + 1]] > e as i64 { x[[e, d]] } else { f32::NEG_INFINITY }
        })
    })
}

#[autotune(dims(B = 256, E = 4000, V = 10000, D = 64))]
pub fn bags_by_offsets(
    ids: Tensor<i64, E>,
    table: Tensor<f32, V, D>,
    offsets: Tensor<i64, B>,
) -> Tensor<f32, B, D> {
    compute(|b, d| {
        sum(0..E, |e| {
            if e as i64 >= offsets[[b]] && (e as i64) < offsets.get([b + 1]).unwrap_or(E as i64) {
                table.get([ids[[e]], d]).unwrap_or(0.0)
            } else {
                0.0
            }
        })
    })
}

#[autotune(dims(B = 64, L = 128, D = 384))]
pub fn mean_of_padded(x: Tensor<f32, B, L, D>, len: Tensor<i64, B>) -> Tensor<f32, B, D> {
    compute(|b, d| {
        sum(0..L, |l| if (l as i64) < len[[b]] { x[[b, l, d]] } else { 0.0 })
            / max(len[[b]] as f32, 1.0)
    })
}

#[autotune(dims(B = 64, L = 128, D = 384))]
pub fn max_of_padded(x: Tensor<f32, B, L, D>, len: Tensor<i32, B>) -> Tensor<f32, B, D> {
    compute(|b, d| {
        max(0..L, |l| if len[[b]] >= l as i32 { x[[b, l, d]] } else { f32::NEG_INFINITY })
    })
}

#[autotune(dims(B = 512, L = 400))]
pub fn softmax_of_padded(x: Tensor<f32, B, L>, len: Tensor<i64, B>) -> Tensor<f32, B, L> {
    let m = compute(|b| {
        max(0..L, |l| if (l as i64) <= len[[b]] { x[[b, l]] } else { f32::NEG_INFINITY })
    });
    let s = compute(|b| {
        sum(0..L, |l| if (l as i64) <= len[[b]] { (x[[b, l]] - m[[b]]).exp() } else { 0.0 })
    });
    compute(|b, l| if (l as i64) <= len[[b]] { (x[[b, l]] - m[[b]]).exp() / s[[b]] } else { 0.0 })
}

#[autotune(dims(N = 4000, E = 100000))]
pub fn sums_of_segments(ptr: Tensor<i64, { N + 1 }>, x: Tensor<f32, E>) -> Tensor<f32, N> {
    compute(|n| {
        sum(0..E, |e| {
            if e as i64 >= ptr[[n]] && (e as i64) < ptr[[n + 1]] { x[[e]] } else { 0.0 }
        })
    })
}
