//! The GPU template for short reductions over sliding windows: the elements under the windows of a
//! block go through shared memory, padding included, so that each is fetched once.
//!
//! ```text
//! parallel others, y_0, x_0
//!   thread t:  tile[y, x] = image[y_0 + y - 1, x_0 + x - 1]   -- by all threads, zero outside
//!   thread y_1, x_1
//!     for r, s: vectorized x_2:  acc[x] += tile[y + r, x + s] * w[r, s]
//!     vectorized x_2:  c[y, x] = f(acc[x])
//! ```

use super::pattern::Pattern;
use super::reads::common_vector_width;
use super::threads::{innermost, with_accumulator};
use super::{operand, tile};
use crate::sketch::{Builder, DecisionId, Factor, Result, Rows, Template, TemplateKind};
use tvmtune_ir::dag::access::Access;
use tvmtune_ir::size::Size;
use tvmtune_schedule::error::ErrorKind;
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// Threads of a block.
const THREADS: u64 = 256;
/// Threads along one axis.
const SIDE: u64 = 16;

pub(super) const TEMPLATE: Template<Rows> = Template { is_applicable, schedule };

fn is_applicable(b: &Builder, rows: &Rows) -> bool {
    let mut stages = rows.inside.iter().chain([&rows.root]);
    Pattern::classify(b, rows) == Pattern::ShortReduction
        && stages.any(|it| window_read(b, *it).is_some())
}

/// Returns the read of a reduction whose windows overlap. Those of prefixes do not count: a condition
/// selects their elements.
fn window_read(b: &Builder, anchor: StageId) -> Option<Access> {
    if b.schedule.prefix_axes(anchor).is_some() {
        return None;
    }
    let n_spatial = b.n_spatial(anchor);
    let extents = b.extents(anchor);
    let iterations: u64 = extents.iter().size();
    let overlaps = |it: &Access| {
        let in_window = |steps: &Option<Vec<i64>>| {
            let moving = |range: &[i64]| range.iter().any(|it| *it != 0);
            steps.as_ref().is_some_and(|it| moving(&it[..n_spatial]) && moving(&it[n_spatial..]))
        };
        it.steps.iter().any(in_window) && 2 * it.footprint(&extents) <= iterations
    };
    b.accesses(anchor).into_iter().find(overlaps)
}

fn schedule(b: &mut Builder, rows: &Rows) -> Result<()> {
    let root = rows.root;
    let name = b.stage_name(root).to_owned();
    let attached = with_accumulator(b, rows)?;
    let refused = ErrorKind::NotReduction.of_stage(root);
    let anchor =
        attached.iter().copied().find(|it| window_read(b, *it).is_some()).ok_or(refused)?;
    let Access { tensor, conditional, .. } = window_read(b, anchor).ok_or(refused)?;
    let copy = match conditional {
        true => b.apply(|it| it.cache_padded(tensor, anchor))?,
        false => b.apply(|it| it.cache_read(tensor, anchor))?,
    };

    let split = split_root(b, root, &name)?;
    // Readers first: a stage runs inside the loop only when all that read it do.
    for stage in attached.into_iter().rev() {
        innermost(b, stage, AxisId(split.last as u32))?;
        b.apply(|it| it.compute_at(stage, root, split.thread))?;
    }
    b.apply(|it| it.compute_at(copy, root, split.block))?;
    let vector = operand::aligned_vector(b, copy);
    tile::copy_by_all_threads(b, copy, vector, Factor::Product(1, split.decisions))?;
    b.note_template(TemplateKind::Window, root);
    Ok(())
}

/// The loops of the stage that stores the result.
struct Split {
    /// Its last axis.
    last: usize,
    /// The last loop over blocks, and over threads.
    block: AxisId,
    thread: AxisId,
    /// The decisions on threads along each axis.
    decisions: Vec<DecisionId>,
}

fn split_root(b: &mut Builder, root: StageId, name: &str) -> Result<Split> {
    let extents = b.extents(root);
    let last = extents.len().checked_sub(1).ok_or(ErrorKind::NotOutermost.of_stage(root))?;
    let widest = common_vector_width(b, &[root], last).min(4);
    let vector = b.decide_power(format!("{name} vector"), 8, widest);
    let (mut blocks, mut threads, mut inner) = (Vec::new(), Vec::new(), Vec::new());
    let (mut decisions, mut left) = (Vec::new(), THREADS);
    // The innermost axes first, so that accesses of neighboring threads coalesce.
    for axis in (0..extents.len()).rev() {
        let each = if axis == last { widest } else { 1 };
        let best = extents[axis].div_ceil(each).next_power_of_two().min(SIDE).min(left);
        left /= best;
        let n = b.decide_power(format!("{name} axis {axis} threads"), 64, best);
        let vector = (axis == last).then_some(Factor::Open(vector));
        let factors: Vec<Factor> = [Factor::Open(n)].into_iter().chain(vector).collect();
        let parts = b.split(root, AxisId(axis as u32), &factors)?;
        blocks.insert(0, parts[0]);
        threads.insert(0, parts[1]);
        inner.extend(&parts[2..]);
        decisions.push(n);
    }
    b.reorder(root, blocks.iter().chain(&threads).chain(&inner))?;
    b.annotate_all(root, &blocks, LoopKind::Parallel)?;
    b.annotate_all(root, &threads, LoopKind::Thread)?;
    b.annotate_all(root, &inner, LoopKind::Vectorized)?;
    Ok(Split { last, block: blocks[last], thread: threads[last], decisions })
}
