//! The GPU template for elementwise stages and short reductions: each thread computes a few contiguous
//! elements on its own.
//!
//! ```text
//! parallel f_0
//!   thread f_1
//!     for k: vectorized v:  acc[v] += a[k, f, v]     -- reductions, in registers
//!     vectorized v:  c[f, v] = g(acc[v], b[v])
//! ```

use super::pattern::Pattern;
use super::reads::reduces;
use super::reads::vector;
use super::threads::innermost;
use crate::sketch::builder::Builder;
use crate::sketch::fusion_group::Rows;
use crate::sketch::template::Template;
use crate::sketch::types::{Factor, TemplateKind};
use tvmtune_schedule::error::ScheduleError;
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// Threads of a block by default.
const THREADS: u64 = 256;

pub(super) struct Flat;

impl Template<Rows> for Flat {
    fn is_applicable(&self, b: &Builder, rows: &Rows) -> bool {
        match Pattern::classify(b, rows) {
            Pattern::Elementwise
            | Pattern::BlockPrefix
            | Pattern::ShortReduction
            | Pattern::ContiguousReduction
            | Pattern::StridedReduction => true,
            Pattern::RowScan | Pattern::MixedRanks | Pattern::FullReduction => false,
        }
    }

    fn schedule(&self, b: &mut Builder, rows: &Rows) -> Result<(), ScheduleError> {
        schedule(b, rows.root, &rows.inside)
    }
}

/// Schedules the root with the stages of the same elements that it reads.
fn schedule(b: &mut Builder, root: StageId, inside: &[StageId]) -> Result<(), ScheduleError> {
    let name = b.stage_name(root).to_owned();
    let extents = b.extents(root);
    let n_spatial = b.schedule.stage(root).compute.n_spatial;
    let mut attached = inside.to_vec();
    if reduces(b, root) {
        attached.push(b.apply(|it| it.cache_write(root))?);
    }
    b.note_template(TemplateKind::Flat, root);
    let Some(last) = n_spatial.checked_sub(1) else {
        return Ok(());
    };
    let group = b.new_group();
    let best = vector(b, root, extents[last]);
    let elements: u64 = extents[..n_spatial].iter().product();
    // Few elements are better distributed over many threads.
    let busy = elements / best >= u64::from(b.gpu().multiprocessors) * THREADS;
    let best = if busy { best } else { 1 };
    let lanes = b.decide_power(format!("{name} vector"), 8.min(extents[last]), best, group);
    let parts = b.split(root, AxisId(last as u32), &[Factor::Open(lanes)])?;
    let mut fused = parts[0];
    for axis in (0..last).rev() {
        fused = b.apply(|it| it.fuse(root, AxisId(axis as u32), fused))?;
    }
    let group = b.new_group();
    let max = b.extent(root, fused).next_power_of_two().clamp(1, 1024);
    let threads = b.decide_power(format!("{name} threads"), max, THREADS.min(max), group);
    let split = b.split(root, fused, &[Factor::Open(threads)])?;
    b.annotate(root, split[0], LoopKind::Parallel)?;
    b.annotate(root, split[1], LoopKind::Thread)?;
    b.annotate(root, parts[1], LoopKind::Vectorized)?;
    // Readers first: a stage runs inside the loop only when all that read it do.
    for stage in attached.into_iter().rev() {
        innermost(b, stage, AxisId(last as u32))?;
        b.apply(|it| it.compute_at(stage, root, split[1]))?;
    }
    Ok(())
}
