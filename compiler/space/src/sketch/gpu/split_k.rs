//! Split-K: long reductions that would have too few thread blocks are split into slices, which are
//! reduced on their own, and their partial results in a second pass.
//!
//! ```text
//! c[i] = sum(k, a[i, k])    =>    part[n, i] = sum(k, a[i, 4096 * n + k])
//!                                 c[i] = sum(n, part[n, i])
//! ```
//!
//! The order of additions follows from extents alone: the same sums in every run, and no atomics.
//! A slice is a stage like any other: the templates schedule it.

use super::mma;
use super::reads::{benefits_from_tiling, is_reduction_contiguous, reduction_size};
use crate::sketch::{Builder, DecisionKind, Factor, Result};
use tvmtune_schedule::{Attach, AxisId, StageId};

/// The side of a tile that keeps arithmetic busy.
const TILE: u64 = 64;
/// Columns that one thread block takes.
const COLUMNS: u64 = 64;
/// Lengths of slices are multiples of this where that can be: steps of all templates are.
const STEP: u64 = 32;
/// Steps of a slice that are worth a second pass: of tiles, of tiles by MMA instructions, of sums
/// along memory, and of sums across memory.
const MIN_TILED: u64 = 256;
const MIN_TENSORIZED: u64 = 512;
const MIN_CONTIGUOUS: u64 = 8192;
const MIN_STRIDED: u64 = 256;

/// A reduction split into slices.
struct Split {
    stage: StageId,
    /// The axis that is split.
    axis: usize,
    /// Iterations of a slice.
    length: u64,
}

/// Returns the program with the reductions split that have too few thread blocks; `None` if there are
/// none.
pub(in crate::sketch) fn split_k(start: &Builder) -> Option<Builder> {
    let mut b = start.clone();
    let mut any = false;
    for stage in start.schedule.order.clone() {
        let is_root = b.schedule.stage(stage).attach == Attach::Root;
        let Some(it) = choose(&b, stage).filter(|_| is_root) else { continue };
        apply(&mut b, &it).ok()?;
        any = true;
    }
    any.then_some(b)
}

/// Returns whether a stage is a slice of reductions across memory: it was split because there are few
/// elements, so it is not fused into a stage with an iteration for each of them.
pub(in crate::sketch) fn is_split_column_reduction(b: &Builder, stage: StageId) -> bool {
    b.is_fusion_forbidden(stage) && b.reduces(stage) && !is_reduction_contiguous(b, stage)
}

/// Returns how a reduction is split, if it should be.
fn choose(b: &Builder, stage: StageId) -> Option<Split> {
    if !b.reduces(stage) {
        return None;
    }
    let n_spatial = b.n_spatial(stage);
    let extents = b.extents(stage);
    let elements = b.n_elements(stage);
    let wanted = u64::from(b.gpu().multiprocessors);
    let is_tensorized = mma::product(b, stage).is_some();
    let (n_blocks, wanted, min_length) = if benefits_from_tiling(b, stage) {
        let min_length = if is_tensorized { MIN_TENSORIZED } else { MIN_TILED };
        (elements.div_ceil(TILE * TILE), wanted, min_length)
    } else if n_spatial == 0 || is_reduction_contiguous(b, stage) {
        (elements, 2 * wanted, MIN_CONTIGUOUS)
    } else {
        (elements.div_ceil(COLUMNS), 2 * wanted, MIN_STRIDED)
    };
    let axis = (n_spatial..extents.len()).rev().max_by_key(|it| extents[*it])?;
    let slices = (wanted / n_blocks).min(reduction_size(b, stage) / min_length).min(extents[axis]);
    if 2 * n_blocks > wanted || slices < 2 {
        return None;
    }
    let wanted = extents[axis].div_ceil(slices);
    let length = match divisor(b, stage, axis, wanted) {
        Some(length) => length,
        // MMA instructions know no predicates on steps of the reduction.
        None if is_tensorized => return None,
        None => wanted.next_multiple_of(STEP.min(extents[axis])),
    };
    Some(Split { stage, axis, length })
}

/// Returns a length near the one that is wanted that divides an axis.
fn divisor(b: &Builder, stage: StageId, axis: usize, wanted: u64) -> Option<u64> {
    let extent = &b.compute(stage).axes[axis].extent;
    let extent = u64::try_from(extent.as_constant()?).ok()?;
    let step = if wanted >= STEP { STEP } else { 1 };
    let lengths = (wanted.next_multiple_of(step)..=2 * wanted.max(STEP)).step_by(step as usize);
    let whole = |it: &u64| extent.is_multiple_of(*it) && *it < extent;
    lengths.into_iter().find(whole)
}

fn apply(b: &mut Builder, split: &Split) -> Result<()> {
    let Split { stage, axis, length } = *split;
    let name = b.stage_name(stage).to_owned();
    let extent = b.compute(stage).axes[axis].extent.as_constant().map(|it| it as u64);
    // All options divide the axis if the length does.
    let whole = |it: u64| extent.is_none_or(|extent| extent.is_multiple_of(it));
    let options: Vec<u64> = [length / 4, length / 2, 2 * length, 4 * length]
        .into_iter()
        .filter(|it| *it > 0 && whole(length) == whole(*it) && extent.is_none_or(|n| *it < n))
        .collect();
    let kind = DecisionKind::Outer;
    let decision = b.decide(format!("{name} piece"), kind, &options, length);
    let parts = b.split(stage, AxisId(axis as u32), &[Factor::Open(decision)])?;
    let part = b.apply(|it| it.rfactor(stage, parts[0]))?;
    // Slices follow one another in memory, each with the layout of the result.
    let tensor = b.tensor_of(part);
    let n_spatial = b.n_spatial(stage);
    let order = [n_spatial].into_iter().chain(0..n_spatial).collect();
    b.permute(tensor, order)?;
    b.forbid_fusion(part);
    Ok(())
}
