//! The analytic cost model of GPUs.
//!
//! In: a [`Grid`], a [`GpuTarget`], and, where it was compiled, the registers that its kernels use.
//! Out: an [`Estimate`]: for each kernel a time, and its bound. Next: `rank` sorts the points of a
//! space by it, search measures the first.
//!
//! `walk` counts the work of one block: instructions by unit (`arithmetic`), accesses by the sectors
//! and wavefronts that lanes touch (`access`), and waits. `traffic` has the bytes that blocks move,
//! `time` the time on a GPU (`machine`). Nothing here panics, for any schedule: kernels that cannot
//! run take forever.
//!
//! # Source
//!
//! The quantities are those of `DeepGEMM` and `nvMatmulHeuristics` for matrix products, here of any
//! grid. `docs/gpu-model.md` has the constants and the blind spots.

mod access;
mod arithmetic;
mod machine;
mod rank;
mod stream_k;
#[cfg(test)]
mod tests;
mod time;
mod traffic;
mod value;
mod walk;

use std::fmt;

use tvmtune_cuda::grid::{self, Grid, Kernel};
use tvmtune_ir::target::GpuTarget;
use tvmtune_schedule::nest::Nest;
use tvmtune_space::fits;

pub use rank::{Ranked, Ranking, rank};

/// The estimated time of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// All kernels, one after the other.
    pub ns: f64,
    /// Each kernel.
    pub kernels: Vec<KernelEstimate>,
}

/// The estimated time of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelEstimate {
    /// With the launch; infinite if no block can run.
    pub ns: f64,
    /// The bound that takes most of it.
    pub bound: Bound,
    /// The time of each [`Bound`] alone, in nanoseconds.
    pub parts: [f64; Bound::COUNT],
    /// Registers of a thread: given, or guessed.
    pub registers: u32,
    /// Blocks that are resident on one multiprocessor.
    pub occupancy: u32,
    /// Blocks.
    pub blocks: u64,
    /// Waves: the times that all multiprocessors are filled with blocks, or with their next tiles.
    pub waves: u64,
    /// Bytes between the multiprocessors and the second-level cache.
    pub l2_bytes: f64,
    /// Bytes between that and memory.
    pub dram_bytes: f64,
}

/// A limit of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// Instructions that schedulers issue.
    Issue,
    /// Multiply-adds.
    Fma,
    /// Roots, reciprocals, powers of 2.
    Special,
    /// MMA instructions.
    Tensor,
    /// Shared memory and the first-level cache.
    Shared,
    /// Boxes that TMA copies.
    Copies,
    /// The second-level cache.
    L2,
    /// Memory.
    Dram,
    /// Waiting, with too few other warps to run meanwhile.
    Latency,
    /// Multiprocessors that have nothing to do while others work on the last blocks.
    Waves,
    /// Starting the blocks.
    Starts,
    /// The launch.
    Launch,
}

/// Places a nest on a grid; `None` if that doesn't fit the target.
fn place(nest: &Nest, target: &GpuTarget) -> Option<Grid> {
    grid::place(nest).ok().filter(|it| fits::gpu::fits(it, target).is_ok())
}

/// Returns whether a nest can be placed on a grid that fits the target.
pub fn fits(nest: &Nest, target: &GpuTarget) -> bool {
    place(nest, target).is_some()
}

/// Returns the estimated time of a nest, in ns; `None` if it doesn't fit the target.
pub fn time_ns(nest: &Nest, target: &GpuTarget) -> Option<f64> {
    let grid = place(nest, target)?;
    // The model sees nothing of kernels that somebody wrote: settings that fit are alike.
    let is_modelled = grid.hand_written.is_none();
    Some(if is_modelled { estimate(&grid, target).ns } else { UNKNOWN_NS })
}

/// Stands for a time that nobody knows.
const UNKNOWN_NS: f64 = 1.0;

/// Estimates the time of `grid` on `target` at the largest values of its dimensions.
pub fn estimate(grid: &Grid, target: &GpuTarget) -> Estimate {
    let dims: Vec<i64> = grid.dims.iter().map(|it| it.range.hi).collect();
    estimate_at(grid, target, &dims, &[])
}

/// The same at those dimensions, with the registers of each thread of the first kernels, where the
/// compiler said them.
pub fn estimate_at(grid: &Grid, target: &GpuTarget, dims: &[i64], known: &[u32]) -> Estimate {
    let registers = |n: usize, kernel: &Kernel| {
        let guess = || {
            let most = fits::gpu::most_registers(kernel);
            fits::gpu::registers(grid, kernel).min(most)
        };
        known.get(n).copied().unwrap_or_else(guess)
    };
    let kernel = |(n, it): (usize, &Kernel)| time::kernel(grid, it, target, dims, registers(n, it));
    let kernels: Vec<KernelEstimate> = grid.body.iter().enumerate().map(kernel).collect();
    Estimate { ns: kernels.iter().map(|it| it.ns).sum(), kernels }
}

impl Bound {
    /// The number of variants.
    pub const COUNT: usize = Bound::Launch as usize + 1;
}

impl KernelEstimate {
    /// Returns the time of one bound alone, in nanoseconds.
    pub fn part(&self, bound: Bound) -> f64 {
        self.parts[bound as usize]
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}
