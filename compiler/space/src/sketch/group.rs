//! Which stages run together: what is inlined, and what is computed inside what.
//!
//! A group is a stage that runs on its own, and those computed inside it. There are two kinds:
//!
//! - *Tiled*: a reduction whose operands are used more than once, with the elementwise stage that
//!   follows it, if any. It runs in tiles that fit registers.
//! - *Rows*: any other stage, with those that it needs row by row (the maximum and the sum of a
//!   softmax), computed at the loop over its rows.

use super::builder::Builder;
use super::gpu::chain::Chain;
use super::rows::contiguous_reduction;
use super::variant::variants;
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::dag::access::{leading_axes, work};
use tvmtune_schedule::{Attach, StageId};

/// Stages that run together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// A reduction in tiles.
    Tiled {
        /// The elementwise stage that runs on its own, and reads the reduction; the reduction
        /// itself if nothing of the kind follows it.
        root: StageId,
        /// The reduction.
        anchor: StageId,
    },
    /// Rows of anything else.
    Rows {
        /// The stage that runs on its own.
        root: StageId,
        /// What is computed inside it, in topological order.
        inside: Vec<StageId>,
        /// How many leading axes of all of them are the same rows.
        depth: usize,
    },
    /// A product, and what runs along with it. Only on GPUs.
    Chain(Chain),
}

/// What one more evaluation of a value may cost before it is stored instead.
const CHEAP: u64 = 3;

impl Builder {
    /// Inlines what is cheaper to compute again than to store.
    pub(super) fn inline_stages(&mut self) {
        for stage in self.schedule.order.clone() {
            if self.should_inline(stage) {
                // What cannot be inlined is computed and stored.
                let _ = self.apply(|it| it.inline(stage));
            }
        }
    }

    fn should_inline(&self, stage: StageId) -> bool {
        let compute = &self.schedule.stage(stage).compute;
        let readers: Vec<StageId> = self.schedule.readers(compute.tensor).collect();
        if compute.reducer.is_some()
            || self.schedule.is_output(compute.tensor)
            || readers.is_empty()
        {
            return false;
        }
        let work = work(&compute.body);
        if work == 0 {
            return true;
        }
        if readers.iter().any(|it| self.tiles(*it)) {
            return false;
        }
        let elements: u64 = self.extents(stage).iter().product();
        let evaluations = |reader: &StageId| {
            let reads = self.accesses(*reader);
            let reads = reads.iter().filter(|it| it.tensor == compute.tensor).count() as u64;
            let iterations: u64 = self.extents(*reader).iter().product();
            reads * iterations.div_ceil(elements)
        };
        let evaluations: u64 = readers.iter().map(evaluations).sum();
        evaluations <= 1 || work * (evaluations - 1) <= CHEAP
    }

    /// The groups, in order of execution.
    pub(super) fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut member: Vec<Option<usize>> = vec![None; self.schedule.stages.len()];
        // For each member of rows, how many of its leading axes are those of the root.
        let mut depths = vec![0; self.schedule.stages.len()];
        for stage in self.schedule.order.iter().rev().copied() {
            let found = self.schedule.stage(stage);
            if found.attach == Attach::Inline {
                continue;
            }
            let at = stage.0 as usize;
            if let Some((group, depth)) = self.host(stage, &groups, &member, &depths) {
                (member[at], depths[at]) = (Some(group), depth);
                match &mut groups[group] {
                    Group::Rows { inside, depth: least, .. } if depth > 0 => {
                        inside.insert(0, stage);
                        *least = depth.min(*least);
                    }
                    tiled => {
                        let (Group::Rows { root, .. } | Group::Tiled { root, .. }) = *tiled else {
                            continue;
                        };
                        *tiled = Group::Tiled { root, anchor: stage };
                    }
                }
                continue;
            }
            (member[at], depths[at]) = (Some(groups.len()), found.compute.n_spatial);
            groups.push(if self.tiles(stage) {
                Group::Tiled { root: stage, anchor: stage }
            } else {
                let depth = found.compute.n_spatial;
                Group::Rows { root: stage, inside: Vec::new(), depth }
            });
        }
        groups.reverse();
        groups
    }

    /// The group that a stage is computed in, and how many leading axes it shares with its root (0
    /// for a reduction in tiles); `None` if it starts its own.
    fn host(
        &self,
        stage: StageId,
        groups: &[Group],
        member: &[Option<usize>],
        depths: &[usize],
    ) -> Option<(usize, usize)> {
        let tensor = self.schedule.stage(stage).tensor();
        if self.schedule.is_output(tensor) || self.is_apart(stage) {
            return None;
        }
        let readers: Vec<StageId> = self.schedule.readers(tensor).collect();
        let group = member[readers.first()?.0 as usize]?;
        if self.tiles(stage) {
            let Group::Rows { root, inside, .. } = &groups[group] else { return None };
            let follows = readers.as_slice() == [*root]
                && inside.is_empty()
                && self.follows_elementwise(*root, tensor);
            return follows.then_some((group, 0));
        }
        let Group::Rows { root, .. } = &groups[group] else { return None };
        if self.is_gpu() && super::gpu::is_piece(self, *root) {
            return None;
        }
        let shared = |it: &StageId| {
            let same = member[it.0 as usize] == Some(group);
            let compute = &self.schedule.stage(*it).compute;
            same.then(|| leading_axes(compute, tensor).min(depths[it.0 as usize]))
        };
        let depth = readers.iter().map(shared).min().flatten()?;
        (depth > 0 && self.rows_are_worth_it(*root, stage, depth)).then_some((group, depth))
    }

    /// Whether a reduction runs in tiles: its operands are used more than once, or only its
    /// spatial axes make vectors.
    fn tiles(&self, stage: StageId) -> bool {
        if self.schedule.stage(stage).compute.reducer.is_none() || self.part(stage).is_some() {
            return false;
        }
        if self.is_gpu() {
            return super::gpu::tiles(self, stage);
        }
        let in_rows = contiguous_reduction(self, stage).is_some();
        (self.is_anchor(stage) || !in_rows) && !variants(self, stage).is_empty()
    }

    /// Whether a stage computes each element from the same element of `tensor`, and no reduction.
    fn follows_elementwise(&self, stage: StageId, tensor: TensorId) -> bool {
        let compute = &self.schedule.stage(stage).compute;
        let shape = &self.schedule.tensor(tensor).tensor.shape;
        let own = &self.schedule.tensor(compute.tensor).tensor.shape;
        compute.reducer.is_none()
            && shape == own
            && leading_axes(compute, tensor) == compute.n_spatial
    }

    /// Whether so many leading axes are enough for all threads, or there is little to do anyway.
    fn rows_are_worth_it(&self, root: StageId, stage: StageId, depth: usize) -> bool {
        const LITTLE: u64 = 1 << 16;
        let extents = self.extents(root);
        let rows: u64 = extents[..depth].iter().product();
        let mut all: u64 = extents.iter().product();
        if self.is_gpu() {
            all = all.max(self.extents(stage).iter().product());
        }
        let wanted = if self.is_gpu() { self.gpu().multiprocessors } else { self.cpu().threads };
        rows >= u64::from(wanted) || all / rows.max(1) <= LITTLE
    }
}
