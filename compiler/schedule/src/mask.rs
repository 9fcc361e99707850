//! Mask analysis: the iterations of a reduction that a mask makes contribute the reducer's identity.
//!
//! `if j <= i { s } else { -inf }` adds nothing to a maximum where `j > i`, and the exponential of
//! its difference to that maximum adds nothing to a sum. The analysis finds the inequalities behind
//! that, for [`tighten_bounds`](Schedule::tighten_bounds) and for the [normal form](crate::normal).
//!
//! In: a stage. Out: polynomials in its axes; wherever one of them is negative, the stage reduces its
//! identity. The proof is an abstract interpretation of the body over [`Masked`], with one case for
//! each operation that keeps a masked value masked; every other operation masks nothing.
//!
//! ```text
//! Always            the value is the literal everywhere
//!   |
//! Where([p, q])     it is where p < 0 or q < 0
//!   |
//! Where([])         nothing is known
//! ```
//!
//! # Assumptions
//!
//! A masked score is `-inf`, less a running maximum: while the loop runs, the least finite number
//! stands for a maximum of no elements (`nest::online`), so the exponential is 0, and after the loop
//! sums are corrected to the definition's result, also in rows that are masked as a whole. If the
//! maximum is infinite or NaN, so is the sum, by the element that made it so. A complete maximum must
//! have an unmasked element in each row; if that is `-inf`, the exponential of its difference is NaN,
//! wherever the loop ends.
//!
//! A product with a masked exponential is 0 if its other factor is a number. That factor must be made
//! of the program's arguments by operations that map numbers to numbers: where the arguments hold
//! infinities or NaNs that a mask hides, or arithmetic overflows there, the definition says NaN, and a
//! tightened loop does not reach them.

use super::{AxisId, Relation, Schedule, StageId};
use tvmtune_ir::dag::condition::as_inequality;
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{
    BinaryOp, CompareOp, Compute, Dag, Expr, Literal, Reducer, TensorId, UnaryOp,
};
use tvmtune_ir::poly::{Atom, Facts, Poly, VarId};

/// The iterations in which a value is a given literal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Masked {
    /// Everywhere.
    Always,
    /// Wherever one of these is negative.
    Where(Vec<Poly>),
}

impl Masked {
    const NEVER: Self = Masked::Where(Vec::new());

    /// The union: one of two values is the literal.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Masked::Where(mut all), Masked::Where(more)) => {
                all.extend(more);
                Masked::Where(all)
            }
            _ => Masked::Always,
        }
    }

    /// The intersection: both values are.
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
    /// Returns the masks of a stage that reduces along a loop of `host`, or of the host itself: it
    /// contributes nothing where one of these polynomials in the axes of its compute is negative.
    pub(crate) fn masks(&self, stage: StageId, host: StageId, axis: AxisId) -> Vec<Poly> {
        self.masks_for(stage, Purpose::Loop(host, axis))
    }

    /// Returns the masks of a stage before any primitive: iterations in which they are negative for every
    /// element may be left out, where others remain.
    pub(crate) fn masks_of_axes(&self, stage: StageId) -> Vec<Poly> {
        self.masks_for(stage, Purpose::Axes)
    }

    fn masks_for(&self, stage: StageId, purpose: Purpose) -> Vec<Poly> {
        let compute = &self.stage(stage).compute;
        let Some(reducer) = compute.reducer else { return Vec::new() };
        let identity = reducer.identity(self.tensor(compute.tensor).tensor.dtype);
        let analysis = Analysis { schedule: self, compute, purpose, facts: self.dag.facts() };
        match analysis.masked(&compute.body, identity) {
            Masked::Where(masks) => masks,
            Masked::Always => Vec::new(),
        }
    }

    /// Returns whether masks bound a loop: its stage and all that are reduced online along it contribute
    /// nothing from some iteration on, or before one.
    pub(crate) fn is_masked(&self, host: StageId, axis: AxisId) -> bool {
        let Some(declared) = self.declared_axis(host, axis) else { return false };
        let is_bounded = |stage: StageId| {
            let n_spatial = self.stage(stage).compute.n_spatial;
            let along = VarId(if stage == host { declared } else { n_spatial } as u32);
            let bounds = |it: &Poly| it.step(along).is_some_and(|it| it != 0);
            self.masks(stage, host, axis).iter().any(bounds)
        };
        is_bounded(host) && self.online_at(host, axis).all(is_bounded)
    }

    /// Returns the axis of a stage's compute that a loop was split from; `None` past a fusion.
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

/// Returns the don't-care iterations of a compute of a program in normal form ([`super::normal`]), which no
/// schedule needs to run: those where one of these polynomials in its axes is negative.
pub fn dont_care(dag: &Dag, compute: &Compute) -> Vec<Poly> {
    let schedule = Schedule::new(dag);
    let stage = schedule.tensor(compute.tensor).stage;
    let mut masks = stage.map_or(Vec::new(), |it| schedule.masks_for(it, Purpose::Count));
    // A compute with one reader is needed only under the conditions of that read.
    let mut reads = Vec::new();
    for reader in &dag.computes {
        guarded_reads(&reader.body, compute.tensor, &mut Vec::new(), &mut reads);
    }
    if let ([GuardedRead { index, conditions }], false) =
        (&reads[..], dag.outputs.contains(&compute.tensor))
    {
        let own = |var: VarId| index.iter().position(|it| it.as_var() == Some(var));
        let renamed = |var: VarId| own(var).map(|it| Poly::var(VarId(it as u32)));
        for mask in conditions {
            let mut is_known = true;
            mask.for_each_leaf(&mut |it| {
                is_known &= !matches!(it, Atom::Var(var) if own(*var).is_none());
            });
            masks.extend(is_known.then(|| mask.substitute_vars(&renamed, &dag.facts())));
        }
    }
    masks
}

/// A read of a tensor under conditions.
struct GuardedRead {
    /// Empty where it is data-dependent.
    index: Vec<Poly>,
    /// Polynomials that are not negative where the read is evaluated.
    conditions: Vec<Poly>,
}

/// Collects the reads of a tensor.
fn guarded_reads(
    value: &Expr,
    tensor: TensorId,
    conditions: &mut Vec<Poly>,
    found: &mut Vec<GuardedRead>,
) {
    if let Expr::Read { tensor: read, index } = value
        && *read == tensor
    {
        let index = affine(index).unwrap_or_default();
        found.push(GuardedRead { index, conditions: conditions.clone() });
    }
    let Expr::Select { condition, then, otherwise } = value else {
        let children = value.children().into_iter();
        return children.for_each(|it| guarded_reads(it, tensor, conditions, found));
    };
    guarded_reads(condition, tensor, conditions, found);
    let n_conditions = conditions.len();
    for (holds, branch) in [(true, then), (false, otherwise)] {
        conditions.extend(implied(condition, holds));
        guarded_reads(branch, tensor, conditions, found);
        conditions.truncate(n_conditions);
    }
}

/// The use of masks. It decides which maxima may be subtracted from a masked score.
#[derive(Clone, Copy)]
enum Purpose {
    /// A bound of that loop: a running maximum along it, or a complete one of a row with an unmasked element.
    Loop(StageId, AxisId),
    /// Axes with fewer iterations, of which some remain: a complete maximum of the same scores. Where it is
    /// `-inf`, an iteration that remains makes the NaN.
    Axes,
    /// A count of necessary work: any maximum.
    Count,
}

struct Analysis<'a> {
    schedule: &'a Schedule,
    /// The compute under analysis, for its axes.
    compute: &'a Compute,
    purpose: Purpose,
    facts: Facts,
}

impl Analysis<'_> {
    /// Returns the iterations in which a value is that literal.
    fn masked(&self, value: &Expr, to: Literal) -> Masked {
        let masked = |it: &Expr| self.masked(it, to);
        let is_infinite = matches!(to, Literal::Float(it) if it.is_infinite());
        match value {
            Expr::Const(literal, _) if literal.equals(to) => Masked::Always,
            Expr::Select { condition, then, otherwise } => {
                let [yes, no] = [true, false].map(|it| Masked::Where(implied(condition, it)));
                match (masked(then), masked(otherwise)) {
                    (Masked::Always, otherwise) => otherwise.or(no),
                    (then, Masked::Always) => then.or(yes),
                    (then, otherwise) => then.and(otherwise),
                }
            }
            Expr::Read { .. } => {
                self.schedule.element(value, &self.facts).map_or(Masked::NEVER, |it| masked(&it))
            }
            Expr::Cast(dtype, a) if dtype.is_float() && self.is_float(a) => masked(a),
            Expr::Unary(UnaryOp::Neg, a) => match to {
                Literal::Float(it) => self.masked(a, Literal::Float(-it)),
                _ => Masked::NEVER,
            },
            Expr::Unary(UnaryOp::Exp | UnaryOp::Exp2, a) if to.equals(Literal::Float(0.0)) => {
                self.masked(a, Literal::Float(f64::NEG_INFINITY))
            }
            Expr::Binary(op, a, b) if is_infinite => self.infinite(*op, a, b, to),
            Expr::Binary(BinaryOp::Mul, a, b) if is_zero(to) => {
                let [zero_a, zero_b] = [(a, b), (b, a)].map(|(zero, other)| {
                    if self.is_number(other) { masked(zero) } else { Masked::NEVER }
                });
                zero_a.or(zero_b)
            }
            Expr::Binary(BinaryOp::Div, a, b) if is_zero(to) && is_positive(b) => masked(a),
            Expr::Binary(BinaryOp::Add | BinaryOp::Sub, a, b) if is_zero(to) => {
                masked(a).and(masked(b))
            }
            _ => match to {
                Literal::Bool(to) => Masked::Where(implied(value, !to)),
                _ => Masked::NEVER,
            },
        }
    }

    /// Returns the iterations in which an operation on two values is that infinity.
    fn infinite(&self, op: BinaryOp, a: &Expr, b: &Expr, to: Literal) -> Masked {
        let masked = |it: &Expr| self.masked(it, to);
        match op {
            BinaryOp::Mul if is_positive(b) => masked(a),
            BinaryOp::Mul if is_positive(a) => masked(b),
            BinaryOp::Div if is_positive(b) => masked(a),
            BinaryOp::Add if self.is_number(b) => masked(a),
            BinaryOp::Add if self.is_number(a) => masked(b),
            BinaryOp::Sub if self.is_number(b) || self.is_maximum(a, b) => masked(a),
            _ => Masked::NEVER,
        }
    }

    /// Returns whether a masked element may have a value subtracted: a running maximum along the loop, or a
    /// complete maximum of such elements that has an unmasked one in each row.
    fn is_maximum(&self, element: &Expr, value: &Expr) -> bool {
        let Expr::Read { tensor, index } = value else { return false };
        let Some(id) = self.schedule.tensor(*tensor).stage else { return false };
        let maximum = &self.schedule.stage(id).compute;
        if maximum.reducer != Some(Reducer::Max) {
            return false;
        }
        let is_any = match self.purpose {
            Purpose::Loop(host, axis) => self.schedule.online_at(host, axis).any(|it| it == id),
            Purpose::Axes => false,
            Purpose::Count => true,
        };
        if is_any {
            return true;
        }
        let (Some(index), [own]) = (affine(index), &maximum.axes[maximum.n_spatial..]) else {
            return false;
        };
        let is_of_element = |along: VarId| {
            let position = |var: VarId| {
                Some(index.get(var.0 as usize).cloned().unwrap_or_else(|| Poly::var(along)))
            };
            *element == maximum.body.substitute_vars(&position, &self.facts)
        };
        own.extent.is_positive(&self.facts)
            && self.compute.reduce_vars().any(is_of_element)
            && (matches!(self.purpose, Purpose::Axes) || self.first_is_unmasked(maximum))
    }

    /// Returns whether every element of a maximum has an unmasked operand: the first one is never masked.
    fn first_is_unmasked(&self, maximum: &Compute) -> bool {
        let analysis = Analysis { compute: maximum, facts: maximum.facts(&self.facts), ..*self };
        let first = |var: VarId| (var.0 as usize >= maximum.n_spatial).then(Poly::default);
        match analysis.masked(&maximum.body, Literal::Float(f64::NEG_INFINITY)) {
            Masked::Always => false,
            Masked::Where(masks) => masks.iter().all(|it| {
                it.substitute_vars(&first, &analysis.facts).is_nonnegative(&analysis.facts)
            }),
        }
    }

    /// Returns whether a value is a number wherever the program's arguments are, and nothing overflows.
    fn is_number(&self, value: &Expr) -> bool {
        self.is_number_given(value, &mut Vec::new())
    }

    /// As `is_number`, with the tensors visited so far.
    fn is_number_given(&self, value: &Expr, seen: &mut Vec<TensorId>) -> bool {
        let is_integer = !self.is_float(value);
        let makes_numbers = match value {
            Expr::Const(Literal::Float(it), _) => it.is_finite(),
            Expr::Read { tensor, .. } => self.holds_numbers(*tensor, seen),
            Expr::Unary(op, _) => !may_make_no_number(*op),
            Expr::Binary(BinaryOp::Div, _, b) => is_integer || is_positive(b),
            Expr::Binary(BinaryOp::Rem | BinaryOp::Pow, ..) => is_integer,
            _ => true,
        };
        makes_numbers && value.children().into_iter().all(|it| self.is_number_given(it, seen))
    }

    fn holds_numbers(&self, tensor: TensorId, seen: &mut Vec<TensorId>) -> bool {
        let Some(stage) = self.schedule.tensor(tensor).stage else { return true };
        if seen.contains(&tensor) {
            return true;
        }
        seen.push(tensor);
        let compute = &self.schedule.stage(stage).compute;
        // Over no elements, these are infinite.
        let is_extreme = matches!(compute.reducer, Some(Reducer::Max | Reducer::Min));
        let mut reduced = compute.axes[compute.n_spatial..].iter();
        let is_nonempty = reduced.all(|it| it.extent.is_positive(&self.facts));
        (!is_extreme || is_nonempty) && self.is_number_given(&compute.body, seen)
    }

    fn is_float(&self, value: &Expr) -> bool {
        value.dtype(self.schedule).is_float()
    }
}

/// Returns whether a function has no value that is a number for some number.
fn may_make_no_number(op: UnaryOp) -> bool {
    use UnaryOp::{Ln, Ln1p, Log2, Rsqrt, Sqrt};
    matches!(op, Sqrt | Rsqrt | Ln | Log2 | Ln1p)
}

/// Returns polynomials none of which is negative where a condition holds, or where it does not.
pub(crate) fn implied(condition: &Expr, holds: bool) -> Vec<Poly> {
    match condition {
        Expr::Unary(UnaryOp::Not, a) => implied(a, !holds),
        Expr::Binary(BinaryOp::And, a, b) if holds => [implied(a, true), implied(b, true)].concat(),
        Expr::Binary(BinaryOp::Or, a, b) if !holds => {
            [implied(a, false), implied(b, false)].concat()
        }
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

/// Returns whether a value is a positive, finite constant.
fn is_positive(value: &Expr) -> bool {
    matches!(value, Expr::Const(Literal::Float(it), _) if *it > 0.0 && it.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tvmtune_ir::dsl;

    /// The masks of the last compute of a program, before it is scheduled.
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
    fn masks_are_found_behind_selects_and_operations_that_keep_zeros() {
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
            // Some numbers are not mapped to numbers.
            "if j <= i { x[[i, j]] } else { 0.0 } * ln(y[[j]])",
            "if j <= i { x[[i, j]] } else { 0.0 } / y[[j]]",
            "if j <= i { x[[i, j]] } else { 0.0 } * if j > 3 { f32::INFINITY } else { 1.0 }",
        ];
        for value in nothing {
            assert_eq!(sum(value), "", "{value}");
        }
    }

    #[test]
    fn exponentials_of_masked_scores_are_masked_if_each_row_has_an_unmasked_one() {
        let causal = "if j <= i { x[[i, j]] } else { f32::NEG_INFINITY }";
        let e = "exp((s[[i, j]] - m[[i]]) * 0.5)";
        insta::assert_snapshot!(with_scores(causal, e), @"v0 - v1");
        insta::assert_snapshot!(with_scores(causal, "exp(s[[i, j]]) * y[[j]]"), @"v0 - v1");
        let strict = "if j < i { x[[i, j]] } else { f32::NEG_INFINITY }";
        assert_eq!(with_scores(strict, e), "", "the first row is masked as a whole");
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
