//! Compute locations of the stages that no rule has tiled: a phase of their own, or a loop of a reader.
//!
//! Source: Ansor's "change compute location".

use super::predicates::single_reader;
use super::state::{ComputeLocation, State, needs_tiling};
use crate::sketch::{DecisionKind, Factor, Result};
use tvmtune_schedule::{Attach, AxisId, AxisRole, Instruction, StageId};

/// Opens the location of a stage, if there is a choice.
pub(super) fn decide_location(state: &mut State, stage: StageId) -> Result<()> {
    let found = state.schedule().stage(stage);
    let is_tiled = state.loop_nest(stage).is_some_and(|it| it.is_tiled);
    if found.attach != Attach::Root || is_tiled || needs_tiling(state, stage) {
        return Ok(());
    }
    let locations = candidates(state, stage);
    if locations.is_empty() {
        return Ok(());
    }
    let numbers: Vec<u64> = (0..=locations.len() as u64).collect();
    let name = format!("{} place", state.b.stage_name(stage));
    let decision = state.b.decide(name, DecisionKind::Choice, &numbers, 0);
    let list = |(consumer, axis): &(StageId, AxisId)| {
        vec![Instruction::ComputeAt { stage, consumer: *consumer, axis: *axis }]
    };
    let lists = [Vec::new()].into_iter().chain(locations.iter().map(list)).collect();
    state.b.one_of(decision, lists)?;
    let at = [None].into_iter().chain(locations.into_iter().map(Some)).collect();
    state.locations.push(ComputeLocation { stage, decision, at });
    Ok(())
}

/// Returns the loops at which a stage may run: of its only reader, and of the host of that.
fn candidates(state: &State, stage: StageId) -> Vec<(StageId, AxisId)> {
    let schedule = state.schedule();
    let tensor = schedule.stage(stage).tensor();
    let Some(reader) = single_reader(state, tensor) else { return Vec::new() };
    let found = schedule.stage(reader);
    let is_tiled = state.loop_nest(reader).is_some_and(|it| it.is_tiled);
    let is_inside = matches!(found.attach, Attach::At(..));
    let mut locations = Vec::new();
    let mut reduces = false;
    for (n, axis) in found.order.iter().enumerate() {
        match found.axis(*axis).role {
            AxisRole::Reduce if !is_tiled => break,
            AxisRole::Spatial if reduces => break,
            role => reduces |= role == AxisRole::Reduce,
        }
        // Inside another stage, the first level of tiles is one tile.
        let is_first = is_inside && is_tiled && n < found.compute.n_spatial;
        if !is_first && !runs_once(state, reader, *axis) {
            locations.push((reader, *axis));
        }
        if schedule.has_attached_at(reader, *axis) {
            break;
        }
    }
    if let Attach::At(host, _) = found.attach {
        let order = &schedule.stage(host).order;
        let is_outside = |axis: &&AxisId| {
            schedule.stage(host).axis(**axis).role == AxisRole::Spatial
                && !schedule.has_attached_at(host, **axis)
        };
        let outer = order.iter().take_while(is_outside).filter(|it| !runs_once(state, host, **it));
        locations.extend(outer.map(|it| (host, *it)));
    }
    let is_legal = |(consumer, axis): &(StageId, AxisId)| {
        schedule.clone().compute_at(stage, *consumer, *axis).is_ok()
    };
    locations.retain(is_legal);
    locations
}

/// Returns whether a loop runs once, whatever the decisions.
fn runs_once(state: &State, stage: StageId, axis: AxisId) -> bool {
    match state.lengths.get(&(stage, axis)) {
        Some(length) => *length == Factor::Fixed(1),
        None => state.b.extent(stage, axis) == 1,
    }
}
