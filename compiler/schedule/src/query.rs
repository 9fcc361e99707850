//! Queries of a schedule: loops by id, readers of tensors, and compute locations.

use super::error::{ErrorKind, ScheduleError, refuse_if};
use super::{Attach, AxisId, LoopKind, Schedule, Stage, StageId};
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{Expr, TensorId};
use tvmtune_ir::poly::{Facts, VarId};

impl Schedule {
    /// Returns the stage, if that id exists and the stage is not inlined.
    pub(crate) fn live_stage(&self, stage: StageId) -> Result<&Stage, ScheduleError> {
        let found = self.stages.get(stage.0 as usize).ok_or(ErrorKind::Unknown.of_stage(stage))?;
        match found.attach {
            Attach::Inline => Err(ErrorKind::Inlined.of_stage(stage)),
            Attach::Root | Attach::At(..) => Ok(found),
        }
    }

    /// Returns the position of a loop in its stage's order.
    pub(crate) fn loop_position(
        &self,
        stage: StageId,
        axis: AxisId,
    ) -> Result<usize, ScheduleError> {
        let found = self.live_stage(stage)?;
        refuse_if(axis.0 as usize >= found.axes.len(), ErrorKind::Unknown.of_axis(stage, axis))?;
        let position = found.order.iter().position(|it| *it == axis);
        position.ok_or(ErrorKind::NotLive.of_axis(stage, axis))
    }

    /// Returns whether some loop is bound to the threads of a block: the schedule is for GPUs.
    pub fn has_threads(&self) -> bool {
        self.stages.iter().flat_map(|it| &it.axes).any(|it| it.kind == LoopKind::Thread)
    }

    /// The stages that read a tensor, inlined ones and the one that defines it left out, in topological
    /// order.
    pub fn readers(&self, tensor: TensorId) -> impl Iterator<Item = StageId> {
        self.order.iter().copied().filter(move |it| {
            let stage = self.stage(*it);
            stage.attach != Attach::Inline
                && stage.tensor() != tensor
                && stage.compute.reads(tensor)
        })
    }

    /// The readers of every tensor, by id: one walk, where asking for each takes as many as there are
    /// stages.
    pub(crate) fn all_readers(&self) -> Vec<Vec<StageId>> {
        let mut readers: Vec<Vec<StageId>> = vec![Vec::new(); self.tensors.len()];
        for id in &self.order {
            let stage = self.stage(*id);
            if stage.attach != Attach::Inline {
                stage.compute.body.for_each_read(&mut |tensor, _| {
                    let readers = &mut readers[tensor.0 as usize];
                    if readers.last() != Some(id) && stage.tensor() != tensor {
                        readers.push(*id);
                    }
                });
            }
        }
        readers
    }

    /// Returns the definition of the element that is read, of an elementwise stage; `None` of a recurrence.
    pub(crate) fn element(&self, read: &Expr, facts: &Facts) -> Option<Expr> {
        let Expr::Read { tensor, index } = read else { return None };
        let compute = &self.stage(self.tensor(*tensor).stage?).compute;
        let index = affine(index)?;
        let position = |var: VarId| index.get(var.0 as usize).cloned();
        let is_elementwise = compute.reducer.is_none() && !compute.is_recurrent();
        is_elementwise.then(|| compute.body.substitute_vars(&position, facts))
    }

    /// Returns whether the program returns the tensor.
    pub fn is_output(&self, tensor: TensorId) -> bool {
        self.dag.outputs.contains(&tensor)
    }

    /// Returns whether a stage runs in each iteration of that loop.
    pub fn has_attached_at(&self, stage: StageId, axis: AxisId) -> bool {
        self.stages.iter().any(|it| it.attach == Attach::At(stage, axis))
    }

    /// Returns whether a stage runs inside a loop of that stage.
    pub fn has_attached(&self, stage: StageId) -> bool {
        self.stages.iter().any(|it| matches!(it.attach, Attach::At(host, _) if host == stage))
    }

    /// Returns whether all of `stage` runs below loop number `position` of `host`: it is the host itself, or
    /// runs at that loop, a loop further in, or in a stage that does.
    pub(crate) fn runs_inside(&self, stage: StageId, host: StageId, position: usize) -> bool {
        let mut current = stage;
        loop {
            if current == host {
                return true;
            }
            let Attach::At(next, axis) = self.stage(current).attach else { return false };
            if next == host {
                let order = &self.stage(host).order;
                return order.iter().position(|it| *it == axis).is_some_and(|it| it >= position);
            }
            current = next;
        }
    }

    /// Returns whether a stage runs after `host`, in the same iteration of the loop at which that runs.
    pub(crate) fn runs_after(&self, stage: StageId, host: StageId) -> bool {
        let Attach::At(outer, axis) = self.stage(host).attach else { return false };
        let Ok(position) = self.loop_position(outer, axis) else { return false };
        let place = |it: StageId| self.order.iter().position(|other| *other == it);
        let mut current = stage;
        while current != outer {
            let Attach::At(next, at) = self.stage(current).attach else { return false };
            if next == outer {
                let inside = self.loop_position(outer, at).is_ok_and(|it| it >= position);
                return inside && (at != axis || place(current) > place(host));
            }
            current = next;
        }
        true
    }

    /// The stages that are reduced online along a loop of `host`, in topological order.
    pub fn online_at(&self, host: StageId, axis: AxisId) -> impl Iterator<Item = StageId> {
        self.order.iter().copied().filter(move |it| {
            let stage = self.stage(*it);
            stage.online && stage.attach == Attach::At(host, axis)
        })
    }
}
