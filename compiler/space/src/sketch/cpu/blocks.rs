//! Cache blocking: the number of register tiles of a task, as many as the second-level cache allows, but
//! so few that all threads have some.

use super::variant::{Sharing, TileVariant};
use super::{LONG_TASKS_PER_THREAD, TASKS_PER_THREAD};
use crate::sketch::Builder;
use crate::sketch::layout::{WORD_BYTES, footprint_bytes};
use tvmtune_ir::dag::access::Access;
use tvmtune_ir::size::Size;
use tvmtune_schedule::StageId;

/// Iterations of the outer axis that a task with a padded copy of its own should have: windows of
/// neighboring tasks overlap, and both pad the overlap; estimated.
const MIN_OUTER: u64 = 6;

/// Tasks of each thread that are enough where all are of one size: more of them would have fewer rows
/// each; measured.
const MIN_TASKS_PER_THREAD: u64 = 2;

/// The place of padded copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Padding {
    /// In a phase of its own, before all tasks.
    Ahead,
    /// In each task, right before it reads the copy.
    InTasks,
}

/// The number of register tiles of a task along each axis.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    pub(super) outer: u64,
    pub(super) rows: u64,
    pub(super) vectors: u64,
    pub(super) padding: Padding,
    /// The last axis that is neither vectorized nor unrolled.
    outer_axis: Option<usize>,
    /// Tiles along the unrolled axis.
    n_rows: u64,
    /// Iterations of the outer axis.
    n_outer: u64,
    /// Tiles along the vectorized axis.
    n_vectors: u64,
    /// Iterations of all other axes, each of which has tasks of its own, at most and at least: a launch may have
    /// one sample of a batch.
    n_others: u64,
    least_others: u64,
    /// Windows overlap along the vectorized axis.
    slides: bool,
}

impl Blocks {
    /// Chooses tasks as large as the second-level cache allows, but several for each thread.
    pub(super) fn choose(b: &Builder, anchor: StageId, variant: &TileVariant) -> Self {
        let n_spatial = b.n_spatial(anchor);
        let extents = b.extents(anchor);
        let n_rows = variant.row.map_or(1, |it| extents[it].div_ceil(variant.tile.rows));
        let lanes = b.lanes() * variant.tile.vectors;
        let n_vectors = extents[variant.vector].div_ceil(lanes);
        let outer_axis = variant.last_outer(&extents[..n_spatial]);
        let n_outer = outer_axis.map_or(1, |it| extents[it]);
        let tiled = [Some(variant.vector), variant.row, outer_axis];
        let others = || (0..n_spatial).filter(|it| !tiled.contains(&Some(*it)));
        let n_others: u64 = others().map(|it| extents[it]).size();
        let least_others: u64 = others().map(|it| b.least_extent(anchor, it)).size();

        let padding = match variant.sharing {
            Sharing::None => Padding::InTasks,
            Sharing::Any | Sharing::NoneAlongOuter => Padding::Ahead,
        };
        let accesses = b.accesses(anchor);
        let slides = accesses.iter().any(|it| slides_along(it, variant.vector, n_spatial));
        let (outer, rows, vectors) = (n_outer, n_rows, n_vectors);
        let mut it = Self {
            outer,
            rows,
            vectors,
            padding,
            outer_axis,
            n_rows,
            n_outer,
            n_vectors,
            n_others,
            least_others,
            slides,
        };
        let threads = u64::from(b.cpu().threads);
        // The elements that the rows of a task read should stay in the cache while its columns pass.
        let bytes = |it: &Self, n_lanes: u64| {
            let length = |(axis, extent): (usize, &u64)| match Some(axis) {
                axis if axis == outer_axis => it.outer.min(*extent),
                axis if axis == variant.row => (it.rows * variant.tile.rows).min(*extent),
                Some(axis) if axis == variant.vector => n_lanes.min(*extent),
                Some(axis) if axis < n_spatial => 1,
                axis => match variant.block {
                    Some(block) if axis == Some(block.axis) => block.length.min(*extent),
                    _ => *extent,
                },
            };
            let tile: Vec<u64> = extents.iter().enumerate().map(length).collect();
            accesses.iter().map(|it| footprint_bytes(it, &tile)).fold(0, u64::saturating_add)
        };
        // A task reads its own copy many times, and soon.
        let cache = match padding {
            Padding::InTasks => b.cpu().l1_bytes,
            Padding::Ahead => b.cpu().l2_bytes,
        };
        if variant.sharing == Sharing::NoneAlongOuter {
            // Tasks that differ along the outer axis only share nothing but the edges of windows.
            let mut rows = Self { padding: Padding::InTasks, ..it };
            let enough = threads * LONG_TASKS_PER_THREAD;
            let is_large = |it: &Self| bytes(it, lanes).saturating_mul(it.vectors) > cache * 3 / 4;
            while (is_large(&rows) || rows.n_tasks() < enough) && rows.outer > MIN_OUTER {
                rows.halve();
            }
            if !is_large(&rows) && rows.n_tasks() >= enough {
                return rows;
            }
        }
        while bytes(&it, lanes) > cache * 3 / 4 && it.halve() {}
        // A copy of a task's own has all columns of it.
        let has_room = |it: &Self| bytes(it, lanes * it.vectors) <= b.cpu().l2_bytes;
        while padding == Padding::InTasks && !has_room(&it) && it.vectors > 1 {
            it.vectors = it.vectors.div_ceil(2);
        }
        if variant.block.is_some() {
            it.keep_accumulators_in(b.cpu().l2_bytes / 2, lanes * variant.tile.rows);
        }
        it.shared_by(threads).shared_at_least_by(threads)
    }

    /// Makes tasks smaller until their accumulators, which each block of a reduction reads and writes,
    /// have so many bytes at most. `tile` is the number of elements of a register tile.
    fn keep_accumulators_in(&mut self, bytes: u64, tile: u64) {
        let fits =
            |it: &Self| [it.outer, it.rows, it.vectors, tile, WORD_BYTES].iter().size() <= bytes;
        while !fits(self) && self.vectors > 1 {
            self.vectors = self.vectors.div_ceil(2);
        }
        while !fits(self) && self.halve() {}
    }

    /// Makes tasks smaller until so many threads have enough of them.
    fn shared_by(mut self, threads: u64) -> Self {
        let wanted = threads * TASKS_PER_THREAD;
        // Columns of tasks would overlap, and the last one would have a tail.
        if self.padding == Padding::InTasks && self.slides {
            while self.n_tasks() < threads * LONG_TASKS_PER_THREAD && self.halve() {}
            if self.n_tasks() >= threads * MIN_TASKS_PER_THREAD {
                return self;
            }
        }
        // While a column of tiles is computed, the next one of the task is prefetched.
        while self.n_tasks() < wanted && self.vectors > 2 {
            self.vectors = self.vectors.div_ceil(2);
        }
        let mut even = self;
        while even.n_tasks() < wanted {
            if even.is_even(threads) {
                return even;
            }
            if !even.halve() {
                break;
            }
        }
        while self.n_tasks() < wanted && self.vectors > 1 {
            self.vectors = self.vectors.div_ceil(2);
        }
        // With fewer rows, more tasks read the same columns.
        while self.n_tasks() < wanted && self.halve() {}
        self
    }

    /// Makes tasks smaller until so many threads have some in a launch with the least extents.
    fn shared_at_least_by(mut self, threads: u64) -> Self {
        let wanted = threads * MIN_TASKS_PER_THREAD;
        let n_tasks = |it: &Self| Self { n_others: it.least_others, ..*it }.n_tasks();
        if self.least_others < self.n_others {
            while n_tasks(&self) < wanted && self.vectors > 2 {
                self.vectors = self.vectors.div_ceil(2);
            }
            while n_tasks(&self) < wanted && self.halve() {}
        }
        self
    }

    /// Counts tasks.
    fn n_tasks(&self) -> u64 {
        let of_rows = self.n_outer.div_ceil(self.outer) * self.n_rows.div_ceil(self.rows);
        [self.n_others, of_rows, self.n_vectors.div_ceil(self.vectors)].iter().size()
    }

    /// Returns whether all tasks have one size, and each thread as many, a few at least. With less rows than
    /// these, as launches may have, threads must still have columns.
    fn is_even(&self, threads: u64) -> bool {
        let sizes =
            [(self.n_outer, self.outer), (self.n_rows, self.rows), (self.n_vectors, self.vectors)];
        let n = self.n_tasks();
        let n_columns = [self.n_others, self.n_vectors.div_ceil(self.vectors)].iter().size();
        sizes.iter().all(|(all, each)| all.is_multiple_of(*each))
            && n.is_multiple_of(threads)
            && n >= threads * MIN_TASKS_PER_THREAD
            && n_columns >= threads
    }

    /// Makes tasks half as large along one axis; false if they are single tiles already.
    fn halve(&mut self) -> bool {
        let longest = if self.outer > 1 { &mut self.outer } else { &mut self.rows };
        let can = *longest > 1;
        *longest = longest.div_ceil(2);
        can
    }

    /// Counts the tasks that read the same elements of an operand, for spatial axes of those extents.
    pub(super) fn tasks_sharing(
        &self,
        variant: &TileVariant,
        access: &Access,
        extents: &[u64],
    ) -> u64 {
        let tiled = [Some(variant.vector), variant.row, self.outer_axis];
        let others = (0..extents.len()).filter(|it| !tiled.contains(&Some(*it)));
        let n_others: u64 =
            others.filter(|it| !access.depends_on(*it)).map(|it| extents[it]).size();
        let along = |axis: Option<usize>, n: u64| match axis {
            Some(axis) if !access.depends_on(axis) => n,
            _ => 1,
        };
        n_others
            * along(self.outer_axis, self.n_outer.div_ceil(self.outer))
            * along(variant.row, self.n_rows.div_ceil(self.rows))
    }
}

/// Returns whether a window of an access slides along an axis: a reduce axis, from `n_spatial` on, moves in the
/// same dimension.
fn slides_along(access: &Access, axis: usize, n_spatial: usize) -> bool {
    let mut steps = access.steps.iter().flatten();
    steps.any(|it| it[axis] != 0 && it[n_spatial..].iter().any(|step| *step != 0))
}
