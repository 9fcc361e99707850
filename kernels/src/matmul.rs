//! Matrix products, alone and with what follows them fused in.

use tvmtune_runtime::autotune;

/// Square product of two matrices that are both new at every launch.
#[autotune(dims(M = 512, N = 512, K = 512))]
pub fn matmul_512(a: Tensor<f32, M, K>, b: Tensor<f32, K, N>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[k, j]]))
}

/// Square product of two matrices that are both new at every launch.
#[autotune(dims(M = 1024, N = 1024, K = 1024))]
pub fn matmul_1024(a: Tensor<f32, M, K>, b: Tensor<f32, K, N>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[k, j]]))
}

/// A projection of BERT-base at 128 tokens.
#[autotune(dims(M = 128, N = 768, K = 768))]
pub fn bert_proj(a: Tensor<f32, M, K>, b: Weight<f32, K, N>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[k, j]]))
}

/// The first feed-forward layer of BERT-base at 128 tokens.
#[autotune(dims(M = 128, N = 3072, K = 768))]
pub fn bert_ffn1(a: Tensor<f32, M, K>, b: Weight<f32, K, N>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[k, j]]))
}

/// The second feed-forward layer of BERT-base at 128 tokens.
#[autotune(dims(M = 128, N = 768, K = 3072))]
pub fn bert_ffn2(a: Tensor<f32, M, K>, b: Weight<f32, K, N>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[k, j]]))
}

/// Attention scores of BERT-base: 12 heads of 64 features at 128 tokens.
#[autotune(dims(B = 12, M = 128, N = 128, K = 64))]
pub fn bert_attn_qk(a: Tensor<f32, B, M, K>, b: Tensor<f32, B, N, K>) -> Tensor<f32, B, M, N> {
    compute(|h, i, j| sum(0..K, |k| a[[h, i, k]] * b[[h, j, k]]))
}

/// Attention-weighted values of BERT-base: 12 heads of 64 features at 128 tokens.
#[autotune(dims(B = 12, M = 128, N = 64, K = 128))]
pub fn bert_attn_av(a: Tensor<f32, B, M, K>, b: Tensor<f32, B, K, N>) -> Tensor<f32, B, M, N> {
    compute(|h, i, j| sum(0..K, |k| a[[h, i, k]] * b[[h, k, j]]))
}

/// The first feed-forward layer of BERT-base with its bias and activation.
#[autotune(dims(M = 128, N = 3072, K = 768))]
pub fn matmul_bias_gelu(
    a: Tensor<f32, M, K>,
    b: Weight<f32, K, N>,
    bias: Tensor<f32, N>,
) -> Tensor<f32, M, N> {
    let h = compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[k, j]]) + bias[[j]]);
    compute(|i, j| gelu(h[[i, j]]))
}
