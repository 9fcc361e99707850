//! Traffic of a kernel between its caches and memory.
//!
//! The footprint of an access while some loops run is a box: in each dimension from the least to the
//! greatest index, in whole sectors. The first-level cache of a block keeps what the outermost loop
//! touches whose box fits. The blocks that run at the same time walk side by side: memory gives each
//! box of theirs once, and of small tensors every box once for all of them.
//!
//! # Source
//!
//! Boxes by level: Roller (Zhu et al., OSDI 2022). Waves: `nvMatmulHeuristics` and `DeepGEMM` rank
//! matrix products by the same quantities.

use std::collections::BTreeMap;

use tvmtune_cuda::grid::{Grid, Kernel, MemoryScope, Tiles};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::poly::{DimId, Facts, Interval, Poly, VarId};

use super::machine::{L2_SHARE, RUN_START, SECTOR};
use super::walk::GlobalAccess;

/// Bytes that all blocks of a kernel move.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Traffic {
    /// Between the multiprocessors and the second-level cache.
    pub(super) l2: f64,
    /// Between that and memory.
    pub(super) dram: f64,
    /// Bytes that could be moved between the multiprocessors and the second-level cache, beside those, in
    /// the time that parts of lines take.
    pub(super) l2_overhead: f64,
    /// The same of memory, in the time that it takes to turn to other rows.
    pub(super) dram_overhead: f64,
}

impl Traffic {
    /// Returns a fraction of it.
    pub(super) fn times(self, some: f64) -> Self {
        let Self { l2, dram, l2_overhead, dram_overhead } = self;
        let [l2, dram, l2_overhead, dram_overhead] =
            [l2, dram, l2_overhead, dram_overhead].map(|it| it * some);
        Self { l2, dram, l2_overhead, dram_overhead }
    }
}

/// The execution of a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape<'a> {
    pub(super) grid: &'a Grid,
    pub(super) kernel: &'a Kernel,
    pub(super) dims: &'a [i64],
    /// Extents of the loops that number tiles.
    pub(super) tiles: &'a [i64],
    /// Tiles that are worked on at the same time.
    pub(super) resident: f64,
    /// First-level cache of one block, in bytes.
    pub(super) l1_bytes: f64,
    /// Second-level cache, in bytes.
    pub(super) l2_bytes: f64,
}

impl Shape<'_> {
    pub(super) fn traffic(&self, accesses: &[GlobalAccess]) -> Traffic {
        let n_tiles: f64 = self.tiles.iter().map(|it| *it as f64).product();
        let overhead: f64 = accesses.iter().map(|it| it.overhead).sum();
        let (dram, dram_overhead) = self.past_l2(accesses, n_tiles);
        let l2 = self.past_l1(accesses) * n_tiles;
        Traffic { l2, dram, l2_overhead: overhead * n_tiles, dram_overhead }
    }

    /// Bytes that one block moves past its first-level cache.
    fn past_l1(&self, accesses: &[GlobalAccess]) -> f64 {
        let reads = || accesses.iter().filter(|it| !it.writes);
        let deepest = reads().map(|it| it.loops.len()).max().unwrap_or(0);
        let facts: Vec<Facts> =
            (0..=deepest).map(|it| self.facts(accesses, &self.one(), it)).collect();
        let touched = |depth: usize| reads().map(|it| self.touched(it, &facts[depth], depth)).sum();
        let fits = (0..=deepest).find(|it| {
            let all: f64 = touched(*it);
            all <= self.l1_bytes
        });
        let writes: f64 = accesses.iter().filter(|it| it.writes).map(|it| it.bytes).sum();
        if fits == Some(0) {
            let once =
                |it: &GlobalAccess| (it.tensor, self.touched(it, &facts[0], 0).min(it.bytes));
            return writes + most_per_tensor(reads().map(once)).values().sum::<f64>();
        }
        let depth = fits.unwrap_or(deepest);
        let moved = |it: &GlobalAccess| {
            let outer = &it.loops[..depth.min(it.loops.len())];
            let again: f64 = outer.iter().map(|it| it.1 as f64).product();
            (self.touched(it, &facts[depth], depth) * again).min(it.bytes)
        };
        writes + reads().map(moved).sum::<f64>()
    }

    /// Bytes that all blocks move between the second-level cache and memory, and those that memory could
    /// move while it turns to other rows.
    fn past_l2(&self, accesses: &[GlobalAccess], n_tiles: f64) -> (f64, f64) {
        let all = self.tiles.to_vec();
        let mut wave = self.one();
        let mut left = self.resident.min(n_tiles).max(1.0);
        for (n, extent) in all.iter().enumerate().rev() {
            wave[n] = (*extent).min(left.ceil() as i64).max(1);
            left = (left / wave[n] as f64).max(1.0);
        }
        let n_wave: f64 = wave.iter().map(|it| *it as f64).product();
        let n_waves = (n_tiles / n_wave).max(1.0);
        let facts = [&all, &wave].map(|it| self.facts(accesses, it, 0));
        let boxes = |n: usize, blocks: f64| {
            let bytes = |it: &GlobalAccess| self.box_of(it, &facts[n], blocks * it.elements);
            most_per_tensor(accesses.iter().map(|it| (it.tensor, bytes(it))))
        };
        let (whole, once) = (boxes(0, n_tiles), boxes(1, n_wave));
        let mut order: Vec<(f64, TensorId)> = whole.iter().map(|(it, n)| (*n, *it)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let (mut kept, mut total, mut overhead) = (0.0, 0.0, 0.0);
        for (bytes, tensor) in order {
            kept += bytes;
            let stays = kept <= self.l2_bytes * L2_SHARE;
            let is_written = accesses.iter().any(|it| it.writes && it.tensor == tensor);
            let is_between =
                self.grid.buffer(tensor).scope == MemoryScope::Workspace && !is_written;
            let moved = match stays {
                // The kernel before left it there.
                true if is_between => 0.0,
                true => bytes,
                false => bytes.max(once.get(&tensor).copied().unwrap_or(0.0) * n_waves),
            };
            total += moved;
            overhead += moved * RUN_START / self.run(accesses, tensor);
        }
        (total, overhead)
    }

    /// Bytes that a block reads in a row of a tensor, in one iteration of loops: infinite where it reads
    /// none.
    fn run(&self, accesses: &[GlobalAccess], tensor: TensorId) -> f64 {
        let reads = accesses.iter().filter(|it| it.tensor == tensor && !it.writes);
        let run = |it: &GlobalAccess| {
            let facts = self.facts(accesses, &self.one(), it.n_serial);
            self.neighbors(it, &facts, it.elements) * self.grid.buffer(tensor).dtype.bytes() as f64
        };
        reads.map(run).fold(f64::INFINITY, f64::min)
    }

    fn one(&self) -> Vec<i64> {
        vec![1; self.tiles.len()]
    }

    /// Bounds the variables while loops from that depth on run, in so many blocks: loops further out
    /// stand still.
    fn facts(&self, accesses: &[GlobalAccess], blocks: &[i64], depth: usize) -> Facts {
        let mut facts = Facts::default();
        for n in 0..self.grid.dims.len() {
            let value = self.dims.get(n).copied().unwrap_or(1);
            facts.bound_dim(DimId(n as u32), Interval::point(value));
        }
        let mut bound = |var: VarId, extent: i64| facts.bound_var(var, Poly::constant(extent));
        for (block, extent) in self.kernel.tile_vars().zip(blocks) {
            bound(block.var, *extent);
        }
        for (var, _) in self.kernel.tiles.iter().flat_map(Tiles::work_unit_vars) {
            // A whole tile stands for its parts.
            bound(var, 1);
        }
        for it in &self.kernel.thread_vars {
            bound(it.var, i64::from(it.range.max(1) / it.step.max(1)).max(1));
        }
        for access in accesses {
            for (n, (var, extent)) in access.loops.iter().enumerate() {
                bound(*var, if n < depth { 1 } else { *extent });
            }
        }
        facts
    }

    /// Bytes of the sectors that one block touches while the loops from that depth on run.
    fn touched(&self, access: &GlobalAccess, facts: &Facts, depth: usize) -> f64 {
        let outer = &access.loops[..depth.min(access.loops.len())];
        let again: f64 = outer.iter().map(|it| it.1 as f64).product();
        self.box_of(access, facts, access.elements / again.max(1.0))
    }

    /// Bytes of the box that an access touches, in whole sectors; no more than it can with so many
    /// elements.
    fn box_of(&self, access: &GlobalAccess, facts: &Facts, elements: f64) -> f64 {
        let (together, apart) = self.sides(access, facts, elements);
        let bytes = self.grid.buffer(access.tensor).dtype.bytes() as f64;
        // Neighbors come in whole sectors.
        let sector = SECTOR as f64;
        let all = apart * (together * bytes / sector).ceil() * sector;
        all.min(elements.max(1.0) * sector)
    }

    /// Elements of the box that are neighbors in memory.
    fn neighbors(&self, access: &GlobalAccess, facts: &Facts, elements: f64) -> f64 {
        self.sides(access, facts, elements).0
    }

    /// Elements of the box that are neighbors in memory, and how often there are so many: rows that are
    /// touched from end to end are neighbors.
    fn sides(&self, access: &GlobalAccess, facts: &Facts, elements: f64) -> (f64, f64) {
        let buffer = self.grid.buffer(access.tensor);
        // An index that is read from data takes as many values as are left for it.
        let known: f64 = access.index.iter().flatten().map(|it| width(it, facts)).product();
        let unknown = (elements / known).ceil().max(1.0);
        let (mut together, mut apart, mut is_whole) = (1.0, 1.0, true);
        for (at, extent) in access.index.iter().zip(&buffer.shape).rev() {
            let most = extent.interval(facts).hi.max(1) as f64;
            let width = at.as_ref().map_or(unknown, |it| width(it, facts)).min(most);
            *if is_whole { &mut together } else { &mut apart } *= width;
            is_whole &= width >= most;
        }
        (together, apart)
    }
}

/// Returns the most values that an index takes.
fn width(index: &Poly, facts: &Facts) -> f64 {
    let Interval { lo, hi } = index.interval(facts);
    hi.saturating_sub(lo).saturating_add(1).max(1) as f64
}

/// Returns the most that one access of each tensor moves.
fn most_per_tensor(moved: impl Iterator<Item = (TensorId, f64)>) -> BTreeMap<TensorId, f64> {
    let mut most: BTreeMap<TensorId, f64> = BTreeMap::new();
    for (tensor, bytes) in moved {
        let it = most.entry(tensor).or_default();
        *it = it.max(bytes);
    }
    most
}
