//! Factors that are the same in all that is added up, moved behind the sum.

use super::cache::spatial_read;
use crate::error::{ErrorKind, ScheduleError};
use crate::{Instruction, Schedule, Stage, StageId};
use tvmtune_ir::dag::{BinaryOp, Compute, Expr, Literal, Reducer};
use tvmtune_ir::poly::VarId;

impl Schedule {
    /// Takes the factors and divisors out of a sum that do not depend on what it runs over; returns
    /// the stage that adds up the rest. As after [`cache_write`](Self::cache_write), what was the
    /// reduction is elementwise.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// c[i] = sum(k, a[i, k] / l[i] * b[k])     =>   c_sum[i] = sum(k, a[i, k] * b[k])
    ///                                               c[i] = c_sum[i] / l[i]
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NotReduction`] if the stage is no sum of floating-point numbers,
    ///   [`ErrorKind::NothingInvariant`] if there is no such factor.
    /// - [`ErrorKind::AlreadyScheduled`] if its loops were changed, [`ErrorKind::HasAttached`] if a
    ///   stage runs in it, [`ErrorKind::NotRoot`] if it reads what runs in another stage.
    ///
    /// # Source
    ///
    /// Loop-invariant code motion, by the distributive law.
    pub fn factor_out(&mut self, stage: StageId) -> Result<StageId, ScheduleError> {
        let found = self.live_stage(stage)?;
        let dtype = self.tensor(found.tensor()).tensor.dtype;
        if found.compute.reducer != Some(Reducer::Sum) || !dtype.is_float() {
            return Err(ErrorKind::NotReduction.of_stage(stage));
        }
        self.check_untouched(stage)?;
        self.check_reads_roots(stage)?;
        let mut split = Split { compute: &found.compute, moved: Vec::new() };
        let rest = split.rest(&found.compute.body);
        if split.moved.is_empty() {
            return Err(ErrorKind::NothingInvariant.of_stage(stage));
        }

        let (reduction, sum) = self.next_ids();
        let moved = split.moved;
        let Stage { compute, attach, .. } = found.clone();
        let origin = self.tensor(compute.tensor).tensor.clone();
        let one = || Expr::Const(Literal::Float(1.0), dtype);
        let body = moved
            .into_iter()
            .fold(spatial_read(sum, &compute), |value, (op, by)| value.binary(op, by));
        let finish = Compute {
            axes: compute.axes[..compute.n_spatial].to_vec(),
            reducer: None,
            body,
            ..compute
        };
        let reduce = Compute { tensor: sum, body: rest.unwrap_or_else(one), ..compute };
        self.add_stage_before(stage, reduce, &origin, "sum");
        *self.stage_mut(stage) = Stage { attach, ..Stage::new(finish) };
        self.trace.push(Instruction::FactorOut { stage });
        Ok(reduction)
    }
}

struct Split<'a> {
    compute: &'a Compute,
    /// What the sum is multiplied with, or divided by.
    moved: Vec<(BinaryOp, Expr)>,
}

impl Split<'_> {
    /// What is left of a product without the factors that do not vary; `None` if that is nothing.
    fn rest(&mut self, value: &Expr) -> Option<Expr> {
        match value {
            _ if !self.varies(value) => {
                self.moved.push((BinaryOp::Mul, value.clone()));
                None
            }
            Expr::Binary(BinaryOp::Mul, a, b) => match (self.rest(a), self.rest(b)) {
                (Some(a), Some(b)) => Some(a.binary(BinaryOp::Mul, b)),
                (rest, None) | (None, rest) => rest,
            },
            Expr::Binary(BinaryOp::Div, a, b) if !self.varies(b) => {
                let rest = self.rest(a);
                self.moved.push((BinaryOp::Div, (**b).clone()));
                rest
            }
            other => Some(other.clone()),
        }
    }

    fn varies(&self, value: &Expr) -> bool {
        let reduced: Vec<VarId> = self.compute.reduce_vars().collect();
        let mut varies = false;
        // Counts the polynomials that change with what is reduced.
        let _ = value.map_polys(&mut |poly| {
            varies |= reduced.iter().any(|it| poly.mentions(*it));
            poly.clone()
        });
        varies
    }
}
