//! Where a reduction adds nothing, because a mask says so.
//!
//! `if j <= i { s } else { -inf }` adds nothing to a maximum where `j > i`, and the exponential of
//! its difference to that maximum adds nothing to a sum. This finds the inequalities behind that,
//! for [`trim`](Schedule::tighten_bounds) to let loops end where no more of them hold.
//!
//! In: a stage. Out: polynomials in its axes; wherever one of them is negative, what the stage
//! reduces is the value that changes nothing. The proof is the walk over the body: [`Walk::masked`]
//! has one case for each way to make a value that a mask fixes out of others, and knows nothing of
//! what it has no case for.
//!
//! # What is taken for granted
//!
//! A masked score is `-inf`, less a maximum that runs along with the loop: while it runs, the least
//! finite number stands for a maximum of nothing (`nest::rolling`), so the exponential is 0, and
//! when the loop has closed, sums are corrected from that to what the definition says, also of rows
//! that see nothing. If the maximum is infinite or no number, so is the sum, by the element that
//! made it so. A maximum that is complete must see something in each row; if that is `-inf`, the
//! exponential of its difference is no number, wherever the loop ends.
//!
//! A product with a masked exponential is 0 if its other factor is a number. Of that factor it is
//! asked to be made of what the program is given by operations that make numbers of numbers: where
//! the arguments hold infinities or NaNs that a mask hides, or arithmetic overflows there, the
//! definition says NaN, and a trimmed loop does not get there.

use super::{AxisId, Relation, Schedule, StageId};
use tvmtune_ir::dag::condition::as_inequality;
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{
    BinaryOp, CompareOp, Compute, Dag, Expr, Literal, Reducer, TensorId, UnaryOp,
};
use tvmtune_ir::poly::{Atom, Facts, Poly, VarId};

/// Where a value is a certain one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Masked {
    /// Everywhere.
    Always,
    /// Wherever one of these is negative.
    Where(Vec<Poly>),
}

impl Masked {
    const NEVER: Self = Masked::Where(Vec::new());

    /// Where one of two is.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Masked::Where(mut all), Masked::Where(more)) => {
                all.extend(more);
                Masked::Where(all)
            }
            _ => Masked::Always,
        }
    }

    /// Where both are.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Masked::Always, it) | (it, Masked::Always) => it,
            (Masked::Where(mut all), Masked::Where(others)) => {
                all.retain(|it| others.contains(it));
                Masked::Where(all)
            }
        }
    }
}

impl Schedule {
    /// Where a stage that reduces along with a loop of `host`, or the host itself, adds nothing:
    /// wherever one of these polynomials in the axes of its compute is negative.
    pub(crate) fn masks(&self, stage: StageId, host: StageId, axis: AxisId) -> Vec<Poly> {
        self.masks_along(stage, Some((host, axis)))
    }

    /// The same along a loop; without one, along whichever lets it add least.
    fn masks_along(&self, stage: StageId, along: Option<(StageId, AxisId)>) -> Vec<Poly> {
        let compute = &self.stage(stage).compute;
        let Some(reducer) = compute.reducer else { return Vec::new() };
        let identity = reducer.identity(self.tensor(compute.tensor).tensor.dtype);
        let walk = Walk { schedule: self, compute, along, facts: self.dag.facts() };
        match walk.masked(&compute.body, identity) {
            Masked::Where(masks) => masks,
            Masked::Always => Vec::new(),
        }
    }

    /// Whether a loop and everything that goes along with it adds nothing from some iteration on, as
    /// far as can be told before loops are written out.
    pub(crate) fn is_masked(&self, host: StageId, axis: AxisId) -> bool {
        let Some(counted) = self.declared_axis(host, axis) else { return false };
        let ends = |stage: StageId| {
            let n_spatial = self.stage(stage).compute.n_spatial;
            let along = VarId(if stage == host { counted } else { n_spatial } as u32);
            let ends = |it: &Poly| it.step(along).is_some_and(|it| it < 0);
            self.masks(stage, host, axis).iter().any(ends)
        };
        ends(host) && self.rolling_at(host, axis).all(ends)
    }

    /// The axis of a stage's compute that a loop is a part of, by splits alone.
    fn declared_axis(&self, stage: StageId, axis: AxisId) -> Option<usize> {
        let stage = self.stage(stage);
        let mut current = axis;
        while current.0 as usize >= stage.compute.axes.len() {
            current = stage.relations.iter().find_map(|it| match it {
                Relation::Split { parent, parts, .. } if parts.contains(&current) => Some(*parent),
                _ => None,
            })?;
        }
        Some(current.0 as usize)
    }
}

/// Where schedules need not compute an element of a program, or what it reduces: wherever one of
/// these polynomials in the axes of a compute is negative.
pub fn unneeded(dag: &Dag, compute: &Compute) -> Vec<Poly> {
    let schedule = Schedule::new(dag);
    let stage = schedule.tensor(compute.tensor).stage;
    let mut masks = stage.map_or(Vec::new(), |it| schedule.masks_along(it, None));
    // Of what is read once, what is asked before it is.
    let mut reads = Vec::new();
    for reader in &dag.computes {
        conditions(&reader.body, compute.tensor, &mut Vec::new(), &mut reads);
    }
    if let ([(index, asked)], false) = (&reads[..], dag.outputs.contains(&compute.tensor)) {
        let own = |var: VarId| index.iter().position(|it| it.as_var() == Some(var));
        let of = |var: VarId| own(var).map(|it| Poly::var(VarId(it as u32)));
        for mask in asked {
            let mut is_known = true;
            mask.for_each_leaf(&mut |it| {
                is_known &= !matches!(it, Atom::Var(var) if own(*var).is_none());
            });
            masks.extend(is_known.then(|| mask.substitute_vars(&of, &dag.facts())));
        }
    }
    masks
}

/// Each read of a tensor, with polynomials that are not negative where it is evaluated; an empty
/// index where data says which element it is.
fn conditions(
    value: &Expr,
    tensor: TensorId,
    asked: &mut Vec<Poly>,
    found: &mut Vec<(Vec<Poly>, Vec<Poly>)>,
) {
    if let Expr::Read { tensor: read, index } = value
        && *read == tensor
    {
        found.push((affine(index).unwrap_or_default(), asked.clone()));
    }
    let Expr::Select { condition, then, otherwise } = value else {
        return value.children().into_iter().for_each(|it| conditions(it, tensor, asked, found));
    };
    conditions(condition, tensor, asked, found);
    let n_asked = asked.len();
    for (holds, branch) in [(true, then), (false, otherwise)] {
        asked.extend(needed(condition, holds));
        conditions(branch, tensor, asked, found);
        asked.truncate(n_asked);
    }
}

struct Walk<'a> {
    schedule: &'a Schedule,
    /// What is looked at, for its axes.
    compute: &'a Compute,
    /// The loop that is to end; without one, any that maxima run along with.
    along: Option<(StageId, AxisId)>,
    facts: Facts,
}

impl Walk<'_> {
    /// Where a value is that literal.
    fn masked(&self, value: &Expr, to: Literal) -> Masked {
        let of = |it: &Expr| self.masked(it, to);
        let is_infinite = matches!(to, Literal::Float(it) if it.is_infinite());
        match value {
            Expr::Const(literal, _) if literal.equals(to) => Masked::Always,
            Expr::Select { condition, then, otherwise } => {
                let [yes, no] = [true, false].map(|it| Masked::Where(needed(condition, it)));
                match (of(then), of(otherwise)) {
                    (Masked::Always, otherwise) => otherwise.or(no),
                    (then, Masked::Always) => then.or(yes),
                    (then, otherwise) => then.and(otherwise),
                }
            }
            Expr::Read { .. } => self.element(value).map_or(Masked::NEVER, |it| of(&it)),
            Expr::Cast(dtype, a) if dtype.is_float() && self.is_float(a) => of(a),
            Expr::Unary(UnaryOp::Neg, a) => match to {
                Literal::Float(it) => self.masked(a, Literal::Float(-it)),
                _ => Masked::NEVER,
            },
            Expr::Unary(UnaryOp::Exp, a) if to.equals(Literal::Float(0.0)) => {
                self.masked(a, Literal::Float(f64::NEG_INFINITY))
            }
            Expr::Binary(op, a, b) if is_infinite => self.infinite(*op, a, b, to),
            Expr::Binary(BinaryOp::Mul, a, b) if is_zero(to) => {
                let [zero_a, zero_b] = [(a, b), (b, a)].map(|(zero, other)| {
                    if self.is_number(other) { of(zero) } else { Masked::NEVER }
                });
                zero_a.or(zero_b)
            }
            Expr::Binary(BinaryOp::Div, a, b) if is_zero(to) && is_positive(b) => of(a),
            Expr::Binary(BinaryOp::Add | BinaryOp::Sub, a, b) if is_zero(to) => of(a).and(of(b)),
            _ => match to {
                Literal::Bool(to) => Masked::Where(needed(value, !to)),
                _ => Masked::NEVER,
            },
        }
    }

    /// Where what two values make is that infinity.
    fn infinite(&self, op: BinaryOp, a: &Expr, b: &Expr, to: Literal) -> Masked {
        let of = |it: &Expr| self.masked(it, to);
        match op {
            BinaryOp::Mul if is_positive(b) => of(a),
            BinaryOp::Mul if is_positive(a) => of(b),
            BinaryOp::Div if is_positive(b) => of(a),
            BinaryOp::Add if self.is_number(b) => of(a),
            BinaryOp::Add if self.is_number(a) => of(b),
            BinaryOp::Sub if self.is_number(b) || self.is_maximum(a, b) => of(a),
            _ => Masked::NEVER,
        }
    }

    /// What is read of an elementwise stage, as an expression.
    fn element(&self, read: &Expr) -> Option<Expr> {
        let Expr::Read { tensor, index } = read else { return None };
        let compute = &self.schedule.stage(self.schedule.tensor(*tensor).stage?).compute;
        let index = affine(index)?;
        let of = |var: VarId| index.get(var.0 as usize).cloned();
        compute.reducer.is_none().then(|| compute.body.substitute_vars(&of, &self.facts))
    }

    /// Whether a value is a maximum that a masked element may be subtracted from: one that runs
    /// along with the loop, or one of such elements that sees something wherever there is one.
    fn is_maximum(&self, element: &Expr, value: &Expr) -> bool {
        let Expr::Read { tensor, index } = value else { return false };
        let Some(id) = self.schedule.tensor(*tensor).stage else { return false };
        let leader = &self.schedule.stage(id).compute;
        if leader.reducer != Some(Reducer::Max) {
            return false;
        }
        let runs_along = |(host, axis)| self.schedule.rolling_at(host, axis).any(|it| it == id);
        if self.along.is_none_or(runs_along) {
            return true;
        }
        let (Some(index), [own]) = (affine(index), &leader.axes[leader.n_spatial..]) else {
            return false;
        };
        let is_of_element = |along: VarId| {
            let of = |var: VarId| {
                Some(index.get(var.0 as usize).cloned().unwrap_or_else(|| Poly::var(along)))
            };
            *element == leader.body.substitute_vars(&of, &self.facts)
        };
        own.extent.is_positive(&self.facts)
            && self.compute.reduce_vars().any(is_of_element)
            && self.sees_first(leader)
    }

    /// Whether no element of a maximum is of nothing: none masks the first that it is taken of.
    fn sees_first(&self, leader: &Compute) -> bool {
        let walk = Walk { compute: leader, facts: leader.facts(&self.facts), ..*self };
        let first = |var: VarId| (var.0 as usize >= leader.n_spatial).then(Poly::default);
        match walk.masked(&leader.body, Literal::Float(f64::NEG_INFINITY)) {
            Masked::Always => false,
            Masked::Where(masks) => masks
                .iter()
                .all(|it| it.substitute_vars(&first, &walk.facts).is_nonnegative(&walk.facts)),
        }
    }

    /// Whether a value is a number wherever the program's arguments are, and nothing overflows.
    fn is_number(&self, value: &Expr) -> bool {
        self.is_number_but(value, &mut Vec::new())
    }

    /// The same, with the tensors that have been looked at.
    fn is_number_but(&self, value: &Expr, seen: &mut Vec<TensorId>) -> bool {
        let is_integer = !self.is_float(value);
        let makes_numbers = match value {
            Expr::Const(Literal::Float(it), _) => it.is_finite(),
            Expr::Read { tensor, .. } => self.holds_numbers(*tensor, seen),
            Expr::Unary(op, _) => !matches!(op, UnaryOp::Sqrt | UnaryOp::Rsqrt | UnaryOp::Ln),
            Expr::Binary(BinaryOp::Div, _, b) => is_integer || is_positive(b),
            Expr::Binary(BinaryOp::Rem | BinaryOp::Pow, ..) => is_integer,
            _ => true,
        };
        makes_numbers && value.children().into_iter().all(|it| self.is_number_but(it, seen))
    }

    fn holds_numbers(&self, tensor: TensorId, seen: &mut Vec<TensorId>) -> bool {
        let Some(stage) = self.schedule.tensor(tensor).stage else { return true };
        if seen.contains(&tensor) {
            return true;
        }
        seen.push(tensor);
        let compute = &self.schedule.stage(stage).compute;
        // Of nothing, these are infinite.
        let is_extreme = matches!(compute.reducer, Some(Reducer::Max | Reducer::Min));
        let mut reduced = compute.axes[compute.n_spatial..].iter();
        let is_of_some = reduced.all(|it| it.extent.is_positive(&self.facts));
        (!is_extreme || is_of_some) && self.is_number_but(&compute.body, seen)
    }

    fn is_float(&self, value: &Expr) -> bool {
        value.dtype(self.schedule).is_float()
    }
}

/// Polynomials none of which is negative where a condition holds, or where it does not.
fn needed(condition: &Expr, holds: bool) -> Vec<Poly> {
    match condition {
        Expr::Unary(UnaryOp::Not, a) => needed(a, !holds),
        Expr::Binary(BinaryOp::And, a, b) if holds => [needed(a, true), needed(b, true)].concat(),
        Expr::Binary(BinaryOp::Or, a, b) if !holds => [needed(a, false), needed(b, false)].concat(),
        Expr::Compare(op, a, b) => match (op, holds) {
            (CompareOp::Eq, true) | (CompareOp::Ne, false) => {
                let both = [as_inequality(CompareOp::Le, a, b), as_inequality(CompareOp::Ge, a, b)];
                both.into_iter().flatten().collect()
            }
            (CompareOp::Eq | CompareOp::Ne, _) => Vec::new(),
            (op, true) => as_inequality(*op, a, b).into_iter().collect(),
            // Of integers, what is not at least 0 is at most -1.
            (op, false) => {
                as_inequality(*op, a, b).map(|it| -it - Poly::constant(1)).into_iter().collect()
            }
        },
        _ => Vec::new(),
    }
}

fn is_zero(literal: Literal) -> bool {
    matches!(literal, Literal::Float(it) if it == 0.0) || literal == Literal::Int(0)
}

/// A positive number.
fn is_positive(value: &Expr) -> bool {
    matches!(value, Expr::Const(Literal::Float(it), _) if *it > 0.0 && it.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tvmtune_ir::dsl;

    /// Where the last compute of a program adds nothing, before it is scheduled.
    fn masks(body: &str) -> String {
        let dag = dsl::program(&format!(
            "#[autotune(dims(S = 1..=64, T = 1..=64))]
             fn f(x: Tensor<f32, S, T>, y: Tensor<f32, T>, c: Tensor<bool, S, T>) -> Tensor<f32, S> {{ {body} }}"
        ))
        .unwrap();
        let schedule = Schedule::new(&dag);
        let last = StageId(schedule.stages.len() as u32 - 1);
        let found = schedule.masks(last, last, AxisId(1));
        found.iter().map(|it| format!("{it}")).collect::<Vec<_>>().join("; ")
    }

    fn sum(value: &str) -> String {
        masks(&format!("compute(|i| sum(0..T, |j| {value}))"))
    }

    /// A sum whose elements read scores and their maximum.
    fn with_scores(scores: &str, value: &str) -> String {
        masks(&format!(
            "let s = compute(|i, j| {scores}); let m = compute(|i| max(0..T, |j| s[[i, j]]));
             let l = compute(|i| sum(0..T, |j| s[[i, j]]));
             compute(|i| sum(0..T, |j| {value}))"
        ))
    }

    #[test]
    fn masks_are_found_behind_choices_and_what_keeps_zeros() {
        insta::assert_snapshot!(sum("if j <= i { x[[i, j]] } else { 0.0 }"), @"v0 - v1");
        insta::assert_snapshot!(sum("if j > i { 0.0 } else { -x[[i, j]] } * y[[j]] / 3.0"), @"v0 - v1");
        insta::assert_snapshot!(sum("if 2 * j < i && c[[i, j]] { x[[i, j]] } else { 0.0 }"), @"v0 - 2*v1 - 1");
        insta::assert_snapshot!(sum("if j <= i { if j == 3 { x[[i, j]] } else { 0.0 } } else { 0.0 }"), @"-v1 + 3; v1 - 3; v0 - v1");
        insta::assert_snapshot!(sum("if j <= i { x[[i, j]] } else { 0.0 } + if j <= i && j < 5 { 1.0 } else { 0.0 }"), @"v0 - v1");
        let nothing = [
            "x[[i, j]]",
            "if c[[i, j]] { x[[i, j]] } else { 0.0 }",
            "if j <= i || c[[i, j]] { x[[i, j]] } else { 0.0 }",
            "if j <= i { x[[i, j]] } else { 1.0 }",
            "exp(if j <= i { x[[i, j]] } else { 0.0 })",
            // No number of all numbers.
            "if j <= i { x[[i, j]] } else { 0.0 } * ln(y[[j]])",
            "if j <= i { x[[i, j]] } else { 0.0 } / y[[j]]",
            "if j <= i { x[[i, j]] } else { 0.0 } * if j > 3 { f32::INFINITY } else { 1.0 }",
        ];
        for value in nothing {
            assert_eq!(sum(value), "", "{value}");
        }
    }

    #[test]
    fn exponentials_of_what_is_masked_are_if_each_row_sees_something() {
        let causal = "if j <= i { x[[i, j]] } else { f32::NEG_INFINITY }";
        let e = "exp((s[[i, j]] - m[[i]]) * 0.5)";
        insta::assert_snapshot!(with_scores(causal, e), @"v0 - v1");
        insta::assert_snapshot!(with_scores(causal, "exp(s[[i, j]]) * y[[j]]"), @"v0 - v1");
        let strict = "if j < i { x[[i, j]] } else { f32::NEG_INFINITY }";
        assert_eq!(with_scores(strict, e), "", "the first row sees nothing");
        assert_eq!(with_scores(causal, "exp(s[[i, j]] - l[[i]])"), "", "a sum of infinities");
        assert_eq!(with_scores(causal, "exp(s[[i, j]] - m[[i]]) * l[[i]]"), "");
        assert_eq!(with_scores("if j <= i { x[[i, j]] } else { -1e30 }", e), "", "not for certain");
    }

    #[test]
    fn other_reducers_have_other_identities() {
        insta::assert_snapshot!(masks("compute(|i| max(0..T, |j| if i >= j { y[[j]] } else { f32::NEG_INFINITY }))"), @"v0 - v1");
        insta::assert_snapshot!(masks("compute(|i| min(0..T, |j| if i >= j { y[[j]] } else { f32::INFINITY }))"), @"v0 - v1");
        assert_eq!(masks("compute(|i| max(0..T, |j| if i >= j { y[[j]] } else { 0.0 }))"), "");
    }
}
