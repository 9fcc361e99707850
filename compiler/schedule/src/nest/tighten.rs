//! Loop-bound tightening: the iterations of a loop that masks leave.
//!
//! A mask is a set of polynomials in a stage's axes; an element contributes only where none of them is
//! negative. One iteration of a loop, with everything that runs in it, covers a span of each axis. If the
//! maximum of such a polynomial over these spans falls with the loop's variable, there is a last iteration in
//! which it is not negative; if it grows, there is a first one.
//!
//! ```text
//! i - j >= 0,  i in 64 * i_0 ..+ 64,  j in 32 * j_0 ..+ 32:  64 * i_0 + 63 - 32 * j_0 >= 0
//!     j_0 < (64 * i_0 + 63) / 32 + 1 = 2 * i_0 + 2
//! ```
//!
//! A loop ends after the last such iteration of its own stage and of all that are reduced online along
//! it, each by the mask that ends it first. Iterations before the first are left out by a guard around the
//! body, where all these stages have the same mask.

use super::Guard;
use super::lower::{Instance, Lowering};
use crate::{AxisId, StageId};
use tvmtune_ir::poly::{Atom, Poly, VarId};
use tvmtune_ir::span::Span;

/// The maximum of a mask in an iteration `n` of a loop: `step * n + rest`. Where it is negative, the iteration
/// contributes nothing.
#[derive(PartialEq)]
struct Mask {
    step: i64,
    rest: Poly,
}

impl<'a> Lowering<'a> {
    /// Returns the tightened extent of a loop that opens as `var`; `None` if no mask ends it.
    pub(super) fn tightened_extent(
        &self,
        instance: &Instance<'a>,
        axis: AxisId,
        var: VarId,
    ) -> Option<Poly> {
        let end = |masks: &Vec<Mask>| -> Option<Poly> {
            let ends = masks.iter().filter_map(|it| self.end(it));
            ends.reduce(|a, b| a.lesser(&b, &self.facts))
        };
        let mut stages = self.masks_at(instance, axis, var)?.into_iter();
        let first = end(&stages.next()?);
        stages.fold(first, |all, it| Some(all?.greater(&end(&it)?, &self.facts)))
    }

    /// Returns the guards that leave out the first iterations of a loop that opens as `var`, where no stage
    /// contributes anything yet. They are in variables of loops around it that run in order, or as tasks.
    pub(super) fn first_unmasked(
        &self,
        instance: &Instance<'a>,
        axis: AxisId,
        var: VarId,
    ) -> Vec<Guard> {
        let mut stages = self.masks_at(instance, axis, var).unwrap_or_default().into_iter();
        let mut common = stages.next().unwrap_or_default();
        stages.for_each(|it| common.retain(|mask| it.contains(mask)));
        let grows = |it: &Mask| it.step > 0 && !it.rest.is_nonnegative(&self.facts);
        let guard = |it: Mask| {
            let max = Poly::var(var) * it.step + it.rest;
            let subtracted = max.terms().filter(|it| it.1 < 0 && !it.0.is_empty());
            let product = |(atoms, n): (&[Atom], i64)| {
                atoms.iter().fold(Poly::constant(-n), |all, it| all * Poly::atom(it.clone()))
            };
            let value = subtracted.map(product).fold(Poly::default(), |sum, it| sum + it);
            let bound = max + value.clone() + Poly::constant(1);
            value.is_nonnegative(&self.facts).then_some(Guard { value, bound })
        };
        common.into_iter().filter(grows).filter_map(guard).collect()
    }

    /// Returns the masks of a loop's own stage, and of each that is reduced online along it.
    fn masks_at(
        &self,
        instance: &Instance<'a>,
        axis: AxisId,
        var: VarId,
    ) -> Option<Vec<Vec<Mask>>> {
        let depth = instance.stage.order.iter().position(|it| *it == axis)?;
        let regions = self.regions(instance, depth);
        let masks = |stage: StageId| -> Option<Vec<Mask>> {
            let spans = regions.get(&stage)?;
            let masks = self.schedule.masks(stage, instance.id, axis);
            Some(masks.iter().filter_map(|it| self.mask(it, spans, var)).collect())
        };
        let online = self.schedule.online_at(instance.id, axis);
        std::iter::once(instance.id).chain(online).map(masks).collect()
    }

    /// Returns the maximum of a polynomial in axes with these spans.
    fn mask(&self, mask: &Poly, spans: &[Span], var: VarId) -> Option<Mask> {
        let axis_span = |axis: VarId| spans.get(axis.0 as usize).cloned();
        let max = Span::of(mask, &axis_span, &self.facts)?.last();
        // All threads run the same number of iterations.
        let var_span = |it: VarId| match self.threads.iter().find(|(thread, _)| *thread == it) {
            Some((_, extent)) => Some(Span::whole(extent.clone())),
            None => Some(Span::point(Poly::var(it))),
        };
        let max = Span::of(&max, &var_span, &self.facts)?.last();
        let (step, rest) = max.split_linear(var)?;
        Some(Mask { step: step.as_constant()?, rest })
    }

    /// Returns the number of iterations in which a mask that falls may be at least 0.
    fn end(&self, mask: &Mask) -> Option<Poly> {
        let by = mask.step.checked_neg().filter(|it| *it > 0)?;
        let (divisor, first) = (Poly::constant(by), mask.rest.clone());
        if first.is_nonnegative(&self.facts) {
            return Some(first.div(&divisor, &self.facts) + Poly::constant(1));
        }
        let after = first + divisor.clone();
        Some(after.greater(&Poly::default(), &self.facts).div(&divisor, &self.facts))
    }
}
