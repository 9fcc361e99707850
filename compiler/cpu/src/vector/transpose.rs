//! Strided accesses of consecutive words, four of which machine code replaces by a transposition, and two
//! or three of which by an interleaving if they fill memory.
//!
//! ```text
//! s0: use t0[p].+s; s1: use t0[p + 4].+s; ...
//!     =>   r0 = t0[p].+s; r1 = t0[p + 4].+s; r2 = ..; r3 = ..; s0: use r0; s1: use r1; ...
//! ```
//!
//! In: the nodes and statements of a block. Out: those that [`super::cse`] emits side by side, which
//! `x86` selects as a transposition. They keep their order as far as it can be observed: no statement
//! between them writes to the base of loads, and no value of stores reads from theirs.

use std::collections::{BTreeMap, BTreeSet};

use super::cse::PendingStmt;
use super::numbering::{Interned, MaskRef, MemRef, Op, ValueGraph, ValueId};
use super::{Address, Base, Count, LaneStride, Storage};

/// Vectors of a transposition: the words of a 128-bit lane.
pub(crate) const N_VECTORS: usize = 4;

/// Returns whether unmasked loads become a transposition: not where each is a vector in memory, a
/// reversed one, or two of them and a shuffle.
pub(crate) fn is_transposable_load(lanes: LaneStride, storage: Storage) -> bool {
    storage == Storage::Word
        && matches!(lanes, LaneStride::Strided(stride) if !matches!(stride, Count::Const(-4 | 4 | 8)))
}

/// Returns whether unmasked stores become a transposition: where rows are known not to overlap, as the
/// order of the stores to a word would change.
pub(crate) fn is_transposable_store(lanes: LaneStride, storage: Storage) -> bool {
    let row = N_VECTORS as u64 * Storage::Word.bytes().unsigned_abs();
    storage == Storage::Word
        && matches!(lanes, LaneStride::Strided(Count::Const(step)) if step.unsigned_abs() >= row)
}

/// Returns whether `n` unmasked stores of consecutive words fill memory.
pub(crate) fn fills_memory(n: usize, lanes: LaneStride, storage: Storage) -> bool {
    let row = n as i64 * Storage::Word.bytes();
    storage == Storage::Word && lanes == LaneStride::Strided(Count::Const(row))
}

/// Returns whether addresses are those of consecutive words.
pub(crate) fn are_consecutive(addresses: &[&Address]) -> bool {
    let first = addresses[0];
    (0..).zip(addresses).all(|(n, it)| {
        it.base == first.base
            && it.offset.param == first.offset.param
            && it.offset.strides == first.offset.strides
            && it.offset.constant == first.offset.constant + n * Storage::Word.bytes()
    })
}

/// Returns whether rows that are so far apart lie in few sets of a first-level cache, which keeps few of them
/// then: 4096 bytes on lie in the same set, so a multiple of a quarter in one of four. What a launch decides may
/// be one.
fn is_of_few_sets(stride: LaneStride) -> bool {
    match stride {
        LaneStride::Strided(Count::Const(step)) => step % 1024 == 0,
        LaneStride::Strided(Count::Param(_)) => true,
        LaneStride::Uniform | LaneStride::Contiguous => false,
    }
}

/// Finds the unmasked loads of consecutive words among nodes that are used: those of a transposition, or of
/// several which take the cache line of each row at once, where caches would not keep it for the next one.
pub(super) fn load_runs(
    graph: &ValueGraph,
    interned: &Interned,
    used: &[ValueId],
) -> Vec<Vec<ValueId>> {
    // Loads that may stand side by side, by their constant offset.
    let mut alike: BTreeMap<(Address, LaneStride, u32), BTreeMap<i64, ValueId>> = BTreeMap::new();
    for id in used {
        if let Op::Load(place, lanes) = graph.op(*id)
            && place.mask == MaskRef::All
            && is_transposable_load(lanes, place.storage)
        {
            let mut address = interned.addresses.get(place.address);
            let constant = std::mem::take(&mut address.offset.constant);
            alike.entry((address, lanes, place.epoch)).or_default().insert(constant, *id);
        }
    }
    let mut runs = Vec::new();
    for ((_, stride, _), mut loads) in alike {
        let most = if is_of_few_sets(stride) { graph.simd.lanes() } else { N_VECTORS as i64 };
        while let Some((first, id)) = loads.pop_first() {
            let words = (1..most).map(|n| first + n * Storage::Word.bytes());
            let next = words.map_while(|it| loads.get(&it).copied());
            let mut run: Vec<ValueId> = std::iter::once(id).chain(next).collect();
            run.truncate(run.len() / N_VECTORS * N_VECTORS);
            loads.retain(|_, it| !run.contains(it));
            runs.extend(Some(run).filter(|it| !it.is_empty()));
        }
    }
    runs
}

/// Returns the base that a load reads.
pub(super) fn base_of(graph: &ValueGraph, interned: &Interned, load: ValueId) -> Option<Base> {
    match graph.op(load) {
        Op::Load(MemRef { address, .. }, _)
        | Op::Gather(MemRef { address, .. }, _)
        | Op::LoadAt(MemRef { address, .. }, ..) => Some(interned.addresses.value(address).base),
        _ => None,
    }
}

/// Returns whether a statement writes to memory of a base.
pub(super) fn writes(interned: &Interned, stmt: &PendingStmt, base: Base) -> bool {
    matches!(stmt, PendingStmt::Store { address, .. } if interned.addresses.value(*address).base == base)
}

/// Returns how many statements from the first on are stores of a transposition or of an interleaving; 1 if
/// they are of none.
pub(super) fn n_stores(graph: &ValueGraph, interned: &Interned, stmts: &[PendingStmt]) -> usize {
    let is_of = |n: usize, is_wanted: fn(LaneStride, Storage) -> bool| {
        stmts.get(..n).is_some_and(|it| are_stores(graph, interned, it, is_wanted))
    };
    match () {
        () if is_of(N_VECTORS, is_transposable_store) => N_VECTORS,
        () if is_of(3, |lanes, storage| fills_memory(3, lanes, storage)) => 3,
        () if is_of(2, |lanes, storage| fills_memory(2, lanes, storage)) => 2,
        () => 1,
    }
}

/// Returns whether statements are stores of consecutive words whose values may all be computed before the
/// first of them.
fn are_stores(
    graph: &ValueGraph,
    interned: &Interned,
    stmts: &[PendingStmt],
    is_wanted: fn(LaneStride, Storage) -> bool,
) -> bool {
    let store = |stmt: &PendingStmt| match *stmt {
        PendingStmt::Store { address, lanes, storage, value, mask: MaskRef::All }
            if is_wanted(lanes, storage) =>
        {
            Some((interned.addresses.value(address), lanes, value))
        }
        _ => None,
    };
    let Some(stores) = stmts.iter().map(store).collect::<Option<Vec<_>>>() else { return false };
    let addresses: Vec<&Address> = stores.iter().map(|it| it.0).collect();
    let values: Vec<ValueId> = stores[1..].iter().map(|it| it.2).collect();
    stores.iter().all(|it| it.1 == stores[0].1)
        && are_consecutive(&addresses)
        && !reads(graph, interned, &values, addresses[0].base)
}

/// Returns whether values read memory from a base.
fn reads(graph: &ValueGraph, interned: &Interned, values: &[ValueId], base: Base) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = values.to_vec();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        if base_of(graph, interned, id) == Some(base) {
            return true;
        }
        open.extend(graph.op(id).children());
    }
    false
}
