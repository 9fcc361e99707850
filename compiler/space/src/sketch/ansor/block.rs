//! Tiles for blocks of threads: levels of loops as they are published, in the order in which threads
//! run them here.
//!
//! ```text
//! parallel i_0, j_0                                           -- S: blocks
//!   for k_0                                                   -- R
//!     thread t: a_copy[i, k] = a[i, k]                        -- by all threads, in vectors
//!     thread i_2, j_2                                         -- S: threads
//!       for k_1                                               -- R
//!         unrolled i_1, j_1, i_3, j_3                         -- S: virtual threads, and S
//!           for k_2                                           -- R
//!             unrolled i_4, j_4: acc[i, j] += a_copy[i, k] * b_copy[k, j]     -- S
//!   thread i_2, j_2
//!     unrolled i_1, j_1, i_3: vectorized j_4: c[i, j] = f(acc[i, j])
//! ```

use super::factors::{Level, open, product};
use super::state::{Block, LoopNest, State, derive};
use super::{Verdict, annotate};
use crate::sketch::{DecisionKind, Factor, Result};
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// Threads along an axis.
const MAX_THREADS: u64 = 256;
/// Virtual threads along an axis.
const MAX_VIRTUAL: u64 = 8;
/// Accumulators of a thread along an axis, on each of the two innermost levels: they are in
/// registers, so no point with more would fit.
const MAX_INNER: u64 = 8;
/// Steps of a reduction on each of its inner levels: shared memory holds their operands.
const MAX_STEPS: u64 = 16;
/// Elements that one access may copy.
const WIDEST: u64 = 4;

/// The lengths of the inner levels of each spatial axis.
struct Lengths {
    of: Vec<Vec<Factor>>,
    /// The axis of the innermost loop.
    last: usize,
}

/// "Multi-level tiling with fusion": at the third level, that of the threads.
pub(super) fn fused(state: &State, stage: StageId, reader: StageId) -> Option<Verdict> {
    let at = state.b.tensor_of(stage);
    if state.shared.contains(&reader) {
        return None;
    }
    Some(Verdict::ApplyAndSkipRest(derive(state, |it| {
        it.note(stage, "tile, fused at 3");
        tile(it, stage, Some(reader))?;
        Ok(state.before(at))
    })))
}

/// Tiles a stage, and the stage that stores its elements.
pub(super) fn tile(state: &mut State, stage: StageId, reader: Option<StageId>) -> Result<()> {
    let lengths = lengths(state, stage);
    let reduces = state.b.reduces(stage);
    // A reduction without an epilogue has accumulators in registers all the same.
    let (root, anchor) = match reader {
        Some(reader) => (reader, Some(stage)),
        None if reduces => (stage, Some(state.b.apply(|it| it.cache_write(stage))?)),
        None => (stage, None),
    };
    let block = split_root(state, root, &lengths)?;
    if let Some(anchor) = anchor {
        state.b.apply(|it| it.compute_at(anchor, root, block))?;
        reduce(state, anchor, &lengths)?;
    }
    Ok(())
}

/// Opens the lengths of the spatial axes of a stage.
fn lengths(state: &mut State, stage: StageId) -> Lengths {
    let extents = state.b.extents(stage);
    let n_spatial = state.b.n_spatial(stage);
    let last = (0..n_spatial).rev().find(|it| extents[*it] > 1).unwrap_or(0);
    // By default threads are along the last axis, and along one that reuses the operand of the last.
    let accesses = state.b.accesses(stage);
    let is_reused =
        |axis: usize| accesses.iter().any(|it| it.depends_on(last) && !it.depends_on(axis));
    let others = (0..n_spatial).filter(|it| *it != last);
    let beside = others.max_by_key(|it| (is_reused(*it), extents[*it]));
    let wanted = |axis: usize| match axis {
        axis if axis == last => [2, 16, 2, 2],
        axis if Some(axis) == beside => [2, 8, 2, 2],
        _ => [1; 4],
    };
    let of = (0..n_spatial).map(|axis| {
        let [repeats, threads, outer, inner] = wanted(axis);
        let levels = [
            Level::outer("S1", repeats).at_most(MAX_VIRTUAL),
            Level::outer("S2", threads).at_most(MAX_THREADS),
            Level::inner("S3", outer).at_most(MAX_INNER),
            Level::inner("S4", inner).at_most(MAX_INNER),
        ];
        open(state, stage, AxisId(axis as u32), &levels)
    });
    Lengths { of: of.collect(), last }
}

/// Splits the stage that stores the result; returns its last loop over blocks.
fn split_root(state: &mut State, root: StageId, lengths: &Lengths) -> Result<AxisId> {
    let (mut blocks, mut threads, mut inner) = (Vec::new(), Vec::new(), Vec::new());
    let mut lanes = None;
    for (axis, of) in lengths.of.iter().enumerate() {
        let mut factors = of.clone();
        if axis != lengths.last {
            factors = vec![of[0].clone(), of[1].clone(), product(&of[2..])];
        }
        let parts = state.split(root, AxisId(axis as u32), &factors)?;
        blocks.push(parts[0]);
        threads.push(parts[2]);
        inner.extend([parts[1], parts[3]]);
        lanes = lanes.or(parts.get(4).copied());
    }
    state.b.reorder(root, blocks.iter().chain(&threads).chain(&inner).copied().chain(lanes))?;
    state.b.annotate_all(root, &blocks, LoopKind::Parallel)?;
    state.b.annotate_all(root, &threads, LoopKind::Thread)?;
    state.b.annotate_all(root, &inner, LoopKind::Unrolled)?;
    if let Some(axis) = lanes {
        state.b.annotate(root, axis, LoopKind::Vectorized)?;
    }
    state.loop_nests.push(LoopNest { stage: root, is_tiled: true, n_outer: blocks.len(), lanes });
    Ok(*blocks.last().expect("a tiled stage has axes"))
}

/// Orders the loops of the reduction.
fn reduce(state: &mut State, anchor: StageId, lengths: &Lengths) -> Result<()> {
    let n_axes = state.b.compute(anchor).axes.len() as u32;
    let mut threads = Vec::new();
    let mut space = [const { Vec::new() }; 3];
    for (axis, of) in lengths.of.iter().enumerate() {
        let parts = state.split(anchor, AxisId(axis as u32), &of[1..])?;
        threads.push(parts[1]);
        for (level, part) in space.iter_mut().zip([parts[0], parts[2], parts[3]]) {
            level.push(part);
        }
        state.lengths.insert((anchor, parts[0]), of[0].clone());
    }
    let mut reduce = [const { Vec::new() }; 3];
    let extents = state.b.extents(anchor);
    let longest = (lengths.of.len()..extents.len()).max_by_key(|it| extents[*it]);
    for axis in (lengths.of.len() as u32..n_axes).map(AxisId) {
        let wanted = if longest == Some(axis.0 as usize) { 4 } else { 1 };
        let levels = ["R1", "R2"].map(|it| Level::inner(it, wanted).at_most(MAX_STEPS));
        let own = open(state, anchor, axis, &levels);
        for (level, part) in reduce.iter_mut().zip(state.split(anchor, axis, &own)?) {
            level.push(part);
        }
    }
    let step = *reduce[0].last().expect("an anchor reduces");
    let [repeats, outer, inner] = &space;
    let parts = [&reduce[0], &threads, &reduce[1], repeats, outer, &reduce[2], inner];
    state.b.reorder(anchor, parts.into_iter().flatten())?;
    state.b.annotate_all(anchor, &threads, LoopKind::Thread)?;
    state.b.annotate_all(anchor, space.iter().flatten(), LoopKind::Unrolled)?;
    let counts: Vec<Factor> = lengths.of.iter().map(|it| it[1].clone()).collect();
    state.loop_nests.push(LoopNest { stage: anchor, is_tiled: true, n_outer: 0, lanes: None });
    state.blocks.push(Block { stage: anchor, step, threads: product(&counts) });
    annotate::unroll(state, anchor)
}

/// Distributes a copy over all threads of a block, in vectors.
pub(super) fn copy_by_all(state: &mut State, stage: StageId, threads: &Factor) -> Result<()> {
    let order = state.schedule().stage(stage).order.clone();
    let Some(fused) = state.fuse(stage, &order)? else { return Ok(()) };
    let name = format!("{} vector", state.b.stage_name(stage));
    let widths: Vec<u64> = [1, 2, WIDEST].to_vec();
    let width = Factor::Open(state.b.decide(name, DecisionKind::Inner, &widths, 1));
    let parts = state.split(stage, fused, &[threads.clone(), width])?;
    state.b.reorder(stage, [parts[1], parts[0], parts[2]])?;
    state.b.annotate(stage, parts[1], LoopKind::Thread)?;
    state.b.annotate(stage, parts[2], LoopKind::Vectorized)
}
