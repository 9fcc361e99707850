//! Multiplying by inverses of constants instead of dividing by them.

use crate::error::{ErrorKind, ScheduleError};
use crate::{Instruction, Schedule, StageId};
use tvmtune_ir::dag::{BinaryOp, DType, Expr, Literal};

impl Schedule {
    /// Multiplies by the inverses of all `f32` constants that a stage's body divides by: products
    /// take one instruction, quotients a dozen.
    ///
    /// It rounds twice what a quotient rounds once, which is to within one unit of the last place:
    /// the inverse is a normal number.
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
    ///
    /// # Source
    ///
    /// Strength reduction.
    pub fn reciprocal(&mut self, stage: StageId) -> Result<(), ScheduleError> {
        self.keeping_corrections(|it| {
            let body = &it.live_stage(stage)?.compute.body;
            let product = inverted(body);
            if product == *body {
                return Err(ErrorKind::NothingInvariant.of_stage(stage));
            }
            it.stage_mut(stage).compute.body = product;
            it.trace.push(Instruction::Reciprocal { stage });
            Ok(())
        })
    }
}

fn inverted(value: &Expr) -> Expr {
    let inner = value.map_children(&mut inverted);
    match &inner {
        Expr::Binary(BinaryOp::Div, a, b) => match inverse(b) {
            Some(inverse) => a.clone().binary(BinaryOp::Mul, inverse),
            None => inner,
        },
        _ => inner,
    }
}

/// The inverse of a constant, if both are normal numbers.
fn inverse(divisor: &Expr) -> Option<Expr> {
    let Expr::Const(Literal::Float(divisor), DType::F32) = divisor else { return None };
    let inverse = (1.0 / divisor) as f32;
    let is_normal = (*divisor as f32).is_normal() && inverse.is_normal();
    is_normal.then_some(Expr::Const(Literal::Float(inverse.into()), DType::F32))
}
