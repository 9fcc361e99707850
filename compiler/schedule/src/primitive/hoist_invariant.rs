//! What is the same all along an inner loop, computed once.

use std::collections::BTreeSet;

use crate::error::{ErrorKind, ScheduleError};
use crate::{Instruction, Schedule, StageId};
use tvmtune_ir::dag::access::work;
use tvmtune_ir::dag::{BinaryOp, Compute, DType, Expr, Literal};
use tvmtune_ir::poly::{Poly, VarId};

/// What is cheaper than that is computed again.
const CHEAP: u64 = 4;

/// A part of a stage's body that changes along some of its axes only.
pub struct Lifted {
    /// Those axes, by place among the compute's; at least one, not all.
    pub axes: Vec<usize>,
    /// What is computed once for each of their values.
    pub value: Expr,
    /// The body that reads it.
    body: Expr,
}

impl Schedule {
    /// Computes the first part of a stage's body that is a costly `f32` and the same along some axis
    /// in a stage of its own, which it returns. Of a quotient of which only the divisor is, that is the
    /// divisor's inverse, where it is known that the inverse is no more wrong than any rounded
    /// number.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// y[i, j] = e[i, j] / s[i]                  =>   y_same[i] = 1 / s[i]
    ///                                                y[i, j] = e[i, j] * y_same[i]
    /// y[i, j] = x[i, j] * rsqrt(v[i] + 1e-5)    =>   y_same[i] = rsqrt(v[i] + 1e-5)
    ///                                                y[i, j] = x[i, j] * y_same[i]
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::IsReduction`], [`ErrorKind::NothingInvariant`] if there is no such part.
    /// - [`ErrorKind::NotRoot`] if the stage reads what runs in another stage.
    ///
    /// # Source
    ///
    /// Loop-invariant code motion.
    pub fn hoist_invariant(&mut self, stage: StageId) -> Result<StageId, ScheduleError> {
        let Lifted { axes, value, body } = self.lifted(stage)?;
        let (lifted, tensor) = self.next_ids();
        let own = &self.stage(stage).compute;
        let axes: Vec<_> = axes.iter().map(|it| own.axes[*it].clone()).collect();
        let compute = Compute { tensor, n_spatial: axes.len(), axes, reducer: None, body: value };
        let mut origin = self.tensor(own.tensor).tensor.clone();
        origin.dtype = DType::F32;
        self.add_stage_before(stage, compute, &origin, "same");
        self.stage_mut(stage).compute.body = body;
        self.trace.push(Instruction::HoistInvariant { stage });
        Ok(lifted)
    }

    /// What [`lift`](Self::hoist_invariant) computes apart.
    ///
    /// # Errors
    ///
    /// Those of [`lift`](Self::hoist_invariant).
    pub fn lifted(&self, stage: StageId) -> Result<Lifted, ScheduleError> {
        let compute = &self.live_stage(stage)?.compute;
        if compute.reducer.is_some() {
            return Err(ErrorKind::IsReduction.of_stage(stage));
        }
        self.check_reads_roots(stage)?;
        let found = self.part(compute, &compute.body);
        let (axes, part) = found.ok_or(ErrorKind::NothingInvariant.of_stage(stage))?;
        let facts = self.dag.facts();
        let place = |var: VarId| axes.iter().position(|it| *it == var.0 as usize);
        let renamed = |var: VarId| place(var).map(|it| Poly::var(VarId(it as u32)));
        let (_, tensor) = self.next_ids();
        let vars = axes.iter().map(|it| Poly::var(VarId(*it as u32)));
        let read = Expr::read(tensor, vars);
        let (value, body) = match part {
            Part::Value(value) => {
                (value.clone(), replaced(&compute.body, &|it| (it == value).then(|| read.clone())))
            }
            Part::Divisor(divisor) => {
                let one = Expr::Const(Literal::Float(1.0), DType::F32);
                let product = |it: &Expr| match it {
                    Expr::Binary(BinaryOp::Div, a, b) if **b == *divisor => {
                        Some(a.clone().binary(BinaryOp::Mul, read.clone()))
                    }
                    _ => None,
                };
                (one.binary(BinaryOp::Div, divisor.clone()), replaced(&compute.body, &product))
            }
        };
        let value = value.substitute_vars(&renamed, &facts);
        Ok(Lifted { axes, value, body })
    }

    /// The first part of a value that is worth computing apart, with the axes it changes along.
    fn part<'a>(&self, compute: &Compute, value: &'a Expr) -> Option<(Vec<usize>, Part<'a>)> {
        let same = |it: &Expr| {
            let axes = axes_of(it, compute.n_spatial);
            (!axes.is_empty() && axes.len() < compute.n_spatial).then_some(axes)
        };
        // Numbers of all other types are stored where code for some device does not take them.
        let is_lifted = value.dtype(self) == DType::F32;
        if is_lifted
            && work(value) > CHEAP
            && let Some(axes) = same(value)
        {
            return Some((axes, Part::Value(value)));
        }
        if let Expr::Binary(BinaryOp::Div, _, divisor) = value
            && is_lifted
            && let Some(axes) = same(divisor)
            && self.is_invertible(divisor)
        {
            return Some((axes, Part::Divisor(divisor)));
        }
        match value {
            // What is asked for first may not hold where the part would be computed.
            Expr::Select { condition, .. } => self.part(compute, condition),
            Expr::Read { .. } => None,
            _ => value.children().into_iter().find_map(|it| self.part(compute, it)),
        }
    }
}

enum Part<'a> {
    Value(&'a Expr),
    Divisor(&'a Expr),
}

/// The axes that a value changes along, of so many.
fn axes_of(value: &Expr, n_axes: usize) -> Vec<usize> {
    let mut axes = BTreeSet::new();
    // Looks at the polynomials only.
    let _ = value.map_polys(&mut |poly| {
        axes.extend((0..n_axes).filter(|it| poly.mentions(VarId(*it as u32))));
        poly.clone()
    });
    axes.into_iter().collect()
}

/// An expression with what `of` gives for its parts, outermost first, in their place.
fn replaced(value: &Expr, of: &dyn Fn(&Expr) -> Option<Expr>) -> Expr {
    let value = of(value).unwrap_or_else(|| value.clone());
    value.map_children(&mut |it| replaced(it, of))
}
