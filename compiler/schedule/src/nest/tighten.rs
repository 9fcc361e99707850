//! Where trimmed loops end.
//!
//! A mask says of an element of a stage that it adds something only where polynomials in its axes
//! are not negative. An iteration of a loop, with everything that runs in it, covers a span of each
//! axis; what such a polynomial is at most in there falls with the loop's variable, so that there is
//! a last iteration in which it is not negative.
//!
//! ```text
//! i - j >= 0,  i in 64 * i_0 ..+ 64,  j in 32 * j_0 ..+ 32:  64 * i_0 + 63 - 32 * j_0 >= 0
//!     j_0 < (64 * i_0 + 63) / 32 + 1 = 2 * i_0 + 2
//! ```
//!
//! A loop ends where that is so for its own stage and for all that are reduced along with it, each
//! by the mask that ends it first.

use super::bounds::{Host, hulls};
use super::lower::{Lowering, Running};
use crate::{AxisId, StageId};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_ir::span::Span;

impl Lowering<'_> {
    /// How many iterations of a loop that opens as `var` there are to run; `None` for all of them.
    pub(super) fn trimmed(&self, run: &Running<'_>, axis: AxisId, var: VarId) -> Option<Poly> {
        let place = run.stage.order.iter().position(|it| *it == axis)?;
        let host = Host {
            id: run.id,
            extents: &run.extents,
            firsts: &run.firsts,
            loops: &run.loops,
            n_open: place + 1,
        };
        let hulls = hulls(self.schedule, &host, &self.around, &self.facts);
        let end = |stage: StageId| -> Option<Poly> {
            let spans = hulls.get(&stage)?;
            let masks = self.schedule.masks(stage, run.id, axis);
            let ends = masks.iter().filter_map(|it| self.end(it, spans, var));
            ends.reduce(|a, b| a.lesser(&b, &self.facts))
        };
        let others = self.schedule.rolling_at(run.id, axis);
        others.map(end).fold(end(run.id), |all, it| Some(all?.greater(&it?, &self.facts)))
    }

    /// In how many iterations a polynomial in axes that span `spans` may be at least 0.
    fn end(&self, mask: &Poly, spans: &[Span], var: VarId) -> Option<Poly> {
        let of = |axis: VarId| spans.get(axis.0 as usize).cloned();
        let most = Span::of(mask, &of, &self.facts)?.last();
        // All threads run as many iterations.
        let of = |it: VarId| match self.threads.iter().find(|(thread, _)| *thread == it) {
            Some((_, extent)) => Some(Span::whole(extent.clone())),
            None => Some(Span::point(Poly::var(it))),
        };
        let most = Span::of(&most, &of, &self.facts)?.last();
        let (by, first) = most.split_linear(var)?;
        let by = by.as_constant().and_then(i64::checked_neg).filter(|it| *it > 0)?;
        let divisor = Poly::constant(by);
        if first.is_nonnegative(&self.facts) {
            return Some(first.div(&divisor, &self.facts) + Poly::constant(1));
        }
        let after = first + divisor.clone();
        Some(after.greater(&Poly::default(), &self.facts).div(&divisor, &self.facts))
    }
}
