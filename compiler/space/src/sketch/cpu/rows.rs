//! The CPU template for rows: all stages are computed in the loop over rows, in memory that stays in
//! the first-level cache; reductions run in vectors of partial results.
//!
//! ```text
//! parallel rows_0
//!   pipelined rows_1                       -- prefetches the next row
//!     for d_0: vectorized d_1:  max_part[d_1] = max(max_part[d_1], x[row, d])
//!     vectorized d_1:  max = max(max, max_part[d_1])
//!     for d_0: vectorized d_1:  e[d] = exp(x[row, d] - max)
//!     ...
//!     inverse = 1 / sum
//!     for d_0: vectorized d_1:  y[row, d] = e[d] * inverse
//! ```
//!
//! # Source
//!
//! Ansor's rule "add rfactor", with the factored axis in lanes. Row-invariant subexpressions are
//! hoisted ([`Schedule::hoist_invariant`](tvmtune_schedule::Schedule::hoist_invariant)).

use std::collections::BTreeMap;

use super::{LONG_TASKS_PER_THREAD, TASKS_PER_THREAD, block_scan, hoist_invariant};
use crate::sketch::layout::{WORD_BYTES, block_sizes};
use crate::sketch::{Builder, DecisionKind, Factor, Result, Rows, Template, TemplateKind};
use tvmtune_ir::dag::access::Access;
use tvmtune_ir::dag::order::LANES;
use tvmtune_ir::dag::{Expr, TensorId};
use tvmtune_ir::poly::VarId;
use tvmtune_ir::size::Size;
use tvmtune_schedule::{AxisId, LoopKind, ReductionOrder, StageId};

/// Cycles that a task should take at least, some 2 us, of which its dispatch takes a share; estimated.
const MIN_TASK_CYCLES: f64 = 8_000.0;
/// Cycles of a load, two of which a core issues at once.
const CYCLES_PER_LOAD: f64 = 0.5;
/// Cycles in which half of the lanes of partial results are added to the other half, until one value is left;
/// chosen by measurement.
const CYCLES_OF_HALVING: f64 = 2.0;
/// The shortest rows along which vectors lie; chosen by measurement.
const SHORTEST_ROW: u64 = 5;
/// Vectors of a row that a step takes; chosen by judgement.
const VECTORS: u64 = 4;
/// Vectors of sums that a step of a reduction adds to: as many as hide the latency of an addition.
const ACCUMULATORS: u64 = 8;

/// Cycles of computing that make up for reading terms once for each thread, for each cycle of reading them once;
/// estimated.
const MIN_COMPUTE: f64 = 1.0;

pub(super) const TEMPLATE: Template<Rows> = Template { is_applicable: |_, _| true, schedule };

fn schedule(b: &mut Builder, rows: &Rows) -> Result<()> {
    let Rows { root, ref inside, depth } = *rows;
    if inside.is_empty()
        && let Some(part) = split_among_threads(b, root, depth)?
    {
        // Parts are not split again.
        by_rows(b, &Rows { root: part, inside: Vec::new(), depth: depth + 1 })?;
    }
    by_rows(b, rows)
}

fn by_rows(b: &mut Builder, rows: &Rows) -> Result<()> {
    let Rows { root, ref inside, depth } = *rows;
    let name = b.stage_name(root).to_owned();
    let cycles = b.cycles(inside.iter().chain([&root]));
    // First, while bodies still have the invariant subexpressions.
    let mut stages = Vec::new();
    for stage in inside.iter().chain([&root]) {
        stages.extend(hoist_invariant::to_rows(b, *stage, depth)?);
        stages.push(*stage);
    }
    // Stages inside, and the stage and the loop along a row where partial results of its elements are computed one
    // after the other.
    let mut attached: Vec<(StageId, Option<(StageId, AxisId)>)> = Vec::new();
    for stage in stages {
        let n_spatial = b.n_spatial(stage);
        let along =
            (stage != root && n_spatial > depth).then(|| (stage, AxisId(n_spatial as u32 - 1)));
        attached.extend(order_loops(b, stage, depth)?.into_iter().map(|it| (it, along)));
        attached.extend((stage != root).then_some((stage, None)));
    }

    let Some(last) = depth.checked_sub(1) else {
        // With no rows there is no loop to run at: partial results are stages of their own.
        let label = format!("one row, {} parts", attached.len());
        b.note_template_as(TemplateKind::Rows, root, &label);
        return Ok(());
    };
    let extents = b.extents(root);
    let n_rows: u64 = extents[..depth].iter().size();
    let wanted = u64::from(b.cpu().threads) * TASKS_PER_THREAD;
    let per_row = (cycles / n_rows as f64).max(1.0);
    let min_rows = (MIN_TASK_CYCLES / per_row).ceil() as u64;
    let block = n_rows.div_ceil(wanted).max(1).min(extents[last]).min(min_rows.max(1));
    let kind = DecisionKind::Outer;
    let decision = b.decide(format!("{name} rows"), kind, &block_sizes(extents[last]), block);
    let parts = b.split(root, AxisId(last as u32), &[Factor::Open(decision)])?;
    b.annotate_all(root, (0..last as u32).map(AxisId).chain([parts[0]]), LoopKind::Parallel)?;
    let inside = attached.iter().map(|it| it.0).collect();
    let passes_memory = waits_for_memory(b, &Rows { root, inside, depth });
    // The rows in flight are the one that is computed, and those that are prefetched.
    let options = (DecisionKind::Outer, &[1, 2, 3][..]);
    let best = u64::from(passes_memory) + 1;
    let kind = |rows| (rows > 1).then_some(LoopKind::Pipelined(rows as u8));
    b.decide_loop_kind(format!("{name} rows ahead"), options, best, (root, parts[1]), kind)?;
    // Readers first: a stage runs inside the loop only when all that read it do.
    for (stage, along) in attached.into_iter().rev() {
        let is_placed = along.is_some_and(|(element, loop_)| {
            b.apply(|it| it.compute_at(stage, element, loop_)).is_ok()
        });
        if !is_placed {
            b.apply(|it| it.compute_at(stage, root, parts[1]))?;
        }
    }
    b.note_template(TemplateKind::Rows, root);
    Ok(())
}

/// Splits rows that are long, and fewer than threads, into parts that are rows of a stage of its own, which
/// it returns.
fn split_among_threads(b: &mut Builder, root: StageId, depth: usize) -> Result<Option<StageId>> {
    let Some((first, along)) = contiguous_reduction(b, root) else { return Ok(None) };
    let threads = u64::from(b.cpu().threads);
    let extents = b.extents(root);
    let n_rows: u64 = extents[..depth].iter().size();
    let wanted = (threads * LONG_TASKS_PER_THREAD).div_ceil(n_rows);
    let cycles = b.cycles([&root]) / n_rows as f64;
    let n_parts = wanted.min((cycles / MIN_TASK_CYCLES) as u64);
    if n_rows >= threads || n_parts < 2 {
        return Ok(None);
    }
    // The others stay one run of memory together.
    let axis = (first..along).find(|it| extents[*it] >= n_parts).unwrap_or(along);
    let unit = if axis == along { LANES } else { 1 };
    let part = extents[axis].div_ceil(n_parts).next_multiple_of(unit);
    if part >= extents[axis] {
        return Ok(None);
    }
    let sizes = block_sizes(extents[axis].div_ceil(unit));
    let options: Vec<u64> = sizes.iter().map(|it| it * unit).collect();
    let name = format!("{} part", b.stage_name(root));
    let decision = b.decide(name, DecisionKind::Outer, &options, part);
    let parts = b.split(root, AxisId(axis as u32), &[Factor::Open(decision)])?;
    b.apply(|it| it.rfactor(root, parts[0])).map(Some)
}

/// Returns whether rows are read more than once, come from behind the second-level cache, and leave
/// room for the next one in the first-level cache.
fn waits_for_memory(b: &Builder, rows: &Rows) -> bool {
    let Rows { root, ref inside, depth } = *rows;
    let mut passes: BTreeMap<TensorId, u64> = BTreeMap::new();
    for stage in inside.iter().chain([&root]) {
        let accesses = b.accesses(*stage);
        // A stage with fewer axes than the rows have is the same for all rows of the innermost axis.
        let is_of_row = |it: &&Access| depth <= it.strides.len() && it.depends_on(depth - 1);
        let of_rows = accesses.iter().filter(is_of_row);
        of_rows.for_each(|it| *passes.entry(it.tensor).or_default() += 1);
    }
    let cpu = b.cpu();
    passes.retain(|tensor, n| {
        let shape = &b.schedule.tensor(*tensor).tensor.shape;
        let elements = |from: usize| shape.iter().skip(from).map(|it| b.max_extent(it)).size();
        let is_param = b.schedule.tensor(*tensor).stage.is_none();
        is_param
            && *n > 1
            && elements(0) * WORD_BYTES > cpu.l2_bytes
            && elements(depth) * WORD_BYTES < cpu.l1_bytes / 4
    });
    !passes.is_empty()
}

/// Returns the axis along which a reduction can be vectorized: all reads are contiguous along it, or
/// independent of it, and it is no short one. With it the first of the axes that are one run
/// of memory together with it.
pub(super) fn contiguous_reduction(b: &Builder, stage: StageId) -> Option<(usize, usize)> {
    let compute = b.compute(stage);
    compute.reducer?;
    // A reduction with a fixed order has its partial results from the initial schedule.
    if b.schedule.stage(stage).reduction != ReductionOrder::Any {
        return None;
    }
    let (extents, accesses) = (b.extents(stage), b.accesses(stage));
    let last = compute.axes.len() - 1;
    let along = (compute.n_spatial..=last).rev().find(|it| extents[*it] > 1)?;
    if !is_contiguous(b, stage, along) {
        return None;
    }
    let flat = |axis: &usize| {
        let extent = &compute.axes[*axis + 1].extent;
        accesses.iter().all(|it| match (&it.strides[*axis], &it.strides[*axis + 1]) {
            (Some(outer), Some(inner)) => *outer == inner.clone() * extent.clone(),
            _ => false,
        }) && !mentions_as_value(b, stage, *axis)
            && !mentions_as_value(b, stage, *axis + 1)
    };
    let first = (compute.n_spatial..along).rev().take_while(flat).last().unwrap_or(along);
    (row_length(b, stage, (first, along)) >= SHORTEST_ROW).then_some((first, along))
}

/// Returns whether a stage is one of the two that the program makes of a reduction by lanes.
pub(super) fn is_by_lanes(b: &Builder, stage: StageId) -> bool {
    let order = b.schedule.stage(stage).reduction;
    matches!(order, ReductionOrder::Lanes { .. } | ReductionOrder::Halves { .. })
}

/// Returns whether the vectors along which a reduction can be vectorized are less than one for each row.
pub(super) fn is_short(b: &Builder, stage: StageId) -> bool {
    contiguous_reduction(b, stage).is_some_and(|it| row_length(b, stage, it) < b.lanes())
}

/// Returns the elements along axes that are one run of memory.
fn row_length(b: &Builder, stage: StageId, (first, along): (usize, usize)) -> u64 {
    b.extents(stage)[first..=along].iter().size()
}

/// Estimates the cycles of a reduction in vectors along the axes that it reduces; `None` if there are no
/// such vectors.
pub(super) fn cycles(b: &Builder, stage: StageId) -> Option<f64> {
    let run @ (_, along) = contiguous_reduction(b, stage)?;
    let extents = b.extents(stage);
    let (outputs, steps) = extents.split_at(b.n_spatial(stage));
    let n_outputs = outputs.iter().size() as f64;
    let length = row_length(b, stage, run);
    let n_vectors = (steps.iter().size() / length * length.div_ceil(b.lanes())) as f64;
    let loads = b.accesses(stage).iter().filter(|it| it.depends_on(along)).count() as f64;
    let of_lanes = f64::from(b.lanes().ilog2()) * CYCLES_OF_HALVING;
    Some(n_outputs * (n_vectors * loads * CYCLES_PER_LOAD + of_lanes))
}

fn mentions_as_value(b: &Builder, stage: StageId, axis: usize) -> bool {
    let mut found = false;
    b.compute(stage).body.walk(&mut |it| {
        found |= matches!(it, Expr::Index(poly) if poly.mentions(VarId(axis as u32)));
    });
    found
}

/// Orders the loops of one stage inside its rows; returns the stages that it was factored into.
fn order_loops(b: &mut Builder, stage: StageId, depth: usize) -> Result<Vec<StageId>> {
    if let Some(scan) = b.scan_stage(stage) {
        block_scan::order_loops(b, scan)?;
        return Ok(Vec::new());
    }
    let name = b.stage_name(stage).to_owned();
    let compute = b.compute(stage).clone();
    if let Some((first, along)) = contiguous_reduction(b, stage) {
        return factor_lanes(b, stage, first, along);
    }
    if let ReductionOrder::Lanes { .. } = b.schedule.stage(stage).reduction {
        if !share_lanes(b, stage)? {
            lanes_last(b, stage)?;
        }
        return Ok(Vec::new());
    }
    if compute.n_spatial <= depth {
        return Ok(Vec::new());
    }
    let last = compute.n_spatial - 1;
    let vectors = match compute.reducer {
        Some(_) if !is_contiguous(b, stage, last) => return Ok(Vec::new()),
        Some(_) => ACCUMULATORS,
        None => VECTORS,
    };
    let last = AxisId(last as u32);
    let inner = b.decide_lanes_of(format!("{name} lanes"), (stage, last), vectors);
    let parts = b.split(stage, last, &[Factor::Open(inner)])?;
    innermost(b, stage, parts[1])?;
    Ok(Vec::new())
}

/// Returns whether a stage reads runs of memory along an axis, and else elements that do not depend on it.
fn is_contiguous(b: &Builder, stage: StageId, axis: usize) -> bool {
    let accesses = b.accesses(stage);
    accesses.iter().any(|it| it.is_contiguous(axis))
        && accesses.iter().all(|it| it.is_contiguous(axis) || !it.depends_on(axis))
}

/// Vectorizes a stage of partial results, whose axes are spatial ones, the lanes, and the remaining steps.
fn lanes_last(b: &mut Builder, part: StageId) -> Result<()> {
    let n_spatial = b.n_spatial(part);
    innermost(b, part, AxisId(n_spatial as u32 - 1))
}

/// Shares the lanes of partial results out over threads, where they are those of the only row and their terms take
/// longer to compute than to read; returns whether it does. Each thread reads all lines.
fn share_lanes(b: &mut Builder, part: StageId) -> Result<bool> {
    let cycles = b.cycles([&part]);
    let threads = b.threads_for(cycles);
    if threads == 1 || b.n_spatial(part) != 1 || cycles < MIN_COMPUTE * b.memory_cycles() {
        return Ok(false);
    }
    let n = b.extents(part)[0];
    let sizes = std::iter::successors(Some(b.lanes()), |it| Some(2 * it));
    let options: Vec<u64> = sizes.take_while(|it| *it <= n).collect();
    let best = (n / threads.next_power_of_two()).max(b.lanes());
    let name = format!("{} lanes of a thread", b.stage_name(part));
    let lanes = b.decide(name, DecisionKind::Inner, &options, best);
    let parts = b.split(part, AxisId(0), &[Factor::Open(lanes)])?;
    innermost(b, part, parts[1])?;
    b.annotate(part, parts[0], LoopKind::Parallel)?;
    Ok(true)
}

/// Vectorizes a loop as the innermost one.
fn innermost(b: &mut Builder, stage: StageId, lanes: AxisId) -> Result<()> {
    let mut order = b.schedule.stage(stage).order.clone();
    if order.last() != Some(&lanes) {
        order.retain(|it| *it != lanes);
        order.push(lanes);
        b.reorder(stage, order)?;
    }
    b.annotate(stage, lanes, LoopKind::Vectorized)
}

/// Reduces into a vector of partial results first (rfactor).
fn factor_lanes(
    b: &mut Builder,
    stage: StageId,
    first: usize,
    along: usize,
) -> Result<Vec<StageId>> {
    let name = b.stage_name(stage).to_owned();
    let outer = (first as u32..along as u32).map(AxisId);
    let axis = b.fuse(stage, outer, AxisId(along as u32))?;
    let length = b.extent(stage, axis);
    let n_vectors = length.div_ceil(b.lanes());
    // Fixed numerics have this many partial results. Accumulators and operands must fit the registers.
    let reads = b.accesses(stage).iter().filter(|it| it.depends_on(along)).count() as u64;
    let most = n_vectors.min(LANES / b.lanes());
    let fits = most * (1 + reads) < u64::from(b.cpu().isa.registers());
    let best = if fits { most } else { n_vectors.min(VECTORS) };
    let inner = b.decide_lanes(format!("{name} lanes"), n_vectors, best);
    let parts = b.split(stage, axis, &[Factor::Open(inner)])?;
    let part = b.apply(|it| it.rfactor(stage, parts[1]))?;
    lanes_last(b, part)?;
    let reduced = *b.schedule.stage(stage).order.last().expect("a factored stage reduces");
    b.annotate(stage, reduced, LoopKind::Vectorized)?;
    Ok(vec![part])
}
