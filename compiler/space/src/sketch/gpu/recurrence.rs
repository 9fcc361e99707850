//! The GPU template for recurrences: a thread runs the steps of one element, in order.
//!
//! ```text
//! parallel f_0
//!   thread f_1
//!     for s:  h[s, f] = g(h[s - 1, f], x[s, f])
//! ```

use super::threads::fuse_and_distribute;
use crate::sketch::{Builder, Result, Rows, Template, TemplateKind};
use tvmtune_schedule::AxisId;
use tvmtune_schedule::error::ErrorKind;

/// Threads of a block: few, so that elements are distributed over many multiprocessors.
const THREADS: u64 = 64;

pub(super) const TEMPLATE: Template<Rows> =
    Template { is_applicable: |b, rows| b.compute(rows.root).is_recurrent(), schedule };

fn schedule(b: &mut Builder, rows: &Rows) -> Result<()> {
    let root = rows.root;
    let steps = b.compute(root).recurrent_axis().ok_or(ErrorKind::Recurrent.of_stage(root))?;
    let steps = AxisId(steps as u32);
    let others: Vec<AxisId> = (0..b.n_spatial(root) as u32).map(AxisId).collect();
    let others: Vec<AxisId> = others.into_iter().filter(|it| *it != steps).collect();
    b.note_template(TemplateKind::Recurrence, root);
    let Some((last, outer)) = others.split_last() else { return Ok(()) };
    b.reorder(root, others.iter().chain([&steps]))?;
    fuse_and_distribute(b, root, outer, *last, THREADS)?;
    Ok(())
}
