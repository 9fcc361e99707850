//! Stream-K: blocks run equal shares of the iterations of all tiles.
//!
//! ```text
//! stream_k(132) i in 0..m            block in 0..132
//!   parallel j in 0..n                 for work unit of block
//!     acc = 0                            i, j = the tile of the work unit
//!     for k in 0..K              =>      acc = 0
//!       acc += ..                        for k in first..end: acc += ..
//!     out[i, j] = f(acc)                 if all of K: out[i, j] = f(acc)
//!                                        else: partial_sums[block] = acc
//!                                    block in 0..132
//!                                      if block began a tile that it did not end
//!                                        acc = all partial sums of that tile
//!                                        out[i, j] = f(acc)
//! ```
//!
//! With more tiles than blocks, rounds of whole tiles come first, as in `persistent`; the iterations
//! of the last round and of the remaining tiles are divided evenly. So no multiprocessor is idle
//! while others have one tile more. Each block stores partial sums in a place of its own, and
//! `fix_up` adds those of a tile in order: results do not depend on timing. No block waits for
//! another: the second kernel starts when the first one has ended.
//!
//! `Shares` in `tvmtune/stream.cuh` is the decomposition on the device, and [`Decomposition`] the
//! same for cost models.
//!
//! # Source
//!
//! Stream-K (Osama et al., 2023), in its form with whole tiles first; the fix-up is a kernel of its
//! own instead of blocks that wait for one another.

use std::collections::{BTreeMap, BTreeSet};

use super::kernel::fresh;
use super::unbound::{Kernel, Stmt};
use super::{BlockVar, Buffer, LoopKind, MemoryScope, Statement, StreamK, Unplaceable, WorkUnit};
use tvmtune_ir::dag::{Expr, Reducer, TensorId};
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_schedule::nest::{Guard, any, read};

/// Divides the last tiles of persistent blocks into work units, if tiles may not be divisible by
/// blocks.
pub(super) fn divide(
    kernel: &mut Kernel,
    buffers: &[Buffer],
    facts: &Facts,
    n_vars: &mut u32,
) -> Result<(), Unplaceable> {
    let Some(tiles) = &mut kernel.tiles else { return Ok(()) };
    // Partial sums are numbered by those.
    let is_own = |it: &BlockVar| it.in_cluster || it.var == tiles.block;
    if !kernel.blocks.iter().all(is_own) {
        return Err(Unplaceable::NotStreamK);
    }
    let [Stmt::For { extent: rounds, body, .. }] = kernel.body.as_mut_slice() else {
        return Err(Unplaceable::NotStreamK);
    };
    let is_reduction = |it: &Stmt| matches!(it, Stmt::For { kind, .. } if is_sequential(*kind));
    let at = body.iter().position(is_reduction).ok_or(Unplaceable::NotStreamK)?;
    let after = body.split_off(at + 1);
    let sums = sums(&body[..at], &body[at], &after, buffers).ok_or(Unplaceable::NotStreamK)?;
    let (first, end) = (fresh(n_vars), fresh(n_vars));
    let Some(Stmt::For { var, name, extent, kind, body: adds }) = body.pop() else {
        return Err(Unplaceable::NotStreamK);
    };
    // Work units are of tiles that are all alike.
    if extent.has_vars() || !extent.is_positive(facts) {
        return Err(Unplaceable::NotStreamK);
    }
    let shifted = Poly::var(var) + Poly::var(first);
    let of = |it: VarId| (it == var).then(|| shifted.clone());
    let shift = |it: Stmt| it.map_polys(&|it| it.substitute_vars(&of, &Facts::default()));
    let length = Poly::var(end) - Poly::var(first);
    let adds = adds.into_iter().map(shift).collect();
    body.push(Stmt::For { var, name, extent: length.clone(), kind, body: adds });
    body.push(Stmt::If { guards: vec![is_whole(&extent, &length)], body: after });
    // A block has a work unit of a tile before its whole ones, and one after.
    *rounds = rounds.clone() + Poly::constant(2);
    let most = Poly::constant(tiles.stride).lesser(&(tiles.count() * extent.clone()), facts);
    let own = kernel.blocks.iter_mut().filter(|it| it.var == tiles.block);
    own.for_each(|it| it.extent = most.clone());
    tiles.stream_k =
        Some(StreamK { iterations: extent, work_unit: WorkUnit::PartialSums { first, end, sums } });
    Ok(())
}

/// Returns whether a loop is sequential.
fn is_sequential(kind: LoopKind) -> bool {
    matches!(kind, LoopKind::Serial | LoopKind::Pipelined(_) | LoopKind::WarpSpecialized(_))
}

/// Returns the guard that a work unit is a whole tile.
pub(super) fn is_whole(depth: &Poly, length: &Poly) -> Guard {
    Guard { value: depth.clone() - Poly::constant(1), bound: length.clone() }
}

/// Returns the accumulators of a loop with their reducers; `None` if it has no partial sums.
fn sums(
    before: &[Stmt],
    adds: &Stmt,
    after: &[Stmt],
    buffers: &[Buffer],
) -> Option<Vec<(TensorId, Reducer)>> {
    let (mut reducers, mut stored, mut is_plain) = (BTreeMap::new(), BTreeSet::new(), true);
    let is_local = |it: &TensorId| buffers[it.0 as usize].scope == MemoryScope::Undecided;
    adds.walk(&mut |it| match it {
        Stmt::Update { tensor, reducer, .. } => {
            is_plain &= reducers.insert(*tensor, *reducer).is_none_or(|it| it == *reducer);
            is_plain &= is_local(tensor);
        }
        Stmt::Store { tensor, .. } => {
            stored.insert(*tensor);
            is_plain &= is_local(tensor);
        }
        // Its result is in all threads.
        Stmt::AllReduce { .. } => is_plain = false,
        _ => {}
    });
    let (inside, later) = (read(std::slice::from_ref(adds)), read(after));
    reducers.retain(|it, _| later.contains(it));
    let is_sum = |it: &TensorId| {
        !inside.contains(it)
            && !stored.contains(it)
            && starts_at_identity(before, *it, buffers, &reducers)
    };
    let fits = is_plain
        && !reducers.is_empty()
        && reducers.keys().all(is_sum)
        && stored.is_disjoint(&later)
        && ![before, after].into_iter().any(has_pipelined);
    fits.then(|| reducers.into_iter().collect())
}

/// Returns whether an accumulator is only initialized, with the identity, before it is added to.
fn starts_at_identity(
    before: &[Stmt],
    sum: TensorId,
    buffers: &[Buffer],
    reducers: &BTreeMap<TensorId, Reducer>,
) -> bool {
    let Some(reducer) = reducers.get(&sum) else { return false };
    let identity = reducer.identity(buffers[sum.0 as usize].dtype);
    let (mut starts, mut is_nothing) = (false, true);
    for stmt in before {
        stmt.walk(&mut |it| match it {
            Stmt::Store { tensor, value, .. } if *tensor == sum => {
                starts = true;
                is_nothing &= matches!(value, Expr::Const(it, _) if *it == identity);
            }
            Stmt::Update { tensor, .. } => is_nothing &= *tensor != sum,
            _ => {}
        });
    }
    starts && is_nothing
}

/// Returns whether there are pipelined loops in statements.
fn has_pipelined(body: &[Stmt]) -> bool {
    use LoopKind::{Pipelined, WarpSpecialized};
    any(body, &|it| matches!(it, Stmt::For { kind: WarpSpecialized(_) | Pipelined(_), .. }))
}

/// The counts of a stream-K decomposition: as `Shares` in `tvmtune/stream.cuh` divides tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decomposition {
    /// Whole tiles of each block, before its work units.
    pub rounds: i64,
    /// The most iterations of work units that a block has after those.
    pub iterations: i64,
    /// Work units that are not whole tiles, of all blocks.
    pub work_units: i64,
    /// Tiles that consist of those.
    pub split_tiles: i64,
}

impl Decomposition {
    /// Decomposes `tiles` of `depth` iterations each over `blocks`.
    pub fn new(tiles: i64, depth: i64, blocks: i64) -> Self {
        let (depth, blocks) = (depth.max(1), blocks.max(1));
        let rounds = (tiles / blocks - 1).max(0);
        let n_divided = tiles - rounds * blocks;
        let iterations = (n_divided * depth + blocks - 1) / blocks;
        let (mut work_units, mut split_tiles) = (0, 0);
        for tile in 0..n_divided {
            let owner = |iteration: i64| iteration / iterations;
            let n = owner((tile + 1) * depth - 1) - owner(tile * depth) + 1;
            if n > 1 {
                work_units += n;
                split_tiles += 1;
            }
        }
        Self { rounds, iterations, work_units, split_tiles }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The iterations of each block, counted one by one.
    #[test]
    fn blocks_have_the_same_work_and_tiles_all_of_theirs() {
        for (tiles, depth, blocks) in
            (0..30).flat_map(|t| (1..9).flat_map(move |d| (1..9).map(move |b| (t, d, b))))
        {
            let it = Decomposition::new(tiles, depth, blocks);
            let rest = tiles - it.rounds * blocks;
            assert!(rest < 2 * blocks && (it.rounds == 0 || rest >= blocks), "{tiles} {blocks}");
            let (mut work_units, mut split_tiles) = (0, 0);
            let mut work = vec![0; blocks as usize];
            for tile in 0..rest {
                let mut owners: Vec<i64> =
                    (tile * depth..(tile + 1) * depth).map(|n| n / it.iterations).collect();
                owners.iter().for_each(|owner| work[*owner as usize] += 1);
                owners.dedup();
                if owners.len() > 1 {
                    work_units += owners.len() as i64;
                    split_tiles += 1;
                }
            }
            assert_eq!(
                (it.work_units, it.split_tiles),
                (work_units, split_tiles),
                "{tiles} {depth} {blocks}"
            );
            assert!(work.iter().all(|n| *n <= it.iterations));
            assert!(
                it.split_tiles < blocks.max(1),
                "a block begins at most one tile that it does not end"
            );
            if tiles % blocks == 0 {
                assert_eq!(it.work_units, 0);
            }
        }
    }
}
