//! Corrections of an online reduction: the factor that rescales a partial sum when the running maximum
//! that it was computed with grows.
//!
//! A sum whose elements contain a maximum `m` over the same axis needs the complete maximum first. If
//! every element is a multiple of `exp(k * (x - m))`, the sum can start with the maximum of the elements
//! seen so far: when that grows from `m` to `n`, the partial sum is wrong by one factor.
//!
//! ```text
//! exp(k * (x - m)) * exp(k * (m - n)) = exp(k * (x - n))
//! ```
//!
//! In: a stage that reduces along an online loop. Out: its [`Correction`]s, or a refusal. The proof is
//! an abstract interpretation of the body over the lattice of [`Dependence`], with one case for each
//! operation that keeps a value a multiple; every other operation is refused. Since `x` must be the
//! element that the maximum is taken of and `k` positive, no exponent is ever above 0 and nothing
//! overflows that would not overflow in the definition.
//!
//! # Source
//!
//! Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018. As a rewrite of loops:
//! "rolling update" of Neptune (Zhao et al., 2025).

use super::error::{ErrorKind, ScheduleError};
use super::{Attach, AxisId, AxisRole, Relation, Schedule, StageId};
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{BinaryOp, Compute, DType, Expr, Literal, Reducer, TensorId, UnaryOp};
use tvmtune_ir::poly::{Facts, Poly, VarId};

/// The rescaling of a partial sum by `exp(scale * (before - now))` when a running maximum grows.
#[derive(Clone, Debug, PartialEq)]
pub struct Correction {
    /// The stage that computes the maximum.
    pub maximum: StageId,
    /// The element of it on which an element of the sum depends: polynomials in the sum's axes.
    pub index: Vec<Poly>,
    /// The factor of the difference in the exponent; positive.
    pub scale: f64,
}

impl Schedule {
    /// The axis of a stage's compute that a loop iterates over in blocks.
    pub fn blocked_axis(&self, stage: StageId, axis: AxisId) -> Option<usize> {
        let stage = self.stage(stage);
        let n_axes = stage.compute.axes.len();
        let split = stage.relations.iter().find_map(|it| match it {
            Relation::Split { parent, parts, .. } if parts.first() == Some(&axis) => Some(*parent),
            _ => None,
        });
        Some(split.unwrap_or(axis).0 as usize).filter(|it| *it < n_axes)
    }

    /// Returns the corrections of a stage that reduces along that loop, or of the loop's own stage.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Uncorrectable`] if no factor corrects it.
    pub fn corrections(
        &self,
        stage: StageId,
        host: StageId,
        axis: AxisId,
    ) -> Result<Vec<Correction>, ScheduleError> {
        let refused = || ErrorKind::Uncorrectable.of_stage(stage);
        let compute = &self.stage(stage).compute;
        let blocked = match stage == host {
            true => self.blocked_axis(host, axis).ok_or(refused())?,
            false => compute.n_spatial,
        };
        let mut corrections = Vec::new();
        for maximum in self.online_at(host, axis).filter(|it| *it != stage) {
            let block = VarId(blocked as u32);
            let facts = self.dag.facts();
            let analysis = Analysis { schedule: self, host, maximum, block, facts };
            match analysis.value(&compute.body).ok_or(refused())? {
                Dependence::Zero | Dependence::Independent => {}
                Dependence::Exp { index, scale } => {
                    let varies = |at: &Poly| compute.reduce_vars().any(|it| at.mentions(it));
                    let is_sum = compute.reducer == Some(Reducer::Sum);
                    let grows = self.stage(maximum).compute.reducer == Some(Reducer::Max);
                    if !is_sum || !grows || index.iter().any(varies) {
                        return Err(refused());
                    }
                    corrections.push(Correction { maximum, index, scale });
                }
            }
        }
        Ok(corrections)
    }

    /// Returns whether a stage's elements are exponentials of `x - max(x)`, so at most 1.
    pub(crate) fn is_at_most_one(&self, stage: StageId) -> bool {
        let compute = &self.stage(stage).compute;
        let Expr::Unary(UnaryOp::Exp, exponent) = &compute.body else { return false };
        let is_maximum = |it: &&StageId| self.stage(**it).compute.reducer == Some(Reducer::Max);
        let maxima: Vec<StageId> = self.order.iter().filter(is_maximum).copied().collect();
        compute.spatial_vars().any(|block| {
            maxima.iter().any(|maximum| {
                let reduction = &self.stage(*maximum).compute;
                let [_] = &reduction.axes[reduction.n_spatial..] else { return false };
                let facts = self.dag.facts();
                let analysis =
                    Analysis { schedule: self, host: stage, maximum: *maximum, block, facts };
                matches!(analysis.exponent(exponent), Some(Dependence::Exp { .. }))
            })
        })
    }

    /// Refuses unless every online reduction shares its host's loop legally and can be corrected.
    pub(crate) fn check_online(&self) -> Result<(), ScheduleError> {
        for (n, stage) in self.stages.iter().enumerate().filter(|(_, it)| it.online) {
            let Attach::At(host, axis) = stage.attach else { continue };
            let id = StageId(n as u32);
            if !self.is_fusible(&stage.compute, host, axis) {
                return Err(ErrorKind::NotFusible.of_stage(id));
            }
            self.corrections(id, host, axis)?;
            self.corrections(host, host, axis)?;
        }
        Ok(())
    }

    /// Returns whether a reduction can be fused into a loop of `host`: the loop is sequential, outermost in
    /// its stage, and iterates in blocks over an axis as long as the reduction's own.
    fn is_fusible(&self, compute: &Compute, host: StageId, axis: AxisId) -> bool {
        let stage = self.stage(host);
        let Some(blocked) = self.blocked_axis(host, axis) else { return false };
        let reduces = stage.axis(axis).role == AxisRole::Reduce;
        let [own] = &compute.axes[compute.n_spatial..] else { return false };
        stage.axis(axis).kind.is_in_order()
            && reduces
            && stage.order.first() == Some(&axis)
            && matches!(stage.attach, Attach::At(..))
            && !stage.online
            && own.extent == stage.compute.axes[blocked].extent
    }
}

/// The dependence of a value on a running maximum.
#[derive(Clone, Debug, PartialEq)]
enum Dependence {
    /// The value is zero: any factor leaves it as it is.
    Zero,
    /// The value does not depend on the maximum.
    Independent,
    /// The value is a multiple of `exp(-scale * maximum[index])`.
    Exp { index: Vec<Poly>, scale: f64 },
}

impl Dependence {
    /// Returns the dependence of a value that is one of the two; `None` if they differ.
    fn join(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Dependence::Zero, it) | (it, Dependence::Zero) => Some(it),
            (a, b) => (a == b).then_some(a),
        }
    }

    /// Returns the dependence of the product.
    fn times(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Dependence::Zero, _) | (_, Dependence::Zero) => Some(Dependence::Zero),
            (Dependence::Independent, it) | (it, Dependence::Independent) => Some(it),
            (Dependence::Exp { index, scale: a }, Dependence::Exp { index: other, scale: b }) => {
                (index == other).then_some(Dependence::Exp { index, scale: a + b })
            }
        }
    }

    /// Returns the dependence once the exponent is multiplied by `by`.
    fn scaled(self, by: f64) -> Self {
        match self {
            Dependence::Exp { index, scale } => Dependence::Exp { index, scale: scale * by },
            other => other,
        }
    }
}

struct Analysis<'a> {
    schedule: &'a Schedule,
    host: StageId,
    /// The stage that computes the maximum.
    maximum: StageId,
    /// The variable of the axis that both reduce.
    block: VarId,
    facts: Facts,
}

impl Analysis<'_> {
    /// Returns the dependence of a value on the maximum, if a factor corrects it.
    fn value(&self, value: &Expr) -> Option<Dependence> {
        if is_zero(value) {
            return Some(Dependence::Zero);
        }
        if !self.depends(value) {
            return Some(Dependence::Independent);
        }
        match value {
            Expr::Read { .. } => self.value(&self.element(value)?),
            Expr::Unary(UnaryOp::Exp, exponent) => self.exponent(exponent),
            Expr::Unary(UnaryOp::Neg, a) => self.value(a),
            // Up to the rounding of the type that the program asks for.
            Expr::Cast(to, a) if to.is_float() && self.is_float(a) => self.value(a),
            Expr::Binary(BinaryOp::Mul, a, b) => self.value(a)?.times(self.value(b)?),
            Expr::Binary(BinaryOp::Div, a, b) if !self.depends(b) => self.value(a),
            Expr::Binary(BinaryOp::Add | BinaryOp::Sub, a, b) => {
                self.value(a)?.join(self.value(b)?)
            }
            Expr::Select { condition, then, otherwise } if !self.depends(condition) => {
                self.value(then)?.join(self.value(otherwise)?)
            }
            _ => None,
        }
    }

    /// Returns the dependence of the exponential of a value on the maximum.
    fn exponent(&self, value: &Expr) -> Option<Dependence> {
        if matches!(value, Expr::Const(Literal::Float(it), _) if *it == f64::NEG_INFINITY) {
            return Some(Dependence::Zero);
        }
        if !self.depends(value) {
            return Some(Dependence::Independent);
        }
        match value {
            Expr::Read { .. } => self.exponent(&self.element(value)?),
            Expr::Binary(BinaryOp::Sub, element, maximum) => {
                let index = self.maximum_index(maximum)?;
                (**element == self.maximized(&index))
                    .then_some(Dependence::Exp { index, scale: 1.0 })
            }
            Expr::Binary(BinaryOp::Mul, a, b) => match (positive(a), positive(b)) {
                (Some(by), _) => Some(self.exponent(b)?.scaled(by)),
                (_, Some(by)) => Some(self.exponent(a)?.scaled(by)),
                _ => None,
            },
            Expr::Binary(BinaryOp::Div, a, b) => {
                Some(self.exponent(a)?.scaled(positive(b)?.recip()))
            }
            Expr::Select { condition, then, otherwise } if !self.depends(condition) => {
                self.exponent(then)?.join(self.exponent(otherwise)?)
            }
            _ => None,
        }
    }

    /// Returns the index of the element of the maximum that a value is.
    fn maximum_index(&self, value: &Expr) -> Option<Vec<Poly>> {
        let maximum = &self.schedule.stage(self.maximum).compute;
        match value {
            Expr::Read { tensor, index } if *tensor == maximum.tensor => affine(index),
            _ => None,
        }
    }

    /// Returns the value that an element of the maximum reduces, in the variables of the body.
    fn maximized(&self, index: &[Poly]) -> Expr {
        let maximum = &self.schedule.stage(self.maximum).compute;
        let position = |var: VarId| {
            let spatial = index.get(var.0 as usize).cloned();
            Some(spatial.unwrap_or_else(|| Poly::var(self.block)))
        };
        maximum.body.substitute_vars(&position, &self.facts)
    }

    /// Returns the definition of the element that is read, of an elementwise stage inside the loop.
    fn element(&self, read: &Expr) -> Option<Expr> {
        let Expr::Read { tensor, .. } = read else { return None };
        self.inside(*tensor)?;
        self.schedule.element(read, &self.facts)
    }

    /// Returns the compute of a tensor that is recomputed for each block.
    fn inside(&self, tensor: TensorId) -> Option<&Compute> {
        let stage = self.schedule.tensor(tensor).stage?;
        let found = self.schedule.stage(stage);
        let inside = stage != self.host && self.schedule.runs_inside(stage, self.host, 0);
        (inside && !found.online).then_some(&found.compute)
    }

    fn depends(&self, value: &Expr) -> bool {
        let maximum = self.schedule.stage(self.maximum).tensor();
        value.any(&mut |it| match it {
            Expr::Read { tensor, .. } => {
                *tensor == maximum || self.inside(*tensor).is_some_and(|it| self.depends(&it.body))
            }
            _ => false,
        })
    }

    fn is_float(&self, value: &Expr) -> bool {
        value.dtype(self.schedule).is_float()
    }
}

fn is_zero(value: &Expr) -> bool {
    match value {
        Expr::Const(Literal::Float(it), _) => *it == 0.0,
        Expr::Cast(to, a) => *to != DType::Bool && is_zero(a),
        _ => false,
    }
}

/// Returns the value of a positive, finite constant.
fn positive(value: &Expr) -> Option<f64> {
    match value {
        Expr::Const(Literal::Float(it), _) if *it > 0.0 && it.is_finite() => Some(*it),
        _ => None,
    }
}
