//! Loops that end where a mask leaves nothing of what is reduced.

use crate::error::{ErrorKind, ScheduleError};
use crate::{AxisId, AxisRole, Instruction, Schedule, StageId};

impl Schedule {
    /// Lets a reduce loop end at the last iteration in which it, or anything that is reduced along
    /// with it, adds something to an element of the tile that the loops around it make.
    ///
    /// Where that is follows from masks, when loops are written out: the extent becomes a polynomial
    /// in the loops around. It does not depend on threads, so that all of a block run as many
    /// iterations. Where nothing can be told, all iterations run.
    ///
    /// The mask itself stays: there are tiles of which it hides a part. What it hides wholly is not
    /// looked at, so this is the one primitive that takes nothing times an infinity for nothing: a
    /// masked exponential times an argument that is no number is a NaN by definition. See
    /// `schedule::masked` for what is taken for granted.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// for j_0 in 0..n                          =>   for j_0 in 0..min(n, (i_last + 8) / 8)
    ///   for j_1 in 0..8: j = 8 * j_0 + j_1            for j_1 in 0..8: j = 8 * j_0 + j_1
    ///     l[i] += if j <= i { x[i, j] } else { 0 }      l[i] += if j <= i { x[i, j] } else { 0 }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NotLive`] if the axis is no loop, [`ErrorKind::WrongRole`] if it reduces
    ///   nothing, [`ErrorKind::AlreadyScheduled`] if it is trimmed.
    /// - [`ErrorKind::NotSerial`] if iterations run as threads, lanes or parts of an instruction.
    /// - [`ErrorKind::NotMasked`] if no mask ends it, or not one of what goes along with it.
    ///
    /// # Source
    ///
    /// Blocks that causal attention skips (`FlashAttention-2`, Dao, 2023). As bounds of loops that
    /// follow from a predicate: Halide's `RDom::where`.
    pub fn tighten_bounds(&mut self, stage: StageId, axis: AxisId) -> Result<(), ScheduleError> {
        self.loop_position(stage, axis)?;
        let found = self.stage(stage).axis(axis);
        if found.role != AxisRole::Reduce {
            return Err(ErrorKind::WrongRole(found.role).of_axis(stage, axis));
        }
        if found.trimmed {
            return Err(ErrorKind::AlreadyScheduled.of_axis(stage, axis));
        }
        if !found.kind.is_in_order() {
            return Err(ErrorKind::NotSerial(found.kind).of_axis(stage, axis));
        }
        if !self.is_masked(stage, axis) {
            return Err(ErrorKind::NotMasked.of_axis(stage, axis));
        }
        self.stage_mut(stage).axes[axis.0 as usize].trimmed = true;
        self.trace.push(Instruction::TightenBounds { stage, axis });
        Ok(())
    }
}
