//! Reductions that share one loop over blocks, although each needs the one before it.

use crate::error::{ErrorKind, ScheduleError};
use crate::{Attach, AxisId, Instruction, Schedule, StageId};

impl Schedule {
    /// Reduces `stage` along with a reduction that it would have to be complete for: in each
    /// iteration of `axis`, the outermost loop of `host`, it takes in that iteration's block of the
    /// axis that both reduce. Stages inside the loop see what it is so far; sums that were computed
    /// with less of a maximum are multiplied by what [`Schedule::corrections`] says.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// m = max(j, x[j])                =>   m = -inf; o = 0
    /// o = sum(j, exp(x[j] - m) * v[j])     for j_0 ..
    ///                                        before = m
    ///                                        for j_1 ..: m = max(m, x[j])
    ///                                        o *= exp(before - m)
    ///                                        for j_1 ..: o += exp(x[j] - m) * v[j]
    /// ```
    ///
    /// While it runs, a maximum of nothing counts as the least finite number, so that what is
    /// masked wholly adds 0; after the loop sums are corrected by the difference, and are what the
    /// definition says also where there is no other element.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::IsOutput`] if the program returns the tensor, [`ErrorKind::NotReduction`] if
    ///   the stage does not reduce.
    /// - [`ErrorKind::NotLive`] if the axis is no loop of the host.
    /// - [`ErrorKind::NotAlike`] if it is not the outermost one, counts no blocks of an axis that
    ///   both reduce, does not run in order, or the host does not run inside another stage.
    /// - [`ErrorKind::ReadersOutside`] if a reader runs neither inside the loop nor right after it.
    /// - [`ErrorKind::Uncorrectable`] if a sum does not depend on it by a factor.
    ///
    /// # Source
    ///
    /// See [`crate::rolling`].
    pub fn online_reduction(
        &mut self,
        stage: StageId,
        host: StageId,
        axis: AxisId,
    ) -> Result<(), ScheduleError> {
        let found = self.live_stage(stage)?;
        if self.is_output(found.tensor()) {
            return Err(ErrorKind::IsOutput.of_stage(stage));
        }
        if found.compute.reducer.is_none() {
            return Err(ErrorKind::NotReduction.of_stage(stage));
        }
        self.loop_position(host, axis)?;
        if self.runs_inside(host, stage, 0) {
            return Err(ErrorKind::ReadersOutside.of_stage(stage));
        }
        self.attached(stage, Attach::At(host, axis), true)?;
        self.trace.push(Instruction::OnlineReduction { stage, host, axis });
        Ok(())
    }
}
