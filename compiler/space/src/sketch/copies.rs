//! Where copies of what a tiled reduction reads are made, and how they lie.

use super::builder::Builder;
use super::tile::Loops;
use super::variant::Copy;
use super::{DecisionId, DecisionKind, Factor};
use tvmtune_ir::dag::TensorId;
use tvmtune_schedule::error::ScheduleError;
use tvmtune_schedule::{AxisId, Instruction, Layout, LoopKind, StageId};

/// Gives a tensor a layout in which the elements of one vectorized tile lie side by side.
pub(super) fn pack_by_tile(
    b: &mut Builder,
    tensor: TensorId,
    dim: usize,
    tile: DecisionId,
) -> Result<(), ScheduleError> {
    let n_dims = b.schedule.tensor(tensor).tensor.shape.len();
    // Stored: the tile's number, the other dimensions, the element in the tile.
    let others = (0..=n_dims).filter(|it| *it != dim && *it != dim + 1);
    let order: Vec<usize> = [dim].into_iter().chain(others).chain([dim + 1]).collect();
    let list = |factor: &u64| {
        let layout = Layout { splits: vec![(dim, *factor)], order: order.clone() };
        vec![Instruction::Pack { tensor, layout }]
    };
    let lists = b.options(tile).iter().map(list).collect();
    b.one_of(tile, lists)
}

/// A padded copy, with its stride: before everything, or what each task reads.
pub(super) fn place_padded(
    b: &mut Builder,
    (stage, stride): (StageId, u64),
    root: StageId,
    loops: &Loops,
    name: &str,
) -> Result<(), ScheduleError> {
    let order = b.schedule.stage(stage).order.clone();
    let Some((last, outer)) = order.split_last() else { return Ok(()) };
    let group = b.new_group();
    let kind = DecisionKind::Choice;
    let best = u64::from(loops.pad);
    let decision = b.decide(format!("{name} padded copy"), kind, &[0, 1], best, group);
    let task = *loops.grid.last().expect("the vectorized axis has a loop in the grid");
    // As many loops as it takes to have several tasks for each thread.
    let (mut n_tasks, wanted) = (1, u64::from(b.cpu().threads) * 8);
    let parallel = outer.iter().copied().take_while(|axis| {
        let is_needed = n_tasks < wanted;
        n_tasks *= b.extent(stage, *axis);
        is_needed
    });
    let parallel =
        parallel.map(|axis| Instruction::Annotate { stage, axis, kind: LoopKind::Parallel });
    let parallel = parallel.collect();
    let inside = vec![Instruction::ComputeAt { stage, consumer: root, axis: task }];
    b.one_of(decision, vec![parallel, inside])?;
    let last = if stride > 1 { take_apart(b, stage, *last, stride)? } else { *last };
    let vector = b.split(stage, last, &[Factor::Fixed(4 * b.lanes())])?;
    b.annotate(stage, vector[1], LoopKind::Vectorized)
}

/// Lets elements that are `stride` apart in the last dimension of a copy lie side by side; returns
/// the loop over them.
fn take_apart(
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

/// The loops and the layout of a copy along the vectorized axis.
pub(super) fn place_copy(
    b: &mut Builder,
    stage: StageId,
    dim: usize,
    place: Copy,
    loops: &Loops,
) -> Result<(), ScheduleError> {
    let tensor = b.schedule.stage(stage).tensor();
    let n_dims = b.schedule.tensor(tensor).tensor.shape.len();
    let along = AxisId(dim as u32);
    let others: Vec<AxisId> = (0..n_dims as u32).map(AxisId).filter(|it| *it != along).collect();
    match place {
        Copy::Panel => {
            if dim + 1 != n_dims {
                let order = others.iter().chain([&along]).map(|it| it.0 as usize).collect();
                b.apply(|it| it.pack(tensor, Layout { splits: Vec::new(), order }))?;
            }
            let order: Vec<AxisId> = others.into_iter().chain([along]).collect();
            b.apply(|it| it.reorder(stage, &order))?;
            b.annotate(stage, along, LoopKind::Vectorized)
        }
        Copy::Whole => {
            pack_by_tile(b, tensor, dim, loops.vector_tile)?;
            let parts = b.split(stage, along, &[Factor::Open(loops.vector_tile)])?;
            let mut order = vec![parts[0]];
            order.extend(others);
            order.push(parts[1]);
            b.apply(|it| it.reorder(stage, &order))?;
            b.annotate(stage, parts[0], LoopKind::Parallel)?;
            b.annotate(stage, parts[1], LoopKind::Vectorized)
        }
    }
}
