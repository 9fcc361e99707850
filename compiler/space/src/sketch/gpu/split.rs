//! Long reductions for which there would be too few blocks: pieces of them are reduced on their own,
//! and what they come to in a second pass.
//!
//! ```text
//! c[i] = sum(k, a[i, k])    =>    part[n, i] = sum(k, a[i, 4096 * n + k])
//!                                 c[i] = sum(n, part[n, i])
//! ```
//!
//! The order of additions follows from extents alone: the same sums in every run, and no atomics.
//! A piece is a stage like any other: its way is chosen by the other rules.

use super::reads::{is_along_memory, length, reduces};
use super::{tensor, tiles};
use crate::sketch::builder::Builder;
use crate::sketch::{DecisionKind, Factor};
use tvmtune_schedule::error::ScheduleError;
use tvmtune_schedule::{Attach, AxisId, Layout, StageId};

/// The side of a tile that keeps arithmetic busy.
const TILE: u64 = 64;
/// Columns that one block takes.
const COLUMNS: u64 = 64;
/// Pieces have lengths that are multiples of this where that can be: steps of all rules are.
const STEP: u64 = 32;

/// A reduction in pieces.
struct Cut {
    stage: StageId,
    /// The axis that is cut.
    axis: usize,
    /// Iterations of a piece.
    length: u64,
}

/// Cuts the reductions of a program that have too few blocks; `false` if there are none.
pub(super) fn reductions(b: &mut Builder) -> Result<bool, ScheduleError> {
    let mut any = false;
    for stage in b.schedule.order.clone() {
        let is_root = b.schedule.stage(stage).attach == Attach::Root;
        let Some(it) = cut(b, stage).filter(|_| is_root) else { continue };
        apply(b, &it)?;
        any = true;
    }
    Ok(any)
}

/// How a reduction is cut, if it should be.
fn cut(b: &Builder, stage: StageId) -> Option<Cut> {
    if !reduces(b, stage) {
        return None;
    }
    let n_spatial = b.schedule.stage(stage).compute.n_spatial;
    let extents = b.extents(stage);
    let elements: u64 = extents[..n_spatial].iter().product();
    let wanted = u64::from(b.gpu().multiprocessors);
    let is_tensor = tensor::product(b, stage).is_some();
    // Blocks there are, blocks there should be, and what a piece should have at least.
    let (n_blocks, wanted, least) = if tiles(b, stage) {
        (elements.div_ceil(TILE * TILE), wanted, if is_tensor { 512 } else { 256 })
    } else if n_spatial == 0 || is_along_memory(b, stage) {
        (elements, 2 * wanted, 8192)
    } else {
        (elements.div_ceil(COLUMNS), 2 * wanted, 256)
    };
    let axis = (n_spatial..extents.len()).rev().max_by_key(|it| extents[*it])?;
    let pieces = (wanted / n_blocks).min(length(b, stage) / least).min(extents[axis]);
    if 2 * n_blocks > wanted || pieces < 2 {
        return None;
    }
    let found = even(b, stage, axis, extents[axis].div_ceil(pieces));
    let length = match found {
        Some(length) => length,
        // Matrix instructions know no condition on what they add.
        None if is_tensor => return None,
        None => extents[axis].div_ceil(pieces).next_multiple_of(STEP.min(extents[axis])),
    };
    Some(Cut { stage, axis, length })
}

/// A length near the one that is wanted into which an axis can be cut with nothing left over.
fn even(b: &Builder, stage: StageId, axis: usize, wanted: u64) -> Option<u64> {
    let extent = &b.schedule.stage(stage).compute.axes[axis].extent;
    let extent = u64::try_from(extent.as_constant()?).ok()?;
    let step = if wanted >= STEP { STEP } else { 1 };
    let lengths = (wanted.next_multiple_of(step)..=2 * wanted.max(STEP)).step_by(step as usize);
    let whole = |it: &u64| extent.is_multiple_of(*it) && *it < extent;
    lengths.into_iter().find(whole)
}

fn apply(b: &mut Builder, cut: &Cut) -> Result<(), ScheduleError> {
    let Cut { stage, axis, length } = *cut;
    let name = b.stage_name(stage).to_owned();
    let extent =
        b.schedule.stage(stage).compute.axes[axis].extent.as_constant().map(|it| it as u64);
    // Lengths with nothing left over stay so.
    let whole = |it: u64| extent.is_none_or(|extent| extent.is_multiple_of(it));
    let options: Vec<u64> = [length / 4, length / 2, 2 * length, 4 * length]
        .into_iter()
        .filter(|it| *it > 0 && whole(length) == whole(*it) && extent.is_none_or(|n| *it < n))
        .collect();
    let group = b.new_group();
    let kind = DecisionKind::Outer;
    let decision = b.decide(format!("{name} piece"), kind, &options, length, group);
    let parts = b.split(stage, AxisId(axis as u32), &[Factor::Open(decision)])?;
    let part = b.apply(|it| it.rfactor(stage, parts[0]))?;
    // Pieces lie one after the other, each as the result does.
    let tensor = b.schedule.stage(part).tensor();
    let n_spatial = b.schedule.stage(stage).compute.n_spatial;
    let order = [n_spatial].into_iter().chain(0..n_spatial).collect();
    b.apply(|it| it.pack(tensor, Layout { splits: Vec::new(), order }))?;
    b.keep_apart(part);
    Ok(())
}
