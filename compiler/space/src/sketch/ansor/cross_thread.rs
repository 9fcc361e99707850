//! The rule for long reductions on GPUs: cross-thread reduction, a block all-reduce.
//!
//! ```text
//! parallel i
//!   thread t: for k_0:  total[i] += x[i, k_0 * threads + t]
//!   thread t: for j_0:  y[i, j] = x[i, j] / total[i]       -- its reader, by the same threads
//! ```

use super::predicates::{single_reader, space_and_reduce};
use super::state::{LoopNest, State, derive, needs_tiling};
use super::{Verdict, annotate};
use crate::sketch::{DecisionKind, Factor, Result};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::dag::access::leading_axes;
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// Threads of a block.
const MAX_THREADS: u64 = 1024;
/// Threads that run together.
const WARP: u64 = 32;

/// "Cross-thread reduction".
pub(super) fn cross_thread_reduction(state: &State, at: TensorId) -> Option<Verdict> {
    let stage = state.stage_of(at).filter(|it| is_long(state, *it))?;
    Some(Verdict::Apply(derive(state, |it| {
        it.note(stage, "cross-thread");
        match host(it, stage) {
            Some((reader, depth)) => along_with(it, stage, reader, depth)?,
            None => alone(it, stage)?,
        }
        Ok(state.before(at))
    })))
}

fn is_long(state: &State, stage: StageId) -> bool {
    let compute = state.b.compute(stage);
    if compute.reducer.is_none() || state.written.contains(&stage) {
        return false;
    }
    let (space, reduce) = space_and_reduce(state, stage);
    if needs_tiling(state, stage) { space <= MAX_THREADS && space < reduce } else { reduce > WARP }
}

/// Returns the stage in which a reduction can run, and the number of outer axes they share.
fn host(state: &State, stage: StageId) -> Option<(StageId, usize)> {
    let tensor = state.b.tensor_of(stage);
    let reader = single_reader(state, tensor)?;
    let compute = state.b.compute(reader);
    let is_free = !state.schedule().is_output(tensor)
        && compute.reducer.is_none()
        && !needs_tiling(state, reader)
        && (state.loop_nest(reader).is_none() || threads_of(state, reader).is_some());
    let depth = leading_axes(compute, tensor);
    (is_free && depth > 0).then_some((reader, depth))
}

/// Returns the number of threads that share the elements of a stage.
fn threads_of(state: &State, stage: StageId) -> Option<Factor> {
    state.crossed.iter().find(|it| it.0 == stage).map(|it| it.1.clone())
}

/// Schedules a reduction in the loop over rows of its reader.
fn along_with(state: &mut State, stage: StageId, reader: StageId, depth: usize) -> Result<()> {
    let threads = match threads_of(state, reader) {
        Some(threads) => threads,
        None => {
            let threads = open_threads(state, stage);
            share_elements(state, reader, depth, &threads)?;
            threads
        }
    };
    share_reduction(state, stage, &threads)?;
    let row = state.schedule().stage(reader).order[depth - 1];
    state.b.apply(|it| it.compute_at(stage, reader, row))
}

/// Schedules a reduction by itself: a block for each result.
fn alone(state: &mut State, stage: StageId) -> Result<()> {
    let threads = open_threads(state, stage);
    let n_spatial = state.b.n_spatial(stage);
    let Some(last) = n_spatial.checked_sub(1) else {
        return share_reduction(state, stage, &threads);
    };
    let anchor = state.b.apply(|it| it.cache_write(stage))?;
    share_elements(state, stage, n_spatial, &threads)?;
    share_reduction(state, anchor, &threads)?;
    let row = state.schedule().stage(stage).order[last];
    state.b.apply(|it| it.compute_at(anchor, stage, row))
}

fn open_threads(state: &mut State, stage: StageId) -> Factor {
    let name = format!("{} threads", state.b.stage_name(stage));
    let options: Vec<u64> = (2..=10).map(|it| 1 << it).collect();
    Factor::Open(state.b.decide(name, DecisionKind::Inner, &options, WARP))
}

/// Makes blocks of the outer axes of a stage, and lets their threads share the elements inside.
fn share_elements(state: &mut State, stage: StageId, depth: usize, threads: &Factor) -> Result<()> {
    let order = state.schedule().stage(stage).order.clone();
    if let Some(fused) = state.fuse(stage, &order[depth..])? {
        let parts = state.split(stage, fused, std::slice::from_ref(threads))?;
        state.b.reorder(stage, [parts[1], parts[0]])?;
        state.b.annotate(stage, parts[1], LoopKind::Thread)?;
    }
    state.b.annotate_all(stage, &order[..depth], LoopKind::Parallel)?;
    state.crossed.push((stage, threads.clone()));
    state.loop_nests.push(LoopNest { stage, is_tiled: false, n_outer: depth, lanes: None });
    Ok(())
}

/// Distributes the steps of a reduction over threads.
fn share_reduction(state: &mut State, stage: StageId, threads: &Factor) -> Result<()> {
    let found = state.schedule().stage(stage);
    let n_spatial = found.compute.n_spatial;
    let reduce: Vec<AxisId> = found.order[n_spatial..].to_vec();
    let Some(fused) = state.fuse(stage, &reduce)? else { return Ok(()) };
    let parts = state.split(stage, fused, std::slice::from_ref(threads))?;
    state.b.reorder(stage, [parts[1], parts[0]])?;
    state.b.annotate(stage, parts[1], LoopKind::Thread)?;
    state.loop_nests.push(LoopNest { stage, is_tiled: false, n_outer: 0, lanes: None });
    annotate::unroll(state, stage)
}
