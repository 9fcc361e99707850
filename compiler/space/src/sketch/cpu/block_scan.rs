//! The CPU template for scans by blocks: lanes of a vector are the elements of a block.
//!
//! ```text
//! parallel rows
//!   for b_0: unrolled k: unrolled b_1: vectorized r:  within[b, r] += if k <= r { a[b * 16 + k] }
//!   for b_0: for k: vectorized b_1:                   carry[b] += if k < b { within[k, 15] }
//!   for j_0: vectorized j_1:                          c[j] = carry[j_0] + within[j_0, j_1]
//! ```
//!
//! Each step adds one element to those after it, which takes as many instructions as elements there
//! are, and no lane waits for another one.

use super::LONG_TASKS_PER_THREAD;
use crate::sketch::builder::{ScanRole, ScanStage};
use crate::sketch::layout::block_sizes;
use crate::sketch::{Builder, DecisionKind, Factor, Result, Rows, Template, TemplateKind};
use tvmtune_schedule::error::ErrorKind;
use tvmtune_schedule::{AxisId, LoopKind};

/// Blocks of which prefixes are made at once, since each chain of additions waits for its last one;
/// estimated.
const INTERLEAVED_BLOCKS: u64 = 4;

pub(super) const TEMPLATE: Template<Rows> = Template { is_applicable, schedule };

fn is_applicable(b: &Builder, rows: &Rows) -> bool {
    rows.inside.is_empty() && b.scan_stage(rows.root).is_some()
}

/// Runs a stage of a scan on its own: rows and blocks are tasks.
fn schedule(b: &mut Builder, rows: &Rows) -> Result<()> {
    let scan = b.scan_stage(rows.root).ok_or(ErrorKind::NotReduction.of_stage(rows.root))?;
    let outer = order_loops(b, scan)?;
    let tasks = (0..scan.axis as u32).map(AxisId);
    let tasks = tasks.chain((scan.role != ScanRole::Carry).then_some(outer));
    b.annotate_all(scan.stage, tasks, LoopKind::Parallel)?;
    b.note_template(TemplateKind::BlockScan, scan.stage);
    Ok(())
}

/// Orders the loops of a stage inside its rows; returns the outermost loop along its blocks.
pub(super) fn order_loops(b: &mut Builder, scan: ScanStage) -> Result<AxisId> {
    let ScanStage { stage, role, axis: at, block_length: length } = scan;
    let name = b.stage_name(stage).to_owned();
    let blocks = AxisId(at as u32);
    let n_blocks = b.extents(stage)[at];
    let rows = (0..at as u32).map(AxisId);
    let (order, lanes, outer) = match role {
        ScanRole::Combine => {
            let n_tiles = n_blocks.div_ceil(b.value(length)).max(1);
            let wanted = u64::from(b.cpu().threads) * LONG_TASKS_PER_THREAD;
            let task = n_tiles.div_ceil(wanted).max(1);
            let kind = DecisionKind::Outer;
            let task = b.decide(format!("{name} tiles"), kind, &block_sizes(n_tiles), task);
            let factors = [Factor::Open(task), Factor::Open(length)];
            let parts = b.split(stage, blocks, &factors)?;
            (rows.chain(parts.iter().copied()).collect::<Vec<_>>(), parts[2], parts[0])
        }
        ScanRole::Within => {
            let kind = DecisionKind::Inner;
            let n = n_blocks.min(INTERLEAVED_BLOCKS);
            let tile = b.decide(format!("{name} blocks"), kind, &[1, 2, 4, 8], n);
            let parts = b.split(stage, blocks, &[Factor::Open(tile)])?;
            let [elements, k] = [1, 2].map(|it| AxisId((at + it) as u32));
            b.annotate(stage, parts[1], LoopKind::Unrolled)?;
            b.annotate(stage, k, LoopKind::Unrolled)?;
            (rows.chain([parts[0], k, parts[1], elements]).collect(), elements, parts[0])
        }
        ScanRole::Carry => {
            let n_vectors = n_blocks.div_ceil(b.lanes());
            let best = n_vectors.min(INTERLEAVED_BLOCKS);
            let tile = b.decide_lanes(format!("{name} lanes"), n_vectors, best);
            let parts = b.split(stage, blocks, &[Factor::Open(tile)])?;
            let k = AxisId(at as u32 + 1);
            (rows.chain([parts[0], k, parts[1]]).collect(), parts[1], parts[0])
        }
    };
    b.reorder(stage, order)?;
    b.annotate(stage, lanes, LoopKind::Vectorized)?;
    Ok(outer)
}
