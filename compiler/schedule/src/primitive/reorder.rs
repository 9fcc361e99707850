//! Loop interchange.

use crate::error::{ErrorKind, ScheduleError, refuse_if};
use crate::{AxisId, Instruction, Schedule, StageId};

impl Schedule {
    /// Permutes the loops listed into that order, outermost first; other loops keep their positions.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// for i ..             =>   for k ..            -- reorder [k, i]
    ///   for j ..                  for j ..
    ///     for k ..                  for i ..
    ///       body                      body
    /// ```
    ///
    /// Iterations of a compute are independent or reduce in any order, so every order is legal, unless
    /// the program fixes the order of its reductions, or each iteration needs the one before.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NotLive`] of any of them, [`ErrorKind::Repeated`] if one is listed twice.
    /// - [`ErrorKind::NotInnermost`], [`ErrorKind::NotOutermost`] if a vectorized or parallel loop
    ///   would leave its position.
    /// - [`ErrorKind::ReadersOutside`] if a loop would no longer contain all readers of a stage that
    ///   runs at it.
    /// - [`ErrorKind::FixedNumerics`] if reduce loops would follow each other otherwise than the program
    ///   says.
    /// - [`ErrorKind::Recurrent`] if the steps of a recurrence would follow each other in another order.
    /// - [`ErrorKind::Overwritten`] if iterations of the loops around a stage would no longer replace
    ///   what it reads of a parameter in place.
    ///
    /// # Source
    ///
    /// Halide's and TVM's `reorder`.
    pub fn reorder(&mut self, stage: StageId, order: &[AxisId]) -> Result<(), ScheduleError> {
        self.live_stage(stage)?;
        let mut positions = Vec::with_capacity(order.len());
        for axis in order {
            let position = self.loop_position(stage, *axis)?;
            refuse_if(positions.contains(&position), ErrorKind::Repeated.of_axis(stage, *axis))?;
            positions.push(position);
        }
        positions.sort_unstable();

        let before = self.stage(stage).order.clone();
        for (position, axis) in positions.iter().zip(order) {
            self.stage_mut(stage).order[*position] = *axis;
        }
        let checked = self.check_kinds(stage).and_then(|()| self.check_attachments());
        let checked = checked.and_then(|()| self.check_in_place());
        let checked = checked.and_then(|()| self.check_reduction_order(stage, &before));
        if checked.is_err() {
            self.stage_mut(stage).order = before;
            return checked;
        }
        self.trace.push(Instruction::Reorder { stage, order: order.to_vec() });
        Ok(())
    }
}
