//! Time of a kernel from the counts of its blocks.
//!
//! A multiprocessor works on as many blocks as fit. Together they take as long as the unit that is
//! busiest, or, if they are few, as long as one of them waits and works alone:
//! `max(n * work, wait + work)`. Blocks that take several tiles start once, and the first copies of
//! a tile come while the one before ends. Caches and memory are shared by all multiprocessors. Of
//! what takes second longest, a tenth is not hidden.

use tvmtune_cuda::grid::{BlockVar, Grid, Kernel};
use tvmtune_ir::target::GpuTarget;
use tvmtune_space::fits;

use super::machine::{
    ARITHMETIC_SHARE, BLOCK_LATENCY, FILL, LANES, LAUNCH_NS, Machine, NOT_OVERLAPPED, SCHEDULERS,
    STARTS, TENSOR_SHARE,
};
use super::stream_k::WorkUnits;
use super::traffic::{Shape, Traffic};
use super::value::Values;
use super::walk::{self, Block};
use super::{Bound, KernelEstimate};

/// The time of one kernel whose threads use so many registers.
pub(super) fn kernel(
    grid: &Grid,
    kernel: &Kernel,
    target: &GpuTarget,
    dims: &[i64],
    registers: u32,
) -> KernelEstimate {
    let machine = Machine::new(target).of_clusters(kernel.cluster());
    let threads = kernel.block_threads();
    let launched = fits::gpu::launched_registers(kernel, registers);
    let occupancy = target.occupancy(threads, launched, kernel.shared_bytes);
    let values = Values::new(dims);
    let extent = |it: &BlockVar| values.of(&it.extent).max(0);
    let extents: Vec<i64> = kernel.tile_vars().map(extent).collect();
    let all = |extents: &mut dyn Iterator<Item = i64>| {
        extents.fold(1_u64, |n, it| n.saturating_mul(it as u64))
    };
    let work_units = WorkUnits::new(kernel, &values);
    let all_tiles = all(&mut extents.iter().copied());
    let tiles = work_units.and_then(|it| it.fixed_up()).unwrap_or(all_tiles);
    let blocks = all(&mut kernel.blocks.iter().map(extent));
    let mut estimate = KernelEstimate {
        ns: f64::INFINITY,
        bound: Bound::Launch,
        parts: [0.0; Bound::COUNT],
        registers,
        occupancy,
        blocks,
        waves: 0,
        l2_bytes: 0.0,
        dram_bytes: 0.0,
    };
    estimate.parts[Bound::Launch as usize] = LAUNCH_NS;
    if blocks == 0 || tiles == 0 {
        estimate.ns = LAUNCH_NS;
    }
    if blocks == 0 || tiles == 0 || occupancy == 0 {
        return estimate;
    }
    let block = walk::block(grid, kernel, dims);
    // There may be fewer blocks than room for them.
    let is_persistent = kernel.tiles.is_some();
    let room = f64::from(occupancy);
    let resident = if is_persistent { (blocks as f64 / machine.n).ceil().min(room) } else { room };
    let per_wave = machine.n * resident;
    let l1 = machine.l1_bytes / f64::from(occupancy) - f64::from(kernel.shared_bytes);
    let shape = Shape {
        grid,
        kernel,
        dims,
        tiles: &extents,
        resident: per_wave,
        l1_bytes: l1.max(0.0),
        l2_bytes: machine.l2_bytes,
    };
    let mut traffic = shape.traffic(&block.accesses);
    if let Some(it) = work_units {
        let (some, left) = (tiles as f64 / all_tiles as f64, it.partial_sum_bytes(grid));
        traffic = traffic.times(some);
        traffic.l2 += left;
    }
    estimate.waves = (tiles as f64 / per_wave).ceil() as u64;
    estimate.l2_bytes = traffic.l2;
    estimate.dram_bytes = traffic.dram;
    let warps = f64::from(kernel.threads.div_ceil(LANES));
    let of_block = work_units.and_then(|it| it.tiles_of_block());
    let tiles = tiles as f64;
    Sum { machine, block, traffic, warps, tiles, of_block, resident, is_persistent }
        .finish(&mut estimate);
    estimate
}

struct Sum {
    machine: Machine,
    block: Block,
    traffic: Traffic,
    /// Of one block.
    warps: f64,
    /// Tiles of all blocks, and those that a multiprocessor works on at the same time.
    tiles: f64,
    resident: f64,
    /// Tiles of one block, if blocks divide them between them.
    of_block: Option<f64>,
    /// True if blocks take several tiles.
    is_persistent: bool,
}

impl Sum {
    /// Cycles that each unit of a multiprocessor needs for one tile.
    fn units(&self) -> [(Bound, f64); 6] {
        let Block { ops, others, wavefronts, tensor, copies, .. } = &self.block;
        let machine = &self.machine;
        let issue = (ops.issued() + others) / SCHEDULERS;
        let integer = ops.integer / machine.integer;
        let fma = ops.fma / machine.fma + ops.double / machine.double;
        [
            (Bound::Issue, issue.max(integer) / ARITHMETIC_SHARE),
            (Bound::Fma, fma / ARITHMETIC_SHARE),
            (Bound::Special, ops.special / machine.special / ARITHMETIC_SHARE),
            (Bound::Shared, *wavefronts),
            (Bound::Tensor, tensor / machine.tensor / TENSOR_SHARE),
            (Bound::Copies, *copies),
        ]
    }

    fn finish(&self, estimate: &mut KernelEstimate) {
        let machine = &self.machine;
        let ns = |cycles: f64| cycles / machine.clock;
        let tiles = self.tiles;
        let units = self.units();
        let mut part = |bound: Bound, value: f64| estimate.parts[bound as usize] = value;
        for (bound, cycles) in units {
            part(bound, ns(cycles * tiles / machine.n));
        }
        let work = units.iter().map(|it| it.1).fold(0.0, f64::max);
        // The multiprocessor with most tiles.
        let blocks = estimate.blocks as f64;
        let of_block = self.of_block.unwrap_or((tiles / blocks).ceil());
        let most = of_block * (blocks / machine.n).ceil();
        let busy = self.busy(work, most);
        part(Bound::Waves, ns(work * (most - tiles / machine.n)));
        part(Bound::Latency, ns((busy - work * most).max(0.0)));
        let used = machine.n.min(blocks);
        let Traffic { l2, dram, l2_overhead, dram_overhead } = self.traffic;
        let filled = ns(dram / (FILL * used));
        let l2 = ns((l2 + l2_overhead) / (machine.l2 * used));
        let dram = ((dram + dram_overhead) / machine.memory).max(filled);
        let starts = ns(blocks / STARTS);
        part(Bound::L2, l2);
        part(Bound::Dram, dram);
        part(Bound::Starts, starts);
        let mut all = [ns(busy), l2, dram, starts];
        all.sort_by(f64::total_cmp);
        estimate.ns = all[3] + NOT_OVERLAPPED * all[2] + LAUNCH_NS;
        estimate.bound = self.bound(estimate, ns(busy));
    }

    /// Cycles of a multiprocessor with so many tiles.
    fn busy(&self, work: f64, tiles: f64) -> f64 {
        let wait = self.block.latency + BLOCK_LATENCY;
        let round = |n: f64, wait: f64| {
            // Few warps leave schedulers with nothing to issue.
            let idle = (SCHEDULERS / (n * self.warps)).max(1.0);
            (n * work * idle).max(wait + work)
        };
        let full = (tiles / self.resident).floor();
        let rest = tiles - full * self.resident;
        let last = |wait: f64| if rest > 0.0 { round(rest, wait) } else { 0.0 };
        if !self.is_persistent || (full < 1.0 && self.of_block.is_none()) {
            return full * round(self.resident, wait) + last(wait);
        }
        let later = self.block.latency - self.block.ahead;
        if self.of_block.is_some() {
            // A fraction of a tile takes a fraction of its time.
            return wait - later + tiles / self.resident * round(self.resident, later);
        }
        let first = round(self.resident, wait);
        first + (full - 1.0) * round(self.resident, later) + last(later)
    }

    /// Returns the bound that takes most of the time.
    fn bound(&self, estimate: &KernelEstimate, busy: f64) -> Bound {
        let part = |it: Bound| estimate.part(it);
        let longest = |some: &[Bound]| {
            let by = |a: &&Bound, b: &&Bound| part(**a).total_cmp(&part(**b));
            some.iter().max_by(by).copied().unwrap_or(Bound::Launch)
        };
        let memory = longest(&[Bound::L2, Bound::Dram, Bound::Starts]);
        if LAUNCH_NS >= busy.max(part(memory)) {
            return Bound::Launch;
        }
        if part(memory) >= busy {
            return memory;
        }
        use Bound::{Copies, Fma, Issue, Latency, Shared, Special, Tensor, Waves};
        longest(&[Issue, Fma, Special, Tensor, Shared, Copies, Latency, Waves])
    }
}
