//! Sorted rows: what they are is said in Rust.

use tvmtune_runtime::autotune;

/// Returns the elements of each row in ascending order, that of [`f32::total_cmp`].
#[autotune(
    dims(M = 1..=65536, N = 128),
    buckets(M = [64, 65536]),
    template = "kernels/sort_rows.cu",
    reference("kernels/sort_rows.rs", sort_rows),
    knobs(ROWS in [4, 1, 2, 8, 16], PAIRS in [2, 1, 4, 8]),
    constraints(ROWS * N / 2 <= 1024 * PAIRS, ROWS * N / 2 >= 32 * PAIRS),
    kernels(sort(grid = (M + ROWS - 1) / ROWS, block = ROWS * N / 2 / PAIRS))
)]
pub fn sort_rows(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {}
