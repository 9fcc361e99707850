//! Copies of the operands of a tiled reduction: where they are made, and their layouts.

use super::TASKS_PER_THREAD;
use super::blocks::Padding;
use super::variant::{CopyScope, OperandCopy};
use crate::sketch::layout::pack_by_tile;
use crate::sketch::{Builder, DecisionId, DecisionKind, Factor, Result};
use tvmtune_schedule::{AxisId, Instruction, Layout, LoopKind, StageId};

/// Vectors that a padded copy moves in a row; chosen by measurement.
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
) -> Result<()> {
    let name = b.stage_name(root).to_owned();
    let order = b.schedule.stage(stage).order.clone();
    let Some((last, outer)) = order.split_last() else { return Ok(()) };
    let best = u64::from(loops.padding == Padding::InTasks);
    let decision = b.decide(format!("{name} padded copy"), DecisionKind::Choice, &[0, 1], best);
    let (mut n_tasks, wanted) = (1, u64::from(b.cpu().threads) * TASKS_PER_THREAD);
    let is_needed = |axis: &&AxisId| {
        let is_needed = n_tasks < wanted;
        n_tasks *= b.extent(stage, **axis);
        is_needed
    };
    let kind = LoopKind::Parallel;
    let parallel = |axis: &AxisId| Instruction::Annotate { stage, axis: *axis, kind };
    let parallel = outer.iter().take_while(is_needed).map(parallel).collect();
    let inside = vec![Instruction::ComputeAt { stage, consumer: root, axis: loops.task }];
    b.one_of(decision, vec![parallel, inside])?;
    let last = if stride > 1 { deinterleave(b, stage, *last, stride)? } else { *last };
    let vector = b.split(stage, last, &[Factor::Fixed(COPIED_VECTORS * b.lanes())])?;
    b.annotate(stage, vector[1], LoopKind::Vectorized)
}

/// Makes elements that are `stride` apart in the last dimension of a copy contiguous; returns the
/// loop over them.
fn deinterleave(b: &mut Builder, stage: StageId, last: AxisId, stride: u64) -> Result<AxisId> {
    let tensor = b.tensor_of(stage);
    let n_dims = b.n_dims(tensor);
    let order = (0..n_dims - 1).chain([n_dims, n_dims - 1]).collect();
    let layout = Layout { splits: vec![(n_dims - 1, stride)], order };
    b.apply(|it| it.pack(tensor, layout))?;
    let parts = b.split(stage, last, &[Factor::Fixed(stride)])?;
    b.reorder(stage, [parts[1], parts[0]])?;
    b.annotate(stage, parts[1], LoopKind::Unrolled)?;
    Ok(parts[0])
}

/// Orders the loops of a copy, and gives it a layout along the vectorized axis.
pub(super) fn place_copy(
    b: &mut Builder,
    stage: StageId,
    copy: OperandCopy,
    vector_tile: DecisionId,
) -> Result<()> {
    let OperandCopy { dim, scope, .. } = copy;
    let tensor = b.tensor_of(stage);
    let n_dims = b.n_dims(tensor);
    let along = AxisId(dim as u32);
    let others: Vec<AxisId> = (0..n_dims as u32).map(AxisId).filter(|it| *it != along).collect();
    match scope {
        CopyScope::Panel => {
            if dim + 1 != n_dims {
                let order = others.iter().chain([&along]).map(|it| it.0 as usize).collect();
                b.permute(tensor, order)?;
            }
            b.reorder(stage, others.into_iter().chain([along]))?;
            b.annotate(stage, along, LoopKind::Vectorized)
        }
        CopyScope::Whole => {
            pack_by_tile(b, tensor, dim, vector_tile)?;
            let parts = b.split(stage, along, &[Factor::Open(vector_tile)])?;
            b.reorder(stage, [&parts[..1], &others, &parts[1..]].concat())?;
            b.annotate(stage, parts[0], LoopKind::Parallel)?;
            b.annotate(stage, parts[1], LoopKind::Vectorized)
        }
    }
}
