//! How many register tiles make a task: as many as the second-level cache allows, but so few that
//! all threads have some.

use super::builder::Builder;
use super::variant::{Sharing, TileVariant};
use tvmtune_ir::dag::access::Access;
use tvmtune_schedule::StageId;

/// Rows of windows that a task pads at least: at the edges others pad the same.
const LEAST_WALK: u64 = 6;

/// How many register tiles make a task along each axis.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    pub(super) walk: u64,
    pub(super) rows: u64,
    pub(super) vectors: u64,
    /// Whether a task copies what it pads, right before it reads it.
    pub(super) pad: bool,
    /// The axis that is walked over.
    walked: Option<usize>,
    /// Tiles along the unrolled axis.
    n_rows: u64,
    /// Iterations of the axis that is walked over.
    n_walk: u64,
}

impl Blocks {
    /// Tasks as large as the second-level cache allows, but several for each thread.
    pub(super) fn choose(b: &Builder, anchor: StageId, variant: &TileVariant) -> Self {
        let n_spatial = b.schedule.stage(anchor).compute.n_spatial;
        let extents = b.extents(anchor);
        let n_rows = variant.row.map_or(1, |it| extents[it].div_ceil(variant.tile.rows));
        let lanes = b.lanes() * variant.tile.vectors;
        let n_vectors = extents[variant.vector].div_ceil(lanes);
        let walked = variant.walked(&extents[..n_spatial]);
        let n_walk = walked.map_or(1, |it| extents[it]);
        let tiled = [Some(variant.vector), variant.row, walked];
        let outer: u64 =
            (0..n_spatial).filter(|it| !tiled.contains(&Some(*it))).map(|it| extents[it]).product();

        let pad = variant.sharing == Sharing::None;
        let mut it =
            Self { walk: n_walk, rows: n_rows, vectors: n_vectors, pad, walked, n_rows, n_walk };
        let threads = u64::from(b.cpu().threads);
        let wanted = threads * 8;
        let n_tasks = |it: &Self| {
            let across = n_walk.div_ceil(it.walk) * n_rows.div_ceil(it.rows);
            outer * across * n_vectors.div_ceil(it.vectors)
        };
        // What the rows of a task read should stay in the cache while all its columns pass.
        let accesses = b.accesses(anchor);
        let bytes = |it: &Self| {
            let length = |(axis, extent): (usize, &u64)| match Some(axis) {
                axis if axis == walked => it.walk.min(*extent),
                axis if axis == variant.row => (it.rows * variant.tile.rows).min(*extent),
                Some(axis) if axis == variant.vector => lanes.min(*extent),
                Some(axis) if axis < n_spatial => 1,
                _ => *extent,
            };
            let tile: Vec<u64> = extents.iter().enumerate().map(length).collect();
            accesses.iter().map(|it| it.footprint(&tile) * 4).sum::<u64>()
        };
        // What a task copies is read many times, and soon.
        let cache = match pad {
            true => b.cpu().l1_bytes,
            false => b.cpu().l2_bytes,
        };
        if variant.sharing == Sharing::NoneAlongWalk {
            // Tasks that differ in what they walk over only share nothing but the edges of windows.
            let mut rows = Self { pad: true, ..it };
            let is_large = |it: &Self| bytes(it) * it.vectors > cache * 3 / 4;
            while (is_large(&rows) || n_tasks(&rows) < threads * 4) && rows.walk > LEAST_WALK {
                rows.halve();
            }
            if !is_large(&rows) && n_tasks(&rows) >= threads * 4 {
                return rows;
            }
        }
        while bytes(&it) > cache * 3 / 4 && it.halve() {}
        while n_tasks(&it) < wanted && it.vectors > 1 {
            it.vectors = it.vectors.div_ceil(2);
        }
        while n_tasks(&it) < wanted && it.halve() {}
        it
    }

    /// Makes tasks half as large along one axis; false if they are single tiles already.
    fn halve(&mut self) -> bool {
        let longest = if self.walk > 1 { &mut self.walk } else { &mut self.rows };
        let can = *longest > 1;
        *longest = longest.div_ceil(2);
        can
    }

    /// How many tasks there are that read the same elements of an operand.
    pub(super) fn tasks_beside(&self, variant: &TileVariant, access: &Access) -> u64 {
        let along = |axis: Option<usize>, n: u64| match axis {
            Some(axis) if !access.depends_on(axis) => n,
            _ => 1,
        };
        along(self.walked, self.n_walk.div_ceil(self.walk))
            * along(variant.row, self.n_rows.div_ceil(self.rows))
    }
}
