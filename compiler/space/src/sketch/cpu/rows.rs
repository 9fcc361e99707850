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

use super::{block_scan, hoist_invariant};
use crate::sketch::builder::Builder;
use crate::sketch::fusion_group::Rows;
use crate::sketch::layout::{WORD_BYTES, block_sizes};
use crate::sketch::template::Template;
use crate::sketch::types::{DecisionKind, Factor, TemplateKind};
use tvmtune_ir::dag::TensorId;
use tvmtune_schedule::error::ScheduleError;
use tvmtune_schedule::{AxisId, Instruction, LoopKind, StageId};

/// Cycles that a task should take at least, some 2 us: its dispatch takes a share of that.
const MIN_TASK_CYCLES: f64 = 8_000.0;
/// Tasks for each thread, so that the last ones end at about the same time.
const TASKS_PER_THREAD: u64 = 8;

/// Vectors of partial results, as many as it takes to hide the latency of an addition.
const PARTIAL_VECTORS: u64 = 4;

pub(super) struct RowByRow;

impl Template<Rows> for RowByRow {
    fn is_applicable(&self, _: &Builder, _: &Rows) -> bool {
        true
    }

    fn schedule(&self, b: &mut Builder, rows: &Rows) -> Result<(), ScheduleError> {
        schedule(b, rows)
    }
}

fn schedule(b: &mut Builder, rows: &Rows) -> Result<(), ScheduleError> {
    let Rows { root, ref inside, depth } = *rows;
    let name = b.stage_name(root).to_owned();
    let cycles = b.cycles(inside.iter().chain([&root]));
    // First, while bodies still have the invariant subexpressions.
    let mut stages = Vec::new();
    for stage in inside.iter().chain([&root]) {
        stages.extend(hoist_invariant::to_rows(b, *stage, depth)?);
        stages.push(*stage);
    }
    let mut attached = Vec::new();
    for stage in stages {
        attached.extend(order_loops(b, stage, depth)?);
        attached.extend((stage != root).then_some(stage));
    }

    let Some(last) = depth.checked_sub(1) else { return attach_at_root(b, root, &attached) };
    let extents = b.extents(root);
    let n_rows: u64 = extents[..depth].iter().product();
    let wanted = u64::from(b.cpu().threads) * TASKS_PER_THREAD;
    let per_row = (cycles / n_rows as f64).max(1.0);
    let min_rows = (MIN_TASK_CYCLES / per_row).ceil() as u64;
    let block = n_rows.div_ceil(wanted).max(1).min(extents[last]).min(min_rows.max(1));
    let group = b.new_group();
    let kind = DecisionKind::Outer;
    let decision =
        b.decide(format!("{name} rows"), kind, &block_sizes(extents[last]), block, group);
    let parts = b.split(root, AxisId(last as u32), &[Factor::Open(decision)])?;
    for axis in (0..last as u32).map(AxisId).chain([parts[0]]) {
        b.annotate(root, axis, LoopKind::Parallel)?;
    }
    let passes_memory = waits_for_memory(b, &Rows { root, inside: attached.clone(), depth });
    decide_prefetch(b, root, parts[1], u64::from(passes_memory) + 1, &name)?;
    // Readers first: a stage runs inside the loop only when all that read it do.
    for stage in attached.into_iter().rev() {
        b.apply(|it| it.compute_at(stage, root, parts[1]))?;
    }
    b.note_template(TemplateKind::Rows, root);
    Ok(())
}

/// Opens the number of rows in flight: the one that is computed, and those that are prefetched.
fn decide_prefetch(
    b: &mut Builder,
    root: StageId,
    row: AxisId,
    best: u64,
    name: &str,
) -> Result<(), ScheduleError> {
    let group = b.new_group();
    let kind = DecisionKind::Outer;
    let decision = b.decide(format!("{name} rows ahead"), kind, &[1, 2, 3], best, group);
    let pipelined = |depth: u8| {
        let kind = LoopKind::Pipelined(depth);
        vec![Instruction::Annotate { stage: root, axis: row, kind }]
    };
    b.one_of(decision, vec![Vec::new(), pipelined(2), pipelined(3)])
}

/// Returns whether rows are read more than once, come from behind the second-level cache, and leave
/// room for the next one in the first-level cache.
fn waits_for_memory(b: &Builder, rows: &Rows) -> bool {
    let Rows { root, ref inside, depth } = *rows;
    let mut passes: BTreeMap<TensorId, u64> = BTreeMap::new();
    for stage in inside.iter().chain([&root]) {
        let accesses = b.accesses(*stage);
        let of_rows = accesses.iter().filter(|it| it.depends_on(depth - 1));
        of_rows.for_each(|it| *passes.entry(it.tensor).or_default() += 1);
    }
    let cpu = b.cpu();
    passes.retain(|tensor, n| {
        let shape = &b.schedule.tensor(*tensor).tensor.shape;
        let elements =
            |from: usize| shape.iter().skip(from).map(|it| b.max_extent(it)).product::<u64>();
        let is_param = b.schedule.tensor(*tensor).stage.is_none();
        is_param
            && *n > 1
            && elements(0) * WORD_BYTES > cpu.l2_bytes
            && elements(depth) * WORD_BYTES < cpu.l1_bytes / 4
    });
    !passes.is_empty()
}

fn attach_at_root(
    b: &mut Builder,
    root: StageId,
    attached: &[StageId],
) -> Result<(), ScheduleError> {
    // With no rows there is no loop to run at: partial results are stages of their own.
    let label = format!("one row, {} parts", attached.len());
    b.note_template_as(TemplateKind::Rows, root, &label);
    Ok(())
}

/// Returns the axis along which a reduction can be vectorized: all reads are contiguous along it, or
/// independent of it, and it is as long as a vector. With it the first of the axes that are one run
/// of memory together with it.
pub(super) fn contiguous_reduction(b: &Builder, stage: StageId) -> Option<(usize, usize)> {
    let compute = &b.schedule.stage(stage).compute;
    compute.reducer?;
    let (extents, accesses) = (b.extents(stage), b.accesses(stage));
    let last = compute.axes.len() - 1;
    let fits = |axis: usize| {
        accesses.iter().any(|it| it.is_contiguous(axis))
            && accesses.iter().all(|it| it.is_contiguous(axis) || !it.depends_on(axis))
    };
    let along = (compute.n_spatial..=last).rev().find(|it| extents[*it] > 1)?;
    if !fits(along) {
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
    let length: u64 = extents[first..=along].iter().product();
    (length >= b.lanes()).then_some((first, along))
}

fn mentions_as_value(b: &Builder, stage: StageId, axis: usize) -> bool {
    use tvmtune_ir::dag::Expr;
    use tvmtune_ir::poly::VarId;
    let mut found = false;
    b.schedule.stage(stage).compute.body.walk(&mut |it| {
        found |= matches!(it, Expr::Index(poly) if poly.mentions(VarId(axis as u32)));
    });
    found
}

/// Orders the loops of one stage inside its rows; returns the stages that it was factored into.
fn order_loops(
    b: &mut Builder,
    stage: StageId,
    depth: usize,
) -> Result<Vec<StageId>, ScheduleError> {
    if let Some(scan) = b.scan_stage(stage) {
        block_scan::order_loops(b, scan)?;
        return Ok(Vec::new());
    }
    let name = b.stage_name(stage).to_owned();
    let compute = b.schedule.stage(stage).compute.clone();
    if let Some((first, along)) = contiguous_reduction(b, stage) {
        return factor_lanes(b, stage, first, along);
    }
    if compute.reducer.is_some() || compute.n_spatial <= depth {
        return Ok(Vec::new());
    }
    let last = compute.n_spatial - 1;
    let n_vectors = b.extents(stage)[last].div_ceil(b.lanes());
    let group = b.new_group();
    let inner =
        b.decide_lanes(format!("{name} lanes"), n_vectors, n_vectors.min(PARTIAL_VECTORS), group);
    let parts = b.split(stage, AxisId(last as u32), &[Factor::Open(inner)])?;
    b.annotate(stage, parts[1], LoopKind::Vectorized)?;
    Ok(Vec::new())
}

/// Reduces into a vector of partial results first (rfactor).
fn factor_lanes(
    b: &mut Builder,
    stage: StageId,
    first: usize,
    along: usize,
) -> Result<Vec<StageId>, ScheduleError> {
    let name = b.stage_name(stage).to_owned();
    let mut axis = AxisId(along as u32);
    for outer in (first..along).rev() {
        axis = b.apply(|it| it.fuse(stage, AxisId(outer as u32), axis))?;
    }
    let length = b.extent(stage, axis);
    let n_vectors = length.div_ceil(b.lanes());
    let group = b.new_group();
    let best = n_vectors.min(PARTIAL_VECTORS);
    let inner = b.decide_lanes(format!("{name} lanes"), n_vectors, best, group);
    let parts = b.split(stage, axis, &[Factor::Open(inner)])?;
    let part = b.apply(|it| it.rfactor(stage, parts[1]))?;
    let partial = b.schedule.stage(part);
    // The axes of the partial results: spatial ones, the lanes, the remaining steps.
    let lanes = AxisId(partial.compute.n_spatial as u32 - 1);
    let mut order = partial.order.clone();
    order.retain(|it| *it != lanes);
    order.push(lanes);
    b.apply(|it| it.reorder(part, &order))?;
    b.annotate(part, lanes, LoopKind::Vectorized)?;
    let reduced = *b.schedule.stage(stage).order.last().expect("a factored stage reduces");
    b.annotate(stage, reduced, LoopKind::Vectorized)?;
    Ok(vec![part])
}
