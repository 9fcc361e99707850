//! Attention to a cache in pages: a gather, and a softmax over as many tokens as there are.

use tvmtune_runtime::autotune;

/// Attention of one query for each sequence and head (decode) to keys and values in pages of a cache.
///
/// Token `t` of a sequence is in the page that its row of `table` has at `t / PAGE`, and `lengths` has the
/// number of tokens. Heads share keys and values in groups of `HEADS / KV_HEADS`. A sequence without tokens
/// has a result of zeros; tokens for which the table has no room are not there; and a number of a page
/// that the cache does not have, such as -1, means a page of zeros.
#[autotune(
    dims(
        SEQS = 1..=64,
        SLOTS = 1..=128,
        PAGES = 1..=8192,
        HEADS = 8,
        KV_HEADS = 2,
        HEAD_DIM = 64,
        PAGE = 16
    ),
    buckets(SEQS = [8, 64]),
    template = "kernels/paged_attention.cu",
    params("kernels/paged_attention.h", paged_attention_params),
    knobs(
        THREADS in [128, 32, 64, 256],
        QUERIES in [4, 1, 2],
        VECTOR in [8, 4],
        KEYS in [2, 1, 4],
        STEP in [16, 4, 64]
    ),
    constraints(
        QUERIES * KV_HEADS <= HEADS,
        HEAD_DIM <= VECTOR * 32,
        VECTOR * (QUERIES + KEYS) <= 48,
        THREADS * VECTOR / HEAD_DIM * KEYS <= STEP * PAGE,
        THREADS / 32 * QUERIES * (HEAD_DIM + 2) * 4 + STEP * 4 <= PAGED_ATTENTION_SHARED_BYTES
    ),
    kernels(attention(
        grid = (HEADS / QUERIES, SEQS),
        block = THREADS,
        shared = THREADS / 32 * QUERIES * (HEAD_DIM + 2) * 4 + STEP * 4
    ))
)]
pub fn paged_attention(
    q: Tensor<f16, SEQS, HEADS, HEAD_DIM>,
    k: Tensor<f16, PAGES, PAGE, KV_HEADS, HEAD_DIM>,
    v: Tensor<f16, PAGES, PAGE, KV_HEADS, HEAD_DIM>,
    table: Tensor<i32, SEQS, SLOTS>,
    lengths: Tensor<u32, SEQS>,
    scale: f32,
) -> Tensor<f16, SEQS, HEADS, HEAD_DIM> {
    let product: Tensor<f32, SEQS, HEADS, { SLOTS * PAGE }> = compute(|s, h, t| {
        sum(0..HEAD_DIM, |d| {
            let key =
                k.get([table[[s, t / PAGE]], t % PAGE, h / (HEADS / KV_HEADS), d]).unwrap_or(0.0);
            q[[s, h, d]] as f32 * key as f32
        })
    });
    let score = compute(|s, h, t| {
        if (t as u32) < lengths[[s]] { product[[s, h, t]] * scale } else { f32::NEG_INFINITY }
    });
    let top = compute(|s, h| max(0..SLOTS * PAGE, |t| score[[s, h, t]]));
    let weight =
        compute(
            |s, h, t| {
                if (t as u32) < lengths[[s]] { exp(score[[s, h, t]] - top[[s, h]]) } else { 0.0 }
            },
        );
    let total = compute(|s, h| sum(0..SLOTS * PAGE, |t| weight[[s, h, t]]));
    compute(|s, h, d| {
        let value = sum(0..SLOTS * PAGE, |t| {
            let value =
                v.get([table[[s, t / PAGE]], t % PAGE, h / (HEADS / KV_HEADS), d]).unwrap_or(0.0);
            weight[[s, h, t]] * value as f32
        });
        let mean = if total[[s, h]] > 0.0 { value / total[[s, h]] } else { 0.0 };
        mean as f16
    })
}
