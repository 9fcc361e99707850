//! The traffic of statements between the levels of the cache hierarchy.
//!
//! The footprint of a loop is the memory that all accesses in its body touch. For each cache, the
//! outermost loop whose footprint fits is found; its footprint is moved once for each iteration of
//! the loops around it, except for innermost ones of these that an access does not depend on.

use tvmtune_ir::dag::Subscript;
use tvmtune_ir::poly::{Facts, Poly};
use tvmtune_ir::target::CpuTarget;
use tvmtune_schedule::nest::{self, Nest, Scope, Statement};

use super::{Leaf, OpenLoop, max_extent};

/// Bytes per cycle of one core from the L2, the L3 and memory; estimates for recent server cores.
const BANDWIDTH: [f64; 3] = [40.0, 16.0, 7.0];
/// The share of one core in the L3, in bytes; an estimate.
const L3_BYTES: u64 = 8 << 20;
/// Bytes of a word, as which elements are counted, and words of a cache line.
const WORD: f64 = 4.0;
const LINE: f64 = 16.0;
/// The part of a cache that is usable before conflict misses; an estimate.
const USABLE: f64 = 0.8;

/// One access, inside its loops.
struct Access {
    /// The loops around it, outermost first.
    loops: Vec<AccessLoop>,
    /// By depth, the words of all lines touched while the loops from that depth on run.
    footprints: Vec<f64>,
}

/// A loop around an access.
struct AccessLoop {
    extent: f64,
    /// Set if the accessed element depends on its variable.
    moves: bool,
}

/// Estimates the cycles in which one thread moves the memory that some statements access.
pub(super) fn cycles(nest: &Nest, leaves: &[Leaf<'_>], target: &CpuTarget, facts: &Facts) -> f64 {
    let mut accesses = Vec::new();
    for Leaf { loops, stmt } in leaves {
        stmt.accesses(&mut |access| {
            let buffer = nest.buffer(access.tensor());
            if buffer.scope == Scope::Local {
                return;
            }
            let index: Vec<Option<&Poly>> = match access {
                nest::Access::Write(_, index) => index.iter().map(Some).collect(),
                nest::Access::Read(_, index) => index.iter().map(Subscript::affine).collect(),
            };
            let extents = buffer.shape.iter().map(|it| max_extent(it, facts) as f64);
            let index: Vec<_> = index.into_iter().zip(extents).collect();
            accesses.push(Access::new(&index, loops));
        });
    }
    let caches = [target.l1_bytes, target.l2_bytes, L3_BYTES];
    let worst = caches
        .iter()
        .zip(BANDWIDTH)
        .map(|(cache, bandwidth)| moved(&accesses, *cache as f64 * USABLE) * WORD / bandwidth);
    worst.fold(0.0, f64::max)
}

/// Returns the number of words moved into a cache of that many bytes.
fn moved(accesses: &[Access], cache: f64) -> f64 {
    let deepest = accesses.iter().map(|it| it.loops.len()).max().unwrap_or(0);
    // The outermost depth at which the footprint of all accesses fits.
    let touched = |depth: usize| -> f64 { accesses.iter().map(|it| it.footprint(depth)).sum() };
    let fits = (0..=deepest).find(|it| touched(*it) * WORD <= cache).unwrap_or(deepest);
    accesses.iter().map(|it| it.moved(fits)).sum()
}

impl Access {
    /// Creates an access from its index in each dimension (`None` if it depends on data), with the
    /// largest extent of that dimension.
    fn new(index: &[(Option<&Poly>, f64)], loops: &[OpenLoop]) -> Self {
        let depends = |it: &OpenLoop| {
            index.iter().any(|(poly, _)| poly.is_none_or(|poly| poly.mentions(it.var)))
        };
        let around =
            loops.iter().map(|it| AccessLoop { extent: it.extent as f64, moves: depends(it) });
        // The number of elements touched in each dimension grows with each loop, innermost first.
        let mut widths = vec![1.0; index.len()];
        let mut footprints = vec![LINE; loops.len() + 1];
        let mut all = 1.0;
        for (depth, it) in loops.iter().enumerate().rev() {
            for (width, (poly, _)) in widths.iter_mut().zip(index) {
                let step = poly.and_then(|poly| poly.step(it.var)).unwrap_or(1);
                *width += step.unsigned_abs() as f64 * (it.extent as f64 - 1.0);
            }
            all *= it.extent as f64;
            footprints[depth] = lines(&widths, index).min(all) * LINE;
        }
        Self { loops: around.collect(), footprints }
    }

    fn footprint(&self, depth: usize) -> f64 {
        self.footprints[depth.min(self.loops.len())]
    }

    /// Returns the number of words moved if the loops from number `depth` on run out of a cache.
    fn moved(&self, depth: usize) -> f64 {
        let depth = depth.min(self.loops.len());
        // Iterations of the loop right outside share lines, and overlapping windows.
        let Some(moving) = self.loops[..depth].iter().rposition(|it| it.moves) else {
            return self.footprint(depth);
        };
        let times: f64 = self.loops[..moving].iter().map(|it| it.extent).product();
        self.footprint(moving) * times
    }
}

/// Returns the number of lines of a box of elements of these widths: elements of a row share lines,
/// and rows that are touched as a whole are contiguous.
fn lines(widths: &[f64], index: &[(Option<&Poly>, f64)]) -> f64 {
    let (mut contiguous, mut strided, mut is_whole) = (1.0, 1.0, true);
    for (width, (poly, extent)) in widths.iter().zip(index).rev() {
        let width = if poly.is_some() { extent.min(*width) } else { *extent };
        *if is_whole { &mut contiguous } else { &mut strided } *= width;
        is_whole &= width >= *extent;
    }
    strided * (contiguous / LINE).ceil()
}
