//! Copies of the operands of a tiled reduction: where they are made, and their layouts.

use super::blocks::Padding;
use super::variant::{CopyScope, OperandCopy};
use crate::sketch::builder::Builder;
use crate::sketch::layout::pack_by_tile;
use crate::sketch::types::{DecisionId, DecisionKind, Factor};
use tvmtune_schedule::error::ScheduleError;
use tvmtune_schedule::{AxisId, Instruction, Layout, LoopKind, StageId};

/// Tasks of a copy for each thread, so that the last ones end at about the same time.
const TASKS_PER_THREAD: u64 = 8;
/// Vectors that a padded copy moves in a row; chosen on the Zen 5 of `docs/results`.
const COPIED_VECTORS: u64 = 4;

/// Loops and decisions of a tiled stage that its copies follow.
pub(super) struct TileLoops {
    /// The innermost loop of the grid of tasks.
    pub(super) task: AxisId,
    /// The decision on the length of the vectorized tile.
    pub(super) vector_tile: DecisionId,
    pub(super) padding: Padding,
}

/// Places a padded copy with its stride: in a phase of its own, or in each task.
pub(super) fn place_padded(
    b: &mut Builder,
    stage: StageId,
    stride: u64,
    root: StageId,
    loops: &TileLoops,
) -> Result<(), ScheduleError> {
    let name = b.stage_name(root).to_owned();
    let order = b.schedule.stage(stage).order.clone();
    let Some((last, outer)) = order.split_last() else { return Ok(()) };
    let group = b.new_group();
    let kind = DecisionKind::Choice;
    let best = u64::from(loops.padding == Padding::InTasks);
    let decision = b.decide(format!("{name} padded copy"), kind, &[0, 1], best, group);
    let (mut n_tasks, wanted) = (1, u64::from(b.cpu().threads) * TASKS_PER_THREAD);
    let parallel = outer.iter().copied().take_while(|axis| {
        let is_needed = n_tasks < wanted;
        n_tasks *= b.extent(stage, *axis);
        is_needed
    });
    let parallel =
        parallel.map(|axis| Instruction::Annotate { stage, axis, kind: LoopKind::Parallel });
    let parallel = parallel.collect();
    let inside = vec![Instruction::ComputeAt { stage, consumer: root, axis: loops.task }];
    b.one_of(decision, vec![parallel, inside])?;
    let last = if stride > 1 { deinterleave(b, stage, *last, stride)? } else { *last };
    let vector = b.split(stage, last, &[Factor::Fixed(COPIED_VECTORS * b.lanes())])?;
    b.annotate(stage, vector[1], LoopKind::Vectorized)
}

/// Makes elements that are `stride` apart in the last dimension of a copy contiguous; returns the
/// loop over them.
fn deinterleave(
    b: &mut Builder,
    stage: StageId,
    last: AxisId,
    stride: u64,
) -> Result<AxisId, ScheduleError> {
    let tensor = b.schedule.stage(stage).tensor();
    let n_dims = b.schedule.tensor(tensor).tensor.shape.len();
    let order = (0..n_dims - 1).chain([n_dims, n_dims - 1]).collect();
    let layout = Layout { splits: vec![(n_dims - 1, stride)], order };
    b.apply(|it| it.pack(tensor, layout))?;
    let parts = b.split(stage, last, &[Factor::Fixed(stride)])?;
    b.apply(|it| it.reorder(stage, &[parts[1], parts[0]]))?;
    b.annotate(stage, parts[1], LoopKind::Unrolled)?;
    Ok(parts[0])
}

/// Orders the loops of a copy, and gives it a layout along the vectorized axis.
pub(super) fn place_copy(
    b: &mut Builder,
    stage: StageId,
    copy: OperandCopy,
    vector_tile: DecisionId,
) -> Result<(), ScheduleError> {
    let OperandCopy { dim, scope, .. } = copy;
    let tensor = b.schedule.stage(stage).tensor();
    let n_dims = b.schedule.tensor(tensor).tensor.shape.len();
    let along = AxisId(dim as u32);
    let others: Vec<AxisId> = (0..n_dims as u32).map(AxisId).filter(|it| *it != along).collect();
    match scope {
        CopyScope::Panel => {
            if dim + 1 != n_dims {
                let order = others.iter().chain([&along]).map(|it| it.0 as usize).collect();
                b.apply(|it| it.pack(tensor, Layout { splits: Vec::new(), order }))?;
            }
            let order: Vec<AxisId> = others.into_iter().chain([along]).collect();
            b.apply(|it| it.reorder(stage, &order))?;
            b.annotate(stage, along, LoopKind::Vectorized)
        }
        CopyScope::Whole => {
            pack_by_tile(b, tensor, dim, vector_tile)?;
            let parts = b.split(stage, along, &[Factor::Open(vector_tile)])?;
            let mut order = vec![parts[0]];
            order.extend(others);
            order.push(parts[1]);
            b.apply(|it| it.reorder(stage, &order))?;
            b.annotate(stage, parts[0], LoopKind::Parallel)?;
            b.annotate(stage, parts[1], LoopKind::Vectorized)
        }
    }
}
