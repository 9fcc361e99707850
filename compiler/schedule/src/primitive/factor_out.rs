//! Factoring out: loop-invariant factors of a sum, moved behind it by distributivity.

use super::cache::spatial_read;
use crate::error::{ErrorKind, ScheduleError, refuse_if};
use crate::{Instruction, Schedule, Stage, StageId};
use tvmtune_ir::dag::{BinaryOp, Compute, Expr, Literal, Reducer};

impl Schedule {
    /// Moves the factors and divisors of a sum that do not depend on its reduce axes behind the sum;
    /// returns the stage that sums the rest. As after [`cache_write`](Self::cache_write), the original
    /// stage is elementwise then.
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
    /// - [`ErrorKind::FixedNumerics`] if the program fixes the rounding of results.
    /// - [`ErrorKind::AlreadyScheduled`] if its loops were changed, [`ErrorKind::HasAttached`] if a
    ///   stage runs in it, [`ErrorKind::NotRoot`] if it reads what runs in another stage.
    ///
    /// # Source
    ///
    /// The distributive law, as in LLVM's `Reassociate` pass.
    pub fn factor_out(&mut self, stage: StageId) -> Result<StageId, ScheduleError> {
        self.check_numerics(stage)?;
        let found = self.live_stage(stage)?;
        let dtype = self.tensor(found.tensor()).tensor.dtype;
        if found.compute.reducer != Some(Reducer::Sum) || !dtype.is_float() {
            return Err(ErrorKind::NotReduction.of_stage(stage));
        }
        self.check_untouched(stage)?;
        self.check_reads_roots(stage)?;
        let mut factors = Factors { compute: &found.compute, moved: Vec::new() };
        let rest = factors.rest(&found.compute.body);
        refuse_if(factors.moved.is_empty(), ErrorKind::NothingInvariant.of_stage(stage))?;

        let (reduction, sum) = self.next_ids();
        let moved = factors.moved;
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

struct Factors<'a> {
    compute: &'a Compute,
    /// The factors and divisors of the sum.
    moved: Vec<(BinaryOp, Expr)>,
}

impl Factors<'_> {
    /// Removes the invariant factors of a product; `None` if no other is left.
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
        self.compute.reduce_vars().any(|it| value.mentions(it))
    }
}
