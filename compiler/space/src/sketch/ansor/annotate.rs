//! Annotations: the random choices of Ansor become decisions.
//!
//! - Vectors: the innermost loop of a tile; of other stages as much of the last axis as a decision
//!   says.
//! - Full unrolling: from the innermost loop outwards, up to 0, 16, 64 or 512 iterations together.
//! - Tasks: how many of the outermost loops.

use super::compute_location::decide_location;
use super::state::{ComputeLocation, State};
use crate::sketch::{DecisionId, DecisionKind, Factor, Result, Sketch, Step};
use tvmtune_schedule::{Attach, AxisId, AxisRole, Instruction, LoopKind, StageId, Threads};

/// Iterations that may be fully unrolled.
const UNROLLED: [u64; 4] = [0, 16, 64, 512];
/// The same on a GPU.
const UNROLLED_BY_THREADS: [u64; 5] = [0, 16, 64, 512, 1024];
/// Tasks for each thread that are enough.
const TASKS: u64 = 16;
/// The longest vectorized loop, where nothing is kept in registers.
const LONGEST: u64 = 64;

/// The sketch of a derivation.
pub(super) fn annotate(mut state: State) -> Result<Sketch> {
    let live = |it: &StageId| state.schedule().stage(*it).attach != Attach::Inline;
    let stages: Vec<StageId> = state.schedule().order.iter().copied().filter(live).collect();
    for stage in stages.iter().rev() {
        vectorize(&mut state, *stage)?;
        unroll(&mut state, *stage)?;
        decide_location(&mut state, *stage)?;
    }
    for stage in stages {
        run_in_parallel(&mut state, stage)?;
    }
    let decision = state.b.decide("threads".into(), DecisionKind::Choice, &[0, 1], 1);
    let list = |threads| vec![Instruction::Threads { threads }];
    state.b.one_of(decision, vec![list(Threads::One), list(Threads::All)])?;
    Ok(state.b.finish())
}

fn vectorize(state: &mut State, stage: StageId) -> Result<()> {
    let lanes = match state.loop_nest(stage) {
        Some(loop_nest) => loop_nest.lanes,
        None => split_last(state, stage)?,
    };
    match lanes {
        Some(axis) => state.b.annotate(stage, axis, LoopKind::Vectorized),
        None => Ok(()),
    }
}

/// Splits the last axis of a stage that does not reduce into blocks of vectors.
fn split_last(state: &mut State, stage: StageId) -> Result<Option<AxisId>> {
    let compute = state.b.compute(stage);
    let extents = state.b.extents(stage);
    let steps = compute.recurrent_axis();
    let last = (0..extents.len()).rev().find(|it| extents[*it] > 1 && Some(*it) != steps);
    let Some(last) = last.filter(|_| compute.reducer.is_none()) else { return Ok(None) };
    let name = state.b.stage_name(stage).to_owned();
    let lengths = |max: u64| -> Vec<u64> {
        (0..10).map(|it| 1 << it).filter(|it| *it <= max.min(extents[last])).collect()
    };
    let group = state.b.new_group();
    let mut open = |level: &str, kind: DecisionKind, max: u64, wanted: u64| {
        let options = lengths(max);
        let best = options.iter().copied().filter(|it| *it <= wanted).max().unwrap_or(1);
        Factor::Open(state.b.decide_in(group, format!("{name} {level}"), kind, &options, best))
    };
    let block = open("block", DecisionKind::Outer, 512, 16);
    let vector = open("lanes", DecisionKind::Inner, LONGEST, LONGEST / 4);
    let parts = state.split(stage, AxisId(last as u32), &[block, vector])?;
    let mut order = state.schedule().stage(stage).order.clone();
    let steps = steps.map(|it| AxisId(it as u32));
    order.retain(|it| *it != parts[2] && Some(*it) != steps);
    order.extend(steps.into_iter().chain([parts[2]]));
    state.b.reorder(stage, order)?;
    Ok(Some(parts[2]))
}

/// Unrolls loops below the reduction's outermost one, as many as a decision says.
pub(super) fn unroll(state: &mut State, stage: StageId) -> Result<()> {
    let found = state.schedule().stage(stage);
    let is_reduce = |it: &AxisId| found.axis(*it).role == AxisRole::Reduce;
    let Some(first) = found.order.iter().position(is_reduce) else { return Ok(()) };
    let mut loops = Vec::new();
    for axis in found.order[first..].iter().rev() {
        if found.axis(*axis).kind == LoopKind::Vectorized {
            continue;
        }
        match length(state, stage, *axis) {
            Some(length) => loops.push((*axis, length)),
            None => break,
        }
    }
    if loops.is_empty() {
        return Ok(());
    }
    let name = format!("{} unroll", state.b.stage_name(stage));
    let options: &[u64] = if state.b.is_gpu() { &UNROLLED_BY_THREADS } else { &UNROLLED };
    let max_iterations = state.b.decide(name, DecisionKind::Choice, options, 64);
    state.b.step(Step::Unroll { stage, loops, max_iterations })
}

/// Returns the length of a loop, if it is a decision or a constant.
fn length(state: &State, stage: StageId, axis: AxisId) -> Option<Factor> {
    let known = state.lengths.get(&(stage, axis)).cloned();
    let found = state.schedule().stage(stage);
    let is_whole = (axis.0 as usize) < found.compute.axes.len();
    let fixed = || found.axis(axis).extent.as_constant().filter(|_| is_whole);
    known.or_else(|| fixed().map(|it| Factor::Fixed(it as u64)))
}

/// Makes tasks of the outermost loops of a stage that runs by itself.
fn run_in_parallel(state: &mut State, stage: StageId) -> Result<()> {
    let found = state.schedule().stage(stage);
    if found.attach != Attach::Root {
        return Ok(());
    }
    let steps = found.recurrent_loops();
    let enough = u64::from(state.b.cpu().threads) * TASKS;
    let loop_nest = state.loop_nest(stage);
    let mut loops = Vec::new();
    let mut tasks = 1_u64;
    for axis in &found.order {
        let is_task = found.axis(*axis).role == AxisRole::Spatial
            && found.axis(*axis).kind == LoopKind::Serial
            && !steps.contains(axis);
        let is_enough = match loop_nest {
            Some(loop_nest) => loops.len() >= loop_nest.n_outer,
            None => tasks > enough,
        };
        if !is_task || is_enough {
            break;
        }
        tasks = tasks.saturating_mul(state.b.extent(stage, *axis));
        loops.push(*axis);
        if state.schedule().has_attached_at(stage, *axis) {
            break;
        }
    }
    if loops.is_empty() {
        return Ok(());
    }
    let limits = state.locations.iter().filter_map(|it| limits(state, stage, it)).collect();
    let numbers: Vec<u64> = (1..=loops.len() as u64).collect();
    let best = found.compute.n_spatial.clamp(1, loops.len()) as u64;
    let name = format!("{} tasks", state.b.stage_name(stage));
    let count = state.b.decide(name, DecisionKind::Choice, &numbers, best);
    state.b.step(Step::Parallel { stage, loops, count, limits })
}

/// Returns the loops of a stage that may be tasks, for each option of its location or that of a stage
/// inside it.
fn limits(
    state: &State,
    stage: StageId,
    location: &ComputeLocation,
) -> Option<(DecisionId, Vec<u64>)> {
    let order = &state.schedule().stage(stage).order;
    let max_loops = |at: &Option<(StageId, AxisId)>| match at {
        None => u64::MAX,
        Some(_) if location.stage == stage => 0,
        Some((host, axis)) if *host == stage => {
            order.iter().position(|it| it == axis).map_or(u64::MAX, |it| it as u64 + 1)
        }
        Some(_) => u64::MAX,
    };
    let limits: Vec<u64> = location.at.iter().map(max_loops).collect();
    limits.iter().any(|it| *it != u64::MAX).then_some((location.decision, limits))
}
