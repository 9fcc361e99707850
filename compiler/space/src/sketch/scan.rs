//! Scans: a prefix reduction is done by blocks, or in order where other axes have elements for lanes and
//! threads.
//!
//! By blocks it becomes prefixes within blocks, and an exclusive prefix over their totals, which is scanned
//! by blocks again where it is long; in order it is a recurrence, for its template.
//!
//! ```text
//! c[j] = sum(k <= j, a[k])    =>    within[b, r] = sum(k <= r, a[16 * b + k])
//!                                   carry[b] = sum(k < b, within[k, 15])
//!                                   c[j] = carry[j / 16] + within[j / 16, j % 16]
//! ```
//!
//! If the index is not the last of a tensor, lanes are the elements beside it, and the templates for
//! tiles and elements apply to the stages as they are.
//!
//! # Source
//!
//! Blelloch, "Prefix Sums and Their Applications" (1990).

use std::iter;

use super::builder::{ScanRole, ScanStage};
use super::gpu;
use super::{Builder, DecisionKind, Factor, Result};
use tvmtune_ir::dag::access::work;
use tvmtune_ir::size::Size;
use tvmtune_schedule::{Attach, ReductionOrder, StageId};

/// Steps up to which all pairs of elements are looked at as fast as a scan in order runs; chosen by
/// measurement.
const SHORT: u64 = 16;
/// Threads that scan by blocks in the time in which one scans in order; chosen by measurement.
const THREADS_FOR_BLOCKS: u64 = 4;
/// Blocks on a CPU that are scanned by blocks again if there are more.
const MAX_BLOCKS: u64 = 64;
/// Operations that one more evaluation of a term may take on a GPU before the term is stored instead.
const CHEAP: u64 = 3;
/// Elements of a block on a GPU, and blocks that are scanned by blocks again if there are more.
const BLOCK_ELEMENTS: u64 = 16;

/// The scope in which scans of a GPU run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placement {
    /// All stages of a row in one thread block, where rows fit one.
    Row,
    /// Each stage in a kernel of its own.
    Separate,
}

/// Returns the program with long prefix reductions done in the ways that apply, the most promising first.
pub(super) fn variants(start: &Builder) -> Vec<Builder> {
    let blocks = [Placement::Row, Placement::Separate].map(|it| by_blocks(start, it));
    let blocks = blocks.into_iter().flatten();
    match in_order(start, Vectors::Enough) {
        Some(in_order) => iter::once(in_order).chain(blocks).collect(),
        None => blocks.chain(in_order(start, Vectors::Any)).collect(),
    }
}

/// The vectors of elements beside each other that a scan in order needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vectors {
    /// So many that threads without any would not scan faster by blocks.
    Enough,
    Any,
}

/// Returns the program with long prefix reductions done in order where they have such vectors, and by blocks
/// where not; `None` if none has. On GPUs, that was not measured.
fn in_order(start: &Builder, vectors: Vectors) -> Option<Builder> {
    let mut b = start.clone();
    let mut any = false;
    for stage in b.schedule.order.clone() {
        if has_vectors(&b, stage, vectors) && b.apply(|it| it.scan_in_order(stage)).is_ok() {
            any = true;
        }
    }
    if !any {
        return None;
    }
    // Operands are needed once now.
    b.inline_stages();
    by_blocks(&b, Placement::Separate).or(Some(b))
}

/// Returns whether a long prefix reduction has such vectors of elements that do not depend on each other: if
/// its index is the last one, these lie apart in memory. One whose order is fixed needs none.
fn has_vectors(b: &Builder, stage: StageId, vectors: Vectors) -> bool {
    let Some([axis, along]) = b.schedule.prefix_axes(stage).filter(|_| !b.is_gpu()) else {
        return false;
    };
    let last = b.n_spatial(stage) - 1;
    if b.extent(stage, along) <= SHORT {
        return false;
    }
    // Blocks would be another order than the one that the program fixes.
    if b.schedule.stage(stage).reduction != ReductionOrder::Any {
        return true;
    }
    if axis.0 as usize == last {
        return false;
    }
    let extents = b.extents(stage);
    let others = (0..last).filter(|it| *it != axis.0 as usize).map(|it| extents[it]);
    let n_vectors = extents[last].div_ceil(b.lanes()).saturating_mul(others.size());
    let enough = u64::from(b.cpu().threads).div_ceil(THREADS_FOR_BLOCKS);
    vectors == Vectors::Any || n_vectors >= enough
}

/// Returns the program with long prefix reductions done by blocks; `None` if it has none for this
/// placement.
fn by_blocks(start: &Builder, placement: Placement) -> Option<Builder> {
    let mut b = start.clone();
    let (mut any, mut any_row) = (false, false);
    for stage in b.schedule.order.clone() {
        let is_root = b.schedule.stage(stage).attach == Attach::Root;
        let mut next = Some(stage).filter(|_| is_root);
        while let Some(stage) = next {
            let own = match placement {
                Placement::Row if fits_thread_block(&b, stage) => Placement::Row,
                _ => Placement::Separate,
            };
            next = scan(&mut b, stage, own).ok()?;
            any |= next.is_some();
            any_row |= next.is_some() && own == Placement::Row;
            let max_blocks = if b.is_gpu() { BLOCK_ELEMENTS } else { MAX_BLOCKS };
            next = next.filter(|it| b.extents(*it).last().is_some_and(|n| *n > max_blocks));
        }
    }
    (any && any_row == (placement == Placement::Row)).then_some(b)
}

/// Returns whether one thread block of a GPU can scan all of a row.
fn fits_thread_block(b: &Builder, stage: StageId) -> bool {
    let Some([axis, _]) = b.schedule.prefix_axes(stage).filter(|_| b.is_gpu()) else {
        return false;
    };
    let extents = b.extents(stage);
    let n_spatial = b.n_spatial(stage);
    let n_rows = extents[..axis.0 as usize].iter().size();
    axis.0 as usize + 1 == n_spatial && gpu::fits_thread_block(b, n_rows, extents[n_spatial - 1])
}

/// Scans one stage by blocks; returns the stage of the carries, which may be scanned so again.
fn scan(b: &mut Builder, stage: StageId, placement: Placement) -> Result<Option<StageId>> {
    let Some([axis, along]) = b.schedule.prefix_axes(stage) else { return Ok(None) };
    let block = if b.is_gpu() { BLOCK_ELEMENTS } else { b.lanes() };
    if b.extent(stage, along) <= 2 * block {
        return Ok(None);
    }
    let name = b.stage_name(stage).to_owned();
    let options = if b.is_gpu() { [8, 16, 32] } else { [1, 2, 4].map(|it| it * block) };
    let length = b.decide(format!("{name} block"), DecisionKind::Inner, &options, block);
    let is_last = axis.0 as usize + 1 == b.n_spatial(stage);
    let parts = b.split(stage, along, &[Factor::Open(length)])?;
    let made = b.apply(|it| it.scan(stage, parts[1]))?;
    let terms = b.compute(made.terms);
    // A thread of a GPU computes each of its terms once, however many prefixes it is in.
    let max_work = if b.is_gpu() { CHEAP } else { 0 };
    let in_row = placement == Placement::Row;
    let is_loaded = in_row && reads_parameter(b, made.terms);
    if terms.reducer.is_none() && work(&terms.body) <= max_work && !is_loaded {
        b.apply(|it| it.inline(made.terms))?;
    }
    if is_last && (in_row || !b.is_gpu()) {
        let axis = axis.0 as usize;
        let roles = [
            (made.within, ScanRole::Within),
            (made.before, ScanRole::Carry),
            (stage, ScanRole::Combine),
        ];
        for (stage, role) in roles {
            b.note_scan_stage(ScanStage { stage, role, axis, block_length: length });
        }
    } else {
        [made.within, made.before].into_iter().for_each(|it| b.forbid_fusion(it));
    }
    Ok(Some(made.before))
}

/// Returns whether a stage reads parameters: neighboring threads load them for those that each scan
/// a block.
fn reads_parameter(b: &Builder, stage: StageId) -> bool {
    b.accesses(stage).iter().any(|it| b.schedule.tensor(it.tensor).stage.is_none())
}
