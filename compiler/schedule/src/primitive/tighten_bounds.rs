//! Loop-bound tightening: reduce loops run from their first unmasked iteration to the last.

use crate::error::{ErrorKind, ScheduleError, refuse_if};
use crate::{AxisId, AxisRole, Instruction, Schedule, StageId};

impl Schedule {
    /// Leaves out the iterations of a reduce loop in which neither its stage, nor one that is reduced online
    /// along it, contributes to an element of the tile that the surrounding loops make: those behind the last
    /// that does, and, on CPUs, those before the first.
    ///
    /// The bound follows from masks when the schedule is lowered: the extent becomes a polynomial in
    /// the surrounding loops. It does not depend on threads, so that all of a block run the same
    /// number of iterations. Where no bound can be derived, all iterations run.
    ///
    /// The mask itself stays, for tiles that it covers in part. Tiles that it covers as a whole are
    /// not evaluated, so this is the one primitive that evaluates 0 times a masked infinity to 0: by
    /// definition, a masked exponential times an infinity is NaN. [`crate::mask`] lists the
    /// assumptions.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// for j_0 in 0..n                          =>   for j_0 in 0..min(n, (i_last + 8) / 8)
    ///   for j_1 in 0..8: j = 8 * j_0 + j_1            for j_1 in 0..8: j = 8 * j_0 + j_1
    ///     l[i] += if j <= i { x[i, j] } else { 0 }      l[i] += if j <= i { x[i, j] } else { 0 }
    ///
    /// for j_0 in 0..n                          =>   for j_0 in 0..n: if i_first - 8 * j_0 - 7 < 4
    ///   for j_1 in 0..8: j = 8 * j_0 + j_1            for j_1 in 0..8: j = 8 * j_0 + j_1
    ///     l[i] += if i - j < 4 { .. } else { 0 }        l[i] += if i - j < 4 { .. } else { 0 }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NotLive`] if the axis is no loop, [`ErrorKind::WrongRole`] if it is
    ///   spatial, [`ErrorKind::AlreadyScheduled`] if it is tightened already.
    /// - [`ErrorKind::NotSerial`] if iterations run as threads, lanes or parts of an MMA.
    /// - [`ErrorKind::NotMasked`] if no mask bounds it, or none bounds a stage that is reduced online
    ///   along it.
    ///
    /// # Source
    ///
    /// The blocks that causal attention skips (`FlashAttention-2`, Dao, 2023). Loop bounds that follow
    /// from a predicate: Halide's `RDom::where`.
    pub fn tighten_bounds(&mut self, stage: StageId, axis: AxisId) -> Result<(), ScheduleError> {
        self.loop_position(stage, axis)?;
        let found = self.stage(stage).axis(axis);
        if found.role != AxisRole::Reduce {
            return Err(ErrorKind::WrongRole(found.role).of_axis(stage, axis));
        }
        refuse_if(found.tightened, ErrorKind::AlreadyScheduled.of_axis(stage, axis))?;
        if !found.kind.is_in_order() {
            return Err(ErrorKind::NotSerial(found.kind).of_axis(stage, axis));
        }
        refuse_if(!self.is_masked(stage, axis), ErrorKind::NotMasked.of_axis(stage, axis))?;
        self.stage_mut(stage).axes[axis.0 as usize].tightened = true;
        self.trace.push(Instruction::TightenBounds { stage, axis });
        Ok(())
    }
}
