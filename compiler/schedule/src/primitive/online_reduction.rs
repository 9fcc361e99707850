//! Online reductions: dependent reductions fused into one loop over blocks.

use super::compute_at::Reduces;
use crate::error::{ErrorKind, ScheduleError, refuse_if};
use crate::{Attach, AxisId, Instruction, Schedule, StageId};

impl Schedule {
    /// Fuses the reduction `stage` into a reduction that depends on its result: each iteration of
    /// `axis`, the outermost loop of `host`, reduces one block of the axis that both reduce. Stages
    /// inside the loop read the partial result; partial sums that were computed with a smaller
    /// maximum are rescaled by [`Schedule::corrections`].
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
    /// While the loop runs, a maximum of no elements counts as the least finite number, so that rows
    /// masked as a whole add 0; after the loop sums are rescaled by the difference, so that they are
    /// those of the definition also in such rows.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::IsOutput`] if the program returns the tensor, [`ErrorKind::NotReduction`] if
    ///   the stage does not reduce.
    /// - [`ErrorKind::FixedNumerics`] if the program fixes the rounding of results.
    /// - [`ErrorKind::NotLive`] if the axis is no loop of the host.
    /// - [`ErrorKind::NotFusible`] if it is not the outermost one, does not iterate over blocks of an
    ///   axis that both reduce, is not sequential, or the host does not run inside another stage.
    /// - [`ErrorKind::ReadersOutside`] if a reader runs neither inside the loop nor right after it.
    /// - [`ErrorKind::Uncorrectable`] if a sum does not depend on it by a factor.
    ///
    /// # Source
    ///
    /// Online softmax (Milakov and Gimelshein, 2018), as `FlashAttention` (Dao et al., 2022) uses it;
    /// see [`crate::online`].
    pub fn online_reduction(
        &mut self,
        stage: StageId,
        host: StageId,
        axis: AxisId,
    ) -> Result<(), ScheduleError> {
        self.check_numerics(stage)?;
        let found = self.live_stage(stage)?;
        refuse_if(self.is_output(found.tensor()), ErrorKind::IsOutput.of_stage(stage))?;
        refuse_if(found.compute.reducer.is_none(), ErrorKind::NotReduction.of_stage(stage))?;
        self.loop_position(host, axis)?;
        refuse_if(self.runs_inside(host, stage, 0), ErrorKind::ReadersOutside.of_stage(stage))?;
        self.attach(stage, Attach::At(host, axis), Reduces::Online)?;
        self.trace.push(Instruction::OnlineReduction { stage, host, axis });
        Ok(())
    }
}
