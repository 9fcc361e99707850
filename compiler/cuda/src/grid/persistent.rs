//! Persistent blocks: a loop over tiles in each block.
//!
//! ```text
//! persistent(132) i in 0..m      block in 0..min(66, m * n); cluster c
//!   parallel j in 0..n             for tile_loop in 0..(m * n - block + 65) / 66
//!     cluster c in 0..2      =>      i, j = delinearize(66 * tile_loop + block)
//!       body                         body
//! ```
//!
//! Blocks that run at the same time have neighboring tiles, as if each had one. The blocks of a
//! cluster have the same tiles, and all threads of a block the same number of them, so waits in the
//! body match. Pipeline stages (`warp_specialize`) are counted on from one tile to the next, so that
//! loads for the next one overlap the epilogue of the one before.
//!
//! # Source
//!
//! Persistent threads (Gupta et al., 2012); static tile schedulers of CUTLASS 3
//! (`sm90_tile_scheduler.hpp`).

use super::unbound::{Kernel, Stmt};
use super::{BlockVar, LoopKind, Tiles};
use tvmtune_ir::poly::{Facts, Poly, VarId};

/// The outermost persistent loop over blocks.
pub(super) struct PersistentLoop {
    pub(super) var: VarId,
    pub(super) kind: LoopKind,
}

/// The largest clusters of which a GPU holds as many as it has room for: two multiprocessors are one
/// unit.
const PAIR: i64 = 2;

/// Returns the blocks, of those that have a multiprocessor each, that run at the same time in clusters.
///
/// A cluster runs on one GPC, and GPCs have numbers of multiprocessors that larger clusters do not
/// divide. An H200 of 132 holds 30 clusters of four, not 33 (`docs/results/h200.md`): three that waited
/// for the others would double the time of a persistent kernel.
pub fn resident_blocks(blocks: i64, cluster: i64) -> i64 {
    if cluster <= PAIR { blocks } else { blocks * 10 / 11 / cluster * cluster }
}

/// Lets no more than so many blocks run the loops over blocks from a persistent one inwards; leaves a
/// kernel alone that has no more tiles than that. Returns whether blocks may then divide tiles
/// between them.
pub(super) fn persist(
    kernel: &mut Kernel,
    persistent: &PersistentLoop,
    facts: &Facts,
    n_vars: &mut u32,
) -> bool {
    let most = persistent.kind.max_blocks().unwrap_or(1);
    let (clustered, mut outer): (Vec<BlockVar>, Vec<BlockVar>) =
        std::mem::take(&mut kernel.blocks).into_iter().partition(|it| it.in_cluster);
    let extent = |it: &BlockVar| it.extent.as_constant().unwrap_or(1).max(1);
    let in_cluster: i64 = clustered.iter().map(extent).product();
    let first = outer.iter().position(|it| it.var == persistent.var).unwrap_or(outer.len());
    let vars = outer.split_off(first);
    let (tile_loop, block) = (VarId(*n_vars), VarId(*n_vars + 1));
    let stride = (resident_blocks(most.into(), in_cluster) / in_cluster).max(1);
    let tiles = Tiles { tile_loop, block, stride, vars, stream_k: None };
    let (count, limit) = (tiles.count(), Poly::constant(stride));
    kernel.blocks = outer;
    let is_even = count.as_constant().is_some_and(|it| it % stride == 0);
    let divides = matches!(persistent.kind, LoopKind::StreamK(_)) && !is_even;
    if !divides && (limit.clone() - count.clone()).is_nonnegative(facts) {
        kernel.blocks.extend(tiles.vars.into_iter().chain(clustered));
        return false;
    }
    *n_vars += 2;
    let name = "block".to_owned();
    let extent = limit.lesser(&count, facts);
    let (in_cluster, is_reversed) = (false, false);
    kernel.blocks.push(BlockVar { var: block, name, extent, in_cluster, is_reversed });
    kernel.blocks.extend(clustered);
    let extent = (count - Poly::var(block)).ceil_div(stride, facts);
    let (name, kind, body) =
        ("tile_loop".to_owned(), LoopKind::Serial, std::mem::take(&mut kernel.body));
    kernel.body = vec![Stmt::For { var: tile_loop, name, extent, kind, body }];
    kernel.tiles = Some(tiles);
    divides
}
