//! Cycles of a multiprocessor for what an emulated kernel executed, without a GPU.
//!
//! In: the counts of an emulated launch, and what a block of it takes up. Out: an estimate that ranks
//! settings of hand-written kernels.
//!
//! A multiprocessor executes all blocks, as many at once as fit, and is bound by the unit that takes
//! longest: the schedulers, shared memory, or the second-level cache. A unit reaches its throughput where
//! enough is in flight, latency times throughput (Little's law). Where the resident warps have less in
//! flight than that, it takes the latency of all requests, divided by those in flight. A barrier drains a
//! block; other resident blocks go on meanwhile.
//!
//! It is no time. It knows nothing of dependencies between instructions, of the hits of caches, or of
//! blocks that are too few for all multiprocessors.
//!
//! # Source
//!
//! Little's law for GPUs: Volkov, "Understanding Latency Hiding on GPUs" (2016). Throughputs since Volta:
//! CUDA C++ Programming Guide; Jia et al., 2018. Latencies are those of the model of generated code,
//! `docs/gpu-model.md`.

use serde::Serialize;
use tvmtune_emulator::{AccessedMemory, Report};
use tvmtune_ir::target::GpuTarget;

/// Threads of a warp.
const WARP: u32 = 32;
/// Instructions of warps in a cycle.
const ISSUED: f64 = 4.0;
/// Sectors of 32 bytes that the second-level cache delivers in a cycle.
const SECTORS: f64 = 2.0;
/// Cycles until the result of an instruction, of shared memory, and of global memory can be used.
const RESULT_LATENCY: f64 = 4.0;
const SHARED_LATENCY: f64 = 30.0;
const GLOBAL_LATENCY: f64 = 600.0;
/// Requests of a warp to a memory that are in flight at once: compilers issue loads that do not depend on
/// each other together.
const IN_FLIGHT: f64 = 4.0;
/// Cycles in which a block waits at a barrier.
const BARRIER_LATENCY: f64 = 30.0;

/// The resources that a block of a kernel takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resources {
    /// Threads of a block.
    pub(crate) threads: u32,
    /// Registers of a thread.
    pub(crate) registers: u32,
    /// Shared memory of a block, static and dynamic.
    pub(crate) shared_bytes: u32,
}

/// The counts of a run of one kernel or of several, and the cycles that are estimated from them.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Cycles {
    /// The estimate, for one multiprocessor.
    pub(crate) cycles: f64,
    pub(crate) instructions: u64,
    pub(crate) global_sectors: u64,
    pub(crate) shared_wavefronts: u64,
    /// Wavefronts that conflicts between banks cost.
    pub(crate) conflicts: u64,
    /// Barriers at which the blocks of a launch wait, all together.
    pub(crate) barriers: u64,
    /// Registers of a thread, of the kernel that has most.
    pub(crate) registers: u32,
    /// Warps that are resident on a multiprocessor, of the kernel that takes longest.
    pub(crate) resident_warps: u32,
    /// The share of the warps that a multiprocessor has room for.
    pub(crate) occupancy: f64,
}

/// Returns the sum over the kernels of a run; `None` if a block of one of them takes more than a
/// multiprocessor has.
pub(crate) fn estimate(run: &[(Report, Resources)], target: &GpuTarget) -> Option<Cycles> {
    let mut sum = Cycles::default();
    let mut longest = 0.0;
    for (report, resources) in run {
        let kernel = of_kernel(report, *resources, target)?;
        if kernel.cycles >= longest {
            longest = kernel.cycles;
            (sum.resident_warps, sum.occupancy) = (kernel.resident_warps, kernel.occupancy);
        }
        sum.cycles += kernel.cycles;
        sum.instructions += kernel.instructions;
        sum.global_sectors += kernel.global_sectors;
        sum.shared_wavefronts += kernel.shared_wavefronts;
        sum.conflicts += kernel.conflicts;
        sum.barriers += kernel.barriers;
        sum.registers = sum.registers.max(kernel.registers);
    }
    Some(sum)
}

fn of_kernel(report: &Report, resources: Resources, target: &GpuTarget) -> Option<Cycles> {
    let Resources { threads, registers, shared_bytes } = resources;
    let blocks = target.occupancy(threads, registers, shared_bytes);
    let resident_warps = blocks * threads.div_ceil(WARP);
    if resident_warps == 0 {
        return None;
    }
    let occupancy = f64::from(resident_warps * WARP) / f64::from(target.arch.limits().threads);
    let mut counts = Cycles {
        instructions: report.instructions,
        barriers: report.barriers,
        registers,
        resident_warps,
        occupancy,
        ..Cycles::default()
    };
    let (mut to_shared, mut to_global) = (0, 0);
    for access in &report.accesses {
        match access.memory {
            AccessedMemory::Global => {
                counts.global_sectors += access.transactions;
                to_global += access.requests;
            }
            AccessedMemory::Shared => {
                counts.shared_wavefronts += access.transactions;
                counts.conflicts += access.transactions.saturating_sub(access.ideal);
                to_shared += access.requests;
            }
        }
    }
    let warps = f64::from(resident_warps);
    let bound = |by_throughput: f64, n: u64, latency: f64, in_flight: f64| {
        by_throughput.max(n as f64 * latency / (warps * in_flight))
    };
    let n = counts.instructions;
    let issue = bound(n as f64 / ISSUED, n, RESULT_LATENCY, 1.0);
    let wavefronts = counts.shared_wavefronts as f64;
    let shared = bound(wavefronts, to_shared, SHARED_LATENCY, IN_FLIGHT);
    let sectors = counts.global_sectors as f64;
    let global = bound(sectors / SECTORS, to_global, GLOBAL_LATENCY, IN_FLIGHT);
    let barriers = counts.barriers as f64 * BARRIER_LATENCY / f64::from(blocks);
    counts.cycles = issue.max(shared).max(global) + barriers;
    Some(counts)
}

#[cfg(test)]
mod tests {
    use tvmtune_emulator::AccessCost;
    use tvmtune_ir::target::gpu::Arch;

    use super::*;

    const BLOCK: Resources = Resources { threads: 128, registers: 32, shared_bytes: 4096 };

    /// A run with so many instructions, sectors of global memory, and barriers.
    fn cycles(resources: Resources, [instructions, sectors, barriers]: [u64; 3]) -> Option<f64> {
        let global = AccessCost {
            location: None,
            memory: AccessedMemory::Global,
            write: false,
            requests: sectors / 8,
            transactions: sectors,
            ideal: sectors,
        };
        let report = Report { instructions, barriers, accesses: vec![global] };
        let target = GpuTarget::generic(Arch { sm: 90, exact: true });
        estimate(&[(report, resources)], &target).map(|it| it.cycles)
    }

    #[test]
    fn throughput_bounds_what_has_enough_warps() {
        assert_eq!(cycles(BLOCK, [40_000, 800, 0]), Some(10_000.0));
        assert_eq!(cycles(BLOCK, [4000, 80_000, 0]), Some(40_000.0));
    }

    #[test]
    fn latency_bounds_what_has_few_warps() {
        // One block of 4 warps: requests of 8 sectors, 4 of each warp in flight for 600 cycles.
        let few = Resources { shared_bytes: 200 * 1024, ..BLOCK };
        assert_eq!(cycles(few, [40_000, 800, 0]), Some(40_000.0));
        assert_eq!(cycles(few, [4000, 80_000, 0]), Some(10_000.0 * 600.0 / 16.0));
        let registers = Resources { registers: 255, ..BLOCK };
        assert!(cycles(registers, [4000, 80_000, 0]) > cycles(BLOCK, [4000, 80_000, 0]));
    }

    #[test]
    fn barriers_cost_less_where_other_blocks_go_on() {
        let few = Resources { shared_bytes: 100 * 1024, ..BLOCK };
        let cost = |resources| {
            let [with, without] = [64, 0].map(|it| cycles(resources, [40_000, 0, it]));
            with.zip(without).map(|(with, without)| with - without)
        };
        assert_eq!((cost(BLOCK), cost(few)), (Some(120.0), Some(960.0)));
    }

    #[test]
    fn a_block_that_does_not_fit_has_no_estimate() {
        assert_eq!(cycles(Resources { threads: 1024, registers: 80, ..BLOCK }, [1, 0, 0]), None);
    }
}
