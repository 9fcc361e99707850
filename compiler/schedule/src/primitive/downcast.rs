//! Precision downcast of probabilities, for tensor-core products.

use crate::error::{ErrorKind, ScheduleError, refuse_if};
use crate::{Instruction, Schedule, StageId};
use tvmtune_ir::dag::{BinaryOp, DType, Expr, Reducer, TensorId};

impl Schedule {
    /// Stores the elements of a stage in a narrower type: that of the factors they are multiplied
    /// with, so that tensor cores apply.
    ///
    /// It rounds. It applies to exponentials that are at most 1 and are summed: each is rounded as
    /// the other factor was, and none overflows.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// e[j] = exp(x[j] - m)              =>   e[j] = f16(exp(x[j] - m))
    /// o = sum(j, e[j] * f32(v[j]))           o = sum(j, f32(e[j]) * f32(v[j]))
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::IsOutput`] if the program returns the tensor, [`ErrorKind::IsReduction`] if
    ///   the stage reduces, [`ErrorKind::Recurrent`] if it is a recurrence.
    /// - [`ErrorKind::FixedNumerics`] if the program fixes the rounding of results.
    /// - [`ErrorKind::PrecisionLoss`] if the type is not `f16` or `bf16` and the stage's `f32`, if
    ///   elements may be above 1, or if a reader does not sum them, or none sums products with numbers
    ///   of that type.
    ///
    /// # Source
    ///
    /// `FlashAttention` (Dao et al., 2022), whose probabilities have the type of its operands.
    pub fn downcast(&mut self, stage: StageId, dtype: DType) -> Result<(), ScheduleError> {
        self.check_numerics(stage)?;
        self.with_rollback(|it| it.store_narrower(stage, dtype))
    }

    fn store_narrower(&mut self, stage: StageId, dtype: DType) -> Result<(), ScheduleError> {
        let found = self.live_stage(stage)?;
        let tensor = found.tensor();
        refuse_if(self.is_output(tensor), ErrorKind::IsOutput.of_stage(stage))?;
        refuse_if(found.compute.reducer.is_some(), ErrorKind::IsReduction.of_stage(stage))?;
        self.check_not_recurrent(stage)?;
        let is_precise = matches!(dtype, DType::F16 | DType::Bf16)
            && self.tensor(tensor).tensor.dtype == DType::F32
            && self.is_at_most_one(stage);
        let readers: Vec<StageId> = self.readers(tensor).collect();
        let uses: Option<Vec<bool>> =
            readers.iter().map(|it| self.multiplies(*it, tensor, dtype)).collect();
        if !is_precise || !uses.is_some_and(|it| it.contains(&true)) {
            return Err(ErrorKind::PrecisionLoss.of_stage(stage));
        }

        let body = &mut self.stage_mut(stage).compute.body;
        *body = Expr::Cast(dtype, Box::new(body.clone()));
        self.tensors[tensor.0 as usize].tensor.dtype = dtype;
        for reader in readers {
            let body = &mut self.stage_mut(reader).compute.body;
            *body = body.replace_reads(&mut |read, index| {
                let index = index.to_vec();
                let wide = || Box::new(Expr::Read { tensor, index });
                (read == tensor).then(|| Expr::Cast(DType::F32, wide()))
            });
        }
        self.trace.push(Instruction::Downcast { stage, dtype });
        Ok(())
    }

    /// Returns whether a reader sums products of a tensor with numbers of that type; `None` unless it sums
    /// those, or the tensor's elements alone.
    fn multiplies(&self, reader: StageId, tensor: TensorId, dtype: DType) -> Option<bool> {
        let compute = &self.stage(reader).compute;
        let is_tensor = |it: &Expr| matches!(it, Expr::Read { tensor: t, .. } if *t == tensor);
        let is_narrow = |it: &Expr| match it {
            Expr::Cast(DType::F32, inner) => match &**inner {
                Expr::Read { tensor, .. } => self.tensor(*tensor).tensor.dtype == dtype,
                _ => false,
            },
            _ => false,
        };
        match &compute.body {
            _ if compute.reducer != Some(Reducer::Sum) => None,
            Expr::Binary(BinaryOp::Mul, a, b) => {
                let fits = is_tensor(a) && is_narrow(b) || is_narrow(a) && is_tensor(b);
                fits.then_some(true)
            }
            body => is_tensor(body).then_some(false),
        }
    }
}
