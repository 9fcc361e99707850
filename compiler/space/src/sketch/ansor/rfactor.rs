//! The rule for long reductions of few elements: partial results, which are independent.

use super::factors::{Level, open};
use super::predicates::space_and_reduce;
use super::state::{LoopNest, State, derive, needs_tiling};
use super::{Derived, Verdict};
use crate::sketch::Result;
use tvmtune_ir::dag::TensorId;
use tvmtune_schedule::{AxisId, StageId};

/// Tasks for each thread that are enough.
const TASKS: u64 = 16;

/// "Add rfactor": partial results of blocks that follow one another, or of elements that lie so far
/// apart.
pub(super) fn add_rfactor(state: &State, at: TensorId) -> Option<Verdict> {
    let stage = state.stage_of(at)?;
    if !needs_rfactor(state, stage) || state.written.contains(&stage) {
        return None;
    }
    let derived: Derived = [RfactorAxis::Outer, RfactorAxis::Inner]
        .into_iter()
        .flat_map(|axis| derive(state, |it| factor(it, stage, axis)))
        .collect();
    Some(Verdict::Apply(derived))
}

fn needs_rfactor(state: &State, stage: StageId) -> bool {
    let threads = u64::from(state.b.cpu().threads);
    let (space, reduce) = space_and_reduce(state, stage);
    if needs_tiling(state, stage) {
        return state.b.reduces(stage) && space <= reduce && space <= threads * TASKS;
    }
    reduce > threads
}

/// The loop of the split reduction that becomes an axis of the partial results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RfactorAxis {
    Outer,
    Inner,
}

fn factor(state: &mut State, stage: StageId, axis: RfactorAxis) -> Result<Option<TensorId>> {
    let rule = if axis == RfactorAxis::Outer { "rfactor outer" } else { "rfactor inner" };
    state.note(stage, rule);
    let compute = state.b.compute(stage).clone();
    let n_spatial = compute.n_spatial as u32;
    let reduce: Vec<AxisId> = (n_spatial..compute.axes.len() as u32).map(AxisId).collect();
    let Some(fused) = state.fuse(stage, &reduce)? else { return Ok(None) };
    let lengths = open(state, stage, fused, &[Level::inner("rfactor", 16)]);
    let parts = state.split(stage, fused, &lengths)?;
    let length = lengths[0].clone();
    let chosen = if axis == RfactorAxis::Outer { parts[0] } else { parts[1] };
    let partial = state.b.apply(|it| it.rfactor(stage, chosen))?;

    // The axes of the partial results: spatial ones, the new one, the remaining steps.
    let (new, rest) = (AxisId(n_spatial), AxisId(n_spatial + 1));
    // The loops of the stage itself are new ones.
    state.lengths.retain(|(of, _), _| *of != stage);
    match axis {
        RfactorAxis::Outer => {
            state.lengths.insert((partial, rest), length);
        }
        RfactorAxis::Inner => {
            state.lengths.insert((partial, new), length.clone());
            state.lengths.insert((stage, new), length);
            state.b.reorder(partial, [rest, new])?;
            let n_outer = n_spatial as usize;
            state.loop_nests.push(LoopNest {
                stage: partial,
                is_tiled: false,
                n_outer,
                lanes: Some(new),
            });
        }
    }
    Ok(state.before(state.b.tensor_of(partial)))
}
