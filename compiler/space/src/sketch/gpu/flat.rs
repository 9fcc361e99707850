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
use super::reads::store_vector_width;
use super::threads::{fuse_and_distribute, innermost, with_accumulator};
use crate::sketch::{Builder, Factor, Result, Rows, Template, TemplateKind};
use tvmtune_schedule::{AxisId, LoopKind};

/// Threads of a block by default.
const THREADS: u64 = 256;

pub(super) const TEMPLATE: Template<Rows> = Template { is_applicable, schedule };

fn is_applicable(b: &Builder, rows: &Rows) -> bool {
    let pattern = Pattern::classify(b, rows);
    !matches!(pattern, Pattern::RowScan | Pattern::MixedRanks | Pattern::FullReduction)
}

/// Schedules the root with the stages of the same elements that it reads.
fn schedule(b: &mut Builder, rows: &Rows) -> Result<()> {
    let root = rows.root;
    let name = b.stage_name(root).to_owned();
    let extents = b.extents(root);
    let n_spatial = b.n_spatial(root);
    let attached = with_accumulator(b, rows)?;
    b.note_template(TemplateKind::Flat, root);
    let Some(last) = n_spatial.checked_sub(1) else { return Ok(()) };
    let best = store_vector_width(b, root, extents[last]);
    // Few elements are better distributed over many threads.
    let busy = b.n_elements(root) / best >= u64::from(b.gpu().multiprocessors) * THREADS;
    let best = if busy { best } else { 1 };
    let lanes = b.decide_power(format!("{name} vector"), 8.min(extents[last]), best);
    let parts = b.split(root, AxisId(last as u32), &[Factor::Open(lanes)])?;
    let outer: Vec<AxisId> = (0..last as u32).map(AxisId).collect();
    let [_, thread] = fuse_and_distribute(b, root, &outer, parts[0], THREADS)?;
    b.annotate(root, parts[1], LoopKind::Vectorized)?;
    // Readers first: a stage runs inside the loop only when all that read it do.
    for stage in attached.into_iter().rev() {
        innermost(b, stage, AxisId(last as u32))?;
        b.apply(|it| it.compute_at(stage, root, thread))?;
    }
    Ok(())
}
