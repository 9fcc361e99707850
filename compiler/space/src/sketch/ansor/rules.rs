//! The rules about single stages: inlining, accumulators in registers, copies in shared memory.

use super::predicates::{elementwise_reader, is_strictly_inlineable, single_reader};
use super::state::{State, derive, needs_tiling};
use super::{Verdict, block};
use tvmtune_ir::dag::TensorId;
use tvmtune_schedule::StageId;

/// "Always inline": elementwise stages that are simple and no results.
pub(super) fn always_inline(state: &State, at: TensorId) -> Option<Verdict> {
    let stage = state.stage_of(at)?;
    if !is_inlineable(state, stage) {
        return None;
    }
    Some(Verdict::ApplyAndSkipRest(derive(state, |it| {
        it.b.apply(|schedule| schedule.inline(stage))?;
        Ok(state.before(at))
    })))
}

fn is_inlineable(state: &State, stage: StageId) -> bool {
    let compute = state.b.compute(stage);
    compute.reducer.is_none()
        && !state.schedule().is_output(compute.tensor)
        && (state.b.is_gpu() || is_strictly_inlineable(compute))
}

/// "Add cache write": a tiled stage without an elementwise reader is stored by a stage of its own.
pub(super) fn add_cache_write(state: &State, at: TensorId) -> Option<Verdict> {
    let stage = state.stage_of(at)?;
    let is_read = elementwise_reader(state, stage).is_some() || is_shared(state, stage);
    if !needs_tiling(state, stage) || is_read {
        return None;
    }
    let derived = derive(state, |it| {
        it.note(stage, "cache write");
        let written = it.b.apply(|schedule| schedule.cache_write(stage))?;
        it.written.push(written);
        Ok(Some(it.b.tensor_of(written)))
    });
    Some(match state.b.is_gpu() {
        true => Verdict::ApplyAndSkipRest(derived),
        false => Verdict::Apply(derived),
    })
}

/// Returns whether the only reader of a stage copies it to shared memory.
fn is_shared(state: &State, stage: StageId) -> bool {
    let reader = single_reader(state, state.b.tensor_of(stage));
    reader.is_some_and(|it| state.shared.contains(&it))
}

/// "Add cache read": the operands of a tiled reduction are copied to shared memory in each step.
pub(super) fn add_cache_read(state: &State, at: TensorId) -> Option<Verdict> {
    let reader = state.schedule().readers(at).next()?;
    let block = state.blocks.iter().find(|it| it.stage == reader)?;
    Some(Verdict::ApplyAndSkipRest(derive(state, |it| {
        let name = it.schedule().tensor(at).tensor.name.clone();
        it.b.name.push(format!("{name}: shared"));
        let copy = it.b.apply(|schedule| schedule.cache_read(at, reader))?;
        it.b.apply(|schedule| schedule.compute_at(copy, reader, block.step))?;
        block::copy_by_all(it, copy, &block.threads)?;
        it.shared.push(copy);
        Ok(Some(at))
    })))
}
