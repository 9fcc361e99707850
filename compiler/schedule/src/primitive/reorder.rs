//! Which loop is inside which.

use crate::error::{ErrorKind, ScheduleError};
use crate::{AxisId, Instruction, Schedule, StageId};

impl Schedule {
    /// Puts the loops listed into that order, outermost first, at the places they hold together;
    /// loops not listed stay where they are.
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
    /// Iterations of a compute are independent or combine in any order, so every order is right.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NotLive`] of any of them, [`ErrorKind::Repeated`] if one is listed twice.
    /// - [`ErrorKind::NotInnermost`], [`ErrorKind::NotOutermost`] if a vectorized or parallel loop
    ///   would leave its place.
    /// - [`ErrorKind::ReadersOutside`] if a stage that runs inside would no longer contain all
    ///   readers.
    ///
    /// # Source
    ///
    /// Halide's and TVM's `reorder`.
    pub fn reorder(&mut self, stage: StageId, order: &[AxisId]) -> Result<(), ScheduleError> {
        self.live_stage(stage)?;
        let mut places = Vec::with_capacity(order.len());
        for axis in order {
            let place = self.loop_position(stage, *axis)?;
            if places.contains(&place) {
                return Err(ErrorKind::Repeated.of_axis(stage, *axis));
            }
            places.push(place);
        }
        places.sort_unstable();

        let before = self.stage(stage).order.clone();
        for (place, axis) in places.iter().zip(order) {
            self.stage_mut(stage).order[*place] = *axis;
        }
        let checked = self.check_kinds(stage).and_then(|()| self.check_attachments());
        if checked.is_err() {
            self.stage_mut(stage).order = before;
            return checked;
        }
        self.trace.push(Instruction::Reorder { stage, order: order.to_vec() });
        Ok(())
    }
}
