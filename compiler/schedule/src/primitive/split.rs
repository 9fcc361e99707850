//! Tiling: one loop becomes several.

use crate::error::{ErrorKind, ScheduleError, refuse_if};
use crate::relation::tiles;
use crate::{Axis, AxisId, Instruction, Relation, Schedule, StageId};

/// The largest product of the factors of one split.
const MAX_TILE: u64 = 1 << 31;

impl Schedule {
    /// Splits a loop into `factors.len() + 1` serial loops of its role, in its position;
    /// returns them, outermost first. The inner ones run `factors` iterations, the outermost the
    /// rounded-up rest.
    ///
    /// Factors need not divide the extent. A factor larger than the extent left to tile is clamped to
    /// it when the schedule is lowered; 1 is legal. So legality does not depend on the extent.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// for i in 0..e        =>   for i_0 in 0..ceil(e / (f * g))
    ///   body(i)                   for i_1 in 0..f
    ///                               for i_2 in 0..g
    ///                                 if i_0 * f * g + i_1 * g + i_2 < e      -- if that can fail
    ///                                   body(i_0 * f * g + i_1 * g + i_2)
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NotLive`] if the axis was split or fused away before.
    /// - [`ErrorKind::NotSerial`] if it is parallel, vectorized or unrolled.
    /// - [`ErrorKind::HasAttached`] if a stage runs at it.
    /// - [`ErrorKind::NoFactors`], [`ErrorKind::FactorOutOfRange`].
    ///
    /// # Source
    ///
    /// Ansor's multi-level split; Halide's `split` with `GuardWithIf`.
    pub fn split(
        &mut self,
        stage: StageId,
        axis: AxisId,
        factors: &[u64],
    ) -> Result<Vec<AxisId>, ScheduleError> {
        let position = self.free_position(stage, axis)?;
        refuse_if(factors.is_empty(), ErrorKind::NoFactors.of_axis(stage, axis))?;
        let product = factors.iter().try_fold(1_u64, |all, it| all.checked_mul(*it));
        if product.is_none_or(|it| it == 0 || it > MAX_TILE) {
            return Err(ErrorKind::FactorOutOfRange.of_axis(stage, axis));
        }

        let facts = self.dag.facts();
        let stage_mut = self.stage_mut(stage);
        let Axis { name, extent, role, kind, .. } = stage_mut.axis(axis).clone();
        let extents = tiles(&extent, factors, &facts).extents;
        let tile = |(level, extent)| {
            let name = format!("{name}_{level}");
            Axis { name, extent, role, kind, tightened: false }
        };
        let parts: Vec<AxisId> =
            (extents.into_iter().enumerate().map(tile)).map(|it| stage_mut.add_axis(it)).collect();
        stage_mut.order.splice(position..=position, parts.iter().copied());
        let relation =
            Relation::Split { parent: axis, parts: parts.clone(), factors: factors.to_vec() };
        stage_mut.relations.push(relation);
        self.trace.push(Instruction::Split { stage, axis, factors: factors.to_vec() });
        Ok(parts)
    }
}
