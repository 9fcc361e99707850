//! What primitives ask before they change anything, and what they check afterwards.

use super::error::{ErrorKind, ScheduleError};
use super::{Attach, Axis, AxisId, AxisRole, LoopKind, Schedule, Stage, StageId};
use tvmtune_ir::dag::TensorId;

/// The most iterations that run at the same time for certain: blocks of a portable cluster.
const MOST_IN_CLUSTER: i64 = 8;

impl Schedule {
    /// The stage, if that id exists and the stage still has loops.
    pub(crate) fn live_stage(&self, stage: StageId) -> Result<&Stage, ScheduleError> {
        let found = self.stages.get(stage.0 as usize).ok_or(ErrorKind::Unknown.of_stage(stage))?;
        match found.attach {
            Attach::Inline => Err(ErrorKind::Inlined.of_stage(stage)),
            Attach::Root | Attach::At(..) => Ok(found),
        }
    }

    /// Where the loop stands in its stage's order.
    pub(crate) fn loop_position(
        &self,
        stage: StageId,
        axis: AxisId,
    ) -> Result<usize, ScheduleError> {
        let found = self.live_stage(stage)?;
        if axis.0 as usize >= found.axes.len() {
            return Err(ErrorKind::Unknown.of_axis(stage, axis));
        }
        let position = found.order.iter().position(|it| *it == axis);
        position.ok_or(ErrorKind::NotLive.of_axis(stage, axis))
    }

    /// Where the loop stands, if it is serial and nothing runs at it.
    pub(crate) fn free_position(
        &self,
        stage: StageId,
        axis: AxisId,
    ) -> Result<usize, ScheduleError> {
        let position = self.loop_position(stage, axis)?;
        let Axis { kind, trimmed, .. } = *self.stage(stage).axis(axis);
        if kind != LoopKind::Serial {
            return Err(ErrorKind::NotSerial(kind).of_axis(stage, axis));
        }
        if trimmed {
            return Err(ErrorKind::AlreadyScheduled.of_axis(stage, axis));
        }
        if self.has_attached_at(stage, axis) {
            return Err(ErrorKind::HasAttached.of_axis(stage, axis));
        }
        Ok(position)
    }

    /// Refuses ids that do not exist.
    pub(crate) fn known_tensor(&self, tensor: TensorId) -> Result<(), ScheduleError> {
        let known = (tensor.0 as usize) < self.tensors.len();
        if known { Ok(()) } else { Err(ErrorKind::Unknown.of_tensor(tensor)) }
    }

    /// Whether some loop runs as threads of a block: the schedule is one for GPUs.
    pub fn has_threads(&self) -> bool {
        self.stages.iter().flat_map(|it| &it.axes).any(|it| it.kind == LoopKind::Thread)
    }

    /// The stages that read a tensor, inlined ones left out, in topological order.
    pub fn readers(&self, tensor: TensorId) -> impl Iterator<Item = StageId> {
        self.order.iter().copied().filter(move |it| {
            let stage = self.stage(*it);
            stage.attach != Attach::Inline && stage.compute.reads(tensor)
        })
    }

    /// Whether the program returns the tensor.
    pub fn is_output(&self, tensor: TensorId) -> bool {
        self.dag.outputs.contains(&tensor)
    }

    /// Whether a stage runs in each iteration of that loop.
    pub fn has_attached_at(&self, stage: StageId, axis: AxisId) -> bool {
        self.stages.iter().any(|it| it.attach == Attach::At(stage, axis))
    }

    /// Whether a stage runs inside a loop of that stage.
    pub fn has_attached(&self, stage: StageId) -> bool {
        self.stages.iter().any(|it| matches!(it.attach, Attach::At(host, _) if host == stage))
    }

    /// Whether everything `stage` does happens below loop number `position` of `host`: it is the
    /// host itself, or runs at that loop, a loop further in, or in a stage that does.
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

    /// Refuses unless every attached stage has a reader, and all of them inside its loop; those of
    /// a rolling one may also come after it.
    pub(crate) fn check_attachments(&self) -> Result<(), ScheduleError> {
        for (n, stage) in self.stages.iter().enumerate() {
            let Attach::At(host, axis) = stage.attach else { continue };
            let id = StageId(n as u32);
            let position = self.loop_position(host, axis)?;
            let mut readers = self.readers(stage.tensor()).peekable();
            let inside = |it| {
                self.runs_inside(it, host, position) || (stage.rolling && self.runs_after(it, host))
            };
            if readers.peek().is_none() || !readers.all(inside) {
                return Err(ErrorKind::ReadersOutside.of_stage(id));
            }
        }
        self.check_rolling()
    }

    /// Edits what stages compute; takes it back if a sum can then no longer be corrected.
    pub(crate) fn keeping_corrections<T>(
        &mut self,
        edit: impl FnOnce(&mut Self) -> Result<T, ScheduleError>,
    ) -> Result<T, ScheduleError> {
        if !self.stages.iter().any(|it| it.rolling) {
            return edit(self);
        }
        let before = self.clone();
        let made = edit(self)?;
        if let Err(why) = self.check_attachments() {
            *self = before;
            return Err(why);
        }
        Ok(made)
    }

    /// Refuses unless the kinds of a stage's loops suit their places.
    pub(crate) fn check_kinds(&self, id: StageId) -> Result<(), ScheduleError> {
        let stage = self.stage(id);
        let last = stage.order.len().saturating_sub(1);
        let mut only_tasks_above = stage.attach == Attach::Root;
        for (n, axis) in stage.order.iter().enumerate() {
            let refuse = |kind: ErrorKind| Err(kind.of_axis(id, *axis));
            let Some(declared) = stage.axes.get(axis.0 as usize) else { continue };
            match declared.kind {
                kind if declared.trimmed && !kind.is_in_order() => {
                    return refuse(ErrorKind::NotSerial(kind));
                }
                kind if kind.is_parallel() && !only_tasks_above => {
                    return refuse(ErrorKind::NotOutermost);
                }
                kind if kind.is_parallel() && declared.role == AxisRole::Reduce => {
                    return refuse(ErrorKind::WrongRole(AxisRole::Reduce));
                }
                kind if kind.most_blocks() == Some(0) => {
                    return refuse(ErrorKind::FactorOutOfRange);
                }
                LoopKind::Cluster
                    if !matches!(declared.extent.as_constant(), Some(1..=MOST_IN_CLUSTER)) =>
                {
                    return refuse(ErrorKind::FactorOutOfRange);
                }
                kind if kind.is_parallel()
                    && n > 0
                    && self.has_attached_at(id, stage.order[n - 1]) =>
                {
                    return refuse(ErrorKind::HasAttached);
                }
                LoopKind::Vectorized if n != last => return refuse(ErrorKind::NotInnermost),
                LoopKind::Vectorized if self.has_attached_at(id, *axis) => {
                    return refuse(ErrorKind::HasAttached);
                }
                LoopKind::Parallel
                | LoopKind::Persistent(_)
                | LoopKind::StreamK(_)
                | LoopKind::Cluster
                | LoopKind::Thread
                | LoopKind::Tensorized
                    if self.rolling_at(id, *axis).next().is_some() =>
                {
                    return refuse(ErrorKind::HasAttached);
                }
                LoopKind::Pipelined(depth) | LoopKind::WarpSpecialized(depth)
                    if !(2..=8).contains(&depth) =>
                {
                    return refuse(ErrorKind::FactorOutOfRange);
                }
                LoopKind::Serial
                | LoopKind::Pipelined(_)
                | LoopKind::WarpSpecialized(_)
                | LoopKind::Tensorized
                | LoopKind::Unrolled
                | LoopKind::Vectorized
                | LoopKind::Parallel
                | LoopKind::Persistent(_)
                | LoopKind::StreamK(_)
                | LoopKind::Cluster
                | LoopKind::Thread => {}
            }
            only_tasks_above &= declared.kind.is_parallel();
        }
        Ok(())
    }

    /// Refuses if the stage reads what is computed inside another stage: a new stage that takes
    /// over its reads could not see it.
    pub(crate) fn check_reads_roots(&self, id: StageId) -> Result<(), ScheduleError> {
        let compute = &self.stage(id).compute;
        for stage in &self.stages {
            if matches!(stage.attach, Attach::At(..)) && compute.reads(stage.tensor()) {
                return Err(ErrorKind::NotRoot.of_tensor(stage.tensor()));
            }
        }
        Ok(())
    }

    /// Refuses unless no primitive has touched the stage's loops.
    pub(crate) fn check_untouched(&self, id: StageId) -> Result<(), ScheduleError> {
        let stage = self.stage(id);
        let in_order = stage.order.iter().enumerate().all(|(n, it)| it.0 as usize == n);
        let serial = stage.axes.iter().all(|it| it.kind == LoopKind::Serial && !it.trimmed);
        if !in_order || !serial || stage.rolling || !stage.relations.is_empty() {
            return Err(ErrorKind::AlreadyScheduled.of_stage(id));
        }
        if self.has_attached(id) {
            return Err(ErrorKind::HasAttached.of_stage(id));
        }
        Ok(())
    }
}
