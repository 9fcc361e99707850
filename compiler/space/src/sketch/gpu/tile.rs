//! The GPU template for reductions in thread tiles: two operands are used more than once, as in matrix
//! products and convolutions.
//!
//! ```text
//! parallel i_0, j_0
//!   for k_0                                                  -- the reduction, computed here
//!     thread t:  a_tile[k, i] = a[i_0 + i, k_0 + k]          -- cooperatively, in vectors
//!     thread t:  b_tile[k, j] = b[k_0 + k, j_0 + j]
//!     thread i_2, j_2
//!       unrolled k_1
//!         unrolled i_1, j_1, i_3, j_3:  acc[i, j] += a_tile[k, i] * b_tile[k, j]
//!   thread i_2, j_2
//!     unrolled i_1, j_1, i_3: vectorized j_3:  c[i, j] = f(acc[i, j])
//! ```
//!
//! # Source
//!
//! Ansor's multi-level tiling for GPUs (`SSSRRSRS`), with virtual threads as repeats inside.

use super::reads::ACCESS_BYTES;
use super::threads::MAX_UNROLLED;
use super::tile_size::{AxisTile, TileSize, choose};
use crate::sketch::{
    Builder, DecisionId, DecisionKind, Factor, Result, Template, TemplateKind, Tiled,
};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::dag::access::Access;
use tvmtune_schedule::error::ErrorKind;
use tvmtune_schedule::{AxisId, Instruction, Layout, LoopKind, StageId};

/// A copy of an operand.
struct Operand {
    stage: StageId,
    /// The dimension along which neighboring threads read.
    dim: Option<usize>,
    /// Elements of an access.
    vector: u64,
}

/// The decisions on one axis.
struct Axis {
    tile: AxisTile,
    repeats: DecisionId,
    threads: DecisionId,
    inner: DecisionId,
}

pub(super) const TEMPLATE: Template<Tiled> = Template { is_applicable: |_, _| true, schedule };

fn schedule(b: &mut Builder, group: &Tiled) -> Result<()> {
    let Tiled { root, anchor } = *group;
    let name = b.stage_name(root).to_owned();
    let anchor = if root == anchor { b.apply(|it| it.cache_write(anchor))? } else { anchor };
    let size = choose(b, anchor).ok_or(ErrorKind::NotReduction.of_stage(anchor))?;
    let operands = copy_operands(b, anchor, &size)?;
    let axes = decide(b, &size, &name);
    let block = split_root(b, root, anchor, &axes)?;
    b.apply(|it| it.compute_at(anchor, root, block))?;
    let step = schedule_reduction(b, anchor, &axes, &size, &name)?;
    let threads: Vec<DecisionId> = axes.iter().map(|it| it.threads).collect();
    for operand in operands {
        place(b, &operand, anchor, step, &threads)?;
    }
    b.note_template(TemplateKind::Tile, root);
    Ok(())
}

/// Copies every operand that varies inside a tile.
fn copy_operands(b: &mut Builder, anchor: StageId, size: &TileSize) -> Result<Vec<Operand>> {
    let accesses = b.accesses(anchor);
    let mut tensors: Vec<TensorId> = accesses.iter().map(|it| it.tensor).collect();
    tensors.sort_unstable();
    tensors.dedup();
    let mut operands = Vec::new();
    for tensor in tensors {
        let Some(read) = accesses.iter().position(|it| it.tensor == tensor) else { continue };
        let access = &accesses[read];
        let reads = || accesses.iter().filter(|it| it.tensor == tensor);
        let is_padded = reads().any(|it| it.conditional);
        let skips = reads().count() == 1 && !is_padded && skips_elements(access);
        let copied = match is_padded {
            true => b.apply(|it| it.cache_padded(tensor, anchor)),
            false if skips => b.apply(|it| it.cache_operand(anchor, read as u32)),
            false => b.apply(|it| it.cache_read(tensor, anchor)),
        };
        // An operand that cannot be copied is read in place.
        let Ok(stage) = copied else { continue };
        let side = size.axes.iter().rev();
        let (dim, vector) = if skips {
            // The dimensions of the copy are the axes of the read.
            let before = |axis: usize| (0..axis).filter(|it| access.depends_on(*it)).count();
            let moving = side.map(|it| it.axis).find(|it| access.depends_on(*it));
            (moving.map(before), 1)
        } else {
            let vector = if is_padded { 1 } else { vector(b, access, size) };
            (side.clone().find_map(|it| dim_along(access, it.axis)), vector)
        };
        operands.push(Operand { stage, dim, vector });
    }
    Ok(operands)
}

/// Returns whether a read skips elements that no other iteration reads.
fn skips_elements(access: &Access) -> bool {
    access.steps.iter().flatten().any(|steps| {
        let mut moving = steps.iter().filter(|it| **it != 0);
        moving.next().is_some_and(|it| it.abs() > 1) && moving.next().is_none()
    })
}

/// Returns the dimension that an axis indexes with step 1.
fn dim_along(access: &Access, axis: usize) -> Option<usize> {
    access.steps.iter().position(|it| it.as_ref().is_some_and(|it| it[axis] == 1))
}

/// Returns the elements of a tile's rows that are contiguous for certain, in an access of 16 bytes.
fn vector(b: &Builder, access: &Access, size: &TileSize) -> u64 {
    let tensor = &b.schedule.tensor(access.tensor).tensor;
    let Some((steps, extent)) = access.steps.last().zip(tensor.shape.last()) else { return 1 };
    let Some(steps) = steps else { return 1 };
    let length = |axis: usize| {
        let tiled = size.axes.iter().find(|it| it.axis == axis).map(|it| it.length());
        if axis == size.step.0 { Some(size.step.1) } else { tiled }
    };
    let moving: Vec<usize> = (0..steps.len()).filter(|it| steps[*it] != 0).collect();
    let [axis] = moving.as_slice() else { return 1 };
    let row = length(*axis).unwrap_or(1);
    let whole = extent.as_constant().unwrap_or(1) as u64;
    let widest = ACCESS_BYTES / tensor.dtype.bytes();
    let fits = |it: &u64| *it <= widest && row.is_multiple_of(*it) && whole.is_multiple_of(*it);
    [8, 4, 2].into_iter().find(fits).unwrap_or(1)
}

fn decide(b: &mut Builder, size: &TileSize, name: &str) -> Vec<Axis> {
    let mut axes = Vec::new();
    for tile in &size.axes {
        let name = |level: &str| format!("{name} axis {} {level}", tile.axis);
        let repeats = b.decide_power(name("repeats"), 8, tile.repeats);
        let group = b.group_of(repeats);
        let threads = b.decide_power_in(group, name("threads"), 64, tile.threads);
        let inner = b.decide_power_in(group, name("inner"), 16, tile.inner);
        axes.push(Axis { tile: *tile, repeats, threads, inner });
    }
    axes
}

/// Splits the stage that stores the result; returns its last loop over blocks.
fn split_root(b: &mut Builder, root: StageId, anchor: StageId, axes: &[Axis]) -> Result<AxisId> {
    let n_spatial = b.n_spatial(anchor);
    let (mut blocks, mut threads, mut inner) = (Vec::new(), Vec::new(), Vec::new());
    let mut last_inner = Vec::new();
    for axis in 0..n_spatial {
        let id = AxisId(axis as u32);
        match axes.iter().find(|it| it.tile.axis == axis) {
            Some(it) => {
                let factors = [it.repeats, it.threads, it.inner].map(Factor::Open);
                let parts = b.split(root, id, &factors)?;
                blocks.push(parts[0]);
                inner.push(parts[1]);
                threads.push(parts[2]);
                last_inner.push(parts[3]);
            }
            None => blocks.push(id),
        }
    }
    inner.extend(&last_inner);
    b.reorder(root, blocks.iter().chain(&threads).chain(&inner))?;
    b.annotate_all(root, &blocks, LoopKind::Parallel)?;
    b.annotate_all(root, &threads, LoopKind::Thread)?;
    let (vector, unrolled) = inner.split_last().expect("a tile has an axis");
    b.annotate_all(root, unrolled, LoopKind::Unrolled)?;
    b.annotate(root, *vector, LoopKind::Vectorized)?;
    blocks.last().copied().ok_or(ErrorKind::NotOutermost.of_stage(root))
}

/// Orders the loops of the reduction; returns the one at which operands are copied.
fn schedule_reduction(
    b: &mut Builder,
    anchor: StageId,
    axes: &[Axis],
    size: &TileSize,
    name: &str,
) -> Result<AxisId> {
    let compute = b.compute(anchor).clone();
    let (mut threads, mut repeats, mut inner) = (Vec::new(), Vec::new(), Vec::new());
    let mut others = Vec::new();
    for axis in 0..compute.n_spatial {
        let id = AxisId(axis as u32);
        match axes.iter().find(|it| it.tile.axis == axis) {
            Some(it) => {
                let parts =
                    b.split(anchor, id, &[Factor::Open(it.threads), Factor::Open(it.inner)])?;
                repeats.push(parts[0]);
                threads.push(parts[1]);
                inner.push(parts[2]);
            }
            None => others.push(id),
        }
    }
    let (axis, depth) = size.step;
    let max = b.extents(anchor)[axis].next_power_of_two().min(64);
    let decision = b.decide_power(format!("{name} depth"), max, depth);
    let parts = b.split(anchor, AxisId(axis as u32), &[Factor::Open(decision)])?;
    let reduce_axes = compute.n_spatial..compute.axes.len();
    let kept = reduce_axes.filter(|it| *it != axis).map(|it| AxisId(it as u32));
    let steps: Vec<AxisId> = [parts[1]].into_iter().chain(kept).collect();
    b.reorder(anchor, [&others[..], &[parts[0]], &threads, &steps, &repeats, &inner].concat())?;
    b.annotate_all(anchor, &threads, LoopKind::Thread)?;
    b.annotate_all(anchor, repeats.iter().chain(&inner), LoopKind::Unrolled)?;
    let decision = b.decide(format!("{name} unroll"), DecisionKind::Choice, &[0, 1], 1);
    let kind = LoopKind::Unrolled;
    let unrolled = |axis: &AxisId| Instruction::Annotate { stage: anchor, axis: *axis, kind };
    // The innermost loops, as far as the code stays short.
    let mut n_iterations = 1;
    let short = |axis: &&AxisId| {
        let extent = if **axis == parts[1] { depth } else { b.extent(anchor, **axis) };
        n_iterations *= extent;
        n_iterations <= MAX_UNROLLED
    };
    let inner: Vec<Instruction> = steps.iter().rev().take_while(short).map(unrolled).collect();
    b.one_of(decision, vec![Vec::new(), inner])?;
    let stages = max_stages(b);
    pipeline(b, anchor, parts[0], stages, name)?;
    Ok(parts[0])
}

/// Returns the pipeline stages of a reduction where there is room for them.
pub(super) fn max_stages(b: &Builder) -> u64 {
    if b.gpu().arch.has_async_copies() { 3 } else { 1 }
}

/// Opens the number of pipeline stages of a reduction; by default `best`.
pub(super) fn pipeline(
    b: &mut Builder,
    anchor: StageId,
    axis: AxisId,
    best: u64,
    name: &str,
) -> Result<()> {
    let kind = |depth| (depth > 1).then_some(LoopKind::Pipelined(depth as u8));
    let options = (DecisionKind::Outer, &[1, 2, 3, 4][..]);
    b.decide_loop_kind(format!("{name} stages"), options, best, (anchor, axis), kind)
}

/// Copies an operand in each step of the reduction, by all threads.
fn place(
    b: &mut Builder,
    operand: &Operand,
    anchor: StageId,
    step: AxisId,
    threads: &[DecisionId],
) -> Result<()> {
    let stage = operand.stage;
    let name = b.stage_name(stage).to_owned();
    let tensor = b.tensor_of(stage);
    let n_dims = b.n_dims(tensor);
    b.apply(|it| it.compute_at(stage, anchor, step))?;
    if let Some(dim) = operand.dim.filter(|it| it + 1 != n_dims) {
        let order = (0..n_dims).filter(|it| *it != dim).chain([dim]).collect();
        let layout = Layout { splits: Vec::new(), order };
        // Asynchronous copies keep contiguous elements together.
        let best = u64::from(!b.gpu().arch.has_async_copies());
        let decision = b.decide(format!("{name} layout"), DecisionKind::Choice, &[0, 1], best);
        b.one_of(decision, vec![Vec::new(), vec![Instruction::Pack { tensor, layout }]])?;
    }
    copy_by_all_threads(b, stage, operand.vector, Factor::Product(1, threads.to_vec()))
}

/// Distributes the elements that a stage copies over all threads of a block, in vectors.
pub(super) fn copy_by_all_threads(
    b: &mut Builder,
    stage: StageId,
    vector: u64,
    threads: Factor,
) -> Result<()> {
    let name = b.stage_name(stage).to_owned();
    let mut order = b.schedule.stage(stage).order.clone();
    let Some(innermost) = order.pop() else { return Ok(()) };
    let axis = b.fuse(stage, order, innermost)?;
    let lanes = b.decide_power(format!("{name} vector"), vector, vector);
    let factors = [threads, Factor::Open(lanes)];
    let parts = b.split(stage, axis, &factors)?;
    b.reorder(stage, [parts[1], parts[0], parts[2]])?;
    b.annotate(stage, parts[1], LoopKind::Thread)?;
    b.annotate(stage, parts[0], LoopKind::Unrolled)?;
    b.annotate(stage, parts[2], LoopKind::Vectorized)
}
