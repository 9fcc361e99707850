//! The CPU template for scatters: reductions of which data choose the elements that a term is added to.
//!
//! ```text
//! parallel rows_0, s_0, d_0
//!   for rows_1
//!     for e
//!       for s_1                      -- one iteration, which data choose
//!         for d_1
//!           vectorized d_2:  y[row, s, d] += x[row, e, d]
//! ```
//!
//! Without rows and without `d`, the terms are shared out over threads: each thread reduces its terms into a private
//! copy of the elements, and the copies are added up (privatization, by rfactor).

use super::{TASKS_PER_THREAD, rows};
use crate::sketch::layout::block_sizes;
use crate::sketch::scatter::{Scatter, product};
use crate::sketch::{Builder, DecisionKind, Factor, Result, Rows, Template, TemplateKind};
use tvmtune_schedule::{AxisId, LoopKind, ReductionOrder, StageId};

/// Cycles that a task should take at least; estimated.
const MIN_TASK_CYCLES: f64 = 8_000.0;
/// Parts of the elements, at most; chosen by judgement.
const MAX_PARTS: u64 = 16;
/// Vectors of a loop over elements that are chosen together; chosen by judgement.
const VECTORS: u64 = 4;

pub(super) const TEMPLATE: Template<Rows> = Template { is_applicable, schedule };

fn is_applicable(b: &Builder, rows: &Rows) -> bool {
    rows.inside.is_empty() && b.scatter(rows.root).is_some()
}

fn schedule(b: &mut Builder, rows: &Rows) -> Result<()> {
    let root = rows.root;
    let Some(part) = split_among_threads(b, root)? else {
        b.note_template(TemplateKind::Scatter, root);
        return scatter(b, root);
    };
    scatter(b, part)?;
    b.note_template_as(TemplateKind::Scatter, root, "in parts");
    (rows::TEMPLATE.schedule)(b, rows)
}

/// Privatizes a scatter (rfactor): each thread adds a part of the terms to a private copy of the elements, of a
/// stage that is returned. `None` if rows or lanes can be shared out over threads instead, or if there are fewer
/// terms than elements.
fn split_among_threads(b: &mut Builder, root: StageId) -> Result<Option<StageId>> {
    let (extents, n_spatial) = (b.extents(root), b.n_spatial(root));
    let Some(scatter) = b.scatter(root) else { return Ok(None) };
    let threads = b.threads_for(scatter.cycles(b, root));
    let reduced: Vec<usize> =
        scatter.deciding.iter().copied().filter(|it| *it >= n_spatial).collect();
    let longest = reduced.iter().copied().max_by_key(|it| extents[*it]);
    let is_along_last = scatter.others.iter().any(|it| it + 1 == n_spatial);
    let Some(longest) = longest else { return Ok(None) };
    // Parts of the terms are sums of their own.
    let is_fixed = b.schedule.stage(root).reduction != ReductionOrder::Any;
    if threads == 1
        || is_fixed
        || scatter.deciding.iter().any(|it| *it < n_spatial && extents[*it] > 1)
        || is_along_last
        || product(&extents, reduced.iter().copied()) < product(&extents, 0..n_spatial)
    {
        return Ok(None);
    }
    let name = b.stage_name(root).to_owned();
    let part_of = |n: u64| extents[longest].div_ceil(n);
    let options = [part_of(threads), part_of(2 * threads)];
    let best = options[0];
    let terms = b.decide(format!("{name} terms"), DecisionKind::Outer, &options, best);
    let parts = b.split(root, AxisId(longest as u32), &[Factor::Open(terms)])?;
    let part = b.apply(|it| it.rfactor(root, parts[0]))?;
    // Each private copy is contiguous, so that threads share no cache lines.
    b.permute(b.tensor_of(part), [n_spatial].into_iter().chain(0..n_spatial).collect())?;
    Ok(Some(part))
}

fn scatter(b: &mut Builder, stage: StageId) -> Result<()> {
    let Some(scatter) = b.scatter(stage) else { return Ok(()) };
    let (extents, n_spatial) = (b.extents(stage), b.n_spatial(stage));
    let is_spatial = |it: &usize| *it < n_spatial;
    let (outer, terms): (Vec<usize>, Vec<usize>) =
        scatter.deciding.iter().copied().partition(is_spatial);
    let n_outer = product(&extents, outer.iter().copied());
    let cycles = scatter.cycles(b, stage);
    // The threads that are left without a task.
    let mut wanted = b.threads_for(cycles).div_ceil(n_outer);
    let mut tasks = Vec::new();
    let rows = rows_of_task(b, stage, &outer, &mut tasks, cycles / n_outer as f64)?;
    // Elements that are more than terms take longer to fill than terms to be read by each thread.
    let elements = scatter.chosen.iter().copied().filter(is_spatial);
    let fills = product(&extents, elements) >= product(&extents, terms.iter().copied())
        || !scatter.others.iter().any(|it| it + 1 == n_spatial);
    let by_elements = if fills { wanted } else { 1 };
    let chosen = split_chosen(b, (stage, &scatter), by_elements, &mut tasks)?;
    if fills {
        wanted = 1;
    }
    let (others, lanes) = split_others(b, (stage, &scatter), wanted, &mut tasks)?;
    let terms: Vec<AxisId> = terms.into_iter().map(axis).collect();
    let order = tasks.iter().chain(&rows).chain(&terms).chain(&chosen).chain(&others).chain(&lanes);
    b.reorder(stage, order)?;
    b.annotate_all(stage, &tasks, LoopKind::Parallel)?;
    lanes.map_or(Ok(()), |it| b.annotate(stage, it, LoopKind::Vectorized))
}

fn axis(n: usize) -> AxisId {
    AxisId(n as u32)
}

/// Adds tasks for the spatial axes that decide what is chosen; returns the loop over those of one task.
fn rows_of_task(
    b: &mut Builder,
    stage: StageId,
    outer: &[usize],
    tasks: &mut Vec<AxisId>,
    cycles_each: f64,
) -> Result<Option<AxisId>> {
    let Some((last, others)) = outer.split_last() else { return Ok(None) };
    tasks.extend(others.iter().copied().map(axis));
    let extents = b.extents(stage);
    let n_rows = product(&extents, outer.iter().copied());
    let share = n_rows.div_ceil(b.threads_for(cycles_each * n_rows as f64) * TASKS_PER_THREAD);
    let least = (MIN_TASK_CYCLES / cycles_each).ceil() as u64;
    let best = share.max(least.min(n_rows.div_ceil(u64::from(b.cpu().threads))));
    let best = best.clamp(1, extents[*last]);
    let name = format!("{} rows", b.stage_name(stage));
    let rows = b.decide(name, DecisionKind::Outer, &block_sizes(extents[*last]), best);
    let parts = b.split(stage, axis(*last), &[Factor::Open(rows)])?;
    tasks.push(parts[0]);
    Ok(Some(parts[1]))
}

/// Adds tasks of so many parts of the elements, at least; returns the loops over the elements of a task.
fn split_chosen(
    b: &mut Builder,
    (stage, scatter): (StageId, &Scatter),
    mut n_parts: u64,
    tasks: &mut Vec<AxisId>,
) -> Result<Vec<AxisId>> {
    let (extents, n_spatial) = (b.extents(stage), b.n_spatial(stage));
    let mut chosen = Vec::new();
    for at in &scatter.chosen {
        if *at >= n_spatial {
            chosen.push(axis(*at));
            continue;
        }
        let best = extents[*at].div_ceil(n_parts);
        n_parts = n_parts.div_ceil(extents[*at].div_ceil(best));
        let name = format!("{} part of {at}", b.stage_name(stage));
        // Each part reads all terms. A part of one element has no loop whose iteration data could choose.
        let mut options = block_sizes(extents[*at]);
        options.retain(|it| *it * MAX_PARTS >= extents[*at] && *it > 1);
        let part = b.decide(name, DecisionKind::Outer, &options, best);
        let parts = b.split(stage, axis(*at), &[Factor::Open(part)])?;
        tasks.push(parts[0]);
        chosen.push(parts[1]);
    }
    Ok(chosen)
}

/// Adds tasks of so many blocks of what is chosen together, if it is long enough for vectors; returns the loops of
/// a task, and the lanes.
fn split_others(
    b: &mut Builder,
    (stage, scatter): (StageId, &Scatter),
    n_blocks: u64,
    tasks: &mut Vec<AxisId>,
) -> Result<(Vec<AxisId>, Option<AxisId>)> {
    let n_spatial = b.n_spatial(stage);
    let (last, others): (Vec<usize>, Vec<usize>) =
        scatter.others.iter().partition(|it| **it + 1 == n_spatial);
    let mut loops: Vec<AxisId> = others.into_iter().map(axis).collect();
    let Some(last) = last.first().copied() else { return Ok((loops, None)) };
    let (name, extent) = (b.stage_name(stage).to_owned(), b.extents(stage)[last]);
    let best = VECTORS.min(extent.div_ceil(b.lanes() * n_blocks));
    let length = b.decide_lanes_of(format!("{name} lanes"), (stage, axis(last)), best);
    let n = extent.div_ceil(b.value(length));
    let (kind, options, best) = (DecisionKind::Outer, block_sizes(n), n.div_ceil(n_blocks));
    let block = b.decide_in(b.group_of(length), format!("{name} block"), kind, &options, best);
    let factors = [Factor::Open(block), Factor::Open(length)];
    let parts = b.split(stage, axis(last), &factors)?;
    tasks.push(parts[0]);
    loops.push(parts[1]);
    Ok((loops, Some(parts[2])))
}
