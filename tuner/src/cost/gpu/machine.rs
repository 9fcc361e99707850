//! Throughput of a GPU per cycle, with the source of each number.
//!
//! [Guide]: CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions". Numbers
//! with no source are estimates, to be refitted once they can be measured; `docs/gpu-model.md` lists
//! them.

use tvmtune_cuda::grid;
use tvmtune_ir::target::GpuTarget;

/// Threads of a warp.
pub(super) const LANES: u32 = 32;
/// Schedulers of a multiprocessor: each issues an instruction of one warp in a cycle.
pub(super) const SCHEDULERS: f64 = 4.0;
/// Bytes that shared memory and the first-level cache serve in a cycle: 32 banks of 4.
pub(super) const BANK_BYTES: i64 = 4;
pub(super) const BANKS: i64 = 32;
/// Bytes of a sector, in which caches and memory move data, and of a line, which has four.
pub(super) const SECTOR: i64 = 32;
pub(super) const LINE: i64 = 128;

/// The share of its arithmetic that a multiprocessor reaches where nothing else limits it: banks of
/// registers, dispatch and barriers take the rest. The best kernels reach 51 of 67 `TFLOP/s` in
/// `f32` (cuBLAS on an H100), at a clock lower than the one those 67 are for.
pub(super) const ARITHMETIC_SHARE: f64 = 0.85;
/// The same of MMA instructions: 795 of 989 `TFLOP/s` in all on an H200, start and end of tiles
/// included.
pub(super) const TENSOR_SHARE: f64 = 0.93;
/// The share of the memory bandwidth that kernels reach: 4.3 to 4.5 of 4.8 TB/s on an H200.
pub(super) const MEMORY_SHARE: f64 = 0.91;
/// Sectors that a multiprocessor stores while it stores a part of one line, at least. On an H200,
/// products that store 100 and 201 MB in pieces of 16 bytes take 97 and 195 microseconds.
pub(super) const STORED_LINE: f64 = 4.5;
/// Bytes that memory reads while it turns to another run of neighbors: on an H200, products of 16 rows
/// read their weights in runs of 64 and 128 bytes at 0.6 and 0.75 of the bandwidth.
pub(super) const RUN_START: f64 = 24.0;
/// Blocks that a GPU starts in a cycle: an H200 takes 161 microseconds for 262144 short ones.
pub(super) const STARTS: f64 = 0.9;
/// Cycles in which TMA copies a row of a swizzled box, however short, and 16 bytes of any other box
/// (convolutions on an H200; the second is an estimate).
pub(super) const BOX_ROW: f64 = 2.6;
pub(super) const BOX_CHUNK: f64 = 3.0;
/// The same of a row that ends outside of the tensor, in terms of one inside: rows of 32 elements of 24
/// channels take 9 cycles, of 32 channels 4.
pub(super) const CUT_ROW: f64 = 2.2;
/// Bytes in a cycle that one multiprocessor gets at most from beyond its first-level cache.
pub(super) const FILL: f64 = 64.0;
/// The share of the second-level cache that holds what is read again.
pub(super) const L2_SHARE: f64 = 0.5;

/// Cycles until data comes from beyond the first-level cache, and from shared memory.
pub(super) const GLOBAL_LATENCY: f64 = 800.0;
pub(super) const SHARED_LATENCY: f64 = 30.0;
/// Cycles until the result of an instruction can be used (Volta and later).
pub(super) const RESULT_LATENCY: f64 = 4.0;
/// Cycles of a barrier, and of one step of a sum over the lanes of a warp.
pub(super) const BARRIER_LATENCY: f64 = 30.0;
pub(super) const SHUFFLE_LATENCY: f64 = 28.0;
/// Cycles until the first warp of a block runs and after its last one has ended.
pub(super) const BLOCK_LATENCY: f64 = 500.0;
/// Iterations that the compiler writes side by side where it may, so that their loads overlap.
pub(super) const AHEAD: f64 = 4.0;
/// Nanoseconds between launches of a graph.
pub(super) const LAUNCH_NS: f64 = 1500.0;
/// The share of the second-longest work that does not overlap with the longest.
pub(super) const NOT_OVERLAPPED: f64 = 0.1;

/// Throughput of a multiprocessor per cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    /// Warp instructions of multiply-adds in `f32`.
    pub(super) fma: f64,
    /// The same in `f64`.
    pub(super) double: f64,
    /// Those of integers and comparisons.
    pub(super) integer: f64,
    /// Those of special functions: reciprocals, roots, powers of 2.
    pub(super) special: f64,
    /// Multiply-adds of MMA instructions of one warp each.
    pub(super) tensor: f64,
    /// Bytes from the second-level cache.
    pub(super) l2: f64,
    /// Bytes of the first-level cache and shared memory, together.
    pub(super) l1_bytes: f64,
    /// Multiprocessors.
    pub(super) n: f64,
    /// Cycles in a nanosecond.
    pub(super) clock: f64,
    /// Bytes of memory in a nanosecond.
    pub(super) memory: f64,
    /// Bytes of the second-level cache.
    pub(super) l2_bytes: f64,
}

/// The share of the WGMMA throughput of sm_90 that MMA instructions of single warps reach (estimate:
/// kernels of that kind peak near 400 of 750 TFLOP/s, third-party logs of CUTLASS 2 on an H100).
pub(super) const WARP_SHARE: f64 = 0.6;

impl Machine {
    pub(super) fn new(target: &GpuTarget) -> Self {
        let limits = target.arch.limits();
        let lanes = f64::from(LANES);
        // [Guide]: 64-bit multiply-adds; consumer chips have two for each multiprocessor.
        let double = match target.arch.sm {
            80..86 => 32.0,
            90..120 => 64.0,
            ..75 => 32.0,
            _ => 2.0,
        };
        // 9.0: what DeepGEMM and NVIDIA's heuristics for matrix products assume for an H100;
        // 8.0: 5120 bytes in a cycle for all of an A100 (NVIDIA, "A100 architecture", 2020).
        let l2 = match target.arch.sm {
            80..86 => 47.0,
            90..120 => 42.0,
            _ => 24.0,
        };
        // Beside what shared memory may take, 28 KiB are always cache; 32 on sm_75.
        let cache = if target.arch.sm < 80 { 32 } else { 28 } * 1024;
        Self {
            tensor: f64::from(limits.tensor_fma)
                * if target.arch.has_wgmma() { WARP_SHARE } else { 1.0 },
            fma: f64::from(limits.fma) / lanes,
            double: double / lanes,
            integer: 64.0 / lanes, // [Guide]
            special: 16.0 / lanes, // [Guide]
            l2,
            l1_bytes: f64::from(limits.shared_bytes + cache),
            n: f64::from(target.multiprocessors.max(1)),
            clock: f64::from(target.clock_mhz.max(1)) / 1000.0,
            memory: f64::from(target.bandwidth_gbps.max(1)) * MEMORY_SHARE,
            l2_bytes: target.l2_bytes as f64,
        }
    }

    /// The same where blocks are in clusters, which some multiprocessors have no room for.
    pub(super) fn of_clusters(self, cluster: u32) -> Self {
        Self { n: grid::resident_blocks(self.n as i64, cluster.into()).max(1) as f64, ..self }
    }
}
