//! The analytic cost model of a reduction's inner loop: the best register tile.
//!
//! A tile of `rows x vectors` accumulators issues as many multiply-adds in each step of the
//! reduction, and loads its operands: of those that depend on the vectorized axis `vectors`
//! vectors, of others one broadcast element; times `rows` if they depend on the unrolled axis. The
//! step takes as long as the slowest of arithmetic, loads, and the chain through one accumulator.
//! Rows of an operand that lie a multiple of a page apart share the sets of the first-level cache:
//! more of them than it has ways push each other out, and every step loads them again.
//!
//! # Source
//!
//! The register-tile model of Goto and van de Geijn (2008) and of Low et al., "Analytical Modeling
//! Is Enough for High-Performance BLIS" (2016), with masked tails counted as full tiles. Ports and
//! latencies: Fog, "Instruction tables".

use crate::sketch::layout::WORD_BYTES;
use tvmtune_cpu::vector::Simd;
use tvmtune_ir::dag::access::Access;
use tvmtune_ir::target::Isa;

/// A tile of accumulators.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RegisterTile {
    /// Iterations of the unrolled axis.
    pub(super) rows: u64,
    /// Vectors along the vectorized axis.
    pub(super) vectors: u64,
    /// Cycles of one reduction step over the whole extent of both axes.
    pub(super) cycles: f64,
}

/// One operand, as the inner loop sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operand {
    /// It is loaded as vectors; else one element is broadcast.
    pub(super) vector: bool,
    /// Each row has its own.
    pub(super) per_row: bool,
    /// Loads that a vector of it takes: two where windows slide over it, so that vectors straddle
    /// lines; three, one of them a permutation, of every other element; many where each lane has an address of
    /// its own.
    pub(super) loads: u64,
    /// Its vectors are transposed: this many lanes are rows of memory.
    pub(super) transposed: Option<u64>,
    /// So many rows stay in the first-level cache.
    pub(super) cached_rows: u64,
}

/// Rows of a reduction's windows, all of which are unrolled: tiles of several rows load what their windows
/// share once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Windows {
    /// The reduce axis that is unrolled besides the last one.
    pub(super) axis: usize,
    /// The rows of a window.
    pub(super) rows: u64,
    /// Rows of the operand from one row of the tile to the next.
    pub(super) step: u64,
    /// The steps of the reduction in a window.
    pub(super) taps: u64,
}

/// Vector FMAs that a core issues in a cycle: two ports, as on Intel cores since Haswell and AMD cores
/// since Zen 2.
pub(super) const FMAS_PER_CYCLE: f64 = 2.0;
/// Latency of a vector FMA in cycles, as on Intel cores since Skylake and AMD cores since Zen 3.
pub(super) const FMA_LATENCY: f64 = 4.0;
/// Vector loads that a core issues in a cycle: two ports, as on the same cores.
const LOADS_PER_CYCLE: f64 = 2.0;
/// The cost of a gather of eight lanes, in loads: one for each lane, and as many operations that extract addresses
/// and insert lanes; an estimate.
const GATHER_LOADS: u64 = 16;
/// Words of a row that a load of a transposition takes: those of a 128-bit lane.
const WORDS_PER_ROW: u64 = 4;
/// Permutations that a transposed vector takes, besides insertions of 128-bit lanes, at the ports of FMAs.
const TRANSPOSITION: u64 = 2;
/// Cycles of a load that misses the first-level cache and hits the second, of which several are in
/// flight; chosen by measurement.
const RELOAD_CYCLES: f64 = 0.4;
/// Cycles of the loop itself in each step, which larger tiles amortize; chosen by measurement.
const LOOP_CYCLES: f64 = 0.15;
const PAGE_BYTES: u64 = 4096;
const LINE_BYTES: u64 = 64;
/// The largest tile: rows, then vectors. No instruction set here has registers for more.
pub(super) const MAX_TILE: (u64, u64) = (30, 12);
/// Vectors of a tile whose lanes are rows of memory, at most: more rows are more streams than a core follows;
/// chosen by measurement.
const MAX_TRANSPOSED: u64 = 2;
/// Relative difference of cycles below which tiles are as good as each other.
const TOLERANCE: f64 = 0.001;

impl Operand {
    /// Returns the operand of an access when one axis is vectorized and another unrolled, in a cache of
    /// that many bytes. Elements have 4 bytes.
    pub(super) fn new(
        access: &Access,
        vector_axis: usize,
        row_axis: Option<usize>,
        l1_bytes: u64,
    ) -> Self {
        let stride = row_axis.and_then(|it| access.strides[it].as_ref()?.as_constant());
        let bytes = stride.unwrap_or(0).unsigned_abs() * WORD_BYTES;
        // Lines a multiple of this apart share a set, in any cache indexed before translation.
        let n_sets = PAGE_BYTES / gcd(bytes, PAGE_BYTES).max(LINE_BYTES);
        let n_ways = (l1_bytes / PAGE_BYTES).max(1);
        let vector = access.depends_on(vector_axis);
        let per_row = row_axis.is_some_and(|it| access.depends_on(it));
        Self {
            vector,
            per_row,
            loads: match vector {
                true if access.is_gathered(vector_axis) => GATHER_LOADS,
                true if access.conditional => 1 + u64::from(!per_row),
                true if access.is_every_other(vector_axis) => 3,
                _ => 1,
            },
            transposed: None,
            // A quarter is left to the other operands, which pass through.
            cached_rows: if bytes < LINE_BYTES { u64::MAX } else { n_sets * n_ways * 3 / 4 },
        }
    }

    /// Returns the operand whose vectors are transposed, where each of so many lanes is a row of memory.
    pub(super) fn transposed(self, lanes: u64) -> Self {
        Self { transposed: Some(lanes), loads: lanes / WORDS_PER_ROW, ..self }
    }

    /// Counts its vectors in a step of a tile.
    fn vectors(&self, rows: u64, vectors: u64) -> u64 {
        let times = if self.per_row { rows } else { 1 };
        if self.vector { vectors * times } else { times }
    }
}

/// Counts the vector registers that a tile needs, but for a mask.
pub(super) fn registers(rows: u64, vectors: u64, operands: &[Operand]) -> u64 {
    let resident = |it: &Operand| match it.transposed {
        // The rows of a transposition, and the vectors that they become.
        Some(lanes) => lanes,
        None if it.vector && !it.per_row => vectors,
        None => 0,
    };
    // One more for an operand that is loaded and used at once.
    rows * vectors + operands.iter().map(resident).sum::<u64>() + 1
}

/// Returns the fastest tile for axes of those extents, never longer than these; with windows, whose rows are
/// unrolled.
pub(super) fn choose(
    simd: Simd,
    operands: &[Operand],
    windows: Option<Windows>,
    (rows, lanes): (u64, u64),
) -> RegisterTile {
    let n_vectors = lanes.div_ceil(simd.lanes().unsigned_abs());
    // The mask of a tail is a vector where there are no mask registers. Longer extents have tiles without it.
    let n_masks = |vectors: u64| {
        let has_tail = vectors >= n_vectors && !lanes.is_multiple_of(simd.lanes().unsigned_abs());
        u64::from(has_tail && simd.isa == Isa::Avx2)
    };
    let mut best = RegisterTile { rows: 1, vectors: 1, cycles: f64::INFINITY };
    for vectors in 1..=n_vectors.min(MAX_TILE.1) {
        for tile_rows in 1..=rows.min(MAX_TILE.0) {
            let taken = registers(tile_rows, vectors, operands) + n_masks(vectors);
            let free = u64::from(simd.registers()).checked_sub(taken);
            let Some(free) = free else { break };
            let n_streams =
                |it: &Operand| it.transposed.map_or(0, |_| it.vectors(tile_rows, vectors));
            if operands.iter().map(n_streams).sum::<u64>() > MAX_TRANSPOSED {
                break;
            }
            let n_tiles = rows.div_ceil(tile_rows) * n_vectors.div_ceil(vectors);
            let one = match windows {
                None => step(tile_rows, vectors, operands),
                Some(it) => window_step(tile_rows, vectors, operands, (it, free)),
            };
            let cycles = n_tiles as f64 * one;
            // Long tiles are as good if each row reads vectors of its own.
            let as_good = operands.iter().all(|it| it.per_row || !it.vector)
                && cycles < best.cycles * (1.0 + TOLERANCE)
                && vectors > best.vectors;
            if cycles < best.cycles * (1.0 - TOLERANCE) || as_good {
                best = RegisterTile { rows: tile_rows, vectors, cycles };
            }
        }
    }
    best
}

/// Estimates the cycles of one reduction step of a tile.
fn step(rows: u64, vectors: u64, operands: &[Operand]) -> f64 {
    let load = |it: &Operand| (it.vectors(rows, vectors) * it.loads) as f64;
    let loads: f64 = operands.iter().map(load).sum();
    let permuted = |it: &Operand| match it.transposed {
        Some(lanes) => it.vectors(rows, vectors) * (TRANSPOSITION + lanes / WORDS_PER_ROW - 1),
        None => 0,
    };
    let permuted = operands.iter().map(permuted).sum::<u64>();
    let arithmetic = (rows * vectors + permuted) as f64 / FMAS_PER_CYCLE;
    let evicted = |it: &&Operand| it.per_row && !it.vector && rows > it.cached_rows;
    let reloads = operands.iter().filter(evicted).count() as u64 * rows;
    let busy = arithmetic.max(loads / LOADS_PER_CYCLE).max(FMA_LATENCY);
    busy + RELOAD_CYCLES * reloads as f64 + LOOP_CYCLES
}

/// Estimates the cycles of one reduction step of a tile whose windows are unrolled, with so many registers
/// left.
fn window_step(
    rows: u64,
    vectors: u64,
    operands: &[Operand],
    (windows, free): (Windows, u64),
) -> f64 {
    let shared = ((rows - 1) * windows.step + windows.rows).min(rows * windows.rows);
    let load = |it: &Operand| match (it.vector, it.per_row) {
        // Windows slide along the lanes as well: vectors straddle lines.
        (true, true) => (shared * vectors * it.loads.max(2)) as f64 / windows.rows as f64,
        (true, false) => (vectors * it.loads) as f64,
        // The weights of a window stay in registers, or are operands in memory.
        (false, false) if windows.taps <= free => 0.0,
        (false, _) => (rows * vectors) as f64,
    };
    let loads: f64 = operands.iter().map(load).sum();
    let arithmetic = (rows * vectors) as f64 / FMAS_PER_CYCLE;
    arithmetic.max(loads / LOADS_PER_CYCLE).max(FMA_LATENCY / windows.taps as f64)
        + LOOP_CYCLES / windows.taps as f64
}

pub(super) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tvmtune_cpu::vector::Width;

    /// The operands of a product of matrices, of which so many rows of the first stay in the cache.
    fn operands(cached_rows: u64) -> [Operand; 2] {
        let row = Operand { vector: false, per_row: true, loads: 1, transposed: None, cached_rows };
        [
            row,
            Operand {
                vector: true,
                per_row: false,
                loads: 1,
                transposed: None,
                cached_rows: u64::MAX,
            },
        ]
    }

    fn check(isa: Isa, rows: u64, lanes: u64, expected: (u64, u64)) {
        let operands = operands(u64::MAX);
        let simd = Simd { isa, width: Width::Bits32 };
        let tile = choose(simd, &operands, None, (rows, lanes));
        assert_eq!((tile.rows, tile.vectors), expected, "{rows} x {lanes}");
        assert!(registers(tile.rows, tile.vectors, &operands) <= isa.registers().into());
    }

    #[test]
    fn rows_that_share_cache_sets_are_few() {
        let simd = Simd { isa: Isa::Avx512, width: Width::Bits32 };
        let tile = choose(simd, &operands(9), None, (1024, 1024));
        assert_eq!((tile.rows, tile.vectors), (6, 4));
    }

    #[test]
    fn tiles_fill_the_registers() {
        check(Isa::Avx512, 14 * 64, 1024, (14, 2));
        check(Isa::Avx2, 600, 1024, (6, 2));
    }

    #[test]
    fn tiles_follow_short_extents() {
        check(Isa::Avx512, 1, 768, (1, 12));
        check(Isa::Avx512, 7, 512, (7, 2));
        check(Isa::Avx512, 100, 16, (25, 1));
    }

    #[test]
    fn tails_have_a_mask_in_a_register_of_avx2() {
        check(Isa::Avx2, 600, 24, (4, 3));
        check(Isa::Avx2, 600, 22, (3, 3));
        // Longer extents have tiles without the tail.
        check(Isa::Avx2, 603, 44, (4, 3));
        check(Isa::Avx512, 600, 12, (30, 1));
        let simd = Simd { isa: Isa::Avx512, width: Width::Bits32 };
        let tiles = [40, 48].map(|it| choose(simd, &operands(u64::MAX), None, (600, it)));
        assert_eq!(tiles[0], tiles[1]);
    }

    #[test]
    fn tiles_of_windows_leave_registers_for_their_weights() {
        let image = Operand {
            vector: true,
            per_row: true,
            loads: 1,
            transposed: None,
            cached_rows: u64::MAX,
        };
        let weight = Operand {
            vector: false,
            per_row: false,
            loads: 1,
            transposed: None,
            cached_rows: u64::MAX,
        };
        for (isa, n, expected) in
            [(Isa::Avx512, 3, (4, 4)), (Isa::Avx512, 5, (4, 1)), (Isa::Avx2, 3, (4, 1))]
        {
            let windows = Windows { axis: 4, rows: n, step: 1, taps: n * n };
            let simd = Simd { isa, width: Width::Bits32 };
            let tile = choose(simd, &[image, weight], Some(windows), (56, 56));
            assert_eq!((tile.rows, tile.vectors), expected, "{n} x {n} on {isa:?}");
            let n_registers = tile.rows * tile.vectors + 1 + windows.taps;
            assert!(n_registers <= isa.registers().into());
        }
    }
}
