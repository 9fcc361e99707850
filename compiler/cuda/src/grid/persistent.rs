//! Blocks that take several tiles, one after the other.
//!
//! ```text
//! persistent(132) i in 0..m      block in 0..min(66, m * n); cluster c
//!   parallel j in 0..n             for wave in 0..(m * n - block + 65) / 66
//!     cluster c in 0..2      =>      i, j = the digits of 66 * wave + block
//!       body                         body
//! ```
//!
//! Blocks that run at the same time have neighboring tiles, as if each had one. The blocks of a
//! cluster have the same tiles, and all threads of a block the same number of them: whoever waits
//! for others in the body waits as often as they do. What counts its way around (`feed`) goes on
//! counting from one tile to the next, so that copies for the next one are made while the one
//! before is stored.
//!
//! # Source
//!
//! Persistent threads (Gupta et al., 2012); static tile schedulers of CUTLASS 3
//! (`sm90_tile_scheduler.hpp`).

use super::{BlockVar, Kernel, LoopKind, Stmt, Tiles};
use tvmtune_ir::poly::{Facts, Poly, VarId};

/// Lets no more than so many blocks run the loops over blocks from `outermost` inwards; leaves a
/// kernel alone that has no more tiles than that. Returns whether blocks may then divide tiles
/// between them.
pub(super) fn persist(
    kernel: &mut Kernel,
    (outermost, kind): (VarId, tvmtune_schedule::LoopKind),
    facts: &Facts,
    n_vars: &mut u32,
) -> bool {
    let most = kind.max_blocks().unwrap_or(1);
    let (clustered, mut outer): (Vec<BlockVar>, Vec<BlockVar>) =
        std::mem::take(&mut kernel.blocks).into_iter().partition(|it| it.in_cluster);
    let extent = |it: &BlockVar| it.extent.as_constant().unwrap_or(1).max(1);
    let in_cluster: i64 = clustered.iter().map(extent).product();
    let first = outer.iter().position(|it| it.var == outermost).unwrap_or(outer.len());
    let vars = outer.split_off(first);
    let (wave, block) = (VarId(*n_vars), VarId(*n_vars + 1));
    let stride = (i64::from(most) / in_cluster).max(1);
    let tiles = Tiles { wave, block, stride, vars, shares: None };
    let (count, limit) = (tiles.count(), Poly::constant(stride));
    kernel.blocks = outer;
    let is_even = count.as_constant().is_some_and(|it| it % stride == 0);
    let divides = matches!(kind, tvmtune_schedule::LoopKind::StreamK(_)) && !is_even;
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
        ("wave".to_owned(), LoopKind::Serial, std::mem::take(&mut kernel.body));
    kernel.body = vec![Stmt::For { var: wave, name, extent, kind, body }];
    kernel.tiles = Some(tiles);
    divides
}
