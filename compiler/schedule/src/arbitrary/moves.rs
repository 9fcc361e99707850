//! Random moves: instructions about stages, loops and tensors that exist, most of which apply.

use proptest::prelude::*;

use crate::{
    Attach, AxisId, Instruction, Layout, LoopKind, Relation, Schedule, Stage, StageId, Threads,
};
use tvmtune_ir::dag::{Dag, Expr, TensorId, TensorKind};

/// Random numbers from which an instruction is made for a schedule.
#[derive(Clone, Debug)]
pub struct Move {
    kind: u8,
    picks: [u16; 5],
}

/// Makes any move.
pub fn any_move() -> impl Strategy<Value = Move> {
    (any::<u8>(), any::<[u16; 5]>()).prop_map(|(kind, picks)| Move { kind, picks })
}

/// Makes up to `max` moves.
pub fn any_moves(max: usize) -> impl Strategy<Value = Vec<Move>> {
    proptest::collection::vec(any_move(), 0..=max)
}

/// Applies the moves to the initial schedule of a dag; those that are refused change nothing.
pub fn scheduled(dag: &Dag, moves: &[Move]) -> Schedule {
    let mut schedule = Schedule::new(dag);
    move_by_move(&mut schedule, moves, |schedule, instruction| {
        // Search drops refused primitives, too.
        let _ = schedule.apply(instruction);
    });
    schedule
}

/// Calls `visit` with the instruction of each move, for the schedule that `visit` left before.
pub fn move_by_move(
    schedule: &mut Schedule,
    moves: &[Move],
    mut visit: impl FnMut(&mut Schedule, &Instruction),
) {
    for it in moves {
        let instruction = instruction(schedule, it);
        visit(schedule, &instruction);
    }
}

/// Returns the instruction of a move: about stages, loops and tensors that exist, so that most of
/// them apply.
pub fn instruction(schedule: &Schedule, it: &Move) -> Instruction {
    let pick = |n: usize, below: usize| it.picks[n] as usize % below.max(1);
    let stage = pick_stage(schedule, it.picks[0]);
    let found = schedule.stage(stage);
    let axis = |n| found.order.get(pick(n, found.order.len())).copied().unwrap_or(AxisId(0));
    if let Some(instruction) = scan(schedule, stage, it) {
        return instruction;
    }
    if let Some(axis) = tighten(schedule, stage, it) {
        return Instruction::TightenBounds { stage, axis };
    }
    if it.kind.is_multiple_of(2) && schedule.clone().polyphase(stage).is_ok() {
        return Instruction::Polyphase { stage };
    }
    if it.kind.is_multiple_of(3) && schedule.invariant_part(stage).is_ok() {
        return Instruction::HoistInvariant { stage };
    }
    match it.kind % 32 {
        0..=6 => {
            let factors = [1, 2, 3, 4, 5, 8, 16];
            let n_factors = 1 + pick(2, 2);
            let factors = (0..n_factors).map(|n| factors[pick(3 + n, factors.len())]).collect();
            Instruction::Split { stage, axis: axis(1), factors }
        }
        7..=8 => {
            let place = pick(1, found.order.len().saturating_sub(1));
            let axis_at = |n| found.order.get(n).copied().unwrap_or(AxisId(0));
            Instruction::Fuse { stage, outer: axis_at(place), inner: axis_at(place + 1) }
        }
        9..=12 => {
            let mut order = found.order.clone();
            order.rotate_left(pick(1, found.order.len()));
            order.truncate(1 + pick(2, found.order.len()));
            order.reverse();
            Instruction::Reorder { stage, order }
        }
        13..=17 => {
            let (axis, kind) = annotation(found, it.picks[1], axis(2));
            Instruction::Annotate { stage, axis, kind }
        }
        18..=23 => compute_at(schedule, stage, it),
        24 => Instruction::Inline { stage },
        25 if it.picks[2].is_multiple_of(2) => {
            Instruction::CacheOperand { reader: stage, read: u32::from(it.picks[1] % 3) }
        }
        25 => Instruction::CacheRead { tensor: pick_read(schedule, stage, it), reader: stage },
        26..=27 => padded(schedule, it),
        28 => Instruction::CacheWrite { stage },
        29 => {
            let reduces = |it: &&AxisId| found.axis(**it).role == crate::AxisRole::Reduce;
            let reduce: Vec<AxisId> = found.order.iter().filter(reduces).copied().collect();
            let axis = reduce.get(pick(1, reduce.len())).copied().unwrap_or(AxisId(0));
            Instruction::Rfactor { stage, axis }
        }
        30 => pack(schedule, it),
        _ => Instruction::Threads {
            threads: if it.picks[0].is_multiple_of(2) { Threads::One } else { Threads::All },
        },
    }
}

/// Makes a scan in order, or a step towards one by blocks, more often than not, of a stage that reduces
/// prefixes and is not scheduled yet.
fn scan(schedule: &Schedule, stage: StageId, it: &Move) -> Option<Instruction> {
    let [_, along] = schedule.prefix_axes(stage)?;
    if it.kind.is_multiple_of(3) {
        return None;
    }
    let found = schedule.stage(stage);
    match found.relations.as_slice() {
        [] if it.picks[2].is_multiple_of(3) => Some(Instruction::ScanInOrder { stage }),
        [] => {
            let factors = vec![[1, 2, 3, 4, 8][it.picks[1] as usize % 5]];
            Some(Instruction::Split { stage, axis: along, factors })
        }
        [Relation::Split { parent, parts, .. }] if *parent == along => {
            Some(Instruction::Scan { stage, axis: *parts.last()? })
        }
        _ => None,
    }
}

/// Picks a loop that a mask ends, every other time that a stage has one.
fn tighten(schedule: &Schedule, stage: StageId, it: &Move) -> Option<AxisId> {
    let found = schedule.stage(stage);
    let is_whole = |it: &AxisId| !found.axis(*it).tightened && schedule.is_masked(stage, *it);
    let masked: Vec<AxisId> = found.order.iter().copied().filter(is_whole).collect();
    let at = usize::from(it.picks[1]) % masked.len().max(1);
    masked.get(at).copied().filter(|_| it.picks[4].is_multiple_of(2))
}

/// Picks any stage that still has loops.
fn pick_stage(schedule: &Schedule, number: u16) -> StageId {
    let live = |it: &&StageId| schedule.stage(**it).attach != Attach::Inline;
    let stages: Vec<StageId> = schedule.order.iter().filter(live).copied().collect();
    stages[number as usize % stages.len()]
}

/// Picks a loop and a kind that is often legal there.
fn annotation(stage: &Stage, number: u16, any: AxisId) -> (AxisId, LoopKind) {
    let kind = |it: &&AxisId| stage.axis(**it).kind.is_parallel();
    match number % 7 {
        6 => (any, LoopKind::Tensorized),
        4 => (any, LoopKind::Thread),
        5 if number.is_multiple_of(2) => {
            (any, LoopKind::WarpSpecialized(2 + (number / 12 % 3) as u8))
        }
        5 => (any, LoopKind::Pipelined(2 + (number / 6 % 3) as u8)),
        0 => (any, LoopKind::Unrolled),
        1 => (stage.order.last().copied().unwrap_or(any), LoopKind::Vectorized),
        2 => {
            let tasks = stage.order.iter().take_while(kind).count();
            let tasks_kind = match number % 5 {
                0 => LoopKind::Cluster,
                1 => LoopKind::Persistent(1 + number / 35 % 4),
                2 => LoopKind::StreamK(1 + number / 35 % 4),
                _ => LoopKind::Parallel,
            };
            (stage.order.get(tasks).copied().unwrap_or(any), tasks_kind)
        }
        _ => (any, LoopKind::Serial),
    }
}

/// Computes a stage at a loop of a reader, or of the stage where that runs.
fn compute_at(schedule: &Schedule, stage: StageId, it: &Move) -> Instruction {
    let readers: Vec<StageId> = schedule.readers(schedule.stage(stage).tensor()).collect();
    let mut consumer = readers.get(it.picks[1] as usize % readers.len().max(1)).copied();
    for _ in 0..it.picks[2] % 3 {
        if let Some(Attach::At(host, _)) = consumer.map(|it| schedule.stage(it).attach) {
            consumer = Some(host);
        }
    }
    let consumer = consumer.unwrap_or(stage);
    let order = &schedule.stage(consumer).order;
    let place = it.picks[3] as usize % order.len().max(1);
    Instruction::ComputeAt { stage, consumer, axis: order.get(place).copied().unwrap_or(AxisId(0)) }
}

/// Picks a tensor that the stage reads, or else any.
fn pick_read(schedule: &Schedule, stage: StageId, it: &Move) -> TensorId {
    let ids = (0..schedule.tensors.len() as u32).map(TensorId);
    let read: Vec<TensorId> = ids.filter(|id| schedule.stage(stage).compute.reads(*id)).collect();
    read.get(it.picks[1] as usize % read.len().max(1)).copied().unwrap_or(TensorId(0))
}

/// Stages a padded read, if the program has one.
fn padded(schedule: &Schedule, it: &Move) -> Instruction {
    let mut found = Vec::new();
    for reader in &schedule.order {
        schedule.stage(*reader).compute.body.walk(&mut |expr| {
            if let Expr::Select { then, .. } = expr
                && let Expr::Read { tensor, .. } = **then
            {
                found.push(Instruction::CachePadded { tensor, reader: *reader });
            }
        });
    }
    let stage = pick_stage(schedule, it.picks[0]);
    let otherwise =
        Instruction::CacheRead { tensor: pick_read(schedule, stage, it), reader: stage };
    if found.is_empty() { otherwise } else { found.swap_remove(it.picks[0] as usize % found.len()) }
}

/// Makes a layout with up to two splits for any tensor that may have one.
fn pack(schedule: &Schedule, it: &Move) -> Instruction {
    let ids = (0..schedule.tensors.len() as u32).map(TensorId);
    let packable: Vec<TensorId> = ids
        .filter(|id| {
            let tensor = schedule.tensor(*id);
            let weight = tensor.tensor.kind == TensorKind::Weight;
            let computed = tensor.stage.is_some() && !schedule.is_output(*id);
            tensor.layout.is_none() && (weight || computed)
        })
        .collect();
    let tensor = packable.get(it.picks[0] as usize % packable.len().max(1)).copied();
    let tensor = tensor.unwrap_or(TensorId(0));
    let n_dims = schedule.tensor(tensor).tensor.shape.len();
    let n_splits = if n_dims == 0 { 0 } else { it.picks[1] as usize % 3 };
    let split = |n: usize| {
        let pick = it.picks[2 + n];
        (pick as usize % (n_dims + n), [2, 3, 4, 8][pick as usize / 7 % 4])
    };
    let splits: Vec<(usize, u64)> = (0..n_splits).map(split).collect();
    let mut order: Vec<usize> = (0..n_dims + n_splits).collect();
    order.rotate_left(it.picks[4] as usize % (n_dims + n_splits).max(1));
    if (it.picks[4] / 11).is_multiple_of(2) && order.len() > 1 {
        order.swap(0, 1);
    }
    Instruction::Pack { tensor, layout: Layout { splits, order } }
}
