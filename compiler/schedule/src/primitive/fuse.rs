//! Loop fusion: two nested loops become one.

use crate::error::{ErrorKind, ScheduleError, refuse_if};
use crate::{Axis, AxisId, Instruction, Relation, Schedule, StageId};

impl Schedule {
    /// Fuses two serial loops of one role, the second right below the first; returns the fused loop.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// for i in 0..e        =>   for i_j in 0..e * f
    ///   for j in 0..f             body(i_j / f, i_j % f)
    ///     body(i, j)
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NotLive`], [`ErrorKind::NotSerial`] or [`ErrorKind::HasAttached`], of either.
    /// - [`ErrorKind::NotAdjacent`] unless `inner` is the next loop after `outer`.
    /// - [`ErrorKind::TooLarge`] if the fused loop could have more than 2^53 iterations.
    /// - [`ErrorKind::MixedRoles`] if one is spatial and the other reduces.
    /// - [`ErrorKind::Overwritten`] if a stage that runs further out reads a parameter in place, and it
    ///   would not be known any more which part.
    ///
    /// # Source
    ///
    /// Halide's and TVM's `fuse`.
    pub fn fuse(
        &mut self,
        stage: StageId,
        outer: AxisId,
        inner: AxisId,
    ) -> Result<AxisId, ScheduleError> {
        let position = self.free_position(stage, outer)?;
        if self.free_position(stage, inner)? != position + 1 {
            return Err(ErrorKind::NotAdjacent.of_axis(stage, inner));
        }
        let (above, below) = (self.stage(stage).axis(outer), self.stage(stage).axis(inner));
        refuse_if(above.role != below.role, ErrorKind::MixedRoles.of_axis(stage, inner))?;
        self.check_indexable([&above.extent, &below.extent], |it| it.of_axis(stage, inner))?;

        let axis = Axis {
            name: format!("{}_{}", above.name, below.name),
            extent: above.extent.clone() * below.extent.clone(),
            role: above.role,
            kind: above.kind,
            tightened: false,
        };
        let before = self.is_in_place().then(|| self.clone());
        let stage_mut = self.stage_mut(stage);
        let fused = stage_mut.add_axis(axis);
        stage_mut.order.splice(position..=position + 1, [fused]);
        stage_mut.relations.push(Relation::Fuse { outer, inner, fused });
        if let (Some(before), Err(why)) = (before, self.check_in_place()) {
            *self = before;
            return Err(why);
        }
        self.trace.push(Instruction::Fuse { stage, outer, inner });
        Ok(fused)
    }
}
