//! Counting values: blocks that count in shared memory.

use tvmtune_runtime::autotune;

/// Counts the values in each bin of a histogram whose first bin begins at `lo`; `scale` is the number of
/// bins in a unit.
///
/// The body is the definition: it judges what the kernels of the file compute, and is how a CPU counts.
#[autotune(
    dims(N = 1..=1048576, BINS = 256),
    buckets(N = [4096, 1048576]),
    template = "kernels/histogram.cu",
    params("kernels/histogram.h", histogram_params),
    knobs(BLOCK in [256, 64, 128, 512], ITEMS in [4, 1, 2, 8, 16], COPIES in [2, 1, 4, 8]),
    constraints(
        BLOCK * ITEMS <= 4096,
        COPIES * 32 <= BLOCK,
        COPIES * BINS * 4 <= HISTOGRAM_SHARED_BYTES
    ),
    kernels(
        clear(grid = 1, block = BINS),
        count(
            grid = (N + BLOCK * ITEMS - 1) / (BLOCK * ITEMS),
            block = BLOCK,
            shared = COPIES * BINS * 4
        )
    )
)]
pub fn histogram(x: Tensor<f32, N>, lo: f32, scale: f32) -> Tensor<i32, BINS> {
    let bin = compute(|n| ((x[[n]] - lo) * scale).floor().clamp(0.0, 255.0) as i32);
    compute(|b| sum(0..N, |n| if bin[[n]] == b as i32 { 1 } else { 0 }))
}
