//! Producer-consumer fusion: a stage computed inside a loop of its consumer.

use crate::error::{ErrorKind, ScheduleError, refuse_if};
use crate::{Attach, AxisId, Instruction, LoopKind, Schedule, StageId};

/// The part of its result that a stage computes in an iteration of the loop at which it runs.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Reduces {
    /// All of the region.
    Whole,
    /// One block of an online reduction.
    Online,
}

impl Schedule {
    /// Computes a stage in each iteration of a loop of `consumer`, for the region which that
    /// iteration reads.
    ///
    /// The consumer need not read it itself: all readers must run inside the loop. The region that an
    /// iteration reads is inferred when the schedule is lowered; where that fails (data-dependent
    /// subscripts, reads that may start outside) the whole dimension is computed.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// for i in 0..e                =>   for i in 0..e
    ///   p[i] = ..                         local p[1]
    /// for i in 0..e                       p[0] = ..
    ///   c[i] = f(p[i])                    c[i] = f(p[0])
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::IsOutput`] if the program returns the tensor.
    /// - [`ErrorKind::Recurrent`] if the stage is a recurrence, which has to start at its first step.
    /// - [`ErrorKind::NotLive`] if the axis is no loop of the consumer; [`ErrorKind::NotInnermost`]
    ///   if it is vectorized.
    /// - [`ErrorKind::NotOutermost`] if one of the stage's own loops is parallel.
    /// - [`ErrorKind::HasAttached`] if the loop is parallel and the next one too: tasks share no
    ///   memory of their own.
    /// - [`ErrorKind::ReadersOutside`] if a reader does not run inside the loop, or if a stage that
    ///   runs elsewhere needs this one where it is.
    /// - [`ErrorKind::Overwritten`] if the stage reads a parameter in place outside of the elements that
    ///   an iteration of the loop replaces.
    ///
    /// # Source
    ///
    /// Halide's `compute_at`.
    pub fn compute_at(
        &mut self,
        stage: StageId,
        consumer: StageId,
        axis: AxisId,
    ) -> Result<(), ScheduleError> {
        let found = self.live_stage(stage)?;
        refuse_if(self.is_output(found.tensor()), ErrorKind::IsOutput.of_stage(stage))?;
        self.check_not_recurrent(stage)?;
        self.loop_position(consumer, axis)?;
        if self.stage(consumer).axis(axis).kind == LoopKind::Vectorized {
            return Err(ErrorKind::NotInnermost.of_axis(consumer, axis));
        }
        refuse_if(self.runs_inside(consumer, stage, 0), ErrorKind::ReadersOutside.of_stage(stage))?;
        self.attach(stage, Attach::At(consumer, axis), Reduces::Whole)?;
        self.trace.push(Instruction::ComputeAt { stage, consumer, axis });
        Ok(())
    }

    /// Sets the compute location of a stage, if that is legal.
    pub(super) fn attach(
        &mut self,
        stage: StageId,
        attach: Attach,
        reduces: Reduces,
    ) -> Result<(), ScheduleError> {
        let found = self.stage_mut(stage);
        let before = (found.attach, found.online);
        (found.attach, found.online) = (attach, reduces == Reduces::Online);
        let checked = self.check_kinds(stage).and_then(|()| match attach {
            Attach::At(host, _) => self.check_kinds(host),
            Attach::Root | Attach::Inline => Ok(()),
        });
        let checked = checked.and_then(|()| self.check_attachments());
        let checked = checked.and_then(|()| self.check_in_place());
        if checked.is_err() {
            let found = self.stage_mut(stage);
            (found.attach, found.online) = before;
        }
        checked
    }
}
