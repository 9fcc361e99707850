//! Binds the loops of stages that no rule has bound to blocks and threads: each thread computes elements
//! of its own.
//!
//! Source: Ansor's "thread bind".

use super::annotate::unroll;
use super::state::State;
use crate::sketch::{DecisionKind, Factor, Result, Sketch};
use tvmtune_schedule::{Attach, AxisId, LoopKind, StageId};

/// The sketch of a derivation for a GPU.
pub(super) fn bind(mut state: State) -> Result<Sketch> {
    let is_root = |it: &StageId| state.schedule().stage(*it).attach == Attach::Root;
    let stages: Vec<StageId> = state.schedule().order.iter().copied().filter(is_root).collect();
    for stage in stages.into_iter().rev() {
        if state.loop_nest(stage).is_none() {
            distribute(&mut state, stage)?;
        }
    }
    Ok(state.b.finish())
}

/// Distributes the elements of a stage over threads, with accumulators in registers.
fn distribute(state: &mut State, stage: StageId) -> Result<()> {
    let compute = state.b.compute(stage);
    let (n_spatial, reduces) = (compute.n_spatial as u32, compute.reducer.is_some());
    let steps = compute.recurrent_axis().map(|it| AxisId(it as u32));
    let anchor = match n_spatial > 0 && reduces {
        true => Some(state.b.apply(|it| it.cache_write(stage))?),
        false => None,
    };
    let axes: Vec<AxisId> = (0..n_spatial).map(AxisId).filter(|it| Some(*it) != steps).collect();
    if let Some(steps) = steps {
        state.b.reorder(stage, axes.iter().chain([&steps]))?;
    }
    let Some(fused) = state.fuse(stage, &axes)? else {
        return if reduces { unroll(state, stage) } else { Ok(()) };
    };
    let name = format!("{} threads", state.b.stage_name(stage));
    let options: Vec<u64> = (5..=10).map(|it| 1 << it).collect();
    let threads = Factor::Open(state.b.decide(name, DecisionKind::Inner, &options, 128));
    let parts = state.split(stage, fused, &[threads])?;
    state.b.annotate(stage, parts[0], LoopKind::Parallel)?;
    state.b.annotate(stage, parts[1], LoopKind::Thread)?;
    if let Some(anchor) = anchor {
        state.b.apply(|it| it.compute_at(anchor, stage, parts[1]))?;
        unroll(state, anchor)?;
    }
    Ok(())
}
