//! How large a tile of accumulators should be: the analytic model of a reduction's inner loop.
//!
//! A tile of `rows x vectors` accumulators issues as many multiply-adds in each step of the
//! reduction, and loads what it reads: of operands that depend on the vectorized axis `vectors`
//! vectors, of others one broadcast element; times `rows` if they depend on the unrolled axis. The
//! step takes as long as the slowest of arithmetic, loads, and the chain through one accumulator.
//! Rows of an operand that lie a multiple of a page apart share the sets of the first-level cache:
//! more of them than it has ways push each other out, and every step loads them again.
//!
//! # Source
//!
//! The register-tile model of Goto and van de Geijn (2008) and of Low et al., "Analytical Modeling
//! Is Enough for High-Performance BLIS" (2016), with masked tails counted as full tiles.

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
    /// Whether it is loaded as vectors; else one element is broadcast.
    pub(super) vector: bool,
    /// Whether each row has its own.
    pub(super) per_row: bool,
    /// Loads that a vector of it takes: two where windows slide over it, so that vectors straddle
    /// lines; three, one of them a permutation, of every other element.
    pub(super) loads: u64,
    /// So many rows stay in the first-level cache.
    pub(super) cached_rows: u64,
}

/// Multiply-adds that a core starts in a cycle, and cycles until one can be used by the next.
const ARITHMETIC: (f64, f64) = (2.0, 4.0);
/// Loads that a core starts in a cycle.
const LOADS: f64 = 2.0;
const PAGE_BYTES: u64 = 4096;
const LINE_BYTES: u64 = 64;
/// Accumulator tiles are no longer than this, along either axis.
const MOST: (u64, u64) = (30, 12);

impl Operand {
    /// The operand of an access when one axis is vectorized and another unrolled, in a cache of
    /// that many bytes. Elements have 4 bytes.
    pub(super) fn of(
        access: &Access,
        vector_axis: usize,
        row_axis: Option<usize>,
        l1_bytes: u64,
    ) -> Self {
        let stride = row_axis.and_then(|it| access.strides[it].as_ref()?.as_constant());
        let bytes = stride.unwrap_or(0).unsigned_abs() * 4;
        // Lines a multiple of this apart share a set, in any cache indexed before translation.
        let n_sets = PAGE_BYTES / gcd(bytes, PAGE_BYTES).max(LINE_BYTES);
        let n_ways = (l1_bytes / PAGE_BYTES).max(1);
        let vector = access.depends_on(vector_axis);
        let per_row = row_axis.is_some_and(|it| access.depends_on(it));
        Self {
            vector,
            per_row,
            loads: match vector {
                true if access.conditional => 1 + u64::from(!per_row),
                true if access.is_every_other(vector_axis) => 3,
                _ => 1,
            },
            // A quarter is left to the other operands, which pass through.
            cached_rows: if bytes < LINE_BYTES { u64::MAX } else { n_sets * n_ways * 3 / 4 },
        }
    }
}

/// Vector registers that a tile needs.
pub(super) fn registers(rows: u64, vectors: u64, operands: &[Operand]) -> u64 {
    let held = |it: &Operand| if it.vector && !it.per_row { vectors } else { 0 };
    // One more for what is loaded and used at once.
    rows * vectors + operands.iter().map(held).sum::<u64>() + 1
}

/// The fastest tile for axes of those extents, of which it is never longer.
pub(super) fn choose(isa: Isa, operands: &[Operand], rows: u64, lanes: u64) -> RegisterTile {
    let n_vectors = lanes.div_ceil(isa.lanes().into());
    let mut best = RegisterTile { rows: 1, vectors: 1, cycles: f64::INFINITY };
    for vectors in 1..=n_vectors.min(MOST.1) {
        for tile_rows in 1..=rows.min(MOST.0) {
            if registers(tile_rows, vectors, operands) > u64::from(isa.registers()) {
                break;
            }
            let n_tiles = rows.div_ceil(tile_rows) * n_vectors.div_ceil(vectors);
            let cycles = n_tiles as f64 * step(tile_rows, vectors, operands);
            // Where all that is read as vectors is read anew for each row, long ones are as good.
            let as_good = operands.iter().all(|it| it.per_row || !it.vector)
                && cycles < best.cycles * 1.001
                && vectors > best.vectors;
            if cycles < best.cycles * 0.999 || as_good {
                best = RegisterTile { rows: tile_rows, vectors, cycles };
            }
        }
    }
    best
}

/// Cycles of one reduction step of a tile.
fn step(rows: u64, vectors: u64, operands: &[Operand]) -> f64 {
    let load = |it: &Operand| {
        let along = if it.vector { vectors } else { 1 };
        let times = if it.per_row { rows } else { 1 };
        (along * times * it.loads) as f64
    };
    let loads: f64 = operands.iter().map(load).sum();
    let arithmetic = (rows * vectors) as f64 / ARITHMETIC.0;
    let evicted = |it: &&Operand| it.per_row && !it.vector && rows > it.cached_rows;
    let reloads = operands.iter().filter(evicted).count() as u64 * rows;
    // A little for the loop itself, which larger tiles amortize.
    arithmetic.max(loads / LOADS).max(ARITHMETIC.1) + 0.4 * reloads as f64 + 0.15
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The operands of a product of matrices, of which so many rows of the first stay in the cache.
    fn operands(cached_rows: u64) -> [Operand; 2] {
        let row = Operand { vector: false, per_row: true, loads: 1, cached_rows };
        [row, Operand { vector: true, per_row: false, loads: 1, cached_rows: u64::MAX }]
    }

    fn check(isa: Isa, rows: u64, lanes: u64, expected: (u64, u64)) {
        let operands = operands(u64::MAX);
        let tile = choose(isa, &operands, rows, lanes);
        assert_eq!((tile.rows, tile.vectors), expected, "{rows} x {lanes}");
        assert!(registers(tile.rows, tile.vectors, &operands) <= isa.registers().into());
    }

    #[test]
    fn rows_that_share_cache_sets_are_few() {
        let tile = choose(Isa::Avx512, &operands(9), 1024, 1024);
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
}
