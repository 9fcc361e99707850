//! The CPU template for recurrences: steps run in order, for a few vectors of independent elements.
//!
//! ```text
//! parallel others, d_0
//!   for s
//!     vectorized d_1:  h[s, d] = f(h[s - 1, d], x[s, d])
//! ```
//!
//! A few steps are unrolled where the elements of one step are apart in memory: their loads and stores
//! become transpositions.

use crate::sketch::{Builder, DecisionKind, Factor, Result, Rows, Template, TemplateKind};
use tvmtune_ir::size::Size;
use tvmtune_schedule::error::ErrorKind;
use tvmtune_schedule::{AxisId, LoopKind};

/// Vectors of a step: each waits for its own step before, and not for the others; estimated.
const VECTORS: u64 = 4;
/// The same where elements of one step are apart in memory: fewer rows fit in the sets of a cache; chosen by
/// measurement.
const VECTORS_APART: u64 = 1;
/// Steps that are unrolled there; chosen by measurement.
const STEPS: u64 = 8;

pub(super) const TEMPLATE: Template<Rows> = Template { is_applicable, schedule };

fn is_applicable(b: &Builder, rows: &Rows) -> bool {
    b.compute(rows.root).is_recurrent()
}

fn schedule(b: &mut Builder, rows: &Rows) -> Result<()> {
    let root = rows.root;
    let steps = b.compute(root).recurrent_axis().ok_or(ErrorKind::Recurrent.of_stage(root))?;
    let name = b.stage_name(root).to_owned();
    let extents = b.extents(root);
    let others: Vec<usize> = (0..extents.len()).filter(|it| *it != steps).collect();
    b.note_template(TemplateKind::Recurrence, root);
    let Some((last, outer)) = others.split_last() else { return Ok(()) };

    let n_rows: u64 = outer.iter().map(|it| extents[*it]).collect::<Vec<_>>().iter().size();
    let n_vectors = extents[*last].div_ceil(b.lanes()) * n_rows;
    let wanted = if steps > *last { VECTORS_APART } else { VECTORS };
    let best = wanted.min(n_vectors / u64::from(b.cpu().threads)).max(1);
    let [axis, step] = [*last, steps].map(|it| AxisId(it as u32));
    let lanes = b.decide_lanes_of(format!("{name} lanes"), (root, axis), best);
    let elements = b.split(root, axis, &[Factor::Open(lanes)])?;
    let step_loops = match steps > *last {
        true => {
            let options = [1, STEPS / 2, STEPS, 2 * STEPS];
            let n = b.decide(format!("{name} steps"), DecisionKind::Inner, &options, STEPS);
            b.split(root, step, &[Factor::Open(n)])?
        }
        false => vec![step],
    };
    let tasks: Vec<AxisId> =
        outer.iter().map(|it| AxisId(*it as u32)).chain([elements[0]]).collect();
    b.reorder(root, tasks.iter().chain(&step_loops).chain([&elements[1]]))?;
    b.annotate_all(root, tasks, LoopKind::Parallel)?;
    b.annotate_all(root, &step_loops[1..], LoopKind::Unrolled)?;
    b.annotate(root, elements[1], LoopKind::Vectorized)
}
