//! The GPU template for row scans: a thread block has all of a row in shared memory, and each thread
//! scans a block of its elements.
//!
//! ```text
//! parallel rows_0
//!   thread rows_1
//!     thread t:  x_tile[d] = x[row, d]                          -- coalesced
//!     thread b:  within[b, r] = sum(k <= r, x_tile[16 * b + k]) -- a block for each thread
//!     thread b:  carry[b] = sum(k < b, within[k, 15])           -- by blocks again, if there are many
//!     thread t:  y[row, d] = carry[d / 16] + within[d / 16, d % 16]
//! ```

use super::pattern::{Pattern, is_block_prefix};
use super::reads::common_vector_width;
use super::threads::{distribute_row, distribute_rows};
use crate::sketch::layout::pack_by_tile;
use crate::sketch::{Builder, DecisionId, Factor, Result, Rows, Template, TemplateKind};
use tvmtune_ir::dag::access::Access;
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// Elements of a row: shared memory holds them twice.
const MAX_LENGTH: u64 = 16384;

/// Returns whether a thread block can have all of a row of so many elements, and there are rows for
/// all multiprocessors.
pub(in crate::sketch) fn fits_thread_block(b: &Builder, n_rows: u64, length: u64) -> bool {
    length <= MAX_LENGTH && n_rows >= u64::from(b.gpu().multiprocessors)
}

pub(super) const TEMPLATE: Template<Rows> = Template { is_applicable, schedule };

fn is_applicable(b: &Builder, rows: &Rows) -> bool {
    Pattern::classify(b, rows) == Pattern::RowScan
}

fn schedule(b: &mut Builder, rows: &Rows) -> Result<()> {
    let Rows { root, ref inside, depth } = *rows;
    let name = b.stage_name(root).to_owned();
    let extents = b.extents(root);
    let prefixes: Vec<StageId> =
        inside.iter().copied().filter(|it| is_block_prefix(b, *it)).collect();
    let blocks = |it: &StageId| b.extents(*it).get(depth).copied().unwrap_or(1);
    let max_blocks = prefixes.iter().map(blocks).max().unwrap_or(1);
    let best = max_blocks.next_power_of_two().clamp(8, 1024);
    let threads = b.decide_power(format!("{name} threads"), 1024, best);

    for stage in inside {
        if !prefixes.contains(stage) {
            let axes: Vec<usize> = (depth..b.n_spatial(*stage)).collect();
            let lanes = vector(b, *stage, &axes);
            distribute_row(b, *stage, &axes, threads, lanes)?;
            pack_terms(b, *stage)?;
        } else {
            distribute_blocks(b, *stage, depth, threads)?;
        }
    }
    let axes: Vec<usize> = (depth..extents.len()).collect();
    let lanes = vector(b, root, &axes);
    distribute_row(b, root, &axes, threads, lanes)?;
    b.note_template(TemplateKind::RowScan, root);
    distribute_rows(b, rows, best, &name)
}

/// Opens how many contiguous elements a thread takes at once.
fn vector(b: &mut Builder, stage: StageId, axes: &[usize]) -> DecisionId {
    let name = b.stage_name(stage).to_owned();
    let best = axes.last().map_or(1, |it| common_vector_width(b, &[stage], *it));
    b.decide_power(format!("{name} vector"), 8, best)
}

/// Packs terms by blocks, padded so that threads which each read a block meet no bank conflicts.
fn pack_terms(b: &mut Builder, terms: StageId) -> Result<()> {
    let tensor = b.tensor_of(terms);
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

/// Gives each thread the prefixes of a block of elements, or of one element.
fn distribute_blocks(
    b: &mut Builder,
    stage: StageId,
    depth: usize,
    threads: DecisionId,
) -> Result<()> {
    let Some([results, along]) = b.schedule.prefix_axes(stage) else { return Ok(()) };
    let n_spatial = b.n_spatial(stage);
    let sums = b.apply(|it| it.cache_write(stage))?;
    let own = AxisId(depth as u32);
    let parts = b.split(stage, own, &[Factor::Open(threads)])?;
    b.annotate(stage, parts[1], LoopKind::Thread)?;
    let order = b.schedule.stage(stage).order.clone();
    let rest: Vec<AxisId> = order.into_iter().filter(|it| !parts.contains(it)).collect();
    let rows = rest.iter().copied().filter(|it| (it.0 as usize) < depth);
    let inner = rest.iter().copied().filter(|it| (it.0 as usize) >= depth);
    b.reorder(stage, rows.chain([parts[1], parts[0]]).chain(inner.clone()))?;
    b.annotate_all(stage, inner, LoopKind::Unrolled)?;
    b.reorder(
        sums,
        (0..n_spatial as u32).map(AxisId).filter(|it| *it != results).chain([along, results]),
    )?;
    b.annotate(sums, along, LoopKind::Unrolled)?;
    if results != own {
        b.annotate(sums, results, LoopKind::Unrolled)?;
    }
    b.apply(|it| it.compute_at(sums, stage, parts[0]))
}
