//! The GPU template for reductions along memory: threads share a row, combine partial results by an
//! all-reduce, and keep elements that are used again in registers.
//!
//! ```text
//! parallel rows_0
//!   thread rows_1
//!     thread t: for d_0: vectorized d_2:  max = max(max, x[row, d])
//!     thread t: for d_0: vectorized d_2:  e[d] = exp(x[row, d] - max)
//!     ...
//!     thread t: for d_0: vectorized d_2:  y[row, d] = e[d] / sum
//! ```
//!
//! # Source
//!
//! The row kernels of quack (Dao-AILab): 8 to 256 threads a row, by its length.

use super::pattern::Pattern;
use super::reads::{
    common_vector_width, contiguous_spatial_axis, is_reduction_contiguous, reduction_size,
};
use super::threads::{distribute_row, distribute_rows};
use crate::sketch::{Builder, Result, Rows, Template, TemplateKind};
use tvmtune_ir::size::Size;
use tvmtune_schedule::StageId;

/// Threads of a row that has a multiprocessor for itself.
const MAX_THREADS: u64 = 512;
/// Elements along memory that threads share, rather than those of a row.
const MIN_SHARED_ELEMENTS: u64 = 8;
/// Elements of a reduction along memory that threads share.
const MIN_SHARED_LENGTH: u64 = 32;

pub(super) const TEMPLATE: Template<Rows> = Template { is_applicable, schedule };

fn is_applicable(b: &Builder, rows: &Rows) -> bool {
    let pattern = Pattern::classify(b, rows);
    matches!(pattern, Pattern::MixedRanks | Pattern::FullReduction | Pattern::ContiguousReduction)
}

fn schedule(b: &mut Builder, rows: &Rows) -> Result<()> {
    let Rows { root, ref inside, depth } = *rows;
    let name = b.stage_name(root).to_owned();
    let extents = b.extents(root);
    let mut attached = inside.clone();
    // A single result needs no accumulator beside it.
    if b.reduces(root) && depth > 0 {
        attached.push(b.apply(|it| it.cache_write(root))?);
    }
    let stages: Vec<StageId> = attached.iter().copied().chain([root]).collect();
    let shared: Vec<Vec<usize>> = stages.iter().map(|it| shared_axes(b, *it, depth)).collect();
    let length = |(stage, axes): (&StageId, &Vec<usize>)| {
        let extents = b.extents(*stage);
        axes.iter().map(|it| extents[*it]).size()
    };
    let longest = stages.iter().zip(&shared).map(length).max().unwrap_or(1);
    let n_rows: u64 = extents[..depth].iter().size();
    let best = match longest {
        8192.. if n_rows <= u64::from(b.gpu().multiprocessors) => MAX_THREADS,
        ..=64 => 8,
        65..=128 => 16,
        129..=3072 => 32,
        3073..=6144 => 64,
        6145..=16384 => 128,
        _ => 256,
    };
    let threads = b.decide_power(format!("{name} threads"), 1024, best);
    // All stages have the same vectors, so that threads read the elements that they computed.
    let along = |(stage, axes): (&StageId, &Vec<usize>)| {
        Some(common_vector_width(b, &[*stage], *axes.last()?))
    };
    let widest = stages.iter().zip(&shared).filter_map(along).min().unwrap_or(1);
    let lanes = b.decide_power_in(b.group_of(threads), format!("{name} vector"), 8, widest);
    for (stage, axes) in stages.iter().zip(&shared) {
        distribute_row(b, *stage, axes, threads, lanes)?;
    }
    b.note_template(TemplateKind::Rows, root);
    distribute_rows(b, &Rows { root, inside: attached, depth }, best, &name)
}

/// Returns the axes of a stage that the threads of a row share: those of its elements, or those that
/// it reduces.
fn shared_axes(b: &Builder, stage: StageId, depth: usize) -> Vec<usize> {
    let extents = b.extents(stage);
    let n_spatial = b.n_spatial(stage);
    let elements: u64 = extents[depth.min(n_spatial)..n_spatial].iter().size();
    let by_element = match b.reduces(stage) {
        false => true,
        true if elements == 1 => false,
        true if contiguous_spatial_axis(b, stage).is_some_and(|it| it >= depth)
            && elements >= MIN_SHARED_ELEMENTS =>
        {
            true
        }
        true if is_reduction_contiguous(b, stage)
            && reduction_size(b, stage) >= MIN_SHARED_LENGTH =>
        {
            false
        }
        true => elements >= reduction_size(b, stage),
    };
    if by_element { (depth..n_spatial).collect() } else { (n_spatial..extents.len()).collect() }
}
