//! Which stage stands for which, where dags differ in more than extents: anchor for anchor, what
//! stores its result for what stores it there.

use super::Repair;
use crate::{AxisId, Instruction, Schedule, ScheduleError, StageId};
use tvmtune_ir::dag::anchor::Anchor;
use tvmtune_ir::dag::{ComputeId, Dag, Expr, TensorId};

impl Repair {
    /// Pairs up the stages of both dags before anything is replayed.
    pub(super) fn pair_up(&mut self) {
        if alike(&self.from.dag, &self.to.dag) {
            self.ids.note(&self.from, &self.to);
            return;
        }
        self.ids.skip(&self.from);
        let (Some(from), Some(to)) = (Anchor::of(&self.from.dag), Anchor::of(&self.to.dag)) else {
            return;
        };
        // What lies between anchor and root is part of the root.
        for between in to.after.iter().rev().skip(1).rev() {
            let inline = Instruction::Inline { stage: stage(*between) };
            // One that can't be inlined keeps its loops.
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
                self.apart = Some((anchor, [to_anchor, to_root]));
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

    /// Lets a stage that separates an anchor from what stores its result do nothing where they are
    /// two stages already; whether the instruction was that.
    pub(super) fn is_apart_already(&mut self, it: &Instruction) -> Result<bool, ScheduleError> {
        let (Instruction::CacheWrite { stage }, Some((anchor, [to_anchor, to_root]))) =
            (it, self.apart)
        else {
            return Ok(false);
        };
        if *stage != anchor {
            return Ok(false);
        }
        let sum = self.from.cache_write(*stage)?;
        self.apart = None;
        self.ids.axes.retain(|(it, _), _| *it != anchor);
        self.pair(sum, to_anchor);
        self.pair(anchor, to_root);
        self.ids.skip(&self.from);
        Ok(true)
    }

    /// Lets a stage stand for another one, with its axes, what it defines and what it reads.
    fn pair(&mut self, stage: StageId, twin: StageId) {
        let (mine, theirs) = (self.from.stage(stage), self.to.stage(twin));
        self.ids.stages.insert(stage, twin);
        self.ids.tensors.insert(mine.tensor(), theirs.tensor());
        let n_spatial = [mine, theirs].map(|it| it.compute.n_spatial as u32);
        let n_axes = [mine, theirs].map(|it| it.compute.axes.len() as u32);
        let spatial = (0..n_spatial[0]).zip(0..n_spatial[1]);
        let reduce = (n_spatial[0]..n_axes[0]).zip(n_spatial[1]..n_axes[1]);
        for (axis, other) in spatial.chain(reduce) {
            self.ids.axes.insert((stage, AxisId(axis)), AxisId(other));
        }
        for (tensor, other) in reads(&self.from, stage).into_iter().zip(reads(&self.to, twin)) {
            self.ids.tensors.entry(tensor).or_insert(other);
        }
    }
}

/// The tensors that a stage reads, in order, each once.
fn reads(schedule: &Schedule, stage: StageId) -> Vec<TensorId> {
    let mut found = Vec::new();
    schedule.stage(stage).compute.body.walk(&mut |it| {
        if let Expr::Read { tensor, .. } = it
            && !found.contains(tensor)
        {
            found.push(*tensor);
        }
    });
    found
}

/// Whether stages stand for those at the same place.
fn alike(one: &Dag, other: &Dag) -> bool {
    let loops = |dag: &Dag| -> Vec<_> {
        dag.computes.iter().map(|it| (it.tensor, it.n_spatial, it.axes.len(), it.reducer)).collect()
    };
    one.tensors.len() == other.tensors.len() && loops(one) == loops(other)
}

fn stage(compute: ComputeId) -> StageId {
    StageId(compute.0)
}
