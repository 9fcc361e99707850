//! Blocks that take parts of tiles, so that all have the same work: stream-K.
//!
//! ```text
//! streamed(132) i in 0..m            block in 0..132
//!   parallel j in 0..n                 for part of block's share
//!     acc = 0                            i, j = the tile of the part
//!     for k in 0..K              =>      acc = 0
//!       acc += ..                        for k in first..end: acc += ..
//!     out[i, j] = f(acc)                 if all of K: out[i, j] = f(acc)
//!                                        else: sums[block] = acc
//!                                    block in 0..132
//!                                      if block began a tile that it did not end
//!                                        acc = all sums of that tile
//!                                        out[i, j] = f(acc)
//! ```
//!
//! With more tiles than blocks, first come rounds of whole tiles, as in `persistent`; the last round,
//! and what is left over, is one row of iterations, of which each block has as many as the others.
//! So no multiprocessor is idle while others have one tile more. A block leaves its sums where no
//! other one does, and those of a tile are added in order: a result does not depend on who is fast.
//! Nobody waits for anybody: the second kernel starts when the first one has ended.
//!
//! Which parts are whose is said by `Shares` in `tvmtune/stream.cuh`, and by [`Decomposition`] to those
//! who predict.
//!
//! # Source
//!
//! Stream-K (Osama et al., 2023), in its form with whole tiles first; sums are joined by a kernel of
//! their own instead of by blocks that wait for one another.

use std::collections::{BTreeMap, BTreeSet};

use super::pipeline::written;
use super::{
    BlockVar, Buffer, Kernel, LoopKind, MemoryScope, Stmt, StreamK, ThreadVar, Tiles, Unplaceable,
    WorkUnit,
};
use tvmtune_ir::dag::{Expr, Reducer, Subscript, TensorId};
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_schedule::nest::Guard;

/// Lets blocks take parts of the last tiles, if there can be tiles that are not the same number for
/// each block.
pub(super) fn divide(
    kernel: &mut Kernel,
    buffers: &[Buffer],
    facts: &Facts,
    n_vars: &mut u32,
) -> Result<(), Unplaceable> {
    let Some(tiles) = &mut kernel.tiles else { return Ok(()) };
    // What blocks leave is numbered by those.
    let is_own = |it: &BlockVar| it.in_cluster || it.var == tiles.block;
    if !kernel.blocks.iter().all(is_own) {
        return Err(Unplaceable::NotStreamK);
    }
    let [Stmt::For { extent: rounds, body, .. }] = kernel.body.as_mut_slice() else {
        return Err(Unplaceable::NotStreamK);
    };
    let is_reduction = |it: &Stmt| matches!(it, Stmt::For { kind, .. } if runs_in_order(*kind));
    let at = body.iter().position(is_reduction).ok_or(Unplaceable::NotStreamK)?;
    let after = body.split_off(at + 1);
    let sums = sums(&body[..at], &body[at], &after, buffers).ok_or(Unplaceable::NotStreamK)?;
    let (first, end) = (VarId(*n_vars), VarId(*n_vars + 1));
    *n_vars += 2;
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
    // A block has one part of a tile in front, and one behind.
    *rounds = rounds.clone() + Poly::constant(2);
    let most = Poly::constant(tiles.stride).lesser(&(tiles.count() * extent.clone()), facts);
    let own = kernel.blocks.iter_mut().filter(|it| it.var == tiles.block);
    own.for_each(|it| it.extent = most.clone());
    tiles.stream_k =
        Some(StreamK { iterations: extent, work_unit: WorkUnit::PartialSums { first, end, sums } });
    Ok(())
}

/// Whether iterations of a loop run one after the other.
fn runs_in_order(kind: LoopKind) -> bool {
    matches!(kind, LoopKind::Serial | LoopKind::Pipelined(_) | LoopKind::WarpSpecialized(_))
}

/// Whether a part is all of its tile.
fn is_whole(depth: &Poly, length: &Poly) -> Guard {
    Guard { value: depth.clone() - Poly::constant(1), bound: length.clone() }
}

/// What a loop adds up for those after it, and how; `None` if parts of it cannot be added up later.
fn sums(
    before: &[Stmt],
    adds: &Stmt,
    after: &[Stmt],
    buffers: &[Buffer],
) -> Option<Vec<(TensorId, Reducer)>> {
    let (mut reducers, mut stored, mut is_plain) = (BTreeMap::new(), BTreeSet::new(), true);
    let is_local = |it: &TensorId| buffers[it.0 as usize].scope == MemoryScope::Registers;
    adds.walk(&mut |it| match it {
        Stmt::Update { tensor, reducer, .. } => {
            is_plain &= reducers.insert(*tensor, *reducer).is_none_or(|it| it == *reducer);
            is_plain &= is_local(tensor);
        }
        Stmt::Store { tensor, .. } => {
            stored.insert(*tensor);
            is_plain &= is_local(tensor);
        }
        // All threads have all of it then.
        Stmt::AllReduce { .. } => is_plain = false,
        _ => {}
    });
    let (inside, later) = (reads(std::slice::from_ref(adds)), reads(after));
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
        && !before.iter().chain(after).any(moves_ahead);
    fits.then(|| reducers.into_iter().collect())
}

/// Whether a sum is made nothing, and nothing else, before it is added to.
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

/// Whether there are loops in a statement whose copies are ahead.
fn moves_ahead(stmt: &Stmt) -> bool {
    let mut found = false;
    stmt.walk(&mut |it| {
        found |= matches!(
            it,
            Stmt::For { kind: LoopKind::WarpSpecialized(_) | LoopKind::Pipelined(_), .. }
        );
    });
    found
}

/// What statements read.
fn reads(body: &[Stmt]) -> BTreeSet<TensorId> {
    let mut found = BTreeSet::new();
    for stmt in body {
        stmt.walk(&mut |it| {
            let (Stmt::Store { value, .. } | Stmt::Update { value, .. }) = it else { return };
            value.walk(&mut |it| {
                if let Expr::Read { tensor, .. } = it {
                    found.insert(*tensor);
                }
            });
        });
    }
    found
}

/// Lets a finished kernel leave the sums of parts in memory; returns the one that joins them.
pub(super) fn fix_up(
    kernel: &mut Kernel,
    buffers: &mut Vec<Buffer>,
    n_vars: &mut u32,
) -> Result<Option<Kernel>, Unplaceable> {
    let Some(tiles) = kernel.tiles.clone() else { return Ok(None) };
    let Some(StreamK { iterations: depth, work_unit: WorkUnit::PartialSums { first, end, sums } }) =
        &tiles.stream_k
    else {
        return Ok(None);
    };
    let mut fix_up = kernel.clone();
    let [Stmt::For { body, .. }] = kernel.body.as_mut_slice() else {
        return Err(Unplaceable::NotStreamK);
    };
    let length = Poly::var(*end) - Poly::var(*first);
    let (before, after) = around(body, depth, &length).ok_or(Unplaceable::NotStreamK)?;
    let in_registers = |it: &TensorId| buffers[it.0 as usize].scope == MemoryScope::Registers;
    if !sums.iter().all(|it| in_registers(&it.0)) {
        return Err(Unplaceable::NotStreamK);
    }
    let sums = Sums::new(sums, &mut fix_up, &tiles, buffers, n_vars);
    kernel.thread_vars.clone_from(&fix_up.thread_vars);
    let guards = vec![Guard { value: length, bound: depth.clone() }];
    let left = Stmt::If { guards, body: sums.leave(&Poly::var(tiles.block), &Poly::var(*first)) };
    body.insert(body.len() - 1, left);
    let (count, nth) = (VarId(*n_vars), VarId(*n_vars + 1));
    *n_vars += 2;
    let added = Stmt::For {
        var: nth,
        name: "n".to_owned(),
        extent: Poly::var(count),
        kind: LoopKind::Serial,
        body: sums.add(&(Poly::var(tiles.block) + Poly::var(nth)), &Poly::var(nth)),
    };
    if let [Stmt::For { body, .. }] = fix_up.body.as_mut_slice() {
        *body = before.into_iter().chain([added]).chain(after).collect();
    }
    let stream_k =
        Some(StreamK { iterations: depth.clone(), work_unit: WorkUnit::FixUp { count } });
    fix_up.tiles = Some(Tiles { stream_k, ..tiles });
    (fix_up.circular_buffers, fix_up.tensor_maps, fix_up.producer) =
        (Vec::new(), Vec::new(), Vec::new());
    let is_shared = |it: &TensorId| matches!(buffers[it.0 as usize].scope, MemoryScope::Shared(_));
    if fix_up.partials.is_none() && !written(&fix_up.body).iter().any(is_shared) {
        fix_up.shared_bytes = 0;
    }
    Ok(Some(fix_up))
}

/// What a block does before it adds up, and what it does once it has all.
fn around(body: &[Stmt], depth: &Poly, length: &Poly) -> Option<(Vec<Stmt>, Vec<Stmt>)> {
    let of_part = |it: &Stmt| matches!(it, Stmt::For { extent, .. } if extent == length);
    let adds = body.iter().position(of_part)?;
    let Some(Stmt::If { guards, body: after }) = body.last() else { return None };
    let is_last = *guards == [is_whole(depth, length)];
    is_last.then(|| (body[..adds].to_vec(), after.clone()))
}

/// The sums that blocks leave in memory.
struct Sums {
    each: Vec<Sum>,
    /// The number of a block in its cluster, and of a thread.
    within: [Poly; 2],
}

/// One buffer of sums.
struct Sum {
    tensor: TensorId,
    reducer: Reducer,
    /// Where parts are left: `[block, behind or in front, block of a cluster, element, thread]`.
    left: TensorId,
    /// Loops over its elements in one thread.
    loops: Vec<(VarId, i64)>,
    /// The position of an element.
    element: Poly,
}

impl Sums {
    fn new(
        sums: &[(TensorId, Reducer)],
        kernel: &mut Kernel,
        tiles: &Tiles,
        buffers: &mut Vec<Buffer>,
        n_vars: &mut u32,
    ) -> Self {
        let (cluster, rank) = rank(&kernel.blocks);
        let thread = thread(kernel, n_vars);
        let mut of = |(tensor, reducer): &(TensorId, Reducer)| {
            let buffer = &buffers[tensor.0 as usize];
            let extents = buffer.shape.iter().map(|it| it.as_constant().unwrap_or(1).max(1));
            let loops: Vec<(VarId, i64)> = (*n_vars..).map(VarId).zip(extents).collect();
            *n_vars += loops.len() as u32;
            let next = |at: Poly, (var, extent): &(VarId, i64)| {
                at * Poly::constant(*extent) + Poly::var(*var)
            };
            let element = loops.iter().fold(Poly::default(), next);
            let elements: i64 = loops.iter().map(|it| it.1).product();
            let shape = [tiles.stride, 2, cluster, elements, i64::from(kernel.threads)];
            let (name, shape) =
                (format!("{}_left", buffer.name), shape.map(Poly::constant).to_vec());
            let (dtype, scope) = (buffer.dtype, MemoryScope::Workspace);
            let (layout, swizzle, is_rounded) = (None, None, false);
            buffers.push(Buffer { name, dtype, shape, scope, layout, swizzle, is_rounded });
            let left = TensorId(buffers.len() as u32 - 1);
            Sum { tensor: *tensor, reducer: *reducer, left, loops, element }
        };
        Self { each: sums.iter().map(&mut of).collect(), within: [rank, thread] }
    }

    /// Where a block leaves an element: of the part behind if `turn` is 0, else of the one in front.
    fn place(&self, sum: &Sum, block: &Poly, turn: &Poly) -> Vec<Poly> {
        let turn = Poly::constant(1).lesser(turn, &Facts::default());
        let [rank, thread] = self.within.clone();
        vec![block.clone(), turn, rank, sum.element.clone(), thread]
    }

    /// Leaves the sums of a part.
    fn leave(&self, block: &Poly, turn: &Poly) -> Vec<Stmt> {
        let store = |it: &Sum| {
            let (index, value) = (self.place(it, block, turn), read(it.tensor, it.index()));
            it.each(Stmt::Store { tensor: it.left, index, value })
        };
        self.each.iter().map(store).collect()
    }

    /// Adds the sums that a block left.
    fn add(&self, block: &Poly, turn: &Poly) -> Vec<Stmt> {
        let update = |it: &Sum| {
            let (reducer, index) = (it.reducer, it.index());
            let value = read(it.left, self.place(it, block, turn));
            it.each(Stmt::Update { tensor: it.tensor, index, reducer, value })
        };
        self.each.iter().map(update).collect()
    }
}

impl Sum {
    fn index(&self) -> Vec<Poly> {
        self.loops.iter().map(|it| Poly::var(it.0)).collect()
    }

    /// A statement for each element.
    fn each(&self, stmt: Stmt) -> Stmt {
        self.loops.iter().rev().fold(stmt, |stmt, (var, extent)| Stmt::For {
            var: *var,
            name: "element".to_owned(),
            extent: Poly::constant(*extent),
            kind: LoopKind::Unrolled,
            body: vec![stmt],
        })
    }
}

fn read(tensor: TensorId, index: Vec<Poly>) -> Expr {
    Expr::Read { tensor, index: index.into_iter().map(Subscript::Affine).collect() }
}

/// How many blocks a cluster has, and which of them one is.
fn rank(blocks: &[BlockVar]) -> (i64, Poly) {
    let in_cluster = blocks.iter().filter(|it| it.in_cluster);
    in_cluster.fold((1, Poly::default()), |(n, rank), it| {
        let extent = it.extent.as_constant().unwrap_or(1);
        (n * extent, rank * Poly::constant(extent) + Poly::var(it.var))
    })
}

/// The number of a thread.
fn thread(kernel: &mut Kernel, n_vars: &mut u32) -> Poly {
    let range = kernel.threads;
    let is_own = |it: &&ThreadVar| (it.step, it.range) == (1, range);
    if let Some(known) = kernel.thread_vars.iter().find(is_own) {
        return Poly::var(known.var);
    }
    let var = VarId(*n_vars);
    *n_vars += 1;
    kernel.thread_vars.push(ThreadVar { var, step: 1, range });
    Poly::var(var)
}

/// How many parts there are of what: as `Shares` in `tvmtune/stream.cuh` divides tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decomposition {
    /// Whole tiles of each block, before it takes parts.
    pub rounds: i64,
    /// The most iterations of parts that a block has.
    pub each: i64,
    /// Parts that are not whole tiles, of all blocks.
    pub parts: i64,
    /// Tiles that are made of those.
    pub joined: i64,
}

impl Decomposition {
    /// Of so many tiles, of that many iterations each, between so many blocks.
    pub fn new(tiles: i64, depth: i64, blocks: i64) -> Self {
        let (depth, blocks) = (depth.max(1), blocks.max(1));
        let rounds = (tiles / blocks - 1).max(0);
        let n_divided = tiles - rounds * blocks;
        let each = (n_divided * depth + blocks - 1) / blocks;
        let (mut parts, mut joined) = (0, 0);
        for tile in 0..n_divided {
            let owner = |iteration: i64| iteration / each;
            let n = owner((tile + 1) * depth - 1) - owner(tile * depth) + 1;
            if n > 1 {
                parts += n;
                joined += 1;
            }
        }
        Self { rounds, each, parts, joined }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who has which iterations, counted one by one.
    #[test]
    fn blocks_have_the_same_work_and_tiles_all_of_theirs() {
        for (tiles, depth, blocks) in
            (0..30).flat_map(|t| (1..9).flat_map(move |d| (1..9).map(move |b| (t, d, b))))
        {
            let it = Decomposition::new(tiles, depth, blocks);
            let rest = tiles - it.rounds * blocks;
            assert!(rest < 2 * blocks && (it.rounds == 0 || rest >= blocks), "{tiles} {blocks}");
            let (mut parts, mut joined) = (0, 0);
            let mut work = vec![0; blocks as usize];
            for tile in 0..rest {
                let mut owners: Vec<i64> =
                    (tile * depth..(tile + 1) * depth).map(|n| n / it.each).collect();
                owners.iter().for_each(|owner| work[*owner as usize] += 1);
                owners.dedup();
                if owners.len() > 1 {
                    parts += owners.len() as i64;
                    joined += 1;
                }
            }
            assert_eq!((it.parts, it.joined), (parts, joined), "{tiles} {depth} {blocks}");
            assert!(work.iter().all(|n| *n <= it.each));
            assert!(
                it.joined < blocks.max(1),
                "a block begins at most one tile that it does not end"
            );
            if tiles % blocks == 0 {
                assert_eq!(it.parts, 0);
            }
        }
    }
}
