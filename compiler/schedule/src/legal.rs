//! Legality checks that primitives share: preconditions, and the invariants they check after an edit.

use super::error::{ErrorKind, ScheduleError, refuse_if};
use super::{Attach, Axis, AxisId, AxisRole, LoopKind, ReductionOrder, Schedule, StageId};
use tvmtune_ir::dag::limits::is_indexable;
use tvmtune_ir::dag::{Compute, Numerics, TensorId};
use tvmtune_ir::poly::Poly;

/// The thread blocks of a cluster that every device with clusters can run.
const MAX_CLUSTER_BLOCKS: i64 = 8;

impl Schedule {
    /// Refuses a product of extents that indices do not reach: arithmetic on it might wrap.
    pub(crate) fn check_indexable<'a>(
        &self,
        extents: impl IntoIterator<Item = &'a Poly>,
        why: impl FnOnce(ErrorKind) -> ScheduleError,
    ) -> Result<(), ScheduleError> {
        let fits = is_indexable(extents, &self.dag.facts());
        if fits { Ok(()) } else { Err(why(ErrorKind::TooLarge)) }
    }

    /// Refuses a stage whose tensor has more elements than indices reach.
    pub(crate) fn check_stage_size(
        &self,
        stage: StageId,
        compute: &Compute,
    ) -> Result<(), ScheduleError> {
        let shape = compute.axes[..compute.n_spatial].iter().map(|it| &it.extent);
        self.check_indexable(shape, |it| it.of_stage(stage))
    }

    /// Returns the position of a loop that is serial and at which no stage runs.
    pub(crate) fn free_position(
        &self,
        stage: StageId,
        axis: AxisId,
    ) -> Result<usize, ScheduleError> {
        let position = self.loop_position(stage, axis)?;
        let Axis { kind, role, tightened, .. } = *self.stage(stage).axis(axis);
        let is_by_halves = self.stage(stage).reduction.is_by_halves();
        let is_fixed = is_by_halves && role == AxisRole::Reduce;
        refuse_if(is_fixed, ErrorKind::FixedNumerics.of_axis(stage, axis))?;
        refuse_if(kind != LoopKind::Serial, ErrorKind::NotSerial(kind).of_axis(stage, axis))?;
        refuse_if(tightened, ErrorKind::AlreadyScheduled.of_axis(stage, axis))?;
        refuse_if(self.has_attached_at(stage, axis), ErrorKind::HasAttached.of_axis(stage, axis))?;
        Ok(position)
    }

    /// Refuses ids that do not exist.
    pub(crate) fn known_tensor(&self, tensor: TensorId) -> Result<(), ScheduleError> {
        refuse_if(tensor.0 as usize >= self.tensors.len(), ErrorKind::Unknown.of_tensor(tensor))
    }

    /// Refuses unless every attached stage has a reader, and all of them inside its loop; those of
    /// an online reduction may also run after it.
    pub(crate) fn check_attachments(&self) -> Result<(), ScheduleError> {
        let readers = self.all_readers();
        for (n, stage) in self.stages.iter().enumerate() {
            let Attach::At(host, axis) = stage.attach else { continue };
            let id = StageId(n as u32);
            let position = self.loop_position(host, axis)?;
            let readers = &readers[stage.tensor().0 as usize];
            let inside = |it: &StageId| {
                self.runs_inside(*it, host, position)
                    || (stage.online && self.runs_after(*it, host))
            };
            if readers.is_empty() || !readers.iter().all(inside) {
                return Err(ErrorKind::ReadersOutside.of_stage(id));
            }
        }
        self.check_online()
    }

    /// Edits stages; rolls back if an online reduction can then not be corrected, or a stage reads
    /// what a result replaces too late.
    pub(crate) fn with_rollback<T>(
        &mut self,
        edit: impl FnOnce(&mut Self) -> Result<T, ScheduleError>,
    ) -> Result<T, ScheduleError> {
        if !self.is_in_place() && !self.stages.iter().any(|it| it.online) {
            return edit(self);
        }
        let before = self.clone();
        let made = edit(self)?;
        if let Err(why) = self.check_attachments().and_then(|()| self.check_in_place()) {
            *self = before;
            return Err(why);
        }
        Ok(made)
    }

    /// Refuses unless the kinds of a stage's loops are legal at their positions.
    pub(crate) fn check_kinds(&self, id: StageId) -> Result<(), ScheduleError> {
        let stage = self.stage(id);
        self.check_steps(id)?;
        self.check_halves(id)?;
        let last = stage.order.len().saturating_sub(1);
        let mut only_tasks_above = stage.attach == Attach::Root;
        for (n, axis) in stage.order.iter().enumerate() {
            let refuse = |kind: ErrorKind| Err(kind.of_axis(id, *axis));
            let Some(declared) = stage.axes.get(axis.0 as usize) else { continue };
            match declared.kind {
                kind if declared.role == AxisRole::Reduce && !stage.reduction.allows(kind) => {
                    return refuse(ErrorKind::FixedNumerics);
                }
                kind if declared.tightened && !kind.is_in_order() => {
                    return refuse(ErrorKind::NotSerial(kind));
                }
                kind if kind.is_parallel() && !only_tasks_above => {
                    return refuse(ErrorKind::NotOutermost);
                }
                kind if kind.is_parallel() && declared.role == AxisRole::Reduce => {
                    return refuse(ErrorKind::WrongRole(AxisRole::Reduce));
                }
                kind if kind.max_blocks() == Some(0) => {
                    return refuse(ErrorKind::FactorOutOfRange);
                }
                LoopKind::Cluster
                    if !matches!(declared.extent.as_constant(), Some(1..=MAX_CLUSTER_BLOCKS)) =>
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
                    if self.online_at(id, *axis).next().is_some() =>
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

    /// Refuses a stage in the loop over partial results, or in one inside of it: lowering reduces these by
    /// halves, without that loop.
    fn check_halves(&self, id: StageId) -> Result<(), ScheduleError> {
        let stage = self.stage(id);
        if !stage.reduction.is_by_halves() {
            return Ok(());
        }
        let is_outside = |it: &&AxisId| stage.axis(**it).role != AxisRole::Reduce;
        let mut inside = stage.order.iter().skip_while(is_outside);
        let host = inside.find(|it| self.has_attached_at(id, **it));
        host.map_or(Ok(()), |it| Err(ErrorKind::FixedNumerics.of_axis(id, *it)))
    }

    /// Refuses unless the reduce loops of a stage whose order is fixed follow each other as they did, those of
    /// several iterations.
    pub(crate) fn check_reduction_order(
        &self,
        id: StageId,
        before: &[AxisId],
    ) -> Result<(), ScheduleError> {
        let stage = self.stage(id);
        let reduces = |it: &&AxisId| stage.axis(**it).role == AxisRole::Reduce;
        // A loop of one iteration has no order.
        let orders = |it: &&AxisId| reduces(it) && stage.axis(**it).extent.as_constant() != Some(1);
        let is_kept = match stage.reduction {
            ReductionOrder::Any => true,
            ReductionOrder::Sequence
            | ReductionOrder::Lanes { .. }
            | ReductionOrder::Blocks { .. } => {
                before.iter().filter(orders).eq(stage.order.iter().filter(orders))
            }
            // Lowering puts at most one loop, that of lanes, around each of its statements.
            ReductionOrder::Halves { .. } => {
                stage.order.iter().rev().take(2).any(|it| reduces(&it))
            }
        };
        refuse_if(!is_kept, ErrorKind::FixedNumerics.of_stage(id))
    }

    /// Refuses a primitive that rounds otherwise than the program, where that fixes it.
    pub(crate) fn check_numerics(&self, id: StageId) -> Result<(), ScheduleError> {
        let is_fixed = self.dag.numerics == Numerics::Fixed;
        refuse_if(is_fixed, ErrorKind::FixedNumerics.of_stage(id))
    }

    /// Refuses if the stage reads a tensor that is computed inside another stage: a new stage that
    /// takes over its reads could not see it.
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
        let serial = stage.axes.iter().all(|it| it.kind == LoopKind::Serial && !it.tightened);
        if !in_order || !serial || stage.online || !stage.relations.is_empty() {
            return Err(ErrorKind::AlreadyScheduled.of_stage(id));
        }
        refuse_if(self.has_attached(id), ErrorKind::HasAttached.of_stage(id))
    }
}
