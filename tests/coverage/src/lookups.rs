//! Operators: lookups by ids.

use tvmtune_runtime::autotune;

#[autotune(dims(B = 4096, V = 30522, D = 384))]
pub fn embedding(ids: Tensor<i64, B>, t: Tensor<f32, V, D>) -> Tensor<f32, B, D> {
    compute(|b, d| t.get([ids[[b]], d]).unwrap_or(0.0))
}

#[autotune(dims(B = 512, L = 16, V = 30522, D = 128))]
pub fn embedding_bag(ids: Tensor<i64, B, L>, t: Tensor<f32, V, D>) -> Tensor<f32, B, D> {
    compute(|b, d| mean(0..L, |l| t.get([ids[[b, l]], d]).unwrap_or(0.0)))
}

#[autotune(dims(M = 1024, V = 1024))]
pub fn one_hot(ids: Tensor<i64, M>) -> Tensor<f32, M, V> {
    compute(|i, v| if ids[[i]] == v as i64 { 1.0 } else { 0.0 })
}

#[autotune(dims(M = 1024, V = 1024))]
pub fn pick_one(x: Tensor<f32, M, V>, ids: Tensor<i64, M>) -> Tensor<f32, M> {
    compute(|i| x.get([i, ids[[i]]]).unwrap_or(0.0))
}

#[autotune(dims(M = 512, N = 512, V = 1024))]
pub fn gather_first(ids: Tensor<i64, M>, x: Tensor<f32, V, N>) -> Tensor<f32, M, N> {
    compute(|i, j| x.get([ids[[i]], j]).unwrap_or(0.0))
}

#[autotune(dims(B = 256, V = 2000, D = 512))]
pub fn embedding_i8(ids: Tensor<i64, B>, t: Tensor<i8, V, D>) -> Tensor<f32, B, D> {
    compute(|b, d| t.get([ids[[b]], d]).unwrap_or(0) as f32)
}
