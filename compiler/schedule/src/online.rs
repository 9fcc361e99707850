//! By what a sum so far must be multiplied when a maximum that it was computed with has grown.
//!
//! A sum whose elements contain a maximum `m` over the same axis needs all of it first. If every
//! element is a multiple of `exp(k * (x - m))`, it can begin with the maximum of what has been seen:
//! when that grows from `m` to `n`, all that was added up is wrong by one factor.
//!
//! ```text
//! exp(k * (x - m)) * exp(k * (m - n)) = exp(k * (x - n))
//! ```
//!
//! In: a stage of a rolling loop. Out: its [`Correction`]s, or why there are none. The proof is the
//! walk over the body: [`Walk::factor`] has one case for each way to make a multiple out of
//! multiples, and whatever it does not know is refused. Since `x` must be the element that the
//! maximum is taken of and `k` positive, no exponent is ever above 0 and nothing overflows that
//! would not overflow in the definition.
//!
//! # Source
//!
//! Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018. As a rewrite of loops:
//! "rolling update" of Neptune (Zhao et al., 2025).

use super::error::{ErrorKind, ScheduleError};
use super::{Attach, AxisId, AxisRole, LoopKind, Relation, Schedule, StageId};
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{BinaryOp, Compute, DType, Expr, Literal, Reducer, TensorId, UnaryOp};
use tvmtune_ir::poly::{Facts, Poly, VarId};

/// A sum so far is multiplied by `exp(scale * (before - now))` when a maximum has changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Correction {
    /// The stage that computes the maximum.
    pub leader: StageId,
    /// Which element of it an element of the sum depends on: polynomials in the sum's axes.
    pub index: Vec<Poly>,
    /// What the difference is multiplied by in the exponent; positive.
    pub scale: f64,
}

impl Schedule {
    /// The stages that are reduced along with a loop of `host`, in topological order.
    pub fn rolling_at(&self, host: StageId, axis: AxisId) -> impl Iterator<Item = StageId> {
        self.order.iter().copied().filter(move |it| {
            let stage = self.stage(*it);
            stage.rolling && stage.attach == Attach::At(host, axis)
        })
    }

    /// The axis of a stage's compute whose blocks a loop counts.
    pub fn counted_axis(&self, stage: StageId, axis: AxisId) -> Option<usize> {
        let stage = self.stage(stage);
        let n_axes = stage.compute.axes.len();
        let split = stage.relations.iter().find_map(|it| match it {
            Relation::Split { parent, parts, .. } if parts.first() == Some(&axis) => Some(*parent),
            _ => None,
        });
        Some(split.unwrap_or(axis).0 as usize).filter(|it| *it < n_axes)
    }

    /// How a stage that reduces in blocks of that loop, or the loop's own stage, must be corrected.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Uncorrectable`] if no factor does it.
    pub fn corrections(
        &self,
        stage: StageId,
        host: StageId,
        axis: AxisId,
    ) -> Result<Vec<Correction>, ScheduleError> {
        let refused = || ErrorKind::Uncorrectable.of_stage(stage);
        let compute = &self.stage(stage).compute;
        let counted = match stage == host {
            true => self.counted_axis(host, axis).ok_or(refused())?,
            false => compute.n_spatial,
        };
        let mut corrections = Vec::new();
        for leader in self.rolling_at(host, axis).filter(|it| *it != stage) {
            let facts = self.dag.facts();
            let walk = Walk { schedule: self, host, leader, block: VarId(counted as u32), facts };
            match walk.factor(&compute.body).ok_or(refused())? {
                Factor::Any | Factor::None => {}
                Factor::Exp { index, scale } => {
                    let moves = |at: &Poly| compute.reduce_vars().any(|it| at.mentions(it));
                    let is_sum = compute.reducer == Some(Reducer::Sum);
                    let grows = self.stage(leader).compute.reducer == Some(Reducer::Max);
                    if !is_sum || !grows || index.iter().any(moves) {
                        return Err(refused());
                    }
                    corrections.push(Correction { leader, index, scale });
                }
            }
        }
        Ok(corrections)
    }

    /// Whether a stage's elements are exponentials of what is 0 at most: an element, less the
    /// maximum of all such.
    pub(crate) fn is_at_most_one(&self, stage: StageId) -> bool {
        let compute = &self.stage(stage).compute;
        let Expr::Unary(UnaryOp::Exp, exponent) = &compute.body else { return false };
        let is_maximum = |it: &&StageId| self.stage(**it).compute.reducer == Some(Reducer::Max);
        let leaders: Vec<StageId> = self.order.iter().filter(is_maximum).copied().collect();
        compute.spatial_vars().any(|block| {
            leaders.iter().any(|leader| {
                let [_] =
                    &self.stage(*leader).compute.axes[self.stage(*leader).compute.n_spatial..]
                else {
                    return false;
                };
                let facts = self.dag.facts();
                let walk = Walk { schedule: self, host: stage, leader: *leader, block, facts };
                matches!(walk.exponent(exponent), Some(Factor::Exp { .. }))
            })
        })
    }

    /// Refuses unless everything that is reduced along with another stage's loop may be.
    pub(crate) fn check_rolling(&self) -> Result<(), ScheduleError> {
        for (n, stage) in self.stages.iter().enumerate().filter(|(_, it)| it.rolling) {
            let Attach::At(host, axis) = stage.attach else { continue };
            let id = StageId(n as u32);
            if !self.is_alike(&stage.compute, host, axis) {
                return Err(ErrorKind::NotAlike.of_stage(id));
            }
            self.corrections(id, host, axis)?;
            self.corrections(host, host, axis)?;
        }
        Ok(())
    }

    /// Whether a reduction runs over the axis whose blocks are counted by a loop, one after the
    /// other and outermost in its stage.
    fn is_alike(&self, compute: &Compute, host: StageId, axis: AxisId) -> bool {
        let stage = self.stage(host);
        let in_order = matches!(
            stage.axis(axis).kind,
            LoopKind::Serial
                | LoopKind::Pipelined(_)
                | LoopKind::WarpSpecialized(_)
                | LoopKind::Unrolled
        );
        let Some(counted) = self.counted_axis(host, axis) else { return false };
        let reduces = stage.axis(axis).role == AxisRole::Reduce;
        let [own] = &compute.axes[compute.n_spatial..] else { return false };
        in_order
            && reduces
            && stage.order.first() == Some(&axis)
            && matches!(stage.attach, Attach::At(..))
            && !stage.rolling
            && own.extent == stage.compute.axes[counted].extent
    }

    /// Whether a stage runs after `host` has run, in the same iteration of the loop where that does.
    pub(crate) fn runs_after(&self, stage: StageId, host: StageId) -> bool {
        let Attach::At(outer, axis) = self.stage(host).attach else { return false };
        let Ok(position) = self.loop_position(outer, axis) else { return false };
        let place = |it: StageId| self.order.iter().position(|other| *other == it);
        let mut current = stage;
        while current != outer {
            let Attach::At(next, at) = self.stage(current).attach else { return false };
            if next == outer {
                let inside = self.loop_position(outer, at).is_ok_and(|it| it >= position);
                return inside && (at != axis || place(current) > place(host));
            }
            current = next;
        }
        true
    }
}

/// How a value depends on a maximum.
#[derive(Clone, Debug, PartialEq)]
enum Factor {
    /// It is zero: any factor leaves it as it is.
    Any,
    /// Not at all.
    None,
    /// It is a multiple of `exp(-scale * maximum[index])`.
    Exp { index: Vec<Poly>, scale: f64 },
}

impl Factor {
    /// That of a value which is one of the two.
    fn either(self, other: Factor) -> Option<Factor> {
        match (self, other) {
            (Factor::Any, it) | (it, Factor::Any) => Some(it),
            (a, b) => (a == b).then_some(a),
        }
    }

    /// That of the product.
    fn times(self, other: Factor) -> Option<Factor> {
        match (self, other) {
            (Factor::Any, _) | (_, Factor::Any) => Some(Factor::Any),
            (Factor::None, it) | (it, Factor::None) => Some(it),
            (Factor::Exp { index, scale: a }, Factor::Exp { index: other, scale: b }) => {
                (index == other).then_some(Factor::Exp { index, scale: a + b })
            }
        }
    }

    /// That of the exponential of `by` times what was the exponent.
    fn scaled(self, by: f64) -> Factor {
        match self {
            Factor::Exp { index, scale } => Factor::Exp { index, scale: scale * by },
            other => other,
        }
    }
}

struct Walk<'a> {
    schedule: &'a Schedule,
    host: StageId,
    /// The stage that computes the maximum.
    leader: StageId,
    /// The variable that runs over the axis that both reduce.
    block: VarId,
    facts: Facts,
}

impl Walk<'_> {
    /// How a value depends on the maximum, if in a way that a factor corrects.
    fn factor(&self, value: &Expr) -> Option<Factor> {
        if is_zero(value) {
            return Some(Factor::Any);
        }
        if !self.depends(value) {
            return Some(Factor::None);
        }
        match value {
            Expr::Read { .. } => self.factor(&self.element(value)?),
            Expr::Unary(UnaryOp::Exp, exponent) => self.exponent(exponent),
            Expr::Unary(UnaryOp::Neg, a) => self.factor(a),
            // Up to the rounding of the type that the program asks for.
            Expr::Cast(to, a) if to.is_float() && self.is_float(a) => self.factor(a),
            Expr::Binary(BinaryOp::Mul, a, b) => self.factor(a)?.times(self.factor(b)?),
            Expr::Binary(BinaryOp::Div, a, b) if !self.depends(b) => self.factor(a),
            Expr::Binary(BinaryOp::Add | BinaryOp::Sub, a, b) => {
                self.factor(a)?.either(self.factor(b)?)
            }
            Expr::Select { condition, then, otherwise } if !self.depends(condition) => {
                self.factor(then)?.either(self.factor(otherwise)?)
            }
            _ => None,
        }
    }

    /// How the exponential of a value depends on the maximum.
    fn exponent(&self, value: &Expr) -> Option<Factor> {
        if matches!(value, Expr::Const(Literal::Float(it), _) if *it == f64::NEG_INFINITY) {
            return Some(Factor::Any);
        }
        if !self.depends(value) {
            return Some(Factor::None);
        }
        match value {
            Expr::Read { .. } => self.exponent(&self.element(value)?),
            Expr::Binary(BinaryOp::Sub, element, maximum) => {
                let index = self.maximum(maximum)?;
                (**element == self.maximized(&index)).then_some(Factor::Exp { index, scale: 1.0 })
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
                self.exponent(then)?.either(self.exponent(otherwise)?)
            }
            _ => None,
        }
    }

    /// Which element of the maximum a value is.
    fn maximum(&self, value: &Expr) -> Option<Vec<Poly>> {
        let leader = &self.schedule.stage(self.leader).compute;
        match value {
            Expr::Read { tensor, index } if *tensor == leader.tensor => affine(index),
            _ => None,
        }
    }

    /// What an element of the maximum is the maximum of, at the place where the body stands.
    fn maximized(&self, index: &[Poly]) -> Expr {
        let leader = &self.schedule.stage(self.leader).compute;
        let of = |var: VarId| {
            let own = index.get(var.0 as usize).cloned();
            Some(own.unwrap_or_else(|| Poly::var(self.block)))
        };
        leader.body.substitute_vars(&of, &self.facts)
    }

    /// What is read, as an expression: an element of an elementwise stage inside the loop.
    fn element(&self, read: &Expr) -> Option<Expr> {
        let Expr::Read { tensor, index } = read else { return None };
        let compute = self.inside(*tensor)?;
        let index = affine(index)?;
        let of = |var: VarId| index.get(var.0 as usize).cloned();
        compute.reducer.is_none().then(|| compute.body.substitute_vars(&of, &self.facts))
    }

    /// The compute of a tensor that is computed anew for each block.
    fn inside(&self, tensor: TensorId) -> Option<&Compute> {
        let stage = self.schedule.tensor(tensor).stage?;
        let found = self.schedule.stage(stage);
        let inside = stage != self.host && self.schedule.runs_inside(stage, self.host, 0);
        (inside && !found.rolling).then_some(&found.compute)
    }

    fn depends(&self, value: &Expr) -> bool {
        let maximum = self.schedule.stage(self.leader).tensor();
        let mut found = false;
        value.walk(&mut |it| {
            if let Expr::Read { tensor, .. } = it {
                found = found
                    || *tensor == maximum
                    || self.inside(*tensor).is_some_and(|it| self.depends(&it.body));
            }
        });
        found
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

/// A positive number.
fn positive(value: &Expr) -> Option<f64> {
    match value {
        Expr::Const(Literal::Float(it), _) if *it > 0.0 && it.is_finite() => Some(*it),
        _ => None,
    }
}
