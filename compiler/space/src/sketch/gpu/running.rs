//! The rule for rows with prefixes: a block has all of a row, in shared memory, and threads that each
//! take a block of its elements.
//!
//! ```text
//! parallel rows_0
//!   thread rows_1
//!     thread t:  x_tile[d] = x[row, d]                          -- side by side
//!     thread b:  within[b, r] = sum(k <= r, x_tile[16 * b + k]) -- each thread its own
//!     thread b:  before[b] = sum(k < b, within[k, 15])          -- by blocks again, if there are many
//!     thread t:  y[row, d] = before[d / 16] + within[d / 16, d % 16]
//! ```

use super::reads::lanes;
use super::rows::share;
use super::{power, prefix};
use crate::sketch::builder::Builder;
use crate::sketch::copies::pack_by_tile;
use crate::sketch::{DecisionId, Factor};
use tvmtune_ir::dag::access::Access;
use tvmtune_schedule::error::ScheduleError;
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// Threads of a block with several rows.
const THREADS: u64 = 128;
/// Elements of a row that are in shared memory, twice.
const LONGEST: u64 = 16384;

/// Whether a block can have all of a row of so many elements, and there are enough rows for all
/// blocks.
pub(in crate::sketch) fn suits(b: &Builder, n_rows: u64, length: u64) -> bool {
    length <= LONGEST && n_rows >= u64::from(b.gpu().multiprocessors)
}

pub(super) fn running(
    b: &mut Builder,
    root: StageId,
    inside: &[StageId],
    depth: usize,
) -> Result<(), ScheduleError> {
    let name = b.stage_name(root).to_owned();
    let extents = b.extents(root);
    let prefixes: Vec<StageId> =
        inside.iter().copied().filter(|it| prefix::suits(b, *it)).collect();
    let blocks = |it: &StageId| b.extents(*it).get(depth).copied().unwrap_or(1);
    let most_blocks = prefixes.iter().map(blocks).max().unwrap_or(1);
    let group = b.new_group();
    let best = most_blocks.next_power_of_two().clamp(8, 1024);
    let threads = power(b, format!("{name} threads"), 1024, best, group);

    for stage in inside {
        if !prefixes.contains(stage) {
            let axes: Vec<usize> = (depth..b.schedule.stage(*stage).compute.n_spatial).collect();
            let lanes = vector(b, *stage, &axes);
            share(b, *stage, &axes, threads, lanes)?;
            lay_in_blocks(b, *stage)?;
        } else {
            each_its_own(b, *stage, depth, threads)?;
        }
    }
    let axes: Vec<usize> = (depth..extents.len()).collect();
    let lanes = vector(b, root, &axes);
    share(b, root, &axes, threads, lanes)?;
    b.name.push(format!("{name}: running"));

    let Some(last) = depth.checked_sub(1) else { return Ok(()) };
    let group = b.new_group();
    let best = (THREADS / best).clamp(1, extents[last].next_power_of_two());
    let block = power(b, format!("{name} rows"), 32.min(extents[last]), best, group);
    let parts = b.split(root, AxisId(last as u32), &[Factor::Open(block)])?;
    for axis in (0..last as u32).map(AxisId).chain([parts[0]]) {
        b.annotate(root, axis, LoopKind::Parallel)?;
    }
    b.annotate(root, parts[1], LoopKind::Thread)?;
    // Readers first: a stage runs inside the loop only when all that read it do.
    for stage in inside.iter().rev() {
        b.apply(|it| it.compute_at(*stage, root, parts[1]))?;
    }
    Ok(())
}

/// How many elements that lie side by side a thread takes at once.
fn vector(b: &mut Builder, stage: StageId, axes: &[usize]) -> DecisionId {
    let name = b.stage_name(stage).to_owned();
    let best = axes.last().map_or(1, |it| lanes(b, &[stage], *it));
    let group = b.new_group();
    power(b, format!("{name} vector"), 8, best, group)
}

/// Keeps terms in rows of a block each, as far apart as it takes for threads to read them at once.
fn lay_in_blocks(b: &mut Builder, terms: StageId) -> Result<(), ScheduleError> {
    let tensor = b.schedule.stage(terms).tensor();
    let readers: Vec<StageId> = b.schedule.readers(tensor).collect();
    let [reader] = readers[..] else { return Ok(()) };
    let Some([_, along]) = b.schedule.prefix_axes(reader) else { return Ok(()) };
    let Some(length) = b.block_length(reader) else { return Ok(()) };
    let is_row = |it: &Access| it.tensor == tensor && it.is_contiguous(along.0 as usize);
    if !b.accesses(reader).iter().any(is_row) {
        return Ok(());
    }
    let last = b.extents(terms).len() - 1;
    pack_by_tile(b, tensor, last, length)
}

/// Lets each thread make prefixes of its own: of a block of elements, or of one element.
fn each_its_own(
    b: &mut Builder,
    stage: StageId,
    depth: usize,
    threads: DecisionId,
) -> Result<(), ScheduleError> {
    let Some([results, along]) = b.schedule.prefix_axes(stage) else { return Ok(()) };
    let n_spatial = b.schedule.stage(stage).compute.n_spatial;
    let sums = b.apply(|it| it.cache_write(stage))?;
    let own = AxisId(depth as u32);
    let parts = b.split(stage, own, &[Factor::Open(threads)])?;
    b.annotate(stage, parts[1], LoopKind::Thread)?;
    let order = b.schedule.stage(stage).order.clone();
    let rest: Vec<AxisId> = order.into_iter().filter(|it| !parts.contains(it)).collect();
    let rows = rest.iter().copied().filter(|it| (it.0 as usize) < depth);
    let inner = rest.iter().copied().filter(|it| (it.0 as usize) >= depth);
    let order: Vec<AxisId> = rows.chain([parts[1], parts[0]]).chain(inner.clone()).collect();
    b.apply(|it| it.reorder(stage, &order))?;
    for axis in inner {
        b.annotate(stage, axis, LoopKind::Unrolled)?;
    }
    let order: Vec<AxisId> = (0..n_spatial as u32)
        .map(AxisId)
        .filter(|it| *it != results)
        .chain([along, results])
        .collect();
    b.apply(|it| it.reorder(sums, &order))?;
    b.annotate(sums, along, LoopKind::Unrolled)?;
    if results != own {
        b.annotate(sums, results, LoopKind::Unrolled)?;
    }
    b.apply(|it| it.compute_at(sums, stage, parts[0]))
}
