//! Templates for GPUs in a build without the feature `cuda`: no group has one.
//!
//! Builds that make schedules for GPUs enable the feature; this module stands in for `gpu` in all
//! others, so that fusion and enumeration are written once.

use super::{Bound, Builder, FusionGroup};
use tvmtune_schedule::StageId;

/// Returns no templates.
pub(super) fn templates<'a>(_: &Builder, _: &'a FusionGroup) -> Vec<Bound<'a>> {
    Vec::new()
}

/// Splits no reductions.
pub(super) fn split_k(_: &Builder) -> Option<Builder> {
    None
}

/// Returns `false`: no reduction was split.
pub(super) fn is_split_column_reduction(_: &Builder, _: StageId) -> bool {
    false
}

/// Returns `false`: no stage is tiled.
pub(super) fn benefits_from_tiling(_: &Builder, _: StageId) -> bool {
    false
}

/// Returns `false`: there are no blocks of threads.
pub(super) fn fits_thread_block(_: &Builder, _: u64, _: u64) -> bool {
    false
}
