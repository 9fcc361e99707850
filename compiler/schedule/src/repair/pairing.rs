//! Pairing of stages: maps those of the dag that a trace was recorded on to those of the dag that it
//! is replayed on.
//!
//! Where the dags differ in more than extents, only the anchors (the main reductions) and the stages
//! that write their results back are paired.

use super::Repair;
use crate::{AxisId, Instruction, Schedule, ScheduleError, StageId};
use tvmtune_ir::dag::anchor::Anchor;
use tvmtune_ir::dag::{ComputeId, Dag, TensorId};

/// The new dag stores its anchor's result in a stage of its own, which the trace makes by `cache_write`.
#[derive(Clone, Copy)]
pub(super) struct Writeback {
    /// The anchor of the recorded dag, which also writes its result back.
    recorded_anchor: StageId,
    /// The anchor of the new dag.
    anchor: StageId,
    /// The stage of the new dag that writes the anchor's result back.
    writeback: StageId,
}

impl Repair {
    /// Pairs the stages of both dags before the replay.
    pub(super) fn pair_up(&mut self) {
        if same_structure(&self.from.dag, &self.to.dag) {
            self.ids.note(&self.from, &self.to);
            return;
        }
        self.ids.skip(&self.from);
        let (Some(from), Some(to)) = (Anchor::of(&self.from.dag), Anchor::of(&self.to.dag)) else {
            return;
        };
        // Stages between anchor and root become part of the root.
        for between in to.after.iter().rev().skip(1).rev() {
            let inline = Instruction::Inline { stage: stage(*between) };
            // A stage that cannot be inlined keeps its loops.
            let _ = self.to.apply(&inline);
        }
        let [anchor, root] = [from.compute, from.root()].map(stage);
        let [to_anchor, to_root] = [to.compute, to.root()].map(stage);
        match (anchor == root, to_anchor == to_root) {
            (true, true) => self.pair(anchor, to_anchor),
            (false, false) => {
                self.pair(anchor, to_anchor);
                self.pair(root, to_root);
            }
            (true, false) => {
                self.pair(anchor, to_anchor);
                self.writeback = Some(Writeback {
                    recorded_anchor: anchor,
                    anchor: to_anchor,
                    writeback: to_root,
                });
            }
            (false, true) => match self.to.cache_write(to_anchor) {
                Ok(sum) => {
                    self.pair(anchor, sum);
                    self.pair(root, to_anchor);
                }
                Err(_) => self.pair(anchor, to_anchor),
            },
        }
    }

    /// Skips the anchor's `cache_write` if the new dag has the stage that it makes; returns true if the
    /// instruction was skipped.
    pub(super) fn try_skip_cache_write(
        &mut self,
        instruction: &Instruction,
    ) -> Result<bool, ScheduleError> {
        let Instruction::CacheWrite { stage } = instruction else { return Ok(false) };
        let Some(Writeback { recorded_anchor, anchor, writeback }) = self.writeback else {
            return Ok(false);
        };
        if *stage != recorded_anchor {
            return Ok(false);
        }
        let sum = self.from.cache_write(*stage)?;
        self.writeback = None;
        self.ids.axes.retain(|(it, _), _| *it != recorded_anchor);
        self.pair(sum, anchor);
        self.pair(recorded_anchor, writeback);
        self.ids.skip(&self.from);
        Ok(true)
    }

    /// Maps a stage to its counterpart, as well as its axes, its tensor and the tensors that it reads.
    fn pair(&mut self, stage: StageId, counterpart: StageId) {
        let (mine, theirs) = (self.from.stage(stage), self.to.stage(counterpart));
        self.ids.stages.insert(stage, counterpart);
        self.ids.tensors.insert(mine.tensor(), theirs.tensor());
        let n_spatial = [mine, theirs].map(|it| it.compute.n_spatial as u32);
        let n_axes = [mine, theirs].map(|it| it.compute.axes.len() as u32);
        let spatial = (0..n_spatial[0]).zip(0..n_spatial[1]);
        let reduce = (n_spatial[0]..n_axes[0]).zip(n_spatial[1]..n_axes[1]);
        for (axis, other) in spatial.chain(reduce) {
            self.ids.axes.insert((stage, AxisId(axis)), AxisId(other));
        }
        for (tensor, other) in
            reads(&self.from, stage).into_iter().zip(reads(&self.to, counterpart))
        {
            self.ids.tensors.entry(tensor).or_insert(other);
        }
    }
}

/// The tensors that a stage reads, in order, each once.
fn reads(schedule: &Schedule, stage: StageId) -> Vec<TensorId> {
    let mut found = Vec::new();
    schedule.stage(stage).compute.body.for_each_read(&mut |tensor, _| {
        if !found.contains(&tensor) {
            found.push(tensor);
        }
    });
    found
}

/// Returns whether both dags have the same computes in the same order, up to extents and bodies.
fn same_structure(a: &Dag, b: &Dag) -> bool {
    let loops = |dag: &Dag| -> Vec<_> {
        dag.computes.iter().map(|it| (it.tensor, it.n_spatial, it.axes.len(), it.reducer)).collect()
    };
    a.tensors.len() == b.tensors.len() && loops(a) == loops(b)
}

fn stage(compute: ComputeId) -> StageId {
    StageId(compute.0)
}
