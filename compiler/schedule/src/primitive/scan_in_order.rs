//! Prefix scan in order: reductions up to an index, as a recurrence.

use super::prefix_terms::PrefixTerms;
use crate::error::{ErrorKind, ScheduleError, refuse_if};
use crate::{Attach, Instruction, ReductionOrder, Schedule, Stage, StageId};
use tvmtune_ir::dag::recurrence::state_before;
use tvmtune_ir::dag::{Compute, Expr, Reducer, TensorId};
use tvmtune_ir::poly::{Poly, VarId};

impl Schedule {
    /// Scans in order: each prefix is the one before and one operand more. Returns the stage that runs the
    /// steps.
    ///
    /// This takes one operation for each operand, in one pass, where [`scan`](Self::scan) makes three; but a
    /// step waits for the one before, so lanes and threads need elements along other axes.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// c[i] = sum(k, if k <= i { a[k] } else { 0 })
    /// =>
    /// c[i] = (if i >= 1 { c[i - 1] } else { 0 }) + a[i]
    /// ```
    ///
    /// A suffix, as `k >= i`, is scanned from the other end:
    ///
    /// ```text
    /// c_reversed[i] = (if i >= 1 { c_reversed[i - 1] } else { 0 }) + a[n - 1 - i]
    /// c[i] = c_reversed[n - 1 - i]
    /// ```
    ///
    /// A stage `c_terms` reduces all other reduce axes before the scan.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NotReduction`]; [`ErrorKind::NotPrefix`] if no such condition selects the operands.
    /// - [`ErrorKind::AlreadyScheduled`] if its loops were changed, [`ErrorKind::HasAttached`] if a stage
    ///   runs in it, [`ErrorKind::NotRoot`] if it runs in another stage.
    /// - [`ErrorKind::FixedNumerics`] if the program fixes another order than this one, that of a sequence over
    ///   the elements up to the index.
    ///
    /// # Source
    ///
    /// The sequential scan of Blelloch, "Prefix Sums and Their Applications", 1990.
    pub fn scan_in_order(&mut self, stage: StageId) -> Result<StageId, ScheduleError> {
        let found = self.live_stage(stage)?;
        let order = found.reduction;
        refuse_if(found.attach != Attach::Root, ErrorKind::NotRoot.of_stage(stage))?;
        let compute = found.compute.clone();
        let reducer = compute.reducer.ok_or(ErrorKind::NotReduction.of_stage(stage))?;
        // Producers of an untouched root stage are root stages, too.
        self.check_untouched(stage)?;
        let prefix = self.prefix(&compute).ok_or(ErrorKind::NotPrefix.of_stage(stage))?;
        let is_one_range = compute.axes.len() == compute.n_spatial + 1;
        let is_this = order == ReductionOrder::Sequence && prefix.is_upward && is_one_range;
        let is_kept = order == ReductionOrder::Any || is_this;
        refuse_if(!is_kept, ErrorKind::FixedNumerics.of_stage(stage))?;

        let origin = self.tensor(compute.tensor).tensor.clone();
        let identity = Expr::Const(reducer.identity(origin.dtype), origin.dtype);
        let of = PrefixTerms { compute: &compute, prefix: &prefix, identity };
        let step = Poly::var(VarId(prefix.axis as u32));
        let reversed = of.n_results().clone() - Poly::constant(1) - step.clone();
        let at = if prefix.is_upward { &step } else { &reversed };
        let terms = of.terms(self.next_ids().1, of.n_results().clone(), at, &self.dag.facts());
        let operand = match terms.reducer {
            None => terms.body,
            Some(_) => {
                let read = of.read(terms.tensor, 1, &[step]);
                self.add_stage_before(stage, terms, &origin, "terms");
                read
            }
        };
        let (states, compute) = if prefix.is_upward {
            (stage, steps(&of, compute.tensor, reducer, operand))
        } else {
            let (states, tensor) = self.next_ids();
            self.add_stage_before(stage, steps(&of, tensor, reducer, operand), &origin, "reversed");
            let body = of.read(tensor, 1, &[reversed]);
            (states, of.by_result(compute.tensor, body))
        };
        *self.stage_mut(stage) = Stage::new(compute);
        self.trace.push(Instruction::ScanInOrder { stage });
        Ok(states)
    }
}

/// `c[i] = operand + (if i >= 1 { c[i - 1] } else { identity })`: of a NaN and of equal numbers, an extreme is the
/// second, as in a reduction.
fn steps(of: &PrefixTerms<'_>, tensor: TensorId, reducer: Reducer, operand: Expr) -> Compute {
    let step = VarId(of.prefix.axis as u32);
    let before = of.read(tensor, 1, &[Poly::var(step) - Poly::constant(1)]);
    let state = state_before(step, before, of.identity.clone());
    of.by_result(tensor, operand.binary(reducer.op(), state))
}
