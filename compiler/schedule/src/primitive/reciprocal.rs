//! Strength reduction of divisions by constants to multiplications by reciprocals.

use crate::error::{ErrorKind, ScheduleError, refuse_if};
use crate::{Instruction, Schedule, StageId};
use tvmtune_ir::dag::{BinaryOp, DType, Expr, Literal};

impl Schedule {
    /// Replaces divisions by `f32` constants in a stage's body by multiplications with their
    /// reciprocals: a product takes one instruction, a quotient a dozen.
    ///
    /// A product rounds twice where a quotient rounds once, so it is within one unit in the last
    /// place: the reciprocal is a normal number.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// s[i, j] = x[i, j] / 11.3        =>   s[i, j] = x[i, j] * 0.0885
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NothingInvariant`] if there is no such constant.
    /// - [`ErrorKind::FixedNumerics`] if the program fixes the rounding of results.
    ///
    /// # Source
    ///
    /// Strength reduction; LLVM's fast-math flag `arcp`.
    pub fn reciprocal(&mut self, stage: StageId) -> Result<(), ScheduleError> {
        self.check_numerics(stage)?;
        self.with_rollback(|it| {
            let body = &it.live_stage(stage)?.compute.body;
            let product = with_reciprocals(body);
            refuse_if(product == *body, ErrorKind::NothingInvariant.of_stage(stage))?;
            it.stage_mut(stage).compute.body = product;
            it.trace.push(Instruction::Reciprocal { stage });
            Ok(())
        })
    }
}

fn with_reciprocals(value: &Expr) -> Expr {
    let inner = value.map_children(&mut with_reciprocals);
    match &inner {
        Expr::Binary(BinaryOp::Div, a, b) => match reciprocal(b) {
            Some(reciprocal) => a.clone().binary(BinaryOp::Mul, reciprocal),
            None => inner,
        },
        _ => inner,
    }
}

/// Returns the reciprocal of a constant, if both are normal numbers.
fn reciprocal(divisor: &Expr) -> Option<Expr> {
    let Expr::Const(Literal::Float(divisor), DType::F32) = divisor else { return None };
    let reciprocal = (1.0 / divisor) as f32;
    let is_normal = (*divisor as f32).is_normal() && reciprocal.is_normal();
    is_normal.then_some(Expr::Const(Literal::Float(reciprocal.into()), DType::F32))
}
