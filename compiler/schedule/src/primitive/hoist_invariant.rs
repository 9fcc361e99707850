//! Loop-invariant code motion: a part of a body that is invariant along an axis. Those of reductions are found
//! by [`super::hoist_operand`].

use crate::error::{ErrorKind, ScheduleError};
use crate::{Instruction, Schedule, StageId};
use tvmtune_ir::dag::access::work;
use tvmtune_ir::dag::{BinaryOp, Compute, ComputeAxis, DType, Expr, Literal, Numerics};
use tvmtune_ir::poly::{Poly, VarId};

/// Parts whose work is no more than this stay in the loop.
const CHEAP: u64 = 4;

/// A part of a stage's body that varies along some of its axes only.
pub struct InvariantPart {
    /// The axes of the stage that computes it.
    pub axes: Vec<ComputeAxis>,
    /// The positions of the axes along which it varies among the compute's; not all.
    pub along: Vec<usize>,
    /// The part, by its own axes.
    pub value: Expr,
    /// The body, with a read in place of the part.
    pub(super) body: Expr,
}

impl Schedule {
    /// Moves the first costly `f32` part of a stage's body that is invariant along some axis into a
    /// stage of its own, which it returns. Of a quotient with an invariant divisor, that is the
    /// divisor's reciprocal, if value-range analysis proves that to be a normal number and the program
    /// does not fix the rounding of results.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// y[i, j] = e[i, j] / s[i]                  =>   y_same[i] = 1 / s[i]
    ///                                                y[i, j] = e[i, j] * y_same[i]
    /// y[i, j] = x[i, j] * rsqrt(v[i] + 1e-5)    =>   y_same[i] = rsqrt(v[i] + 1e-5)
    ///                                                y[i, j] = x[i, j] * y_same[i]
    /// c[i, j] = sum(k, exp(a[i, k]) * b[k, j])  =>   c_same[i, k] = exp(a[i, k])
    ///                                                c[i, j] = sum(k, c_same[i, k] * b[k, j])
    /// ```
    ///
    /// Parts of a reduction that are one function of other axes are one stage:
    ///
    /// ```text
    /// c[i, j] = sum(k, (x[k, i] - m[i]) * (x[k, j] - m[j]))
    ///                                            =>  c_same[k, i] = x[k, i] - m[i]
    ///                                                c[i, j] = sum(k, c_same[k, i] * c_same[k, j])
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NothingInvariant`] if there is no such part.
    /// - [`ErrorKind::NotRoot`] if the stage reads what runs in another stage.
    ///
    /// # Source
    ///
    /// Loop-invariant code motion (LLVM's LICM); reciprocals of invariant divisors: LLVM's `arcp`.
    pub fn hoist_invariant(&mut self, stage: StageId) -> Result<StageId, ScheduleError> {
        let InvariantPart { axes, value, body, .. } = self.invariant_part(stage)?;
        let (hoisted, tensor) = self.next_ids();
        let own = &self.stage(stage).compute;
        let compute = Compute { tensor, n_spatial: axes.len(), axes, reducer: None, body: value };
        self.check_stage_size(stage, &compute)?;
        let mut origin = self.tensor(own.tensor).tensor.clone();
        origin.dtype = DType::F32;
        self.add_stage_before(stage, compute, &origin, "same");
        self.stage_mut(stage).compute.body = body;
        self.trace.push(Instruction::HoistInvariant { stage });
        Ok(hoisted)
    }

    /// Returns the part that [`hoist_invariant`](Self::hoist_invariant) would move.
    ///
    /// # Errors
    ///
    /// Those of [`hoist_invariant`](Self::hoist_invariant).
    pub fn invariant_part(&self, stage: StageId) -> Result<InvariantPart, ScheduleError> {
        let compute = &self.live_stage(stage)?.compute;
        self.check_reads_roots(stage)?;
        let nothing = ErrorKind::NothingInvariant.of_stage(stage);
        if compute.reducer.is_some() {
            // The order of a sum is made of its loops, which a new stage does not change; its body may have
            // been taken apart already.
            self.check_untouched(stage)?;
            return self.costly_operand(compute).ok_or(nothing);
        }
        let (axes, part) = self.find_invariant(compute, &compute.body).ok_or(nothing)?;
        let facts = self.dag.facts();
        let position = |var: VarId| axes.iter().position(|it| *it == var.0 as usize);
        let renamed = |var: VarId| position(var).map(|it| Poly::var(VarId(it as u32)));
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
        let own = axes.iter().map(|it| compute.axes[*it].clone()).collect();
        Ok(InvariantPart { axes: own, along: axes, value, body })
    }

    /// Finds the first part of a value that is worth moving, with the axes along which it varies.
    fn find_invariant<'a>(
        &self,
        compute: &Compute,
        value: &'a Expr,
    ) -> Option<(Vec<usize>, Part<'a>)> {
        let varying = |it: &Expr| {
            let axes = axes_of(it, compute.n_spatial);
            (!axes.is_empty() && axes.len() < compute.n_spatial).then_some(axes)
        };
        // Not every device loads other types from the scope of the new tensor.
        let is_f32 = value.dtype(self) == DType::F32;
        if is_f32
            && work(value) > CHEAP
            && let Some(axes) = varying(value)
        {
            return Some((axes, Part::Value(value)));
        }
        if let Expr::Binary(BinaryOp::Div, _, divisor) = value
            && is_f32
            && self.dag.numerics == Numerics::Free
            && let Some(axes) = varying(divisor)
            && self.has_normal_reciprocal(divisor)
        {
            return Some((axes, Part::Divisor(divisor)));
        }
        match value {
            // A branch may be undefined where the part would be evaluated, so only the condition counts.
            Expr::Select { condition, .. } => self.find_invariant(compute, condition),
            Expr::Read { .. } => None,
            _ => value.children().into_iter().find_map(|it| self.find_invariant(compute, it)),
        }
    }
}

enum Part<'a> {
    Value(&'a Expr),
    Divisor(&'a Expr),
}

/// Returns the axes along which a value varies, out of `n_axes`.
pub(super) fn axes_of(value: &Expr, n_axes: usize) -> Vec<usize> {
    (0..n_axes).filter(|it| value.mentions(VarId(*it as u32))).collect()
}

/// Replaces the parts of an expression for which `replacement` gives one, outermost first.
pub(super) fn replaced(value: &Expr, replacement: &dyn Fn(&Expr) -> Option<Expr>) -> Expr {
    let value = replacement(value).unwrap_or_else(|| value.clone());
    value.map_children(&mut |it| replaced(it, replacement))
}
