//! Loop-bound tightening: the extents of loops that masks end.
//!
//! A mask is a set of polynomials in a stage's axes; an element contributes only where none of them is
//! negative. One iteration of a loop, with everything that runs in it, covers a span of each axis; the
//! maximum of such a polynomial over these spans falls with the loop's variable, so there is a last
//! iteration in which it is not negative.
//!
//! ```text
//! i - j >= 0,  i in 64 * i_0 ..+ 64,  j in 32 * j_0 ..+ 32:  64 * i_0 + 63 - 32 * j_0 >= 0
//!     j_0 < (64 * i_0 + 63) / 32 + 1 = 2 * i_0 + 2
//! ```
//!
//! A loop ends after the last such iteration of its own stage and of all that are reduced online along
//! it, each by the mask that ends it first.

use super::lower::{Instance, Lowering};
use crate::{AxisId, StageId};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_ir::span::Span;

impl<'a> Lowering<'a> {
    /// Returns the tightened extent of a loop that opens as `var`; `None` if no mask ends it.
    pub(super) fn tightened_extent(
        &self,
        instance: &Instance<'a>,
        axis: AxisId,
        var: VarId,
    ) -> Option<Poly> {
        let depth = instance.stage.order.iter().position(|it| *it == axis)?;
        let regions = self.regions(instance, depth);
        let end = |stage: StageId| -> Option<Poly> {
            let spans = regions.get(&stage)?;
            let masks = self.schedule.masks(stage, instance.id, axis);
            let ends = masks.iter().filter_map(|it| self.end(it, spans, var));
            ends.reduce(|a, b| a.lesser(&b, &self.facts))
        };
        let others = self.schedule.online_at(instance.id, axis);
        others.map(end).fold(end(instance.id), |all, it| Some(all?.greater(&it?, &self.facts)))
    }

    /// Returns the number of iterations in which a polynomial in axes with these spans may be at
    /// least 0.
    fn end(&self, mask: &Poly, spans: &[Span], var: VarId) -> Option<Poly> {
        let axis_span = |axis: VarId| spans.get(axis.0 as usize).cloned();
        let max = Span::of(mask, &axis_span, &self.facts)?.last();
        // All threads instance the same number of iterations.
        let var_span = |it: VarId| match self.threads.iter().find(|(thread, _)| *thread == it) {
            Some((_, extent)) => Some(Span::whole(extent.clone())),
            None => Some(Span::point(Poly::var(it))),
        };
        let max = Span::of(&max, &var_span, &self.facts)?.last();
        let (by, first) = max.split_linear(var)?;
        let by = by.as_constant().and_then(i64::checked_neg).filter(|it| *it > 0)?;
        let divisor = Poly::constant(by);
        if first.is_nonnegative(&self.facts) {
            return Some(first.div(&divisor, &self.facts) + Poly::constant(1));
        }
        let after = first + divisor.clone();
        Some(after.greater(&Poly::default(), &self.facts).div(&divisor, &self.facts))
    }
}
